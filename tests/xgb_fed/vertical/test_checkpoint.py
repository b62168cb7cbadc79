import io
import os

import numpy as np
import pytest
import scipy.sparse
import xgboost

import xgb_fed
from gbdt_parties._files import digest_of
from gbdt_parties.traffic import Flow, Traffic
from xgb_fed.errors import CheckpointError
from xgb_fed.vertical.checkpoint import STATE_FILE, Checkpoint, Progress
from xgb_fed.vertical.splits import Splits
from xgb_fed.vertical.tree import ROOT, FederatedTree

NAMES = ["a", "b"]
TRAFFIC = Traffic(False, {("active", "bank", "Done"): Flow(3, 2**40, 7)})


def tree_of(splits, number):
    """A tree with a split of the active party, and one of a passive one below it."""
    tree, eta = FederatedTree(), np.float32(0.3)
    for parent in (ROOT, 0, 0, 1, 1):
        tree.add(parent, np.array([number + 1 / 3], dtype=np.float32), eta, number + 2.5)
    tree.split(0, 0, splits.add(number % 2, number / 3, bool(number % 2)), 1, 2, 0.75)
    tree.split(1, 1, number, 3, 4, 0.25)
    return tree


def progress_of(n_trees):
    splits = Splits(list(NAMES))
    trees = [tree_of(splits, number) for number in range(n_trees)]
    random = np.random.default_rng(n_trees)
    return Progress(
        b"m" * 16,
        2**62 + 1,
        trees,
        list(range(n_trees + 1)),
        splits,
        random.normal(size=(4, 1)).astype(np.float32),
        [random.normal(size=(3, 1)).astype(np.float32)],
        [np.arange(4, dtype=np.int32)],
        {n_trees: "[0]\teval-logloss:0.5"},
        TRAFFIC,
    )


def assert_same(one, other):
    for name in ("model_id", "seed", "trees", "rounds", "splits", "evaluations"):
        assert getattr(one, name) == getattr(other, name), name
    assert (one.traffic.encrypted, one.traffic.flows) == (other.traffic.encrypted, other.traffic.flows)
    pairs = [(one.margin, other.margin)]
    pairs += [*zip(one.eval_margins, other.eval_margins, strict=True)]
    pairs += [*zip(one.leaves, other.leaves, strict=True)]
    for a, b in pairs:
        assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes())


def kept(tmp_path, n_trees=2):
    checkpoint = Checkpoint(tmp_path, "digest")
    for number in range(1, n_trees + 1):
        checkpoint.save(progress_of(number))
    return checkpoint


def test_nothing_kept(tmp_path):
    assert Checkpoint(tmp_path / "new" / "folder", "digest").load(NAMES) is None


def test_what_was_kept_is_taken_up_and_goes_on(tmp_path):
    kept(tmp_path)
    again = Checkpoint(tmp_path, "digest")
    assert_same(again.load(NAMES), progress_of(2))
    first = (tmp_path / "tree-000000.json").stat()
    again.save(progress_of(4))
    assert (tmp_path / "tree-000000.json").stat().st_mtime_ns == first.st_mtime_ns
    assert_same(Checkpoint(tmp_path, "digest").load(NAMES), progress_of(4))
    again.clear()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("at", range(1, 4))
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_the_end_at_any_write_leaves_the_last_progress(tmp_path, monkeypatch, at, error):
    """Two trees and the state are written; the process, or the disk, ends before the at-th is in place."""
    checkpoint = kept(tmp_path, 1)
    replace, calls = os.replace, []

    def ends(source, target):
        calls.append(target)
        if len(calls) >= at:
            raise error
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("gbdt_parties._files.os.replace", ends)
        with pytest.raises(type(error)):
            checkpoint.save(progress_of(3))
    assert len(calls) == at
    assert not list(tmp_path.glob("*.part")) + list(tmp_path.glob(".*"))
    again = Checkpoint(tmp_path, "digest")
    assert_same(again.load(NAMES), progress_of(1))
    for one in (again, checkpoint):
        one.save(progress_of(3))
        assert_same(Checkpoint(tmp_path, "digest").load(NAMES), progress_of(3))


@pytest.mark.parametrize("name", [STATE_FILE, "tree-000001.json"])
def test_a_file_cut_off_anywhere_is_refused(tmp_path, name):
    kept(tmp_path)
    content = (tmp_path / name).read_bytes()
    for end in range(0, len(content), 3 if name != STATE_FILE else 17):
        (tmp_path / name).write_bytes(content[:end])
        with pytest.raises(CheckpointError, match="cannot be read"):
            Checkpoint(tmp_path, "digest").load(NAMES)


@pytest.mark.parametrize("name", [STATE_FILE, "tree-000001.json"])
def test_a_changed_byte_is_noticed_or_of_no_consequence(tmp_path, name):
    kept(tmp_path)
    content = (tmp_path / name).read_bytes()
    state = progress_of(2)
    refused = 0
    for place in range(0, len(content), 2 if name != STATE_FILE else 7):
        changed = bytearray(content)
        changed[place] ^= 1 + place % 255
        (tmp_path / name).write_bytes(changed)
        try:
            assert_same(Checkpoint(tmp_path, "digest").load(NAMES), state)
        except CheckpointError:
            refused += 1
    assert refused > len(content) / 10


def test_a_missing_tree_and_a_tree_of_another_training_are_refused(tmp_path):
    kept(tmp_path)
    other = tmp_path / "other"
    kept(other)
    (tmp_path / "tree-000000.json").write_bytes((other / "tree-000001.json").read_bytes())
    with pytest.raises(CheckpointError, match="cannot be read"):
        Checkpoint(tmp_path, "digest").load(NAMES)
    (tmp_path / "tree-000000.json").unlink()
    with pytest.raises(CheckpointError, match="cannot be read"):
        Checkpoint(tmp_path, "digest").load(NAMES)


def test_another_trainings_progress_is_refused_and_stays(tmp_path):
    kept(tmp_path)
    with pytest.raises(CheckpointError, match="other data, parameters or parties"):
        Checkpoint(tmp_path, "another").load(NAMES)
    assert_same(Checkpoint(tmp_path, "digest").load(NAMES), progress_of(2))


def test_pickles_are_not_read(tmp_path):
    file = io.BytesIO()
    np.savez(file, state=np.array([object()], dtype=object))
    (tmp_path / STATE_FILE).write_bytes(file.getvalue())
    with pytest.raises(CheckpointError, match="cannot be read"):
        Checkpoint(tmp_path, "digest").load(NAMES)


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
            with pytest.raises(CheckpointError, match="in use by another training run"):
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
    with Checkpoint(tmp_path / "shared", "free again").locked():
        pass
