import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels.residues.limb_sums import chain_sums, differences, shifted
from gbdt_kernels.residues.limbs import from_rows, to_rows

WIDTH = 3
TOP = 1 << (64 * WIDTH)
# Words of all ones and of one make carries and borrows run through.
words = st.sampled_from([0, 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)
integers = st.tuples(words, words, words).map(lambda w: w[0] + (w[1] << 64) + (w[2] << 128))


@given(st.lists(integers, min_size=1, max_size=20), st.data())
@settings(deadline=None)
def test_chain_sums(values, data):
    places = st.integers(0, len(values) - 1)
    chains = data.draw(st.lists(st.lists(places, max_size=8), max_size=5))
    order = np.array([k for chain in chains for k in chain], dtype=np.int32)
    starts = np.concatenate([[0], np.cumsum([len(chain) for chain in chains])]).astype(np.int64)
    got = from_rows(chain_sums(to_rows(values, WIDTH), order, starts))
    assert got == [sum(values[k] for k in chain) % TOP for chain in chains]


@given(st.lists(st.tuples(integers, integers), min_size=1, max_size=10))
@settings(deadline=None)
def test_differences(pairs):
    a, b = (to_rows(list(column), WIDTH) for column in zip(*pairs, strict=True))
    assert from_rows(differences(a, b)) == [(x - y) % TOP for x, y in pairs]
    assert from_rows(differences(a, b[:1])) == [(x - pairs[0][1]) % TOP for x, _ in pairs]


@given(st.lists(integers, max_size=10), st.integers(0, 64 * WIDTH + 70))
@settings(deadline=None)
def test_shifted(values, bits):
    assert from_rows(shifted(to_rows(values, WIDTH), bits)) == [(x << bits) % TOP for x in values]


def test_rows_out_of_range():
    rows = to_rows([1, 2], WIDTH)
    with pytest.raises(IndexError):
        chain_sums(rows, np.array([2]), np.array([0, 1]))
    with pytest.raises(ValueError, match="starts"):
        chain_sums(rows, np.array([1]), np.array([0, 2]))
