"""Tags of rows depend on their own codes and the salt, and on nothing else."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allocated import peak_of
from gbdt_kernels.trees import DenseCodes, SparseCodes, by_columns, row_tags
from gbdt_kernels.trees.layout import offsets

pytestmark = pytest.mark.usefixtures("tiny_blocks")


def matrices(seed):
    rng = np.random.default_rng(seed)
    n_rows, n_features = int(rng.integers(0, 60)), int(rng.integers(1, 5))
    zero_codes = rng.integers(0, 4, n_features).astype(np.uint8)
    codes = np.where(rng.random((n_rows, n_features)) < 0.5, zero_codes, rng.integers(0, 4, n_features))
    codes = codes.astype(np.uint8)
    rows, indices = np.nonzero((codes != zero_codes) | (rng.random(codes.shape) < 0.2))
    indptr = offsets(np.bincount(rows, minlength=n_rows))
    return codes, SparseCodes(indptr, indices.astype(np.int32), codes[rows, indices], zero_codes)


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.sampled_from([1, 3]))
def test_a_tag_is_of_the_row_alone(seed, salt, n_threads):
    codes, sparse = matrices(seed)
    tags = row_tags(by_columns(DenseCodes(codes)), salt, n_threads)
    np.testing.assert_array_equal(tags, row_tags(by_columns(sparse), salt, n_threads))
    order = np.random.default_rng(seed).permutation(len(codes))[: len(codes) // 2]
    some = row_tags(by_columns(DenseCodes(np.ascontiguousarray(codes[order]))), salt, n_threads)
    np.testing.assert_array_equal(some, tags[order])
    assert len(np.unique(tags)) == len(np.unique(codes, axis=0))


def test_tags_are_spread_evenly_and_differ_with_the_salt():
    codes = np.array(np.meshgrid(np.arange(100), np.arange(50)), dtype=np.uint8).reshape(2, -1).T.copy()
    columns = by_columns(DenseCodes(codes))
    tags, others = row_tags(columns, 1), row_tags(columns, 2)
    # Of 5,000 rows, within five standard deviations.
    for bound, expected, std in ((2**62, 1250, 31), (2**63, 2500, 36)):
        assert abs(int(np.sum(tags < bound)) - expected) < 5 * std
    both = (tags < 2**62) & (others < 2**62)
    assert abs(int(both.sum()) - 312) < 5 * 17


@pytest.mark.parametrize("is_sparse", [False, True])
def test_tags_are_mixed_without_copies_of_all_of_them(is_sparse):
    codes = (np.arange(60_000) % 200).astype(np.uint8)[:, None]
    sparse = SparseCodes(np.arange(60_001), np.zeros(60_000, np.int32), codes[:, 0], np.zeros(1, np.uint8))
    columns = by_columns(sparse if is_sparse else DenseCodes(codes))
    row_tags(columns, 1)  # loads kernels
    tags, peak = peak_of(lambda: row_tags(columns, 1))
    assert len(np.unique(tags)) == 200
    assert peak < 2 * tags.nbytes
