import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbdt_kernels.residues import limbs
from gbdt_kernels.residues.bin_chains import NO_BIN, bin_chains, bin_counts
from gbdt_kernels.residues.limbs import check_starts

WORDS = 5
VALUES = st.integers(0, (1 << (64 * WORDS)) - 1)


@given(st.lists(VALUES, max_size=12))
def test_rows_and_back(values):
    rows = limbs.to_rows(values, WORDS)
    assert rows.shape == (len(values), WORDS)
    assert limbs.from_rows(rows) == values
    assert limbs.from_rows(limbs.widened(rows, WORDS + 2)) == values


@given(VALUES)
def test_limbs_add_up(value):
    parts = limbs.to_limbs(value, 7)
    assert sum(int(part) << (52 * j) for j, part in enumerate(parts)) == value


@given(st.lists(VALUES, min_size=1, max_size=12), VALUES)
def test_comparison(values, bound):
    assert limbs.rows_below(limbs.to_rows(values, WORDS), bound).tolist() == [v < bound for v in values]


@given(st.integers(1, (1 << (64 * WORDS)) - 1), st.data())
def test_modular_sums(n, data):
    pairs = data.draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), min_size=1))
    a, b = (limbs.to_rows([pair[k] for pair in pairs], WORDS) for k in (0, 1))
    sums = limbs.add_rows(a, b, limbs.to_rows([n], WORDS)[0])
    assert limbs.from_rows(sums) == [(x + y) % n for x, y in pairs]


def test_what_does_not_fit_or_is_no_integer():
    with pytest.raises(OverflowError):
        limbs.to_rows([1 << 64], 1)
    with pytest.raises(OverflowError):
        limbs.to_rows([-1], 1)
    with pytest.raises(TypeError):
        limbs.to_rows([1.5], 1)
    assert limbs.from_rows(limbs.to_rows([np.int32(7)], 1)) == [7]


def test_nothing_out_of_range_reaches_the_kernels():
    codes = np.zeros((4, 2), dtype=np.uint8)
    rows, starts, offsets = np.arange(4), np.array([0, 4]), np.array([0, 1, 2])
    counts = bin_counts(codes, rows, starts, offsets)
    left_out = np.full((1, 2), NO_BIN)

    def both(codes=codes, rows=rows, starts=starts):
        with_counts = (np.arange(2), counts, left_out)
        yield lambda: bin_counts(codes, rows, starts, offsets)
        yield lambda: bin_chains(codes, rows, starts, offsets, *with_counts)

    for bad in (codes[:, :1], codes + np.uint8(1), codes.astype(np.int8), codes[:, 0]):
        for call in both(codes=bad):
            with pytest.raises(ValueError, match="code"):
                call()
    for call in both(starts=starts + 1):
        with pytest.raises(ValueError, match="starts"):
            call()
    for bad in (rows + 1, rows - 1):
        for call in both(rows=bad):
            with pytest.raises(IndexError):
                call()


def test_starts_must_be_signed():
    with pytest.raises(ValueError, match="signed"):
        check_starts(np.array([5, 0], dtype=np.uint64), 10)
