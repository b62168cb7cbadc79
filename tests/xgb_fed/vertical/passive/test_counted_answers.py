"""Every answer of a passive party that depends on its data is counted, or follows from one that is.

Equations are counted, of gradients that the active party encrypted honestly.  Refusals to resume
tell that the party's own data has changed (`test_runs_taken_up`).
"""

from datetime import datetime, timezone

import numpy as np
import pytest

from counted_answers import (
    KEY,
    ROOT,
    Equations,
    HonestLooking,
    Talk,
    gradients,
    opening,
    predicted,
    route,
    split,
    start,
)
from gbdt_commons.errors import StoreError
from gbdt_commons.store import bytes_kind
from gbdt_parties import messages
from gbdt_parties.errors import ProtocolError
from gbdt_parties.identity.alignment_messages import REQUESTS as ALIGNMENT
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.messages import to_bits
from kept_stores import end_process, restarted
from xgb_fed.boosting.features import SplitRule, read_columns
from xgb_fed.vertical.passive.disclosed_statistics import DisclosedStatistics, n_classes_of
from xgb_fed.vertical.passive.party import PassiveParty
from xgb_fed.vertical.passive.service import Limits, PassiveService
from xgb_fed.vertical.passive.told_thresholds import TOLD, ToldThresholds
from xgb_fed.vertical.protocol.messages import (
    ContinueTraining,
    FindSplits,
    Gradients,
    OpenModel,
    OpenTraining,
    ResumeTraining,
    RevealSplits,
    RouteRows,
    SplitCategories,
    SplitNodes,
    StartTree,
    TellColumns,
    TellSides,
)
from xgb_fed.vertical.protocol.packing import packing_for

STATISTICS, THRESHOLDS = "adds to the statistics per row", "adds thresholds that are new"
FOLLOWS = "tells sides at thresholds that are counted already"
CONSENT = "tells splits that are counted already, with a consent of its own"
NOTHING = "answers that it is done"
QUESTIONS = "is counted as a question, see test_service_alignment"

DECISIONS = {
    OpenTraining: STATISTICS,
    FindSplits: STATISTICS,
    SplitNodes: THRESHOLDS,
    SplitCategories: THRESHOLDS,
    OpenModel: THRESHOLDS,
    ContinueTraining: THRESHOLDS,
    ResumeTraining: THRESHOLDS,
    RouteRows: FOLLOWS,
    TellSides: FOLLOWS,
    TellColumns: CONSENT,
    RevealSplits: CONSENT,
    StartTree: NOTHING,
    Gradients: NOTHING,
    messages.Finish: NOTHING,
    messages.Abort: NOTHING,
    **dict.fromkeys(ALIGNMENT, QUESTIONS),
}
"""How each message that a passive party answers is counted.  A new one needs a decision."""

N = 60
RANDOM = np.random.default_rng(5)
X = np.column_stack(
    [
        RANDOM.integers(0, 4, N),
        np.where(RANDOM.random(N) < 0.2, np.nan, RANDOM.integers(0, 5, N)),
        RANDOM.integers(0, 3, N),
    ]
).astype(np.float32)


class Party(PassiveParty):
    """A party whose counts, and splits, the test sees."""

    def __init__(self, *args, **how):
        self.given, self.thresholds = DisclosedStatistics(), ToldThresholds()
        super().__init__(*args, given=self.given, thresholds=self.thresholds, **how)

    def splits_of(self, number):
        if number in self.sessions:
            return self.sessions[number].kept.splits
        return self.splits_by_model.get(number)

    @property
    def counts(self):
        return self.given.per_row, {name: self.thresholds.of(name) for name in self.columns.names}


def test_every_message_that_is_answered_has_a_decision():
    answered = {*PassiveService.opening, *PassiveService.requests, *ALIGNMENT}
    assert set(DECISIONS) == answered
    assert set(PassiveParty.requests) | set(PassiveParty.opening) == answered - set(ALIGNMENT)


def table(**how):
    columns = read_columns(X, "X", feature_types=["q", "q", "c"])
    return Party(columns, [columns], {}, allow_explanations="per-feature", allow_export=True, **how)


def category_split(nodes, column, right):
    plain = split(nodes, column, -1)
    return SplitCategories(**plain.__dict__, right=to_bits(np.array(right, dtype=bool)))


def whole_run(party):
    """A message of each kind that sessions answer, in a context in which it is answered."""
    talk = Talk(party.handle)
    ids = np.array([0, 1], dtype=np.int32)
    yield talk, opening(N, eval_rows=[N])
    yield talk, start([0, 1, 2])
    yield talk, gradients(N)
    yield talk, ROOT
    yield talk, category_split([0], 2, [False, True, False])
    yield talk, FindSplits(np.array([2], dtype=np.uint8), np.empty(0, dtype=np.uint8))
    yield talk, split([0], 0, 1)
    yield talk, route(N, [0, 1], dataset=1)
    yield talk, messages.Finish()
    asked = Talk(party.handle)
    yield asked, predicted(talk.session, np.arange(N))
    yield asked, route(N, [0, 1])
    yield asked, TellSides(ids)
    yield asked, TellColumns(ids, np.zeros(2, dtype=np.int32))
    yield asked, RevealSplits()
    yield asked, messages.Finish()
    more = Talk(party.handle)
    yield more, opening(N, eval_rows=[N], max_bin=7)
    yield more, ContinueTraining(talk.session, 2)
    yield more, messages.Abort()
    again = Talk(party.handle)
    yield again, opening(N, eval_rows=[N], max_bin=7)
    yield again, ResumeTraining(more.session, 2)


def test_each_answer_that_depends_on_data_changes_the_count():
    """With counts that begin anew before each message, so that none is changed by accident."""
    party, seen = table(), set()
    for talk, message in whole_run(party):
        party.given = DisclosedStatistics()
        party.thresholds = ToldThresholds()
        answer = talk.ask(message)
        assert not isinstance(answer, messages.Refusal), (message, answer)
        per_row, thresholds = party.counts
        assert (per_row > 0) == (DECISIONS[type(message)] is STATISTICS), message
        assert (sum(thresholds.values()) > 0) == (DECISIONS[type(message)] is THRESHOLDS), message
        if DECISIONS[type(message)] is NOTHING:
            assert isinstance(answer, messages.Done)
        seen.add(type(message))
    assert seen == set(DECISIONS) - set(ALIGNMENT)


def test_what_is_not_counted_follows_from_splits_that_are():
    party, n_splits = table(), 0
    for talk, message in whole_run(party):
        if DECISIONS[type(message)] in (FOLLOWS, CONSENT):
            splits, before = party.splits_of(talk.session), party.counts
            party.thresholds.add(splits.names, [splits.rule(k) for k in range(len(splits))])
            assert party.counts == before, "a split that can be asked about is not counted"
            n_splits += len(splits)
        talk.ask(message)
    assert n_splits == 2 * 5


def test_the_same_answers_again_cost_nothing():
    party = table()
    for talk, message in whole_run(party):
        talk.ask(message)
    counted, model = party.counts, next(iter(party.splits_by_model))
    for rows in (np.arange(N), np.arange(5)):
        asked = Talk(party.handle)
        asked.ask(predicted(model, rows))
        assert not isinstance(asked.ask(route(len(rows), [0, 1])), messages.Refusal)
    Talk(party.handle).ask(opening(N, eval_rows=[N]))
    assert party.counts == counted


@pytest.mark.parametrize("seed", range(4))
def test_no_more_equations_are_given_than_are_counted(seed):
    """The rank of what random sessions tell, on random rows and samples, against the counts."""
    random = np.random.default_rng(seed)
    columns = read_columns(X, "X")
    party, equations = Party(columns, [], {}), Equations(X)
    n_answers = 0
    for _ in range(6):
        for _ in HonestLooking(party, equations, random, n_classes=1 + seed % 2).run():
            n_answers += 1
            assert equations.of_one_bin() <= party.given.per_row * N + 1e-9
            for column, name in enumerate(columns.names):
                n_thresholds = party.thresholds.of(name)
                assert equations.of_sides(column) <= N * (n_thresholds + (n_thresholds > 0))
    assert n_answers > 25
    assert equations.of_one_bin() > 0.3 * N, "the sessions ask for little"
    assert sum(map(equations.of_sides, range(3))) > N


def test_powers_of_two_tell_more_than_is_counted():
    """The documented limit of counting: one root with honest layout, and the bins of all cells are known."""
    party = Party(read_columns(X, "X"), [], {})
    talk = Talk(party.handle)
    asked = opening(N)
    opened = talk.ask(asked)
    talk.ask(start([0, 1, 2]))
    powers = KEY.public.to_bytes(KEY.encrypt([1 << k for k in range(N)]))
    talk.ask(Gradients(0, 0, powers))
    answer = talk.ask(ROOT)
    per = (KEY.public.plaintext_limit.bit_length() - 1) // asked.field_bits
    plaintexts = KEY.decrypt(KEY.public.from_bytes(answer.sums))
    field = (1 << asked.field_bits) - 1
    sums = [v >> asked.field_bits * (per - 1 - k) & field for v in plaintexts for k in range(per)]
    occupied = np.flatnonzero(answer.counts)
    bins = np.full(X.shape, -1)
    offsets = np.concatenate([[0], np.cumsum(opened.n_bins + 1)])
    for place, rows in zip(occupied, sums, strict=False):
        column = int(np.searchsorted(offsets, place, side="right")) - 1
        told = [k for k in range(N) if rows >> k & 1]
        bins[told, column] = place - offsets[column]
    missing = np.isnan(X)
    assert (np.where(missing, opened.n_bins, X) == bins).all()
    assert party.given.per_row == pytest.approx(4 / N)


def test_samples_are_counted_by_their_own_rows():
    """Trees on the same few rows of a large run tell of them as much as runs on these rows alone."""
    party = Party(read_columns(np.repeat(X, 10, axis=0), "X"), [], {})
    talk = Talk(party.handle)
    talk.ask(opening(10 * N))
    before = party.given.per_row
    talk.ask(start([0, 1], np.arange(10 * N) < 20))
    talk.ask(gradients(20))
    talk.ask(ROOT)
    assert party.given.per_row - before == pytest.approx(3 / 20)


@pytest.mark.parametrize(("n_classes", "n_groups"), [(1, 1), (3, 1), (2, 4), (18, 1)])
@pytest.mark.parametrize("n_rows", [2, 1000, 150_000])
def test_classes_in_a_ciphertext_are_counted(n_classes, n_groups, n_rows):
    packing = packing_for(n_rows, n_classes, 1 << 8192)
    field_bits = packing.gh.bits * packing.classes_per_ciphertext
    assert n_classes_of(field_bits, n_groups, n_rows) == n_groups * n_classes
    given = DisclosedStatistics()
    given.add(5, n_classes, n_rows)
    assert given.per_row == pytest.approx(5 * (1 + 2 * n_classes) / n_rows)


def test_a_limit_of_thresholds_ends_the_run_before_sides_are_told():
    party = Party(read_columns(X, "X"), [], {})
    party.thresholds = ToldThresholds(limit=1)
    talk = Talk(party.handle)
    for message in (opening(N), start([0, 1, 2]), gradients(N), ROOT):
        talk.ask(message)
    refused = talk.ask(split([0], 0, 0))
    assert not isinstance(refused, messages.Refusal)
    talk.ask(FindSplits(np.array([2], dtype=np.uint8), np.empty(0, dtype=np.uint8)))
    assert not isinstance(talk.ask(split([1], 1, 0)), messages.Refusal)  # another column
    talk.ask(FindSplits(np.array([0, 2], dtype=np.uint8), np.empty(0, dtype=np.uint8)))
    refused = talk.ask(split([0], 0, 2))
    assert "--max-thresholds" in refused.reason
    assert all(name not in refused.reason for name in party.columns.names)


def test_one_tree_that_names_its_own_splits_reads_a_column_at_so_many_thresholds():
    """What `max_thresholds` bounds, and statistics hardly: three sums for each of a few nodes."""
    party = Party(read_columns(X[:, :1], "X"), [], {})
    talk = Talk(party.handle)
    for message in (opening(N, max_depth=9), start([0]), gradients(N), ROOT, split([0], 0, 1)):
        answer = talk.ask(message)
    assert (to_bits(X[:, 0] < 2) == answer.left_rows).all()
    assert party.counts == (pytest.approx(4 / N), {"f0": 1})


def test_thresholds_are_kept_over_restarts_and_damage_is_found(tmp_path):
    names = ["age", "city"]
    told = ToldThresholds(3, restarted(tmp_path))
    told.add(names, [SplitRule(0, 1.5, True), SplitRule(0, 1.5, False), SplitRule(1, 0.0, True, (1, 2))])
    told.add(names, [SplitRule(0, float("-inf"), True)])
    for _ in range(2):
        told = ToldThresholds(3, restarted(tmp_path))
        assert (told.of("age"), told.of("city"), told.of("other"), len(told)) == (2, 1, 0, 2)
        told.add(names, [SplitRule(0, 1.5, True)])
    told.add(names, [SplitRule(0, 2.5, True)])
    before = list(told.store.entries(TOLD, ""))
    with pytest.raises(ProtocolError, match=r"3 thresholds.*column.*3"):
        told.add(names, [SplitRule(1, 0.0, True, (1,)), SplitRule(0, 3.5, True)])
    assert (list(told.store.entries(TOLD, "")), told.of("city")) == (before, 1)
    told = ToldThresholds(3, restarted(tmp_path))
    told.add(names, [SplitRule(1, 0.0, True, (2,))])
    assert ToldThresholds(3, restarted(tmp_path)).of("city") == 2
    for damaged in (b"[", b"[1]", b'{"age": 7}'):
        restarted(tmp_path).append(bytes_kind(TOLD.name), "", damaged)
        with pytest.raises(StoreError, match="told thresholds"):
            ToldThresholds(3, restarted(tmp_path))
        restarted(tmp_path).delete(TOLD, "", 3)
    end_process(tmp_path)
    path = tmp_path / "party.store"
    path.write_bytes(path.read_bytes().replace(b"age", b"agf"))
    with pytest.raises(StoreError, match="damaged at record"):
        restarted(tmp_path)
    with pytest.raises(ProtocolError, match="nan at most"):
        ToldThresholds(float("nan")).add(names, [SplitRule(0, 1.5, True)])


def test_a_disk_that_fails_tells_nothing(tmp_path, monkeypatch):
    told = ToldThresholds(store=restarted(tmp_path))

    def broken(*_, **__):
        raise OSError(5, "broken")

    with monkeypatch.context() as patch:
        patch.setattr(told.store, "append", broken)
        with pytest.raises(OSError, match="broken"):
            told.add(["age"], [SplitRule(0, 1.5, True)])
    assert len(told) == 0


def test_a_server_counts_thresholds_for_each_caller_and_keeps_them(tmp_path):
    class Table:
        columns, ids, has_ids = read_columns(X, "X"), [f"p{k}" for k in range(N)], False

    def session(caller):
        end_process(tmp_path)
        service = PassiveService(
            Table, tmp_path, "bank", Limits(min_rows=2, allow_plain=True, max_statistics=9)
        )
        who = Identity(caller, "", datetime.max.replace(tzinfo=timezone.utc))
        talk = Talk(lambda request: service.handle(who, (), request))
        for message in (opening(N), start([0]), gradients(N), ROOT, split([0], 0, 1)):
            talk.ask(message)
        return ToldThresholds(store=service.store_of(caller))

    assert [len(session(caller)) for caller in ("acme", "acme", "umbrella")] == [1, 1, 1]
