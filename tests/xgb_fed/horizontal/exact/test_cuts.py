"""Counting the values of a party by the first digits of their keys."""

import numpy as np
import pytest

from allocated import peak_of
from xgb_fed.boosting.features import Columns
from xgb_fed.horizontal.exact.cuts import _Search, find_cuts, keys_of, values_of

EDGES = np.array([0, 1, 15, 16, 2**28 - 1, 2**28, 2**31, 2**32 - 17, 2**32 - 16, 2**32 - 1], dtype=np.uint32)


@pytest.mark.parametrize("n_digits", range(8))
def test_counts_are_those_of_all_keys_up_to_the_largest(n_digits):
    rng = np.random.default_rng(n_digits)
    keys = np.sort(np.concatenate([EDGES, rng.integers(0, 2**32, 500, dtype=np.uint32)]))
    cells = np.unique(keys.astype(np.uint64) >> np.uint64(32 - 4 * n_digits))
    counts = _Search(keys, cells, np.zeros(len(cells), dtype=np.int64)).counts(n_digits)
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


def test_a_value_takes_four_bytes_while_cuts_are_searched():
    X = np.random.default_rng(0).normal(size=(20_000, 20)).astype(np.float32)
    _, peak = peak_of(lambda: next(find_cuts(Columns(X, [f"f{k}" for k in range(20)]), 32, "grid")))
    assert peak < 1.5 * 4 * X.size
