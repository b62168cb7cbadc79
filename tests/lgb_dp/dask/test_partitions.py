"""What the workers tell of a partition's groups."""

import numpy as np
import pytest

from lgb_dp.dask.partitions import _hashes

DAY = np.array(["2020-01-01"], dtype="datetime64[D]")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.array([7]), np.array([7.0])),
        (np.array([0.0]), np.array([-0.0])),
        (np.array(["ann"]), np.array([b"ann"])),
        (np.array(["ann"], dtype=object), np.array(["ann"])),
        (np.array([True]), np.array([1])),
        (DAY.astype("datetime64[us]"), DAY.astype("datetime64[ns]")),
    ],
)
def test_side_door_a_group_is_the_same_in_partitions_of_other_data_types(one, other):
    """Before, a person whose number was an integer here and a float there was two persons."""
    assert _hashes(one) == _hashes(other)
    assert _hashes(one) != _hashes(np.array(["somebody else"]))
