"""What a passive party's service answers, refuses, keeps and records."""

import json

import numpy as np
import pytest

import xgb_fed
from counted_answers import Talk, layout
from gbdt_parties import messages
from gbdt_parties.errors import ConsentError, InvalidDataError, PartyRefusedError, ProtocolError
from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.identity.alignment import align
from gbdt_parties.identity.alignment_messages import (
    AlignRows,
    AnswerIds,
    CommitIds,
    IdsAnswered,
    MaskIds,
    TellIds,
)
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.identity.record import read_record
from gbdt_parties.run.log import RUNS
from gbdt_parties.transport.server import NOBODY
from kept_stores import end_process
from served_parties import Local
from small_keys import key_of
from veilboost.plans.tables import Table
from xgb_fed.boosting.features import read_columns
from xgb_fed.vertical.passive.service import KeptSplits, Limits, PassiveService
from xgb_fed.vertical.protocol.messages import (
    FindSplits,
    Gradients,
    ModelOpened,
    OpenModel,
    OpenTraining,
    ResumeTraining,
    StartTree,
    TrainingOpened,
)

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")

PARAMS = dict(objective="binary:logistic", max_depth=2, max_bin=8, base_score=0.5)
OPEN = Limits(min_rows=1, min_node_rows=2, allow_plain=True, allow_export=True, max_statistics=np.inf)


@pytest.fixture
def people():
    random = np.random.default_rng(2)
    X = random.normal(size=(60, 4)).astype(np.float32)
    y = (X.sum(axis=1) + random.normal(size=60) > 0).astype(float)
    return [f"customer-{k:03d}" for k in range(60)], X, y


def table_of(people, rows, has_ids=False):
    ids, X, _ = people
    return Table(read_columns(X[rows, 2:]), [ids[k] for k in rows], has_ids, None, [], {})


@pytest.fixture
def bank(people, tmp_path):
    rows = np.random.default_rng(0).permutation(np.arange(10, 60))

    def start(limits=OPEN):
        end_process(tmp_path)
        return PassiveService(table_of(people, rows), tmp_path / "bank", "bank", limits)

    return start


def trained(people, party, alignment, **how):
    ids, X, y = people
    rows = alignment.positions(ids)
    how = {"cipher": xgb_fed.Plain(), "verbose_eval": False, **how}
    return xgb_fed.train(PARAMS, xgb_fed.ActiveData(X[rows, :2], y[rows]), [party], 3, **how), rows


def test_align_train_predict_export_over_a_restart(people, bank, tmp_path):
    pytest.importorskip("nacl")
    ids, X, _ = people
    alignment = align([Local(bank())], ids[:50])
    assert alignment.ids == tuple(ids[10:50])
    party = Local(bank(), row_sets=[alignment.digest])
    model, rows = trained(people, party, alignment)
    pooled, _ = trained(people, xgb_fed.LocalParty(X[rows][:, 2:], "bank"), alignment)
    assert [t.to_dict() for t in model.trees] == [t.to_dict() for t in pooled.trees]
    before = model.predict(X[rows, :2], [party])
    after = Local(bank(), row_sets=[alignment.digest])
    np.testing.assert_array_equal(model.predict(X[rows, :2], [after]), before)
    assert model.export_booster([after]).num_boosted_rounds() == 3


def test_alignment_with_several_parties_is_their_common_rows(people, tmp_path):
    pytest.importorskip("nacl")
    ids = people[0]
    first = PassiveService(table_of(people, np.arange(0, 40)), tmp_path / "a", "a", OPEN)
    second = PassiveService(table_of(people, np.arange(20, 60)), tmp_path / "b", "b", OPEN)
    alignment = align([Local(first, name="a"), Local(second, name="b")], ids[::2])
    assert alignment.ids == tuple(ids[20:40:2])
    with pytest.raises(InvalidDataError, match="no row"):
        align([Local(first, name="a")], ["somebody else"])


def test_blinded_ids_show_no_ids_and_change_every_time(people, bank):
    pytest.importorskip("nacl")
    seen = []

    class Listener(Local):
        def handle(self, request):
            answer = super().handle(request)
            seen.append((request, answer))
            return answer

    align([Listener(bank())], people[0][:20])
    align([Listener(bank())], people[0][:20])
    assert len(seen) == 14
    for part in (part for exchange in seen for part in exchange):
        assert b"customer" not in part
    first, second = _points(seen[:7]), _points(seen[7:])
    assert len(set(first)) == len(first) == len(second) == 20 + 50 + 20
    assert not set(first) & set(second)


def _points(exchanges):
    """All that was sent of both sides' masked ids."""
    sent = [messages.read(part).message for exchange in exchanges for part in exchange]
    told = b"".join(one.points for one in sent if isinstance(one, (TellIds, IdsAnswered)))
    told += b"".join(one.answers for one in sent if isinstance(one, IdsAnswered))
    return [told[k : k + 32] for k in range(0, len(told), 32)]


def test_rows_are_not_aligned_without_an_intersection(people, bank):
    rows = AlignRows(np.full(1, 128, np.uint8), b"x" * 32)
    for message in (MaskIds(), CommitIds(bytes(32)), TellIds(b""), AnswerIds(), rows):
        assert "without an intersection" in Local(bank()).ask(message).reason


def test_one_active_party_knows_nothing_of_anothers(people, bank):
    pytest.importorskip("nacl")
    service = bank()
    alignment = align([Local(service)], people[0])
    model, rows = trained(people, Local(service, row_sets=[alignment.digest]), alignment)
    X = people[1][rows, :2]
    with pytest.raises(PartyRefusedError, match="align them first"):
        model.predict(X, [Local(service, "eve", row_sets=[alignment.digest])])
    align([Local(service, "eve")], people[0])
    with pytest.raises(PartyRefusedError, match=r"splits.*model"):
        model.predict(X, [Local(service, "eve", row_sets=[alignment.digest])])


def test_a_session_is_one_callers(people, bank):
    service = bank()
    opening = OpenModel(b"m" * 16, 0, np.empty(0, dtype=np.int32))
    assert isinstance(Local(service).ask(opening), messages.Refusal)
    answer = messages.read(Local(service, "eve").handle(messages.write(b"s" * 16, 1, messages.Finish())))
    assert answer.message.code == messages.NO_SESSION


def test_limits(people, bank, tmp_path):
    alignment = Alignment(tuple(people[0][10:60]))

    def attempt(limits, **how):
        trained(people, Local(bank(limits)), alignment, **how)

    with pytest.raises(PartyRefusedError, match="100 to 50000000 rows, not 50"):
        attempt(Limits(allow_plain=True))
    with pytest.raises(PartyRefusedError, match="1 to 49 rows, not 50"):
        attempt(Limits(min_rows=1, max_rows=49, allow_plain=True))
    with pytest.raises(PartyRefusedError, match="without encryption"):
        attempt(Limits(min_rows=1))
    with pytest.raises(PartyRefusedError, match="key of 1024 bits"):
        attempt(Limits(min_rows=1), cipher=xgb_fed.OkamotoUchiyama(1024, allow_weak_key=True))
    party = Local(bank(Limits(min_rows=1, allow_plain=True, questions_per_hour=2, max_statistics=np.inf)))
    model, rows = trained(people, party, alignment)
    X = people[1][rows, :2]
    with pytest.raises(ConsentError, match="does not consent"):
        model.export_booster([party])
    model.predict(X, [party])
    with pytest.raises(PartyRefusedError, match="2 alignments and predictions"):
        model.predict(X, [party])
    _, refusals, _ = read_record(tmp_path / "bank" / "record.jsonl")
    reasons = " ".join(reason for _, _, reason in refusals)
    for words in ("rows, not 50", "without encryption", "1024 bits", "consent", "more than 2 alignments"):
        assert words in reasons


def test_the_record_counts_what_the_active_party_counts(people, bank, tmp_path):
    service = bank()
    model, _ = trained(people, Local(service), Alignment(tuple(people[0][10:60])))
    traffic, refusals, damaged = read_record(tmp_path / "bank" / "record.jsonl")
    assert not refusals
    assert not damaged
    sums = {key[2]: (flow.messages, flow.bytes, flow.ciphertext_bytes) for key, flow in traffic.flows.items()}
    assert sums == {
        key[2]: (flow.messages, flow.bytes, flow.ciphertext_bytes)
        for key, flow in model.traffic.flows.items()
    }
    lines = [json.loads(line) for line in (tmp_path / "bank" / "record.jsonl").read_text().splitlines()]
    assert {(line["from"], line["to"]) for line in lines} == {("acme", "bank"), ("bank", "acme")}
    (tmp_path / "other").write_text("{}")
    with pytest.raises(InvalidDataError, match="not a record"):
        read_record(tmp_path / "other")


def test_anything_that_is_no_message_is_refused_and_recorded(bank, tmp_path):
    for request in (b"", b"nonsense", messages.write(b"s" * 16, 0, messages.Finish())[:-1] + b"x" * 100):
        assert isinstance(messages.read(Local(bank()).handle(request)).message, messages.Refusal)
    assert len(read_record(tmp_path / "bank" / "record.jsonl")[1]) == 3


def test_names_of_callers_stay_in_the_folder(people, bank, tmp_path):
    for name in ("../eve", "..", "a/b", "/etc"):
        Local(bank(), name).ask(MaskIds())
    assert {path.name for path in tmp_path.iterdir()} == {"bank"}


def test_damaged_aligned_rows_are_refused(people, bank, tmp_path):
    pytest.importorskip("nacl")
    alignment = align([Local(bank())], people[0])
    (path,) = tmp_path.glob("bank/for-acme/rows/*.ids")
    path.write_text(path.read_text().replace("customer-010\n", ""))
    with pytest.raises((PartyRefusedError, ProtocolError), match="damaged"):
        trained(people, Local(bank(), row_sets=[alignment.digest]), alignment)


# What an active party that is allowed in may not do.

KEY = key_of(xgb_fed.OkamotoUchiyama, 1024)
NOBODYS = np.empty(0, dtype=np.int32)
HARDENED = Limits(min_rows=20, allow_plain=True, allow_weak_key=True, max_statistics=np.inf)


def opening(n_rows, *, max_bin=8, max_depth=3, n_groups=1, rows=NOBODYS, eval_rows=()):
    evaluation = np.array(eval_rows, dtype=np.int64)
    bits = layout(n_rows, key=KEY)[0]
    return OpenTraining(
        KEY.public.public_bytes(), n_rows, max_bin, bits, n_groups, max_depth, rows, evaluation
    )


def start(sampled=(), columns=(0, 1), tree=0):
    bits = np.packbits(np.isin(np.arange(50), sampled)) if len(sampled) else np.empty(0, dtype=np.uint8)
    return StartTree(tree, bits, np.array(columns, dtype=np.int32))


def aligned(service, caller="acme", **parts):
    """Rows put in place as an alignment would."""
    folder = service.known_caller(Identity(caller, "", NOBODY.expires)).directory / "rows"
    digests = {}
    for name, ids in parts.items():
        alignment = Alignment(tuple(sorted(ids)))
        alignment.save(folder / f"{alignment.digest.hex()}.ids")
        digests[name] = alignment.digest
    return digests


def test_a_table_with_ids_answers_about_aligned_rows_only(people, tmp_path):
    service = PassiveService(table_of(people, np.arange(10, 60), True), tmp_path / "bank", "bank", HARDENED)
    for message in (opening(50), OpenModel(b"m" * 16, 0, NOBODYS)):
        assert "aligned ids" in Talk(Local(service).handle).ask(message).reason
    digests = aligned(service, some=people[0][10:40])
    talk = Talk(Local(service, row_sets=[digests["some"]]).handle)
    assert isinstance(talk.ask(opening(30)), TrainingOpened)


def test_a_sample_is_no_way_around_the_fewest_rows(bank):
    talk = Talk(Local(bank(HARDENED)).handle)
    talk.ask(opening(50))
    assert "at least 20 sampled rows" in talk.ask(start(sampled=range(19))).reason
    talk = Talk(Local(bank(HARDENED)).handle)
    talk.ask(opening(50))
    assert isinstance(talk.ask(start(sampled=range(20))), messages.Done)


def test_a_finished_training_is_resumed_on_its_terms_only(people, bank, tmp_path):
    service = bank(HARDENED)
    alignment = Alignment(tuple(people[0][10:60]))
    model, _ = trained(
        people, Local(service), alignment, cipher=xgb_fed.OkamotoUchiyama(1024, allow_weak_key=True)
    )
    kept = KeptSplits(service.store_of("acme"))
    ((number, splits),) = kept.items()

    def resumed(n_splits, **how):
        talk = Talk(Local(service).handle)
        talk.ask(opening(50, **how))
        return talk, talk.ask(ResumeTraining(model.model_id, n_splits))

    talk = Talk(Local(service).handle)
    talk.ask(opening(50))
    assert "not the number of a model" in talk.ask(ResumeTraining(b"odd", 0)).reason
    assert "max_bin" in resumed(len(splits), max_bin=9)[1].reason
    assert "the rows" in resumed(len(splits), rows=np.arange(50, dtype=np.int32)[::-1].copy())[1].reason
    for n_splits in (0, len(splits) - 1, len(splits) + 1):
        assert "not kept" in resumed(n_splits)[1].reason
    service.store_of("acme").delete(RUNS, number.hex())
    assert "not kept" in resumed(0)[1].reason
    assert "not kept" in resumed(len(splits))[1].reason
    assert kept[number] == splits


def test_resumptions_count_as_questions_and_a_restart_forgets_none(bank):
    limits = Limits(min_rows=20, allow_plain=True, allow_weak_key=True, questions_per_hour=3)
    for _ in range(3):
        talk = Talk(Local(bank(limits)).handle)
        talk.ask(opening(50))
        assert isinstance(talk.ask(ResumeTraining(b"m" * 16, 0)), messages.Done)
    talk = Talk(Local(bank(limits)).handle)
    talk.ask(opening(50))
    assert "more than 3" in talk.ask(ResumeTraining(b"m" * 16, 0)).reason
    other = Talk(Local(bank(limits), "umbrella").handle)
    other.ask(opening(50))
    assert isinstance(other.ask(ResumeTraining(b"m" * 16, 0)), messages.Done)


def test_row_sets_are_bounded_and_only_openings_load_them(people, bank, monkeypatch):
    service = bank(HARDENED)
    ids = people[0][10:60]
    digests = aligned(service, **{f"all but {k}": ids[:k] + ids[k + 1 :] for k in range(5)})
    once = list(digests.values())
    assert "named twice" in Talk(Local(service, row_sets=[once[0], once[0]]).handle).ask(opening(49)).reason
    assert "4 times" in Talk(Local(service, row_sets=once).handle).ask(opening(49)).reason
    monkeypatch.setattr(Alignment, "load", lambda path: pytest.fail("rows were read"))
    answer = Talk(Local(service, row_sets=once[:1]).handle).ask(messages.Finish())
    assert answer.code == messages.NO_SESSION


def test_statistics_that_would_fill_the_memory_are_refused(bank, monkeypatch):
    import xgb_fed.vertical.passive.growing_tree

    monkeypatch.setattr(xgb_fed.vertical.passive.growing_tree, "MAX_STATISTICS_BYTES", 1 << 10)
    talk = Talk(Local(bank(HARDENED)).handle)
    talk.ask(opening(50))
    talk.ask(start())
    rows = KEY.public.to_bytes(KEY.encrypt([1] * 50))
    assert isinstance(talk.ask(Gradients(0, 0, rows)), messages.Done)
    empty = np.empty(0, dtype=np.uint8)
    assert "MiB" in talk.ask(FindSplits(empty, empty)).reason


def test_rows_with_a_session_under_way_are_not_forgotten(people, bank, monkeypatch):
    from gbdt_parties.transport import service as parties_service

    service = bank(HARDENED)
    ids = people[0][10:60]
    digests = list(aligned(service, **{str(k): ids[:k] + ids[k + 1 :] for k in range(6)}).values())
    talks = [Talk(Local(service, row_sets=[digest]).handle) for digest in digests]
    for talk in talks[:4]:
        assert isinstance(talk.ask(opening(49)), TrainingOpened)
    assert "end one first" in talks[4].ask(opening(49)).reason
    wrong_bits = StartTree(0, np.ones(1, dtype=np.uint8), NOBODYS)
    assert isinstance(talks[1].ask(wrong_bits), messages.Refusal)
    assert isinstance(Talk(talks[4].handle).ask(opening(49)), TrainingOpened)
    monkeypatch.setattr(parties_service, "ABANDONED", -1.0)
    assert isinstance(talks[5].ask(opening(49)), TrainingOpened)
    assert talks[0].ask(messages.Finish()).code == messages.NO_SESSION
    again = Talk(talks[0].handle, talks[0].session).ask(opening(49))
    assert "opened out of order, or twice" in again.reason


def test_a_party_that_says_it_has_other_rows_is_not_believed(people, bank):
    service = bank()
    both = xgb_fed.train(
        PARAMS,
        xgb_fed.ActiveData(None, people[2][10:]),
        [Local(service)],
        1,
        cipher=xgb_fed.Plain(),
        verbose_eval=False,
    )

    class Liar(Local):
        def handle(self, request):
            envelope = messages.read(request)
            if isinstance(envelope.message, OpenModel):
                lie = ModelOpened((1 << 30) - 1)
                return messages.write(envelope.session, envelope.sequence, lie)
            return super().handle(request)

    assert len(both.predict(None, [Local(service)], rows=[0, 1, 2])) == 3
    with pytest.raises(InvalidDataError, match="rows, others 3"):
        both.predict(None, [Liar(service)], rows=[0, 1, 2])


def test_a_service_has_limits_on_bins_levels_and_nodes(people, bank):
    """By default no statistics of nodes with fewer than 10 sampled rows; larger settings are refused."""
    assert (Limits().min_node_rows, Limits().max_bin, Limits().max_depth) == (10, 256, 10)
    service = bank(Limits(min_rows=20, allow_plain=True, allow_weak_key=True, max_bin=8, max_depth=3))
    opened = Talk(Local(service).handle).ask(opening(50))
    assert opened.min_node_rows == 10
    assert "max_bin up to 8, not 9" in Talk(Local(service).handle).ask(opening(50, max_bin=9)).reason
    assert "max_depth up to 3, not 4" in Talk(Local(service).handle).ask(opening(50, max_depth=4)).reason
