"""Who may go on with a training run, and how: one session at a time, on the same terms, losing nothing."""

import numpy as np
import pytest

import xgb_fed
from counted_answers import layout
from drawn_secrets import spellings
from full_disks import AsServed, FullDisk, full_now_and_then
from gbdt_parties import messages
from gbdt_parties.errors import ProtocolError
from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.transport.server import NOBODY
from kept_stores import end_process
from small_keys import key_of
from xgb_fed.boosting.features import read_columns
from xgb_fed.vertical.passive.journal import Journals, ResumptionTerms
from xgb_fed.vertical.passive.party import PassiveParty
from xgb_fed.vertical.passive.service import Limits, PassiveService
from xgb_fed.vertical.protocol.messages import (
    Assignments,
    FindSplits,
    Gradients,
    OpenTraining,
    ResumeTraining,
    SplitNodes,
    StartTree,
    TrainingOpened,
)
from xgb_fed.vertical.protocol.splits import Splits
from xgb_fed.vertical.training import rounds as rounds_module

N_ROWS = 60
KEY = key_of(xgb_fed.OkamotoUchiyama, 1024)
NOTHING = np.empty(0, dtype=np.uint8)
RUN = b"M" * 16


class Talk:
    """One session at a party."""

    def __init__(self, party, session):
        self.party, self.session, self.sequence = party, session, 0

    def ask(self, message):
        request = messages.write(self.session, self.sequence, message)
        self.sequence += 1
        return messages.read(self.party.handle(request)).message

    def open(self, n_rows=N_ROWS, key=KEY, max_bin=8):
        none = np.empty(0, dtype=np.int32)
        bits, n_groups = layout(n_rows, key=key)
        rest = {
            "n_rows": n_rows,
            "max_bin": max_bin,
            "field_bits": bits,
            "n_groups": n_groups,
            "max_depth": 4,
        }
        return self.ask(
            OpenTraining(
                public_key=key.public.public_bytes(), rows=none, eval_rows=none.astype(np.int64), **rest
            )
        )

    def grow(self, tree, n_rows=N_ROWS, key=KEY):
        """One tree with one split; the answer to the last question."""
        answer = self.ask(StartTree(tree, NOTHING, np.arange(3, dtype=np.int32)))
        if not isinstance(answer, messages.Done):
            return answer
        self.ask(Gradients(0, 0, key.public.to_bytes(key.encrypt([1] * n_rows))))
        self.ask(FindSplits(NOTHING, NOTHING))
        place = [np.array([k], dtype=np.int32) for k in (0, 0, 3)]
        return self.ask(SplitNodes(*place, np.array([0], dtype=np.uint8)))


@pytest.fixture
def party():
    """Parties of the same rows, or fewer, that share splits and journals, as one caller's at a server do."""
    X = np.random.default_rng(0).normal(size=(N_ROWS, 3))
    splits, journals = {}, Journals()

    def make(n_rows=N_ROWS):
        return PassiveParty(read_columns(X[:n_rows]), [], splits, journals=journals)

    make.splits = splits
    return make


def test_a_run_that_another_session_took_up_first_keeps_that_ones_terms(party):
    one, two = Talk(party(), RUN), Talk(party(50), b"2" * 16)
    other_key = key_of(xgb_fed.Paillier, 1024)
    one.open()
    two.open(50, other_key, 16)
    assert isinstance(two.ask(ResumeTraining(RUN, 0)), messages.Done)
    assert "changed since the training run began" in one.grow(0).reason
    assert isinstance(two.grow(0, 50, other_key), Assignments)


def test_a_run_under_way_is_not_taken_up_on_other_terms(party):
    one, two = Talk(party(), RUN), Talk(party(50), b"2" * 16)
    one.open()
    assert isinstance(one.grow(0), Assignments)
    two.open(50)
    assert "changed since the training run began" in two.ask(ResumeTraining(RUN, 0)).reason
    assert isinstance(one.grow(1), Assignments)


def test_a_session_whose_run_was_taken_up_elsewhere_writes_no_more(party):
    one, two = Talk(party(), RUN), Talk(party(), b"2" * 16)
    one.open()
    one.grow(0)
    two.open()
    assert isinstance(two.ask(ResumeTraining(RUN, 1)), messages.Done)
    assert "another session has taken up" in one.grow(1).reason
    two.grow(1)
    assert isinstance(two.ask(messages.Finish()), messages.Done)
    assert len(party.splits[RUN]) == 2


def test_a_run_that_another_session_finished_is_not_replaced_by_fewer_splits(party):
    one, two = Talk(party(), RUN), Talk(party(), b"2" * 16)
    one.open()
    two.open()
    one.grow(0)
    assert isinstance(one.ask(messages.Finish()), messages.Done)
    assert "not kept 0 splits" in two.ask(ResumeTraining(RUN, 0)).reason
    assert len(party.splits[RUN]) == 1


@pytest.mark.parametrize("ended", [True, False])
def test_the_number_of_a_run_opens_no_session_after_a_restart(party, ended):
    one = Talk(party(), RUN)
    one.open()
    one.grow(0)
    if ended:
        one.ask(messages.Finish())
    answer = Talk(party(), RUN).open()
    assert "can only be resumed" in answer.reason
    assert isinstance(Talk(party(), b"2" * 16).open(), TrainingOpened)


def test_a_journal_is_not_started_with_splits_that_it_does_not_hold():
    journals, terms = Journals(), ResumptionTerms("plain", 64, 8, "rows", "data")
    splits = Splits(["a", "b"])
    splits.add(0, 1.0, True)
    journals.start(RUN, terms, splits)
    other = Splits(["a", "b"])
    other.add(1, 1.0, True)
    with pytest.raises(ProtocolError, match="kept all splits"):
        journals.start(RUN, terms, other)
    journals.start(RUN, terms, splits.first(0))


class Served:
    """A server's table of named rows as acme reaches it, with an alignment for each set of rows."""

    def __init__(self, X, folder, names):
        class Table:
            columns, ids, has_ids = read_columns(X, "X"), names, True

        limits = Limits(min_rows=2, allow_weak_key=True, max_statistics=np.inf)
        end_process(folder)
        self.service = PassiveService(Table, folder, "bank", limits)
        self.caller = Identity("acme", "", NOBODY.expires)

    def aligned(self, rows):
        alignment = Alignment(tuple(sorted(f"p{row:03d}" for row in rows)))
        alignment.save(self.service.known_caller(self.caller).rows_file(alignment.digest))
        return alignment.digest

    def session(self, session, *sets):
        """A session opened on training rows and evaluation sets."""
        digests = tuple(map(self.aligned, sets))
        talk = Talk(self, session)
        self.handle = lambda request: self.service.handle(self.caller, digests, request)
        none = np.empty(0, dtype=np.int32)
        bits, n_groups = layout(len(sets[0]), key=KEY)
        own = np.array([len(rows) for rows in sets[1:]], dtype=np.int64)
        public = KEY.public.public_bytes()
        opened = talk.ask(OpenTraining(public, len(sets[0]), 8, bits, n_groups, 4, none, own))
        assert isinstance(opened, TrainingOpened), opened
        return talk


@pytest.mark.parametrize("has_evaluation", [True, False])
def test_a_resumption_never_tells_whether_rows_are_equal(tmp_path, has_evaluation):
    """Neither those of an evaluation set, of one row here, nor those trained on: all answers are the same."""
    X = np.repeat(np.random.default_rng(0).normal(size=(N_ROWS // 4, 2)), 4, axis=0)
    served = Served(X, tmp_path, [f"p{k:03d}" for k in range(N_ROWS)])

    def sets(row):
        return (range(20, N_ROWS), [row]) if has_evaluation else ([row, *range(20, N_ROWS)],)

    first = served.session(RUN, *sets(0))
    assert isinstance(first.ask(StartTree(0, NOTHING, np.arange(2, dtype=np.int32))), messages.Done)
    first.ask(messages.Abort())
    reasons, equal = set(), set()
    for row in range(1, 12):
        talk = served.session(bytes([row]) * 16, *sets(row))
        reasons.add(getattr(talk.ask(ResumeTraining(RUN, 0)), "reason", "resumed"))
        talk.ask(messages.Abort())
        equal.add(bool((X[row] == X[0]).all()))
    assert equal == {True, False}
    assert reasons == {"the rows, or max_bin, have changed since the training run began"}
    again = served.session(b"a" * 16, *sets(0))
    assert isinstance(again.ask(ResumeTraining(RUN, 0)), messages.Done)


@pytest.mark.parametrize("row", [0, 30])
def test_a_resumption_finds_that_values_of_the_same_rows_have_changed(tmp_path, row):
    X, names = np.random.default_rng(0).normal(size=(N_ROWS, 2)), [f"p{k:03d}" for k in range(N_ROWS)]
    sets = range(20, N_ROWS), [0]
    first = Served(X, tmp_path, names).session(RUN, *sets)
    first.ask(StartTree(0, NOTHING, np.arange(2, dtype=np.int32)))
    order = np.random.default_rng(1).permutation(N_ROWS)
    moved = Served(X[order], tmp_path, [names[k] for k in order])
    assert isinstance(moved.session(b"2" * 16, *sets).ask(ResumeTraining(RUN, 0)), messages.Done)
    X[row] += 1
    changed = Served(X, tmp_path, names).session(b"3" * 16, *sets)
    answer = changed.ask(ResumeTraining(RUN, 0))
    assert answer.reason == "this party's data has changed since the training run began"


def test_a_full_disk_at_a_served_party_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("gbdt_parties.patience.SECONDS_BETWEEN_TRIES", 0.0)
    X = np.random.default_rng(0).normal(size=(N_ROWS, 4)).astype(np.float32)
    data = xgb_fed.ActiveData(X[:, :2], (X.sum(axis=1) > 0).astype(np.float32))
    disk = FullDisk(tmp_path, monkeypatch)

    def run(k):
        served = Served(X[:, 2:], tmp_path / str(k), [f"p{row:03d}" for row in range(N_ROWS)])
        digest = served.aligned(range(N_ROWS))

        class Party:
            name = "bank"

            def handle(self, request):
                return served.service.handle(served.caller, (digest,), request)

        cipher = xgb_fed.OkamotoUchiyama(1024, allow_weak_key=True)
        how = {"verbose_eval": False, "patience": 30.0}
        monkeypatch.setattr(type(cipher), "generate", lambda self: KEY)
        params = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 8}
        disk.begin()
        model = xgb_fed.train(params, data, [AsServed(Party())], 2, cipher=cipher, **how)
        disk.end()
        served.service.close()
        return [tree.to_dict() for tree in model.trees]

    results = full_now_and_then(disk, run)
    assert results == [results[0]] * 6


def test_an_ended_run_keeps_no_seed_and_no_key(tmp_path, monkeypatch):
    """Neither side: nothing that a run has drawn, but the number of its model."""
    X = np.random.default_rng(0).normal(size=(N_ROWS, 4)).astype(np.float32)
    y, seeds = (X.sum(axis=1) > 0).astype(np.float32), []
    served = Served(X[:, 2:], tmp_path / "bank", [f"p{k:03d}" for k in range(N_ROWS)])
    digest = served.aligned(range(N_ROWS))

    class Party:
        name = "bank"

        def handle(self, request):
            return served.service.handle(served.caller, (digest,), request)

    def noted(seed, tree, do=rounds_module.stream_of_tree):
        seeds.append(seed)
        if tree == 1:
            assert in_files(seeds[:1])
        return do(seed, tree)

    def in_files(numbers):
        size = -(-max(numbers).bit_length() // 8)
        spelt = [n.to_bytes(size, order) for n in numbers for order in ("big", "little")]
        spelt = [text for one in spelt for text in spellings(one)] + [str(n).encode() for n in numbers]
        files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
        return [text for text in spelt if any(text in file for file in files)]

    class Cipher(xgb_fed.OkamotoUchiyama):
        def generate(self):
            return KEY

    monkeypatch.setattr(rounds_module, "stream_of_tree", noted)
    params = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 8, "subsample": 0.8}
    cipher, how = Cipher(1024, allow_weak_key=True), {"checkpoint": tmp_path / "own", "verbose_eval": False}
    xgb_fed.train(params, xgb_fed.ActiveData(X[:, :2], y), [Party()], 2, cipher=cipher, **how)
    assert len(set(seeds)) == 1
    secret = [n for n in vars(KEY).values() if isinstance(n, int) and n.bit_length() > 128]
    assert secret
    assert not in_files([*seeds, *secret])
    served.service.close()
