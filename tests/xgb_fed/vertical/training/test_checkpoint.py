import json
import os
from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse
import xgboost

import xgb_fed
from gbdt_commons.files import digest_of
from gbdt_commons.store import bytes_kind
from gbdt_commons.store_file import StoreFile
from gbdt_parties.traffic import Flow
from kept_stores import end_process, restarted
from xgb_fed.boosting.objectives import XGBoostObjective
from xgb_fed.errors import CheckpointError
from xgb_fed.vertical.model.model import VerticalModel
from xgb_fed.vertical.protocol.splits import Splits
from xgb_fed.vertical.training.checkpoint import (
    ENTRY,
    ROLE,
    STORE_FILE,
    VerticalCheckpoint,
    VerticalJournal,
    VerticalProgress,
)
from xgb_fed.vertical.trees.tree import ROOT, FederatedTree
from xgb_fed.vertical.trees.tree_record import Restart

NAMES = ["a", "b"]
N_ROWS, N_EVAL = 4, 3


def beginning():
    margins = [np.full((n, 1), 0.25, dtype=np.float32) for n in (N_ROWS, N_EVAL)]
    objective, splits = XGBoostObjective("reg:squarederror"), Splits(list(NAMES))
    model = VerticalModel(b"", objective, [0.25], splits, ["bank"], [])
    return VerticalProgress(model, 0, margins[0], margins[1:])


def grow(progress, checkpoint):
    """A round of one tree, with a split of the active party, and one of a passive one below it."""
    number = len(progress.model.trees)
    random = np.random.default_rng(number)
    tree, eta = FederatedTree(), np.float32(0.3)
    for parent in (ROOT, 0, 0, 1, 1):
        tree.add(parent, random.normal(size=1).astype(np.float32), eta, number + 2.5)
    tree.split(0, 0, progress.model.splits.add(number % 2, number / 3, bool(number % 2)), 1, 2, 0.75)
    tree.split(1, 1, number, 3, 4, 0.25)
    checkpoint.keep_under_way({"tree": number})
    progress.model.trees.append(tree)
    progress.leaves.append(random.choice([2, 3, 4], N_ROWS).astype(np.int32))
    if number:
        progress.evaluations[number - 1] = f"[{number - 1}]\teval-logloss:0.5"
        progress.model.restarts.append(Restart(number, 1, "bank"))
    progress.model.traffic.flows["active", "bank", "Done"] = Flow(3 * number, 2**40, 7)
    checkpoint.add_tree(progress)
    end_round(progress, checkpoint)


def end_round(progress, checkpoint):
    eval_leaves = np.random.default_rng(len(progress.model.rounds)).choice([2, 3, 4], (N_EVAL, 1))
    checkpoint.add_round(progress, [eval_leaves.astype(np.int32)])
    progress.end_round([eval_leaves.astype(np.int32)])


def opened(tmp_path, training="digest"):
    """The journal of a folder, as a new process opens it."""
    end_process(tmp_path)
    checkpoint = VerticalCheckpoint(tmp_path, training)
    return VerticalJournal(checkpoint, StoreFile(checkpoint.folder / STORE_FILE, ROLE), training)


def kept(tmp_path, n_trees=2):
    """A training run's progress, and the journal that holds it."""
    end_process(tmp_path)
    VerticalCheckpoint(tmp_path, "digest").clear()
    journal, progress = opened(tmp_path), beginning()
    progress.model.model_id, progress.seed, progress.agreed = b"m" * 16, 2**62 + 1, ["columns"]
    journal.begin(progress)
    for _ in range(n_trees):
        grow(progress, journal)
    return journal, progress


def loaded(tmp_path):
    journal, progress = opened(tmp_path), beginning()
    assert journal.load(progress)
    return journal, progress


@contextmanager
def changed(tmp_path, kind=ENTRY):
    """The entries of a folder, to be changed in place, in a kind that may be their bytes."""
    store = restarted(tmp_path, STORE_FILE, ROLE)
    entries = list(store.entries(kind, ""))
    yield entries
    store.delete(kind, "")
    for entry in entries:
        store.append(kind, "", entry)
    store.close()


def assert_same(one, other):
    for name in ("model_id", "trees", "rounds", "splits", "restarts"):
        assert getattr(one.model, name) == getattr(other.model, name), name
    for name in ("seed", "evaluations", "agreed"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.model.traffic.flows == other.model.traffic.flows
    pairs = [(one.margin, other.margin)]
    pairs += [*zip(one.eval_margins, other.eval_margins, strict=True)]
    pairs += [*zip(one.leaves, other.leaves, strict=True)]
    for a, b in pairs:
        assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes())


def test_nothing_kept(tmp_path):
    with VerticalCheckpoint(tmp_path / "new" / "folder", "digest").taken_up() as journal:
        assert not journal.load(beginning())
        assert not journal.has_begun


def test_what_was_kept_is_taken_up_and_goes_on(tmp_path):
    _, expected = kept(tmp_path, 4)
    _, other = kept(tmp_path / "other")
    again, progress = loaded(tmp_path / "other")
    assert again.has_begun
    assert_same(progress, other)
    for _ in range(2):
        grow(progress, again)
    assert_same(progress, expected)
    _, progress = loaded(tmp_path / "other")
    assert_same(progress, expected)
    end_process(tmp_path / "other")
    VerticalCheckpoint(tmp_path / "other", "digest").clear()
    assert os.listdir(tmp_path / "other") == []


@pytest.mark.parametrize("n_whole", range(10))
def test_a_journal_that_a_crash_cut_off_goes_on_at_the_last_whole_entry(tmp_path, n_whole):
    """Trees, rounds and the tree under way are those of the whole entries; the run ends as undisturbed."""
    _, expected = kept(tmp_path, 3)
    with changed(tmp_path) as entries:
        del entries[1 + n_whole :]
    journal, progress = loaded(tmp_path)
    # In every round: what is under way, the tree, the end of the round.
    assert (len(progress.model.trees), len(progress.model.rounds) - 1) == ((n_whole + 1) // 3, n_whole // 3)
    assert progress.under_way == ({"tree": n_whole // 3} if n_whole % 3 == 1 else None)
    if progress.leaves:
        end_round(progress, journal)
    while len(progress.model.trees) < 3:
        grow(progress, journal)
    assert_same(progress, expected)
    assert_same(loaded(tmp_path)[1], expected)


def taken_up(tmp_path):
    """What can be taken up of a folder, or None if it is refused as damaged."""
    end_process(tmp_path)
    progress = beginning()
    try:
        with VerticalCheckpoint(tmp_path, "digest").taken_up() as journal:
            assert journal.load(progress)
    except CheckpointError as error:
        if "cannot be read" in str(error):
            return None
        raise
    return progress


WRONG_ORDERS = [(0, 3), (0, 1, 2, 2), (0, 1, 2, 3, 3), (0, 1, 2, 3, 6), (1, 2, 3)]


@pytest.mark.parametrize("order", WRONG_ORDERS, ids=str)
def test_entries_that_are_missing_or_there_twice_are_refused(tmp_path, order):
    """Whole entries, none damaged: one too few, one twice, no beginning."""
    kept(tmp_path)
    with changed(tmp_path) as entries:
        entries[:] = [entries[k] for k in order]
    with pytest.raises(CheckpointError, match="cannot be read"):
        loaded(tmp_path)


def test_entries_of_another_kind_are_refused(tmp_path):
    kept(tmp_path)
    with changed(tmp_path) as entries:
        entries.append(({"kind": "another", "number": 2}, []))
    with pytest.raises(CheckpointError, match="cannot be read"):
        loaded(tmp_path)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_the_end_at_any_write_leaves_the_last_progress(tmp_path, monkeypatch, error):
    kept(tmp_path, 1)
    expected = loaded(tmp_path)[1]
    journal, progress = loaded(tmp_path)
    write = StoreFile.write_entry

    def ends(*of_record):
        write(*of_record)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(StoreFile, "write_entry", ends)
        with pytest.raises(type(error)):
            grow(progress, journal)
    assert_same(loaded(tmp_path)[1], expected)
    again, progress = loaded(tmp_path)
    grow(progress, again)
    assert_same(loaded(tmp_path)[1], kept(tmp_path / "other", 2)[1])


def test_only_what_is_about_to_be_told_waits_for_the_disk(tmp_path, monkeypatch):
    """Nor is there more than one transaction for an entry."""
    begun, transaction = [], StoreFile.transaction

    @contextmanager
    def noted(self, *, sync=True):
        is_outer = not self.is_changing
        with transaction(self, sync=sync):
            yield
            if is_outer:
                kinds = [content.get("kind") for content, _ in self.entries(ENTRY, "")]
                begun.append((kinds[-1], sync))

    end_process(tmp_path)
    monkeypatch.setattr(StoreFile, "transaction", noted)
    journal, progress = kept(tmp_path, 2)
    level = [("under way", True), ("tree", False), ("round", False)]
    assert begun == [(None, True), *level, *level]
    journal.add_end(progress)
    assert begun[7:] == [("end", True)]


def test_an_ended_run_keeps_no_seed(tmp_path):
    """Rounds that are added to it have a seed of their own, which a crash does not change."""

    def is_there(progress):
        return any(str(progress.seed).encode() in path.read_bytes() for path in tmp_path.iterdir())

    journal, progress = kept(tmp_path)
    first = progress.seed
    assert is_there(progress)
    journal.add_end(progress)
    assert not is_there(progress)
    again, later = opened(tmp_path), beginning()
    later.seed = 2**61 + 3
    assert again.load(later)
    assert later.seed == 2**61 + 3
    grow(later, again)
    assert_same(loaded(tmp_path)[1], later)
    again, later = loaded(tmp_path)
    again.add_end(later)
    assert not is_there(later)
    later.seed = first
    assert not is_there(later)


def test_another_trainings_progress_is_refused_and_stays(tmp_path):
    _, expected = kept(tmp_path)
    with pytest.raises(CheckpointError, match="data, parameters"):
        opened(tmp_path, "another").load(beginning())
    assert_same(loaded(tmp_path)[1], expected)


def test_pickles_are_not_read(tmp_path):
    kept(tmp_path, 0)
    with changed(tmp_path, bytes_kind(ENTRY.name)) as entries:
        content = {"kind": "tree", "number": 0, "arrays": [["|O", [1]]]}
        entries.append(json.dumps(content).encode() + b"\n" + bytes(8))
    with pytest.raises(CheckpointError, match="cannot be read"):
        loaded(tmp_path)


def test_digests_tell_different_trainings_apart():
    X = np.arange(6.0).reshape(2, 3)
    sparse = scipy.sparse.csr_matrix(X)
    other = scipy.sparse.csr_matrix(X)
    other.data[0] += 1
    parts = [
        (X,),
        (X.T,),
        (X.reshape(3, 2),),
        (X.astype(np.float32),),
        (X + 1e-9,),
        (sparse,),
        (other,),
        (scipy.sparse.csc_matrix((4, 1)),),
        (scipy.sparse.csc_matrix((5, 1)),),
        (None,),
        (X, None),
        (None, X),
        ("ab", "c"),
        ("a", "bc"),
        (1.0,),
        (1,),
        (),
    ]
    assert len({digest_of(*part) for part in parts}) == len(parts)
    assert digest_of(X) == digest_of(np.asfortranarray(X)) == digest_of(X.copy())


def test_two_training_runs_do_not_share_a_folder(tmp_path):
    """Different seeds, one folder: the second run is refused, and the first one's model is its own."""
    X, y = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32), np.arange(80) % 2
    params = {
        "objective": "binary:logistic",
        "max_depth": 2,
        "max_bin": 8,
        "subsample": 0.5,
        "base_score": 0.5,
    }
    refused = []

    class AnotherRun(xgboost.callback.TrainingCallback):
        """Tries to use the same folder after every round."""

        def after_iteration(self, model, epoch, evals_log):
            with pytest.raises(CheckpointError, match=r"use.*object"):
                run(seed=2, checkpoint=tmp_path / "shared")
            refused.append(epoch)
            return False

    def run(seed, **how):
        how = {"verbose_eval": False, "cipher": xgb_fed.Plain(), **how}
        data = xgb_fed.ActiveData(X[:, :2], y)
        party = xgb_fed.LocalParty(X[:, 2:], "bank")
        with pytest.warns(xgb_fed.NotEncryptedWarning):
            return xgb_fed.train({**params, "random_state": seed}, data, [party], 3, **how)

    alone = run(seed=1, checkpoint=tmp_path / "alone")
    model = run(seed=1, checkpoint=tmp_path / "shared", callbacks=[AnotherRun()])
    assert refused == [0, 1, 2]
    assert [tree.to_dict() for tree in model.trees] == [tree.to_dict() for tree in alone.trees]
    with VerticalCheckpoint(tmp_path / "shared", "free again").taken_up():
        pass
