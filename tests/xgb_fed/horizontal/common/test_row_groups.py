"""Groups of rows that only ever send the sum of their gradients."""

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.horizontal.common.row_groups import arrays_of, bytes_of, group_rows


@pytest.mark.parametrize("min_rows", [1, 2, 3, 7, 300])
def test_groups_have_the_rows_that_count_once_and_the_asked_sizes(min_rows):
    hashes = np.random.default_rng(0).integers(-3, 4, (350, 5)).astype(np.int32)
    counted = np.arange(len(hashes)) >= 50
    groups = group_rows(hashes, counted, min_rows, SecretStream(bytes(32)))
    assert np.array_equal(np.sort(groups.order), np.flatnonzero(counted))
    assert min_rows <= groups.sizes.min() <= groups.sizes.max() <= 2 * min_rows - 1
    group_of = np.repeat(np.arange(len(groups.starts)), groups.sizes)[np.argsort(groups.order)]
    for drawn in groups.members(50, SecretStream(bytes(32))):
        assert np.array_equal(group_of[drawn - 50], np.arange(len(groups.starts)))


def test_sums_are_those_of_each_groups_rows():
    hashes = np.random.default_rng(0).integers(-3, 4, (50, 5)).astype(np.int32)
    values = np.random.default_rng(1).standard_normal((50, 2)).astype(np.float32)
    groups = group_rows(hashes, np.arange(50) % 5 > 0, 3, SecretStream(bytes(32)))
    parts = np.split(groups.order, groups.starts[1:])
    assert np.allclose(groups.sums(values), [values[rows].sum(axis=0) for rows in parts])
    assert np.allclose(groups.exact_sums(values.astype(float)), groups.sums(values))


def test_rows_of_a_group_have_similar_hashes():
    """On clearly separate clusters of three rows, the groups are the clusters."""
    centres = np.repeat(np.arange(64)[:, None] * [100, 0, 0], 3, axis=0)
    hashes = (centres + np.random.default_rng(0).integers(0, 3, (192, 3))).astype(np.int32)
    shuffled = np.random.default_rng(1).permutation(192)
    groups = group_rows(hashes[shuffled], np.ones(192, dtype=bool), 3, SecretStream(bytes(32)))
    clusters = [np.unique(shuffled[rows] // 3) for rows in np.split(groups.order, groups.starts[1:])]
    assert all(len(found) == 1 for found in clusters)


def test_kept_arrays_are_read_as_they_were():
    given = {
        "rows": np.arange(6, dtype=np.int32).reshape(3, 2),
        "none": np.empty((0, 4)),
        "one": np.array(2.5),
        "turned": np.arange(6).reshape(2, 3).T,
    }
    found = arrays_of(bytes_of(**given))
    assert list(found) == list(given)
    for name, array in given.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        assert np.array_equal(found[name], array)
    with pytest.raises(ValueError, match="buffer"):
        arrays_of(bytes_of(**given)[:-1])


def test_threads_read_arrays_while_garbage_is_collected():
    """Python 3.11's own parser fails if another thread's begins in a collection, as in a finaliser."""
    content, threshold = bytes_of(rows=np.arange(3)), gc.get_threshold()

    def collected(phase, info):
        time.sleep(0)

    gc.callbacks.append(collected)
    gc.set_threshold(20, 2, 2)
    try:
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(arrays_of, [content] * 800))
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(collected)
    assert all(one["rows"].tolist() == [0, 1, 2] for one in found)
