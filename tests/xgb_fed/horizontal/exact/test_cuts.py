"""Counting the values of a party by the first digits of their keys."""

import numpy as np
import pytest

from allocated import peak_of
from xgb_fed.boosting.features import Columns
from xgb_fed.horizontal.exact.cuts import CutSearch, find_cuts, keys_of, rows_of_cuts, values_of

EDGES = np.array([0, 1, 15, 16, 2**28 - 1, 2**28, 2**31, 2**32 - 17, 2**32 - 16, 2**32 - 1], dtype=np.uint32)


@pytest.mark.parametrize("n_digits", range(8))
def test_counts_are_those_of_all_keys_up_to_the_largest(n_digits):
    rng = np.random.default_rng(n_digits)
    keys = np.sort(np.concatenate([EDGES, rng.integers(0, 2**32, 500, dtype=np.uint32)]))
    cells = np.unique(keys.astype(np.uint64) >> np.uint64(32 - 4 * n_digits))
    counts = CutSearch(keys, cells, np.zeros(len(cells), dtype=np.int64)).counts(n_digits)
    first = [int(key) >> (28 - 4 * n_digits) for key in keys]
    expected = [[first.count(16 * int(cell) + digit) for digit in range(16)] for cell in cells]
    assert counts.dtype == np.int64
    assert counts.tolist() == expected
    assert counts.sum() == len(keys)


def test_keys_are_in_the_order_of_values():
    values = np.array([-np.inf, -3e38, -1.5, -1e-40, 0.0, 1e-40, 2.0, 3e38, np.inf], dtype=np.float32)
    keys = keys_of(values)
    assert (np.diff(keys.astype(np.int64)) > 0).all()
    assert np.array_equal(values_of(keys), values)


def found_by(members, max_bin, how):
    """The cuts of one column that each of several parties finds, from the sums of their counts."""
    searches = [find_cuts(Columns(values[:, None], ["a"]), max_bin, how) for values in members]
    total, found = None, []
    while not found:
        asked = []
        for search in searches:
            try:
                asked.append(search.send(total))
            except StopIteration as end:
                found += end.value
        total = [np.sum([question.values.view(np.int64) for (question,) in asked], axis=0)] if asked else None
    return found


@pytest.mark.parametrize(("how", "unknown_bits"), [("grid", 12), ("exact", 0)])
@pytest.mark.parametrize("max_bin", [2, 4, 7])
def test_cuts_are_the_cells_of_all_rows_or_those_at_ranks(how, unknown_bits, max_bin):
    """Also where a few cells hold most ranks: other values in them are no cuts."""
    rng, n_of_ranks = np.random.default_rng(max_bin), 0
    for _ in range(40):
        # Clusters of close values, a few of which have most rows.
        clusters = np.outer(2.0 ** np.arange(-4, 5), 1 + np.arange(4) * 2.0**-11).reshape(-1)
        values = rng.choice([-1, 1], 60, p=[0.1, 0.9]) * rng.choice(clusters, 60, p=rng.dirichlet([0.1] * 36))
        values = np.append(values.astype(np.float32), [np.nan, 0.0, -0.0][: rng.integers(4)])
        cells = np.sort(keys_of(values[~np.isnan(values)]) >> unknown_bits << unknown_bits)
        expected = np.unique(cells)
        if len(expected) > max_bin:
            expected = np.unique(cells[np.round(np.linspace(0, len(cells) - 1, max_bin)).astype(int)])
            n_of_ranks += 1
        for own in found_by([values[k::3] for k in range(3)], max_bin, how):
            assert own.dtype == np.float32
            assert keys_of(own).tolist() == expected.tolist()
    assert n_of_ranks > 5


def test_rows_that_xgboost_is_given_hold_each_cut_once():
    cuts = [np.float32([0.1, 2.0]), np.float32([]), np.float32([3.0])]
    rows = rows_of_cuts(cuts)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows, np.float32([[0.1, np.nan, 3.0], [2.0, np.nan, np.nan]]))
    for few in (cuts[1:2], cuts[2:]):
        assert rows_of_cuts(few).shape == (1, 1)


def test_a_value_takes_four_bytes_while_cuts_are_searched():
    X = np.random.default_rng(0).normal(size=(20_000, 20)).astype(np.float32)
    _, peak = peak_of(lambda: next(find_cuts(Columns(X, [f"f{k}" for k in range(20)]), 32, "grid")))
    assert peak < 1.5 * 4 * X.size
