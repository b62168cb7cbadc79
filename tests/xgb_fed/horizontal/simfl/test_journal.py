"""The journals of SimFL's runs at a party, of which the oldest are removed."""

import numpy as np
import pytest

from gbdt_commons.store import MemoryStore
from gbdt_parties.errors import RunLostError
from gbdt_parties.run.log import MAX_RUNS, RUNS, RunLog
from xgb_fed.horizontal.common.messages import Trees
from xgb_fed.horizontal.simfl.journal import RunJournal, RunStart, size_of

START = RunStart("{}", "[]", 0, [4, 5], 1, [0.5], 7, {1: np.arange(32, dtype=np.int32).reshape(16, 2)})
TREES = Trees(np.array([5], dtype=np.int64), b"trees")


def test_what_was_kept_is_taken_up():
    log = RunLog(MemoryStore(), b"r" * 16)
    run = RunJournal.begin(log, START, "rows")
    run.add(TREES, True)
    run.add(TREES, False)
    again = RunJournal.take_up(log, "rows")
    assert [is_own for _, is_own in again.rounds] == [True, False]
    assert again.start.opening(3).params == "{}"
    np.testing.assert_array_equal(again.start.similar[1], START.similar[1])


def test_a_run_whose_journal_was_removed_goes_on_and_leaves_no_rounds_without_a_start():
    store = MemoryStore()
    log = RunLog(store, b"r" * 16)
    live = RunJournal.begin(log, START, "rows")
    runs = [bytes([k]) * 16 for k in range(MAX_RUNS)]
    for run in runs:
        RunJournal.begin(RunLog(store, run), START, "rows")
    live.add(TREES, True)
    live.add(TREES, False)
    assert len(live.rounds) == 2
    assert set(store.keys(RUNS)) == {run.hex() for run in runs}
    assert size_of(log) == 0
    with pytest.raises(RunLostError, match="the run"):
        RunJournal.take_up(log, "rows")
