import json
import os

import numpy as np
import pytest
import scipy.sparse
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

import xgb_fed
from gbdt_commons.files import digest_of
from gbdt_parties._entries import entry_of, read_entries
from gbdt_parties.traffic import Flow
from xgb_fed.errors import CheckpointError
from xgb_fed.vertical.protocol.splits import Splits
from xgb_fed.vertical.training.checkpoint import JOURNAL_FILE, Checkpoint, Progress
from xgb_fed.vertical.trees.tree import ROOT, FederatedTree
from xgb_fed.vertical.trees.tree_record import Restart

NAMES = ["a", "b"]
N_ROWS, N_EVAL = 4, 3


def beginning():
    margins = [np.full((n, 1), 0.25, dtype=np.float32) for n in (N_ROWS, N_EVAL)]
    return Progress(b"", 0, [], [0], Splits(list(NAMES)), margins[0], margins[1:])


def grow(progress, checkpoint):
    """A round of one tree, with a split of the active party, and one of a passive one below it."""
    number = len(progress.trees)
    random = np.random.default_rng(number)
    tree, eta = FederatedTree(), np.float32(0.3)
    for parent in (ROOT, 0, 0, 1, 1):
        tree.add(parent, random.normal(size=1).astype(np.float32), eta, number + 2.5)
    tree.split(0, 0, progress.splits.add(number % 2, number / 3, bool(number % 2)), 1, 2, 0.75)
    tree.split(1, 1, number, 3, 4, 0.25)
    checkpoint.keep_under_way({"tree": number})
    progress.trees.append(tree)
    progress.leaves.append(random.choice([2, 3, 4], N_ROWS).astype(np.int32))
    if number:
        progress.evaluations[number - 1] = f"[{number - 1}]\teval-logloss:0.5"
        progress.restarts.append(Restart(number, 1, "bank"))
    progress.traffic.flows["active", "bank", "Done"] = Flow(3 * number, 2**40, 7)
    checkpoint.add_tree(progress)
    end_round(progress, checkpoint)


def end_round(progress, checkpoint):
    eval_leaves = np.random.default_rng(len(progress.rounds)).choice([2, 3, 4], (N_EVAL, 1))
    checkpoint.add_round(progress, [eval_leaves.astype(np.int32)])
    progress.end_round([eval_leaves.astype(np.int32)])


def kept(tmp_path, n_trees=2):
    """A training run's progress, and the checkpoint that holds it."""
    checkpoint, progress = Checkpoint(tmp_path, "digest"), beginning()
    progress.model_id, progress.seed, progress.agreed = b"m" * 16, 2**62 + 1, ["columns"]
    checkpoint.begin(progress)
    for _ in range(n_trees):
        grow(progress, checkpoint)
    return checkpoint, progress


def loaded(tmp_path):
    checkpoint, progress = Checkpoint(tmp_path, "digest"), beginning()
    assert checkpoint.load(progress)
    return checkpoint, progress


def assert_same(one, other):
    for name in ("model_id", "seed", "trees", "rounds", "splits", "evaluations", "agreed", "restarts"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.traffic.flows == other.traffic.flows
    pairs = [(one.margin, other.margin)]
    pairs += [*zip(one.eval_margins, other.eval_margins, strict=True)]
    pairs += [*zip(one.leaves, other.leaves, strict=True)]
    for a, b in pairs:
        assert (a.dtype, a.tobytes()) == (b.dtype, b.tobytes())


def test_nothing_kept(tmp_path):
    checkpoint = Checkpoint(tmp_path / "new" / "folder", "digest")
    assert not checkpoint.load(beginning())
    assert not checkpoint.has_begun


def test_what_was_kept_is_taken_up_and_goes_on(tmp_path):
    _, expected = kept(tmp_path, 4)
    _, other = kept(tmp_path / "other")
    again, progress = loaded(tmp_path / "other")
    assert again.has_begun
    assert_same(progress, other)
    for _ in range(2):
        grow(progress, again)
    assert_same(progress, expected)
    last, progress = loaded(tmp_path / "other")
    assert_same(progress, expected)
    last.clear()
    assert os.listdir(tmp_path / "other") == []


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


@given(data=st.data())
@settings(max_examples=60)
def test_a_journal_cut_off_at_any_byte_goes_on_at_the_last_whole_entry(folder, data):
    """Trees, rounds and the tree under way are those of the whole entries; the run ends as undisturbed."""
    _, expected = kept(folder, 3)
    path = folder / JOURNAL_FILE
    content = path.read_bytes()
    ends = [end for _, end in read_entries(path)]
    end = data.draw(st.integers(ends[0], len(content)))
    path.write_bytes(content[:end])
    checkpoint, progress = loaded(folder)
    # In every round: what is under way, the tree, the end of the round.
    n_whole = sum(whole <= end for whole in ends) - 1
    assert (len(progress.trees), len(progress.rounds) - 1) == ((n_whole + 1) // 3, n_whole // 3)
    assert checkpoint.under_way == ({"tree": n_whole // 3} if n_whole % 3 == 1 else None)
    if progress.leaves:
        end_round(progress, checkpoint)
    while len(progress.trees) < 3:
        grow(progress, checkpoint)
    assert_same(progress, expected)
    assert_same(loaded(folder)[1], expected)


def test_a_journal_cut_off_before_its_first_entry_ends_is_refused(tmp_path):
    """The first entry is put in place as a whole: no crash leaves half of it."""
    kept(tmp_path, 0)
    content = (tmp_path / JOURNAL_FILE).read_bytes()
    for end in range(len(content)):
        (tmp_path / JOURNAL_FILE).write_bytes(content[:end])
        with pytest.raises(CheckpointError, match="cannot be read"):
            loaded(tmp_path)


def test_a_changed_byte_is_refused(tmp_path):
    kept(tmp_path)
    content = (tmp_path / JOURNAL_FILE).read_bytes()
    for place in range(0, len(content) - 1, 7):
        changed = bytearray(content)
        changed[place] ^= 1 + place % 255
        (tmp_path / JOURNAL_FILE).write_bytes(changed)
        with pytest.raises(CheckpointError, match="cannot be read"):
            loaded(tmp_path)


WRONG_ORDERS = [(0, 3), (0, 1, 2, 2), (0, 1, 2, 3, 3), (0, 1, 2, 3, 6), (1, 2, 3)]


@pytest.mark.parametrize("order", WRONG_ORDERS, ids=str)
def test_entries_that_are_missing_or_there_twice_are_refused(tmp_path, order):
    """Whole entries, none damaged: one too few, one twice, no beginning."""
    kept(tmp_path)
    entries = [entry_of(content) for content, _ in read_entries(tmp_path / JOURNAL_FILE)]
    (tmp_path / JOURNAL_FILE).write_bytes(b"".join(entries[k] for k in order))
    with pytest.raises(CheckpointError, match="cannot be read"):
        loaded(tmp_path)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_the_end_at_any_write_leaves_the_last_progress(tmp_path, monkeypatch, error):
    checkpoint, _ = kept(tmp_path, 1)
    expected = loaded(tmp_path)[1]
    _, progress = loaded(tmp_path)
    write = os.write

    def ends(descriptor, content):
        write(descriptor, bytes(content)[: len(content) // 2])
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("gbdt_parties._entries.os.write", ends)
        with pytest.raises(type(error)):
            grow(progress, checkpoint)
    assert_same(loaded(tmp_path)[1], expected)
    again, progress = loaded(tmp_path)
    grow(progress, again)
    assert_same(loaded(tmp_path)[1], kept(tmp_path / "other", 2)[1])


def test_only_what_is_about_to_be_told_waits_for_the_disk(tmp_path, monkeypatch):
    synced, fdatasync = [], os.fdatasync

    def noted(descriptor):
        synced.append([json.loads(e.partition(b"\n")[0]).get("kind") for e, _ in read_entries(path)])
        fdatasync(descriptor)

    path = tmp_path / JOURNAL_FILE
    monkeypatch.setattr("gbdt_parties._entries.os.fdatasync", noted)
    checkpoint, _ = kept(tmp_path, 2)
    assert synced == [[None, "under way"], [None, *("under way", "tree", "round"), "under way"]]
    checkpoint.sync()
    assert len(synced[-1]) == 7


def test_another_trainings_progress_is_refused_and_stays(tmp_path):
    _, expected = kept(tmp_path)
    with pytest.raises(CheckpointError, match="other data, parameters or parties"):
        Checkpoint(tmp_path, "another").load(beginning())
    assert_same(loaded(tmp_path)[1], expected)


def test_pickles_are_not_read(tmp_path):
    kept(tmp_path, 0)
    content = {"kind": "tree", "number": 0, "arrays": [["|O", [1]]]}
    with open(tmp_path / JOURNAL_FILE, "ab") as file:
        file.write(entry_of(json.dumps(content).encode() + b"\n" + bytes(8)))
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
