import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xgb_fed.boosting.candidates import NO_CANDIDATE, CandidateWalk
from xgb_fed.boosting.split_gain import SplitGain
from xgb_fed.vertical.growing.gradients import FixedPointGradients
from xgb_fed.vertical.protocol.packing import packing_for

GAIN = SplitGain(*(np.float32(v) for v in (1, 0, 0, 0, 0, 0.3)))


@st.composite
def nodes(draw):
    """Codes of a node's rows; bins and whole features may be without rows."""
    n_bins = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    row = st.tuples(*(st.integers(0, n) for n in n_bins))
    codes = draw(st.lists(row, min_size=1, max_size=25))
    return n_bins, np.array(codes)


def tried_by_xgboost(n_bins, codes):
    """Feature by feature, bins upwards, then downwards if values are missing; what repeats is no new one.

    ((feature, last bin to the left, default_left), the rows to the left) of each.
    """
    tried = []
    for f, (n, column) in enumerate(zip(n_bins, codes.T, strict=True)):
        missing = column == n
        walks = [[(b, False) for b in range(n)]]
        walks += [[(b, True) for b in range(n - 2, -2, -1)]] if missing.any() else []
        for walk in walks:
            seen = {0, len(codes)}
            for last_left, default_left in walk:
                left = np.where(missing, default_left, column <= last_left)
                if left.sum() not in seen:
                    seen.add(left.sum())
                    tried.append(((f, last_left, default_left), left))
    return tried


def histogram(n_bins, codes, values):
    """Sums of values in each bin, the last bin of a column for missing values."""
    parts = [
        np.bincount(column, weights=values, minlength=n + 1)
        for n, column in zip(n_bins, codes.T, strict=True)
    ]
    return np.concatenate(parts).astype(np.int64)


def best_of(n_bins, codes, g, h):
    """The best candidate of a node, from sums in bins."""
    walk = CandidateWalk(np.arange(len(n_bins)), np.array(n_bins))
    gradients = FixedPointGradients.scaled(g[:, None], h[:, None], packing_for(len(g), 1, 1 << 300))
    quantities = gradients.halves.reshape(4, -1)
    sums = np.stack([histogram(n_bins, codes, values) for values in quantities]).reshape(2, 2, 1, -1)
    counts = histogram(n_bins, codes, np.ones(len(g)))
    total = gradients.halves.astype(np.int64).sum(axis=-1)
    return walk.best(sums, counts, total, gradients, GAIN)


@given(nodes())
@settings(max_examples=40)
def test_left_sums_are_those_of_the_splits_that_xgboost_tries(node):
    n_bins, codes = node
    walk = CandidateWalk(np.arange(len(n_bins)), np.array(n_bins))
    values = 1 << np.arange(len(codes), dtype=np.int64)
    left = walk.left_sums(histogram(n_bins, codes, values)).tolist()
    for _, rows in tried_by_xgboost(n_bins, codes):
        assert values[rows].sum() in left


@given(nodes(), st.data())
@settings(max_examples=80)
def test_the_best_candidate_is_the_first_that_xgboost_tries(node, data):
    """Few different gradients make many ties."""
    n_bins, codes = node
    size = len(codes)
    g = np.array(data.draw(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=size, max_size=size)))
    h = np.ones(size)
    found = best_of(n_bins, codes, g, h)
    tried = tried_by_xgboost(n_bins, codes)
    if not tried:
        assert found == NO_CANDIDATE
        return
    changes = [
        GAIN.loss_changes(
            np.array([[g[left].sum()]]), np.array([[h[left].sum()]]), np.array([g.sum()]), np.array([h.sum()])
        )[0]
        for _, left in tried
    ]
    (column, last_left, default_left), _ = tried[int(np.argmax(changes))]
    assert (found.column, found.last_left, found.default_left) == (column, last_left, default_left)
    assert found.loss_change == max(changes)


@pytest.mark.parametrize(
    ("n_bins", "codes"),
    [([1], [[0]] * 5), ([1], [[1]] * 5), ([3], [[2]] * 5), ([1, 1], [[0, 1]] * 5), ([0], [[0]] * 5)],
    ids=["one bin", "only missing", "one bin of three", "one bin, and only missing", "no bins"],
)
def test_columns_that_divide_nothing(n_bins, codes):
    assert best_of(n_bins, np.array(codes), np.arange(5.0), np.ones(5)) == NO_CANDIDATE


def test_columns_of_a_tree_keep_their_numbers():
    walk = CandidateWalk(np.array([2, 5]), np.array([3, 2]))
    assert len(walk) == 10
    assert (walk.bins_of(2), walk.bins_of(5)) == (slice(0, 4), slice(4, 7))
