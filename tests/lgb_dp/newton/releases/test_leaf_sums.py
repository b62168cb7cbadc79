"""The sums of the leaves are a function of the question, whatever was asked before."""

from dataclasses import replace

import numpy as np
import pytest

from gbdt_kernels.trees import DenseCodes, SparseCodes, by_columns
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.loss import STEPS, NewtonLoss
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.releases.leaf_sums import LocalLeafSums, held_out
from lgb_dp.newton.releases.trees import LeafRelease, PublicTree, ReleasedTree, Round

N_ROWS, N_FEATURES = 300, 4
RNG = np.random.default_rng(5)
CODES = DenseCodes(RNG.integers(0, 9, (N_ROWS, N_FEATURES)).astype(np.uint8))
SPARSE_CODES = SparseCodes(
    np.zeros(N_ROWS + 1, dtype=np.int64),
    np.empty(0, dtype=np.int32),
    np.empty(0, dtype=np.uint8),
    np.zeros(N_FEATURES, dtype=np.uint8),
)
WEIGHT = RNG.integers(0, 1025, N_ROWS).astype(np.int32)

TARGET = RNG.uniform(-2, 3, N_ROWS)


def local(objective, subsample=1.0, start=None):
    n_outputs = 3 if objective == "multiclass" else 1
    label = TARGET if objective == "regression" else np.arange(N_ROWS) % max(2, n_outputs)
    low, high = (-2.0, 3.0) if objective == "regression" else (0.0, 1.0)
    scale = LabelScale(objective, n_outputs, low, high, 1.0)
    random = SecureRandom(3)
    rows = LocalLeafSums(
        by_columns(CODES),
        label.astype(float),
        WEIGHT,
        NewtonLoss(objective, 0.5, 0.1),
        scale,
        start,
        2,
        subsample,
        lambda: random.words(N_ROWS),
    )
    return rows, label, scale


def tree(seed, depth=3):
    rng = np.random.default_rng(seed)
    n_nodes = 2**depth - 1
    goes_left = rng.integers(0, 2, (n_nodes, 256)).astype(np.uint8)
    return PublicTree(rng.integers(0, N_FEATURES, n_nodes).astype(np.int32), goes_left, np.full(n_nodes, -1))


def released(number, n_outputs, depth=3):
    value = np.random.default_rng(number).normal(size=(2**depth, n_outputs))
    return ReleasedTree(number, tree(number, depth), value)


@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression"])
def test_rows_kept_from_round_to_round_answer_as_rows_that_start_over(objective):
    kept, _, scale = local(objective)
    prior, trees = np.full(scale.n_outputs, 0.25), []
    for number, depth in enumerate([2, 3, 1, 3], start=1):
        question = Round(number, tree(number, depth), prior, trees)
        answer = kept.sums(question)
        np.testing.assert_array_equal(answer, local(objective)[0].sums(question))
        assert answer.any()
        trees.append(released(number, scale.n_outputs, depth))
    for left in (3, 2, 0, 4):  # trees that are taken back, or come again
        question = Round(10 + left, tree(9), prior, trees[:left])
        np.testing.assert_array_equal(kept.sums(question), local(objective)[0].sums(question))


def test_trees_that_were_released_together_are_all_in_the_scores():
    kept, _, scale = local("binary")
    prior, trees = np.full(scale.n_outputs, 0.25), []
    for first in (1, 4, 6):
        together = [released(first + k, scale.n_outputs) for k in range(3 if first == 1 else 2)]
        for one in together:
            question = Round(one.number, one.tree, prior, trees)
            np.testing.assert_array_equal(kept.sums(question), local("binary")[0].sums(question))
        trees = [*trees, *together]


def test_the_same_round_asked_again_is_answered_the_same():
    rows, _, _ = local("binary", subsample=0.3)
    question = Round(1, tree(1), np.zeros(1), [])
    first = rows.sums(question)
    once = first.copy()
    first[:] = 0  # the caller's own
    np.testing.assert_array_equal(rows.sums(question), once)
    assert (rows.sums(Round(2, tree(1), np.zeros(1), [])) != once).any()  # another secret sample


@pytest.mark.parametrize("other", [{"tree": tree(2)}, {"salt": 3}, {"released": [released(7, 1)]}])
def test_another_question_of_the_same_number_gets_its_own_sums(other):
    """A round of several trees that was interrupted has asked for numbers that come again."""
    rows, _, _ = local("binary")
    question = Round(1, tree(1), np.zeros(1), [])
    rows.sums(question)
    changed = replace(question, **other)
    np.testing.assert_array_equal(rows.sums(changed), local("binary")[0].sums(changed))


def test_label_counts_are_sums_of_weights():
    for objective in ("binary", "multiclass"):
        rows, label, _ = local(objective)
        expected = [WEIGHT[label == k].sum() * STEPS for k in np.unique(label)]
        assert rows.label_counts().tolist() == expected
    rows, label, _ = local("regression")
    share = (label + 2) / 5
    expected = [((1 - share) * WEIGHT).sum() * STEPS, (share * WEIGHT).sum() * STEPS]
    np.testing.assert_allclose(rows.label_counts(), expected, atol=WEIGHT.sum())


@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression"])
def test_labels_of_parts_of_the_rows_are_counted_as_those_of_all(objective, monkeypatch):
    rows, label, scale = local(objective)
    loss = NewtonLoss(objective, 0.5, 0.1)
    expected = loss.label_counts(loss.targets(label.astype(float), scale), WEIGHT, scale.n_outputs)
    for n_at_once in (1, 7, N_ROWS, N_ROWS + 1):
        monkeypatch.setattr("lgb_dp.newton.releases.leaf_sums.ROWS_AT_ONCE", n_at_once)
        counts = rows.label_counts()
        assert (counts.dtype, counts.tolist()) == (np.int64, expected.tolist())
    monkeypatch.setattr("lgb_dp.newton.releases.leaf_sums.ROWS_AT_ONCE", 120)
    count, sizes = NewtonLoss.label_counts, []
    monkeypatch.setattr(NewtonLoss, "label_counts", lambda s, y, *a: sizes.append(len(y)) or count(s, y, *a))
    rows.label_counts()
    assert sizes == [120, 120, 60]


def test_start_scores_count_from_the_centre_in_units_of_the_label():
    start = RNG.normal(size=(N_ROWS, 1))
    _, _, scale = local("regression")
    with_start = Round(1, tree(1), np.zeros(1), [])
    state = local("regression", start=start)[0].current_rows(with_start)
    np.testing.assert_allclose(state.score, (start - scale.centre) / scale.scale)


@pytest.mark.parametrize("codes", [CODES, SPARSE_CODES])
def test_side_door_rows_of_another_number_are_never_summed(codes):
    """Whoever puts rows together: a label too many would shift all rows behind it."""
    scale = LabelScale("binary", 1, 0.0, 1.0, 1.0)
    loss = NewtonLoss("binary", 0.5, 0.1)
    for n_labels, n_weights, start in ((301, 301, None), (300, 301, None), (300, 300, np.zeros(301))):
        label, weight = np.zeros(n_labels), np.ones(n_weights, dtype=np.int32)
        with pytest.raises(AssertionError):
            LocalLeafSums(by_columns(codes), label, weight, loss, scale, start, 1, 1.0, lambda: None)


@pytest.mark.parametrize("rows_per_block", [N_ROWS, 1])
@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression"])
def test_held_out_rows_are_summed_apart(objective, rows_per_block, monkeypatch):
    monkeypatch.setattr("gbdt_kernels.threads.MIN_BLOCK", 1_000 * rows_per_block)
    rows, _, scale = local(objective)
    prior, trees = np.full(scale.n_outputs, 0.25), [released(1, scale.n_outputs)]
    rows.sums(Round(2, tree(2), prior, trees))
    trees.append(ReleasedTree(2, tree(2), released(2, scale.n_outputs).value))
    for salt in (7, 8):
        divided = Round(2 * salt, tree(4), prior, trees, salt=salt)
        answer, whole = rows.sums(divided), rows.sums(Round(2 * salt + 1, tree(4), prior, trees))
        assert divided.n_cells == len(answer) == 2 * len(whole)
        assert answer[:8].any()
        assert answer[8:].any()
        np.testing.assert_array_equal(answer[:8] + answer[8:], whole)
        np.testing.assert_array_equal(answer, local(objective)[0].sums(divided))
    # Scores move alike for both.
    trees.append(ReleasedTree(divided.number, tree(4), released(3, scale.n_outputs).value))
    after = Round(99, tree(5), prior, trees, salt=8)
    np.testing.assert_array_equal(rows.sums(after), local(objective)[0].sums(after))


def test_a_row_more_changes_one_cell_of_those_held_out_and_those_that_train():
    _, label, scale = local("binary")
    question = Round(1, tree(1), np.zeros(1), [], salt=3)

    def sums(n_rows):
        some = DenseCodes(np.ascontiguousarray(CODES.codes[:n_rows]))
        loss, weight = NewtonLoss("binary", 0.5, 0.1), np.ones(n_rows, dtype=np.int32)
        rows = LocalLeafSums(
            by_columns(some), label[:n_rows].astype(float), weight, loss, scale, None, 1, 1.0, lambda: None
        )
        return rows.sums(question)

    # Changing cells of rows 200 to 259: of either kind.
    changed = {
        int(np.flatnonzero(np.diff([sums(n), sums(n + 1)], axis=0).any(axis=(0, 2, 3)))[0])
        for n in range(200, 260)
    }
    assert min(changed) < 8 <= max(changed)
    for n in range(200, 260):
        assert np.count_nonzero(np.diff([sums(n), sums(n + 1)], axis=0).any(axis=(0, 2, 3))) == 1


def test_about_a_tenth_of_the_rows_is_held_out():
    codes = np.random.default_rng(0).integers(0, 200, (20_000, 3)).astype(np.uint8)
    held = held_out(by_columns(DenseCodes(codes)), 5, 1)
    assert abs(held.sum() - 2000) < 5 * 43


def test_a_part_of_a_release_has_its_leaves_and_its_noise():
    whole = LeafRelease(np.arange(8.0).reshape(4, 2), np.arange(8.0, 16.0).reshape(4, 2), 3.5)
    part = whole.part(slice(1, 3))
    assert (part.gradient.tolist(), part.hessian.tolist()) == ([[2, 3], [4, 5]], [[10, 11], [12, 13]])
    assert part.std == 3.5
