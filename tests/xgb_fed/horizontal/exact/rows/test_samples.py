"""Marks of rows, and samples that are refused."""

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest

from gbdt_parties.errors import InvalidDataError
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.horizontal.exact.rows.samples import RowDraws, check_own_sample

KEPT = SimpleNamespace(stream=lambda what, about: SecretStream(hashlib.sha256(about).digest()))


def test_marks_of_other_rows_are_other_numbers_of_28_bits():
    marks = np.array([RowDraws(KEPT, f"rows {k}", 10).mark() for k in range(64)])
    assert marks.shape == (64, 4)
    assert len(np.unique(marks)) == marks.size
    assert marks.min() >= 0
    assert 1 << 27 < marks.max() < 1 << 28
    np.testing.assert_array_equal(RowDraws(KEPT, "rows 7", 10).mark(), marks[7])


@pytest.mark.parametrize(("n_drawn", "n_rows"), [(9, 100), (0, 100), (91, 100), (99, 100)])
def test_samples_that_take_or_leave_out_few_rows_are_refused(n_drawn, n_rows):
    with pytest.raises(InvalidDataError, match="min_rows_per_node=10"):
        check_own_sample(n_drawn, n_rows, 10)
    check_own_sample(n_drawn, n_rows, 1)


@pytest.mark.parametrize(("n_drawn", "n_rows"), [(10, 100), (90, 100), (100, 100)])
def test_samples_of_enough_rows_are_added_up(n_drawn, n_rows):
    check_own_sample(n_drawn, n_rows, 10)
