"""What allowed messages, in any number and order, may take of a passive party's memory and disk."""

import gc
import os
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from threading import Event

import numpy as np
import pytest

import xgb_fed
from alignments import Asker, Bank
from counted_answers import layout
from gbdt_parties import messages
from gbdt_parties.errors import ProtocolError
from gbdt_parties.identity import intersector as intersector_module
from gbdt_parties.identity import masked_ids
from gbdt_parties.identity.alignment import align
from gbdt_parties.identity.alignment_messages import (
    IDS_PER_MESSAGE,
    AlignmentOpened,
    AlignRows,
    AnswerIds,
    CommitIds,
    IdsMasked,
    MaskIds,
    OpenAlignment,
    ProveRows,
    TellIds,
)
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.identity.intersector import BYTES_PER_ID, Intersector
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.transport import service as service_module
from gbdt_parties.transport.server import MAX_REQUEST_BYTES, NOBODY
from kept_stores import end_process
from served_parties import Local
from small_keys import key_of
from veilboost.plans.tables import Table
from xgb_fed.boosting.features import read_columns
from xgb_fed.ciphers import serialization as wire
from xgb_fed.vertical.passive import party as passive_module
from xgb_fed.vertical.passive.party import PassiveParty
from xgb_fed.vertical.passive.service import KeptSplits, Limits, PassiveService
from xgb_fed.vertical.protocol.messages import (
    Assignments,
    FindSplits,
    Gradients,
    OpenModel,
    OpenTraining,
    Routed,
    RouteRows,
    SplitCategories,
    StartTree,
    TrainingOpened,
)
from xgb_fed.vertical.protocol.splits import Splits

KEY = key_of(xgb_fed.OkamotoUchiyama, 1024)
CLASSES_PER_CIPHERTEXT = 2
NONE = np.empty(0, dtype=np.int32)
NO_FLAGS = np.empty(0, dtype=np.uint8)
N_ROWS = 200
MIB = 1 << 20


class Talk:
    """One session of acme's, message by message, without a network."""

    def __init__(self, service, session):
        self.service, self.session, self.sequence, self.row_sets = service, session, 0, ()

    def ask(self, message):
        request = messages.write(self.session, self.sequence, message)
        self.sequence += 1
        if isinstance(self.service, PassiveParty):
            return messages.read(self.service.handle(request)).message
        caller = Identity("acme", "", NOBODY.expires)
        return messages.read(self.service.handle(caller, self.row_sets, request)).message


def opening(n_groups=1, n_rows=N_ROWS):
    evaluation = np.empty(0, dtype=np.int64)
    n_classes = 1 if n_groups == 1 else CLASSES_PER_CIPHERTEXT * n_groups
    field_bits, n_groups = layout(n_rows, n_classes, KEY)
    fields = {"n_rows": n_rows, "max_bin": 8, "field_bits": field_bits, "n_groups": n_groups, "max_depth": 4}
    known = {name: value for name, value in fields.items() if name in OpenTraining.__annotations__}
    return OpenTraining(public_key=KEY.public.public_bytes(), rows=NONE, eval_rows=evaluation, **known)


@pytest.fixture
def service(tmp_path):
    def make(**limits):
        X = np.random.default_rng(0).normal(size=(N_ROWS, 3))
        table = Table(read_columns(X), [str(k) for k in range(N_ROWS)], False, None, [], {})
        limits = Limits(min_rows=2, allow_plain=True, allow_weak_key=True, max_statistics=np.inf, **limits)
        end_process(tmp_path)
        return PassiveService(table, tmp_path / "bank", "bank", limits)

    return make


def peak_of(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_attack_by_many_groups_is_refused_before_anything_is_allocated(service):
    """65,536 ciphertexts for each of 200 rows: 1.7 GB of arrays, to be filled group by group."""
    bank = service(max_memory=64 * MIB)
    answer = Talk(bank, b"1" * 16).ask(opening(n_groups=1 << 16))
    assert "encrypted gradients would take 1600 MiB" in answer.reason
    assert isinstance(Talk(bank, b"2" * 16).ask(opening(n_groups=1000)), TrainingOpened)


def test_memory_attack_by_sessions_side_by_side_is_refused():
    """What one session may hold, eight may not hold together, and ended ones give it back."""
    columns = read_columns(np.random.default_rng(0).normal(size=(N_ROWS, 3)))
    memory = MemoryAllowance(8 * MIB)
    bank = PassiveParty(columns, [], {}, memory=memory)
    talks = [Talk(bank, bytes([k]) * 16) for k in range(1, 5)]
    start = StartTree(0, np.empty(0, dtype=np.uint8), np.arange(3, dtype=np.int32))
    for talk in talks[:3]:
        assert isinstance(talk.ask(opening(n_groups=100)), TrainingOpened)
        assert isinstance(talk.ask(start), messages.Done)
    assert "encrypted gradients would take 2 MiB" in talks[3].ask(opening(n_groups=100)).reason
    talks[0].ask(messages.Abort())
    again = Talk(bank, b"5" * 16)
    again.ask(opening(n_groups=100))
    assert isinstance(again.ask(start), messages.Done)


def test_memory_of_histograms_is_reserved_before_they_are_built():
    columns = read_columns(np.random.default_rng(0).normal(size=(N_ROWS, 3)))
    bank = PassiveParty(columns, [], {}, memory=MemoryAllowance(40_000))
    talk = Talk(bank, b"1" * 16)
    talk.ask(opening())
    talk.ask(StartTree(0, np.empty(0, dtype=np.uint8), np.arange(3, dtype=np.int32)))
    values = KEY.public.to_bytes(KEY.encrypt([1] * N_ROWS))
    talk.ask(Gradients(0, 0, values))
    empty = np.empty(0, dtype=np.uint8)
    rest = {name: empty for name in FindSplits.__annotations__ if name not in ("kind", "wanted")}
    if "wanted" in FindSplits.__annotations__:
        rest["wanted"] = np.ones(1, dtype=np.uint8)
    assert "statistics of this level would take" in talk.ask(FindSplits(**rest)).reason


def test_memory_attack_by_lists_that_were_not_announced(monkeypatch):
    """They are counted before they are taken apart, compared or multiplied."""
    pytest.importorskip("nacl")
    bank = Bank(Intersector([str(k) for k in range(100)], 100, "bank"))
    points = os.urandom(4 * MIB)
    for steps, message in (
        (("open", "mask", "commit"), TellIds(points)),
        (("open", "mask", "commit", "tell", "answer"), AlignRows(np.ones(4 * MIB, np.uint8), b"")),
        (("open", "mask", "commit", "tell", "answer"), AlignRows(np.full(13, 128, np.uint8), points)),
        (("open", "mask"), CommitIds(points)),
    ):
        asker = Asker(
            lambda m: messages.read(bank.handle(messages.write(b"s" * 16, 0, m))).message, ["1", "2"]
        )
        for step in steps:
            assert not isinstance(getattr(asker, step)(), messages.Refusal)
        monkeypatch.setattr(masked_ids, "multiply", lambda *args: pytest.fail("multiplied"))

        def attempt(bank=bank, message=message):
            with pytest.raises(ProtocolError):
                bank.intersector.answer(b"s" * 16, message)

        if isinstance(message, AlignRows) and len(message.common) == 13:
            monkeypatch.undo()
        assert peak_of(attempt) < MIB / 2
        monkeypatch.undo()


def test_memory_of_an_alignment_is_within_what_is_reserved(monkeypatch):
    """From the first message to the rows found, for each id of both sides."""
    n = 30_000
    hashed = [sha256(b"%d" % k).digest() for k in range(n)]
    monkeypatch.setattr(masked_ids, "hash_to_group", lambda domain, inputs: b"".join(map(_sha256, inputs)))
    monkeypatch.setattr(masked_ids, "multiply", lambda key, points: bytes(memoryview(points)))
    monkeypatch.setattr(masked_ids, "refuse_reflection", lambda own, points: None)
    monkeypatch.setattr(intersector_module, "refuse_reflection", lambda own, points: None)
    intersector = Intersector([f"customer-{k:09d}" for k in range(n)], n, "bank")
    opening = OpenAlignment(bytes(32), bytes(32), bytes(32), n)
    told = b"".join(sorted(hashed))
    flags = np.packbits(np.ones(n, dtype=bool))

    def run():
        def ask(message):
            return intersector.answer(b"s" * 16, message)

        opened, _ = ask(opening)
        for _ in range(0, n, IDS_PER_MESSAGE):
            ask(MaskIds())
        ask(CommitIds(masked_ids.commitment_to(masked_ids.run_of(opening, opened), masked_ids.ACTIVE, told)))
        for first in range(0, n, IDS_PER_MESSAGE):
            ask(TellIds(told[32 * first : 32 * (first + IDS_PER_MESSAGE)]))
        for _ in range(0, n, IDS_PER_MESSAGE):
            ask(AnswerIds())
        _, alignment = ask(AlignRows(flags, told[:32]))
        assert alignment is None
        _, alignment = ask(ProveRows(intersector.run.found[2]))
        assert len(alignment.ids) == n

    assert peak_of(run) < BYTES_PER_ID * 2 * n


def _sha256(octets):
    return sha256(octets).digest()


def test_memory_of_requests_is_bounded(service):
    """Two requests as long as allowed, of the worst content, under way at once."""
    # As text, one wide character makes all of them four bytes wide.
    assert 2 * MAX_REQUEST_BYTES + (1 + 4) * MAX_REQUEST_BYTES <= 512 * MIB
    bank, text = service(), "\n" * (4 * MIB) + "\U0001f600"
    # Of all kinds that an active party sends and a passive one answers, none has a text; this one is refused.
    peak = peak_of(lambda: Talk(bank, b"s" * 16).ask(messages.Refusal(text, 0)))
    # The writing of it here, four bytes a character in `text` beside, the reading there.
    assert peak < 10 * 4 * MIB + MIB


def test_disk_attack_by_training_runs_that_end_at_once(service, tmp_path):
    bank = service(max_models=3, sessions_per_hour=10)
    reasons = []
    for k in range(15):
        talk = Talk(bank, bytes([k]) * 16)
        answer = talk.ask(opening())
        if isinstance(answer, TrainingOpened):
            talk.ask(messages.Finish())
        else:
            reasons.append(answer.reason)
    assert len(KeptSplits(bank.store_of("acme"))) == 3
    assert len(reasons) == 12
    assert "at most 3 models" in reasons[0]
    assert "veilboost models" in reasons[0]


def test_sessions_are_counted_by_the_hour_over_a_restart(service):
    for k in range(6):
        answer = Talk(service(sessions_per_hour=5), bytes([k]) * 16).ask(opening())
        assert isinstance(answer, TrainingOpened) == (k < 5)
    assert "more than 5 sessions in an hour" in answer.reason
    answer = Talk(service(sessions_per_hour=5), b"x" * 16).ask(OpenModel(b"m" * 16, 0, NONE))
    assert "more than 5 sessions in an hour" in answer.reason


def test_disk_attack_by_alignments(service, tmp_path, monkeypatch):
    """The rows that were used last are kept, and those that are forgotten can be aligned again."""
    pytest.importorskip("nacl")
    monkeypatch.setattr(service_module, "MAX_ALIGNMENTS", 4)
    bank = service()
    caller = bank.known_caller(Identity("acme", "", NOBODY.expires))
    digests = []
    for k in range(10):
        digests.append(align([Local(bank)], [str(k)]).digest)
        if k:
            # As training on the first rows would.
            bank.aligned(caller, digests[0])
    kept = {path.name.split(".")[0] for path in (tmp_path / "bank" / "for-acme" / "rows").glob("*.ids")}
    assert kept == {digest.hex() for digest in (digests[0], *digests[7:])}
    with pytest.raises(ProtocolError, match="align them first"):
        bank.aligned(caller, digests[1])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_of_a_party_stays_within_what_is_agreed():
    """Every session opens as large a tree as it may; the process grows by the allowance."""

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    columns = read_columns(np.random.default_rng(0).normal(size=(N_ROWS, 3)))
    bank = PassiveParty(columns, [], {}, memory=MemoryAllowance(32 * MIB))
    values = KEY.public.to_bytes(KEY.encrypt([1] * N_ROWS))
    start = StartTree(0, np.empty(0, dtype=np.uint8), np.arange(3, dtype=np.int32))
    before, refused = resident(), 0
    for k in range(1, 7):
        talk = Talk(bank, bytes([k]) * 16)
        talk.ask(opening(n_groups=500))
        if not isinstance(talk.ask(start), messages.Done):
            refused += 1
            continue
        for group in range(500):
            assert isinstance(talk.ask(Gradients(group, 0, values)), messages.Done)
    assert refused == 4
    assert resident() - before < 64 * MIB


def test_log_attack_by_a_refusal_that_quotes_the_request(service, caplog):
    """The reason for a refusal is sent, logged and kept; the request it quotes is the caller's."""
    bank, n = service(), MIB
    message = replace(opening(), eval_rows=np.full(n, 10**12, dtype=np.int64))
    answer = Talk(bank, b"1" * 16).ask(message)
    assert len(answer.reason) <= messages.MAX_REASON
    assert f"{n} evaluation sets" in answer.reason
    assert all(len(record.getMessage()) < 2000 for record in caplog.records)


def test_log_attack_by_any_reason_is_cut_where_it_is_made():
    assert len(messages.refusal("x" * MIB).reason) == messages.MAX_REASON + len("...")
    assert messages.refusal("two\nlines\x1b[2J").reason == "two\\nlines\\x1b[2J"


def test_memory_attack_by_one_split_asked_for_many_times():
    """An array for each of a million splits that no row reaches."""
    columns = read_columns(np.random.default_rng(0).normal(size=(8, 3)))
    splits = Splits(["a", "b", "c"])
    splits.add(0, 0.0, True)
    bank = PassiveParty(columns, [], {b"m" * 16: splits})
    talk = Talk(bank, b"1" * 16)
    talk.ask(OpenModel(b"m" * 16, 0, NONE))
    n = 200_000
    question = RouteRows(0, np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros(n, np.uint8))
    answers = []
    assert peak_of(lambda: answers.append(talk.ask(question))) < 4 * MIB
    assert "more splits" in answers[0].reason


def test_memory_of_row_flags_is_bounded_by_what_the_active_party_sends(monkeypatch):
    monkeypatch.setattr(passive_module, "MAX_BITMAP_BYTES", 2)
    columns = read_columns(np.random.default_rng(0).normal(size=(8, 3)))
    splits = Splits(["a", "b", "c"])
    for threshold in range(3):
        splits.add(0, float(threshold), True)
    for n, allowed in ((2, True), (3, False)):
        talk = Talk(PassiveParty(columns, [], {b"m" * 16: splits}), bytes([n]) * 16)
        talk.ask(OpenModel(b"m" * 16, 0, NONE))
        ids = np.arange(n, dtype=np.int32)
        answer = talk.ask(RouteRows(0, ids, np.ones(n, np.int32), np.ones(n, np.uint8)))
        assert isinstance(answer, Routed) == allowed


def test_memory_of_sides_is_reserved_for_predictions_too():
    """A question of 200 kB made 12 MB of positions of rows, 8 bytes for each bit."""
    n_rows, n_splits, memory = 100_000, 16, MemoryAllowance(16 * MIB)
    columns, splits = read_columns(np.zeros((n_rows, 1))), Splits(["a"])
    for threshold in range(n_splits):
        splits.add(0, float(threshold), True)
    talk = Talk(PassiveParty(columns, [], {b"m" * 16: splits}, memory=memory), b"1" * 16)
    talk.ask(OpenModel(b"m" * 16, 0, NONE))
    ids, before, peaks = np.arange(n_splits, dtype=np.int32), memory.reserved, []
    for n in (8, n_splits):
        flags = np.full(n * n_rows // 8, 255, dtype=np.uint8)
        question, answers = RouteRows(0, ids[:n], np.full(n, n_rows, dtype=np.int32), flags), []
        peaks.append(peak_of(lambda question=question, into=answers: into.append(talk.ask(question))))
        assert isinstance(answers[0], Routed if n == 8 else messages.Refusal)
        assert memory.reserved == (before if n == 8 else 0)
    assert peaks[0] < 16 * 8 * n_rows
    assert peaks[1] < MIB
    assert "the sides of rows would take" in answers[0].reason


def test_memory_of_copied_rows_is_reserved_and_given_back_when_an_opening_is_refused(service):
    pytest.importorskip("nacl")
    bank = service()
    caller = bank.known_caller(Identity("acme", "", NOBODY.expires))
    bank.has_ids = True
    sets = []
    for k in range(4):
        sets.append(align([Local(bank)], [str(i) for i in range(k, N_ROWS)]).digest)
    caller.memory.max_bytes = 8000
    request = messages.write(b"1" * 16, 0, opening(n_rows=N_ROWS - 1))
    identity = Identity("acme", "", NOBODY.expires)
    refused = messages.read(bank.handle(identity, (sets[0],), request)).message
    assert "rows, this one" in refused.reason
    assert not caller.handlers
    assert not caller.rooms
    assert caller.memory.reserved == 0
    request = messages.write(b"2" * 16, 0, opening(n_rows=N_ROWS))
    refused = messages.read(bank.handle(identity, tuple(sets), request)).message
    assert "the rows of this selection would take" in refused.reason


def test_models_kept_are_at_most_as_many_as_agreed_when_sessions_end_side_by_side(service, tmp_path):
    bank = service(max_models=1)
    talks = [Talk(bank, bytes([k]) * 16) for k in range(1, 4)]
    for talk in talks:
        assert isinstance(talk.ask(opening()), TrainingOpened)
    answers = [talk.ask(messages.Finish()) for talk in talks]
    assert [isinstance(answer, messages.Done) for answer in answers] == [True, False, False]
    assert len(KeptSplits(bank.store_of("acme"))) == 1


def test_memory_attack_by_a_public_key_of_many_numbers(service):
    rows = np.random.default_rng(0).integers(1 << 62, size=(MIB // 4, 1)).astype(np.uint64)
    data = wire.pack(wire.PayloadKind.PUBLIC_KEY, "paillier", bytes(16), rows)
    bank, message = service(), replace(opening(), public_key=data)
    request, answers = messages.write(b"1" * 16, 0, message), []
    identity = Identity("acme", "", NOBODY.expires)
    # Two copies by reading it, here and in the handler.
    assert peak_of(lambda: answers.append(bank.handle(identity, (), request))) < 2.5 * len(request)
    assert "too many for a key" in messages.read(answers[0]).message.reason


def test_log_attack_by_requests_that_are_refused(service, caplog):
    """Refused requests are not logged as if they had been served, and no more than once per minute."""
    caplog.set_level("INFO")
    bank = service(sessions_per_hour=1)
    assert isinstance(Talk(bank, b"0" * 16).ask(opening()), TrainingOpened)
    served = [record.getMessage() for record in caplog.records]
    assert any("starts a training run" in line for line in served)
    caplog.clear()
    for k in range(1, 50):
        start = StartTree(10**12, np.empty(0, dtype=np.uint8), NONE)
        for message in (start, opening(), replace(opening(), n_rows=1), OpenModel(b"m" * 16, 0, NONE)):
            assert isinstance(Talk(bank, bytes([k]) * 16).ask(message), messages.Refusal)
    assert len(caplog.records) <= 4
    assert all(record.getMessage().startswith("refused acme") for record in caplog.records)


class Dying(Local):
    """Local's process is killed before it begins a tree."""

    def __init__(self, service, dies_at=None):
        super().__init__(service)
        self.dies_at = dies_at

    def handle(self, request):
        message = messages.read(request).message
        if isinstance(message, StartTree) and message.tree == self.dies_at:
            self.dies_at, self.service = None, None
        if self.service is None:
            raise KeyboardInterrupt
        return super().handle(request)


def test_a_run_whose_process_was_killed_gets_its_memory_back(service, tmp_path):
    """What is left of its session must not be in the way of the next one."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(N_ROWS, 2)), random.integers(0, 2, size=N_ROWS)
    params = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 4, "base_score": 0.5}
    cipher = xgb_fed.OkamotoUchiyama(1024, allow_weak_key=True)

    def trained(party, folder):
        data = xgb_fed.ActiveData(X, y)
        how = {"cipher": cipher, "verbose_eval": False, "checkpoint": tmp_path / folder}
        return xgb_fed.train(params, data, [party], 3, **how)

    bank = service(max_memory=45_000)
    caller = bank.known_caller(Identity("acme", "", NOBODY.expires))
    whole = trained(Local(bank), "whole")
    gc.collect()
    assert caller.memory.reserved < 45_000 // 4
    for dies_at in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            trained(Dying(bank, dies_at), "killed")
        assert caller.memory.reserved > 45_000 // 2
    resumed = trained(Local(bank), "killed")
    assert [tree.to_dict() for tree in resumed.trees] == [tree.to_dict() for tree in whole.trees]


def test_memory_of_sessions_left_by_crashes_is_given_back_when_it_is_needed(service, monkeypatch):
    bank = service(max_memory=60 * MIB // 10)
    start = StartTree(0, np.empty(0, dtype=np.uint8), np.arange(3, dtype=np.int32))
    left, live = Talk(bank, b"1" * 16), Talk(bank, b"2" * 16)
    for talk in (left, live):
        assert isinstance(talk.ask(opening(n_groups=100)), TrainingOpened)
        assert isinstance(talk.ask(start), messages.Done)
    # Nobody's session is ended for another one that is under way.
    assert "would take" in Talk(bank, b"3" * 16).ask(opening(n_groups=100)).reason
    (handler,) = bank.known_caller(Identity("acme", "", NOBODY.expires)).handlers.values()
    handler.sessions[left.session].last_request -= service_module.ABANDONED
    assert isinstance(Talk(bank, b"4" * 16).ask(opening(n_groups=100)), TrainingOpened)
    assert left.ask(start).reason == "no such session"
    assert isinstance(live.ask(replace(start, tree=1)), messages.Done)


def test_rows_that_nobody_uses_are_forgotten_for_those_of_a_new_session(service):
    pytest.importorskip("nacl")
    bank = service(max_memory=MIB)
    identity = Identity("acme", "", NOBODY.expires)
    sets = [align([Local(bank)], [str(i) for i in range(k, N_ROWS)]).digest for k in range(2)]
    bank.known_caller(identity).memory.max_bytes = 34_000
    for k, digest in enumerate(sets):
        talk = Talk(bank, bytes([k]) * 16)
        talk.row_sets = (digest,)
        assert isinstance(talk.ask(opening(n_rows=N_ROWS - k)), TrainingOpened)
        assert isinstance(talk.ask(messages.Finish()), messages.Done)


def opening_of(n_ids):
    return OpenAlignment(bytes(32), bytes(32), bytes(32), n_ids)


def test_memory_of_masked_ids_is_reserved_before_any_is_masked(service, monkeypatch):
    pytest.importorskip("nacl")
    bank = service(max_memory=BYTES_PER_ID * (N_ROWS + 50))
    memory = bank.known_caller(Identity("acme", "", NOBODY.expires)).memory
    assert len(align([Local(bank)], [str(k) for k in range(50)]).ids) == 50
    assert memory.reserved == 0
    monkeypatch.setattr(intersector_module, "OwnList", lambda *args: pytest.fail("masked"))
    assert "masked ids would take" in Talk(bank, b"1" * 16).ask(opening_of(51)).reason
    assert memory.reserved == 0


def test_memory_of_an_alignment_is_held_until_it_ends_or_is_abandoned(service):
    bank = service(max_memory=BYTES_PER_ID * (N_ROWS + 50))
    caller = bank.known_caller(Identity("acme", "", NOBODY.expires))
    for k in range(3):
        # A new one takes the place of the one before.
        assert isinstance(Talk(bank, bytes([k]) * 16).ask(opening_of(50)), AlignmentOpened)
        assert caller.memory.reserved == BYTES_PER_ID * (N_ROWS + 50)
    with pytest.raises(ProtocolError, match="would take"):
        caller.memory.reserve(1 << 10, "something else")
    caller.intersector.run.last_answer -= service_module.ABANDONED
    room = caller.memory.reserve(1 << 10, "something else")
    assert caller.memory.reserved == room.n_bytes
    assert "without an intersection" in Talk(bank, bytes([2]) * 16).ask(MaskIds()).reason


def test_memory_of_a_refused_alignment_is_given_back(service):
    bank = service()
    memory = bank.known_caller(Identity("acme", "", NOBODY.expires)).memory
    talk = Talk(bank, b"1" * 16)
    assert isinstance(talk.ask(opening_of(5)), AlignmentOpened)
    assert memory.reserved == BYTES_PER_ID * (N_ROWS + 5)
    assert "not due" in talk.ask(TellIds(b"")).reason
    assert memory.reserved == 0


def test_an_alignment_under_way_does_not_hold_up_the_callers_other_requests(service, monkeypatch):
    pytest.importorskip("nacl")
    bank, begun, released = service(), Event(), Event()
    mask_more = masked_ids.OwnList.mask_more

    def slow(own):
        begun.set()
        assert released.wait(600)
        return mask_more(own)

    monkeypatch.setattr(masked_ids.OwnList, "mask_more", slow)
    talk = Talk(bank, b"1" * 16)
    assert isinstance(talk.ask(opening_of(1)), AlignmentOpened)
    with ThreadPoolExecutor(2) as pool:
        alignment = pool.submit(talk.ask, MaskIds())
        assert begun.wait(300)
        opened = pool.submit(Talk(bank, b"2" * 16).ask, opening())
        try:
            assert isinstance(opened.result(300), TrainingOpened)
            assert not alignment.done()
        finally:
            released.set()
        assert isinstance(alignment.result(300), IdsMasked)


def test_memory_attack_by_sets_of_categories_is_refused():
    """An allowed party asks for a split that sends nearly all of 8,000 categories right, in every tree."""
    codes = np.arange(N_ROWS, dtype=np.float32)
    codes[0] = 7_999
    columns = read_columns(codes[:, None], feature_types=["c"])
    bank, key = PassiveParty(columns, [], {}, memory=MemoryAllowance(8 * MIB)), xgb_fed.Plain().generate()
    talk = Talk(bank, b"1" * 16)
    in_clear = replace(opening(), public_key=key.public.public_bytes())
    assert isinstance(talk.ask(in_clear), TrainingOpened)
    values = key.public.to_bytes(key.encrypt([1] * N_ROWS))
    right = np.ones(8_000, dtype=bool)
    right[5] = False
    at_root = np.zeros(1, dtype=np.int32)
    split = SplitCategories(at_root, at_root, at_root - 1, np.zeros(1, dtype=np.uint8), np.packbits(right))
    requests = (Gradients(0, 0, values), FindSplits(NO_FLAGS, NO_FLAGS), split)
    answers = []
    for tree in range(30):
        answers += [talk.ask(one) for one in (StartTree(tree, NO_FLAGS, at_root), *requests)]
    refusals = [answer.reason for answer in answers if isinstance(answer, messages.Refusal)]
    assert "would take" in refusals[0]
    n_splits = sum(isinstance(answer, Assignments) for answer in answers)
    assert 2 < n_splits < 8 * MIB // (40 * 7_999)
