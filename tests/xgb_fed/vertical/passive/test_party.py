"""The passive side: refuses what is malformed, never crashes, and gives nothing away that it should not."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import xgb_fed
from gbdt_kernels.residues import encode
from gbdt_parties import messages
from gbdt_parties.messages import to_bits
from kept_splits import splits_of
from sent_bytes import bytes_from
from small_keys import KEYS, integers_of
from vertical_training import Recorder, clear_bytes, parties_of, problem, train
from xgb_fed import LocalParty, OkamotoUchiyama, Paillier
from xgb_fed.boosting.features import bin_features, read_columns
from xgb_fed.ciphers.residue_key import ResidueKey
from xgb_fed.vertical.growing.gradients import FixedPointGradients
from xgb_fed.vertical.passive import held_rows
from xgb_fed.vertical.passive import party as passive
from xgb_fed.vertical.protocol.messages import (
    SPLIT_BY_OTHERS,
    Assignments,
    FindSplits,
    Gradients,
    ModelOpened,
    OpenTraining,
    Routed,
    SplitNodes,
    SplitStatistics,
    StartTree,
    TrainingOpened,
)
from xgb_fed.vertical.protocol.packing import packing_for

X, Y = problem(n=60, n_features=4, missing=0.1)
PARAMS = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 6, "base_score": 0.3}


FEATURES = bin_features(read_columns(X[:, 2:]), PARAMS["max_bin"])


def new_party():
    return LocalParty(X[:, 2:], "party 0", eval_sets=[X[:, 2:]], allow_explanations="per-party")


@pytest.fixture(scope="module")
def recorded():
    """A training under encryption, a prediction and an explanation, every message written down."""
    party = Recorder(new_party())
    evals = [(xgb_fed.ActiveData(X[:, :2], Y), "eval")]
    model = train(PARAMS, X[:, :2], Y, [party], 1, cipher=Paillier(512, True), evals=evals)
    model.predict(X[:, :2], [party])
    model.explain(X[:, :2], [party])
    return party, model


@pytest.fixture(scope="module")
def same_cuts():
    """Replays cut the same columns again and again."""
    with pytest.MonkeyPatch.context() as patch:
        known = {(len(X), 2, PARAMS["max_bin"]): FEATURES}
        patch.setattr(
            held_rows,
            "bin_features",
            lambda columns, max_bin: (
                known.get((columns.n_rows, columns.n_features, max_bin)) or bin_features(columns, max_bin)
            ),
        )
        yield


def replay(requests, change=None, at=-1):
    """Send recorded requests to a fresh party; gives the answers, none of which is a caught exception."""
    party = new_party()
    answers = [party.handle(change(r) if k == at else r) for k, r in enumerate(requests)]
    reasons = [getattr(messages.read(answer).message, "reason", "") for answer in answers]
    assert "internal error" not in reasons
    return answers


def is_refusal(answer):
    return isinstance(messages.read(answer).message, messages.Refusal)


INT32 = st.integers(-3, 5) | st.integers(-(2**31), 2**31 - 1)


def other_value(draw, value, tag):
    """Another value of a field: near, far, longer, shorter."""
    if tag == "i":
        return draw(st.integers(-2, 70) | st.integers(-(2**63), 2**63 - 1))
    if tag in "bc":
        return draw(st.sampled_from([b"", value[:-1], value + b"x", value[:40] + b"y" + value[41:]]))
    if tag == "s":
        return draw(st.text(max_size=5))
    how = draw(st.sampled_from(["shorter", "longer", "item", "none", "twice"]))
    if how == "none" or not len(value):
        return value[:0] if len(value) else np.zeros(draw(st.integers(1, 9)), dtype=value.dtype)
    if how == "shorter":
        return value[: draw(st.integers(0, len(value) - 1))]
    if how == "longer":
        return np.append(value, value[-1:])
    if how == "twice":
        return np.concatenate([value, value])
    other = value.copy()
    other[draw(st.integers(0, len(value) - 1))] = (
        draw(st.integers(0, 255)) if tag == "B" else draw(st.floats(width=32)) if tag == "F" else draw(INT32)
    )
    return other


@given(st.data())
@settings(deadline=None, max_examples=80)
def test_requests_with_other_contents(recorded, same_cuts, data):
    """Fields of one request of a true training exchanged, all others as they were: an answer, always."""
    requests = recorded[0].requests
    at = data.draw(st.integers(0, len(requests) - 1))

    def change(request):
        envelope = messages.read(request)
        tags = messages.tags(type(envelope.message))
        fields = dict(envelope.message.__dict__)
        for name in data.draw(st.sets(st.sampled_from(sorted(tags)), min_size=1)) if tags else ():
            fields[name] = other_value(data.draw, fields[name], tags[name])
        return messages.write(envelope.session, envelope.sequence, type(envelope.message)(**fields))

    for answer in replay(requests[: at + 3], change, at):
        messages.read(answer)


def test_replayed_skipped_and_doubled_requests(recorded, same_cuts):
    """Each is refused, and ends the session."""
    requests = recorded[0].requests
    n = next(k for k, r in enumerate(requests) if isinstance(messages.read(r).message, messages.Finish))
    for order in ([0, 1, 1, 2], [0, 2, 1], [1], [0, 1, 0, 2], [*range(5), 3, 5]):
        answers = replay([requests[k] for k in order])
        first = next(k for k, answer in enumerate(answers) if is_refusal(answer))
        assert all(is_refusal(answer) for answer in answers[first:])
        assert order[:first] == list(range(first))
    assert not any(is_refusal(answer) for answer in replay(requests))
    assert all(is_refusal(answer) for answer in replay([*requests[: n + 1], *requests[: n + 1]])[n + 1 :])


def test_requests_of_another_session(recorded, same_cuts):
    requests = recorded[0].requests

    def change(request):
        envelope = messages.read(request)
        return messages.write(b"x" * 16, envelope.sequence, envelope.message)

    answers = replay(requests[:4], change, 2)
    assert [is_refusal(answer) for answer in answers] == [False, False, True, True]


def test_answers_are_not_requests(recorded, same_cuts):
    party, _ = recorded
    for answer in {type(messages.read(a).message): a for a in party.answers}.values():
        envelope = messages.read(answer)
        request = messages.write(envelope.session, 1, envelope.message)
        assert is_refusal(replay([party.requests[0], request])[1])


class Session:
    """Requests by hand."""

    def __init__(self, party, key, n_rows, max_bin=6, field_bits=None, n_groups=1, max_depth=3):
        self.party, self.number = party, 0
        bits = (
            packing_for(n_rows, 1, key.public.plaintext_limit).gh.bits if field_bits is None else field_bits
        )
        none = np.empty(0, dtype=np.int32)
        fields = {"public_key": key.public.public_bytes(), "n_rows": n_rows, "max_bin": max_bin}
        fields |= {"field_bits": bits, "n_groups": n_groups, "max_depth": max_depth}
        fields |= {"eval_rows": none.astype(np.int64), "rows": none}
        self.opened = self.ask(OpenTraining(**fields))

    def ask(self, message):
        answer = messages.read(self.party.handle(messages.write(b"s" * 16, self.number, message))).message
        assert getattr(answer, "reason", "") != "internal error"
        self.number += 1
        return answer


NONE = np.empty(0, dtype=np.uint8)


def test_statistics_of_no_rows_or_no_nodes_are_refused():
    """What a true active party never asks for must not crash a passive one."""
    key = KEYS[Paillier]
    session = Session(LocalParty(X[:, 2:]), key, len(X))
    start = StartTree(0, to_bits(np.zeros(60, dtype=bool)), np.array([0, 1], dtype=np.int32))
    session.ask(start)
    answer = session.ask(FindSplits(NONE, NONE))
    assert isinstance(answer, messages.Refusal)

    session = Session(LocalParty(X[:, 2:]), key, len(X))
    session.ask(StartTree(0, NONE, np.array([0, 1], dtype=np.int32)))
    values = key.public.to_bytes(key.encrypt([1] * 60))
    session.ask(Gradients(0, 0, values))
    session.ask(FindSplits(NONE, NONE))
    everyone = to_bits(np.ones(60, dtype=bool))
    by_others = np.array([SPLIT_BY_OTHERS], dtype=np.uint8)
    answer = session.ask(FindSplits(by_others, everyone))
    assert isinstance(answer, messages.Refusal)


@pytest.mark.parametrize(
    "fields",
    [
        {"n_rows": 59},
        {"n_rows": -1},
        {"max_bin": 1},
        {"max_bin": 1 << 40},
        {"max_depth": 0},
        {"max_depth": 1 << 40},
        {"field_bits": 0},
        {"field_bits": 1},
        {"field_bits": 118},
        {"field_bits": 120},
        {"field_bits": 512},
        {"field_bits": 5 * 119},
        {"field_bits": -119},
        {"field_bits": -(1 << 60)},
        {"n_groups": 0},
        {"n_groups": 1 << 50},
    ],
    ids=str,
)
def test_openings_that_make_no_sense(fields):
    key = KEYS[Paillier]
    sensible = Session(LocalParty(X[:, 2:]), key, n_rows=60, field_bits=119)
    assert isinstance(sensible.opened, TrainingOpened)
    session = Session(LocalParty(X[:, 2:]), key, **{"n_rows": 60, "field_bits": 119, **fields})
    assert isinstance(session.opened, messages.Refusal)
    assert all(name in session.opened.reason for name in fields if name == "field_bits")


@pytest.mark.parametrize(
    "scheme", [xgb_fed.Plain(), Paillier(1024, True), OkamotoUchiyama(1024, True)], ids=repr
)
def test_a_party_that_requires_encryption(scheme):
    party = LocalParty(X[:, 2:], require_encryption=True)
    with pytest.raises(xgb_fed.PartyRefusedError, match="does not train"):
        train(PARAMS, X[:, :2], Y, [party], 1, cipher=scheme)
    assert not splits_of(party)


def test_a_refusal_holds_no_column_names():
    """Other columns at prediction: the owner's names are none of the active party's business."""
    frame = pd.DataFrame(X[:, 2:], columns=["salary", "debt"])
    party = LocalParty(frame, "bank")
    model = train(PARAMS, X[:, :2], Y, [party], 1)
    recorder = Recorder(party.with_rows(frame.rename(columns={"debt": "loans"})))
    with pytest.raises(xgb_fed.PartyRefusedError):
        model.predict(X[:, :2], [recorder])
    for name in (b"salary", b"debt", b"loans"):
        assert not any(name in answer for answer in recorder.answers)


def patterns(values, *dtypes):
    """Bytes of each number, 0 and NaN left out."""
    values = np.unique(np.asarray(values, dtype=np.float32))
    values = values[np.isfinite(values) & (values != 0)]
    return [value.tobytes() for dtype in dtypes for value in values.astype(dtype)]


@pytest.mark.parametrize("cipher", [None, Paillier(512, True)], ids=["plain", "paillier"])
def test_passive_messages_never_contain_thresholds_or_values(cipher):
    """Not even in clear text training: cuts and values stay; all that leaves are sums, counts and flags."""
    party = Recorder(LocalParty(X[:, 2:], "bank"))
    model = train(PARAMS, X[:, :2], Y, [party], 2, cipher=cipher)
    model.predict(X[:, :2], [party])
    features = bin_features(read_columns(X[:, 2:]), PARAMS["max_bin"])
    secret = np.concatenate([*features.cuts, features.lower, X[:, 2:].ravel()])
    clear = b"||".join(clear_bytes(answer) for answer in party.answers)
    assert len(clear) > 300
    assert not [p for p in patterns(secret, np.float32, np.float64) if p in clear]
    everything = b"||".join(party.answers)
    assert not [p for p in patterns(secret, np.float64) if p in everything]
    allowed = {TrainingOpened, messages.Done, SplitStatistics, Assignments}
    allowed |= {ModelOpened, Routed}
    assert {type(messages.read(answer).message) for answer in party.answers} <= allowed


def test_the_search_would_find_thresholds():
    """The same search, where they are told with consent."""
    party = Recorder(LocalParty(X[:, 2:], "bank", allow_export=True))
    model = train(PARAMS, X[:, :2], Y, [party], 2)
    model.export_booster([party])
    splits = splits_of(party.party)[0]
    clear = b"||".join(clear_bytes(answer) for answer in party.answers)
    assert all(p in clear for p in patterns(splits.thresholds, np.float32))


@pytest.mark.parametrize(
    "scheme", [Paillier(512, True), OkamotoUchiyama(512, True)], ids=lambda s: type(s).__name__
)
def test_active_messages_never_contain_labels_or_gradients(scheme):
    rng = np.random.default_rng(0)
    y = rng.normal(size=60).astype(np.float32)
    params = {"objective": "reg:squarederror", "max_depth": 3, "max_bin": 6, "base_score": 0.0}
    seen = []
    for cipher in (scheme, None):
        parties = [Recorder(LocalParty(X[:, k : k + 1], f"p{k}")) for k in (2, 3)]
        train(params, X[:, :2], y, parties, 1, cipher=cipher)
        seen.append(parties)
    encrypted, plain = seen
    g = np.concatenate([y, -y])
    gradients = FixedPointGradients.scaled(-y[:, None], np.ones((60, 1)), packing_for(60, 1, 1 << 200))
    words = gradients.plaintexts(np.arange(60, dtype=np.int32))[0]
    exact = [row.astype("<u8").tobytes() for row in words]
    for party in encrypted:
        clear = b"||".join(clear_bytes(request) for request in party.requests)
        assert not [p for p in patterns(g, np.float32, np.float64) if p in clear]
        everything = b"||".join(party.requests)
        assert not [p for p in [*patterns(g, np.float64), *exact] if p in everything]
        allowed = {OpenTraining, StartTree, Gradients, FindSplits}
        allowed |= {SplitNodes, messages.Finish}
        assert {type(messages.read(request).message) for request in party.requests} <= allowed
    # The same search where nothing is encrypted finds every row.
    for party in plain:
        everything = b"||".join(party.requests)
        assert all(p in everything for p in exact)


@pytest.mark.parametrize(
    "scheme", [Paillier(512, True), OkamotoUchiyama(512, True)], ids=lambda s: type(s).__name__
)
def test_encryption_that_was_asked_for_is_active(scheme):
    """Of two different gradients every row has another ciphertext, under the scheme's key."""
    party = Recorder(parties_of([X[:, 2:]])[0])
    model = train(PARAMS, X[:, :2], Y, [party], 1, cipher=scheme)
    opening = messages.read(party.requests[0]).message
    key = ResidueKey.from_public_bytes(opening.public_key)
    assert key.n.bit_length() == 512
    sent = [m for m in party.messages() if isinstance(m, Gradients)]
    rows = np.concatenate([key.from_bytes(m.values) for m in sent])
    assert len({row.tobytes() for row in rows}) == len(X)
    assert model.traffic.encrypted


def test_a_scheme_whose_key_does_not_encrypt_is_refused():
    class Sham:
        def generate(self):
            return xgb_fed.Plain()

    party = Recorder(parties_of([X[:, 2:]])[0])
    with pytest.raises(xgb_fed.UnsupportedParameterError, match="does not encrypt"):
        train(PARAMS, X[:, :2], Y, [party], 1, cipher=Sham())
    assert not party.requests


def test_a_scheme_whose_keys_parties_do_not_read_is_refused():
    party = Recorder(parties_of([X[:, 2:]])[0])

    class Foreign:
        class Key:
            class public:
                @staticmethod
                def public_bytes():
                    return b"a key of somebody else's scheme"

        def generate(self):
            return self.Key()

    with pytest.raises(xgb_fed.UnsupportedParameterError, match="do not read"):
        train(PARAMS, X[:, :2], Y, [party], 1, cipher=Foreign())
    assert not party.requests


def test_paillier_is_the_default_and_clear_text_warns():
    party = Recorder(LocalParty(X[:20, 2:], "bank"))
    data = xgb_fed.ActiveData(X[:20, :2], Y[:20])
    xgb_fed.train({**PARAMS, "max_depth": 1, "base_score": 0.5}, data, [party], 1, verbose_eval=False)
    key = ResidueKey.from_public_bytes(messages.read(party.requests[0]).message.public_key)
    assert (key.scheme, key.n.bit_length()) == ("paillier", 2048)
    with pytest.warns(xgb_fed.NotEncryptedWarning, match="CLEAR TEXT"):
        xgb_fed.train(PARAMS, data, [LocalParty(X[:20, 2:])], 1, cipher=xgb_fed.Plain(), verbose_eval=False)


def test_traffic_is_what_was_recorded(recorded):
    parties = [Recorder(LocalParty(X[:, k : k + 1], f"p{k}", eval_sets=[X[:, k : k + 1]])) for k in (2, 3)]
    evals = [(xgb_fed.ActiveData(X[:, :2], Y), "eval")]
    model = train(PARAMS, X[:, :2], Y, parties, 2, cipher=OkamotoUchiyama(512, True), evals=evals)
    traffic = model.traffic
    assert bytes_from(traffic, "active") == sum(len(r) for p in parties for r in p.requests)
    for party in parties:
        assert bytes_from(traffic, party.name) == sum(len(answer) for answer in party.answers)
        for log, ends in ((party.requests, ("active", party.name)), (party.answers, (party.name, "active"))):
            kinds = [messages.read(data).message for data in log]
            for kind in {type(m) for m in kinds}:
                flow = traffic.flows[(*ends, kind.__name__)]
                same = [(m, len(data)) for m, data in zip(kinds, log, strict=True) if type(m) is kind]
                assert (flow.messages, flow.bytes) == (len(same), sum(size for _, size in same))
                assert flow.ciphertext_bytes == sum(m.ciphertext_bytes for m, _ in same)
    encrypted = {row["message"] for row in traffic.to_dicts() if row["ciphertext_bytes"]}
    assert encrypted == {"Gradients", "SplitStatistics"}
    assert {row["content"] for row in traffic.to_dicts()} == {"ciphertext", "clear"}
    assert "SplitStatistics" in str(traffic)
    clear = train(PARAMS, X[:, :2], Y, parties_of([X[:, 2:]]), 1).traffic
    assert "clear text" in str(clear)
    assert not sum(row["ciphertext_bytes"] for row in clear.to_dicts())


def rows_seen_through_obfuscators(key, party, n_rows):
    """What an active party reads off the root's statistics, having marked row i by a factor γ^(2^i).

    Fields are so wide that every ciphertext holds one sum.
    """
    public = key.public
    n, modulus = public.n, public.modulus.value
    gamma = pow(3, n, modulus)
    marks = [pow(gamma, 1 << i, modulus) for i in range(n_rows)]
    subsets, value = {}, 1
    for subset in range(1 << n_rows):
        subsets[value] = subset
        value = value * gamma % modulus
    crafted = [(1 + (i + 1) * n) * mark % modulus for i, mark in enumerate(marks)]
    packing = packing_for(n_rows, 3, public.plaintext_limit)
    field_bits = packing.gh.bits * packing.classes_per_ciphertext
    assert 2 * field_bits > public.plaintext_limit.bit_length() - 1
    session = Session(party, key, n_rows, max_bin=16, field_bits=field_bits)
    session.ask(StartTree(0, NONE, np.array([0], dtype=np.int32)))
    session.ask(Gradients(0, 0, public.to_bytes(encode(crafted, public.modulus))))
    answer = session.ask(FindSplits(NONE, NONE))
    returned = public.from_bytes(answer.sums)
    plaintexts = key.decrypt(returned)
    seen = []
    for value, m in zip(integers_of(public, returned), plaintexts, strict=True):
        randomness = value * pow(1 + m * n, -1, modulus) % modulus
        seen.append(subsets.get(randomness))
    return seen, plaintexts


def test_crafted_obfuscators_name_the_rows_of_a_bin_unless_answers_are_re_randomised(monkeypatch):
    values = np.array([[3.0], [1.0], [7.0], [5.0], [2.0], [8.0], [4.0], [6.0]])
    key = KEYS[Paillier]
    seen, sums = rows_seen_through_obfuscators(key, LocalParty(values), len(values))
    assert len(seen) == 8
    assert seen == [None] * 8

    monkeypatch.setattr(ResidueKey, "rerandomise", lambda self, a: a)
    seen, sums = rows_seen_through_obfuscators(key, LocalParty(values), len(values))
    assert None not in seen
    named = [{i for i in range(8) if subset >> i & 1} for subset in seen]
    assert named == [{i for i, v in enumerate(values[:, 0]) if v == value} for value in range(1, 9)]
    assert [sum(i + 1 for i in rows) for rows in named] == sums


def test_plaintext_bits_alone_do_not_tell(recorded):
    """Returned ciphertexts are all different, although many candidates have equal sums."""
    party, _ = recorded
    key = ResidueKey.from_public_bytes(messages.read(party.requests[0]).message.public_key)
    rows = [key.from_bytes(m.sums) for m in party.messages() if isinstance(m, SplitStatistics)]
    together = np.concatenate(rows)
    assert len({row.tobytes() for row in together}) == len(together) > 3


def test_statistics_of_equal_training_runs_are_equal():
    """Under other keys and other randomness: a tree that is grown again meets the same sums."""
    sent = []
    for _ in range(2):
        party = Recorder(parties_of([X[:, 2:]])[0])
        train(PARAMS, X[:, :2], Y, [party], 1)
        sent.append([(m.counts.tolist(), m.sums) for m in party.messages() if isinstance(m, SplitStatistics)])
    assert sent[0] == sent[1]


def test_the_log_of_an_unforeseen_failure_has_no_text_that_may_be_a_value(caplog, monkeypatch):
    """Neither party's: the place is enough to find it by."""
    from xgb_fed.horizontal.party import HorizontalParty

    def fail(*_):
        raise ValueError("HIV-positive")

    for handler in (passive.PassiveParty(read_columns(X[:, 2:]), [], {}), HorizontalParty(X, Y, "bank")):
        monkeypatch.setattr(messages, "read", fail)
        answer = handler.handle(b"")
        monkeypatch.undo()
        assert messages.read(answer).message.reason == "internal error"
    assert caplog.text.count("a request failed: ValueError at") == 2
    assert "HIV" not in caplog.text
