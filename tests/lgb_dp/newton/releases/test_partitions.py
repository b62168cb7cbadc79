"""What the workers tell of a partition's groups."""

from dataclasses import replace

import numpy as np
import pytest

import lgb_dp
from gbdt_kernels.trees import DenseCodes, SparseCodes
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.loss import NewtonLoss
from lgb_dp.newton.releases.held_out_rows import HoldOut
from lgb_dp.newton.releases.partitions import (
    RowRules,
    hash_values,
    joined_codes,
    read_partition,
    training_rows,
)

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
    assert hash_values(one) == hash_values(other)
    assert hash_values(one) != hash_values(np.array(["somebody else"]))


def test_codes_of_dense_and_sparse_blocks_are_not_joined():
    dense = DenseCodes(np.zeros((2, 1), dtype=np.uint8))
    nothing = np.empty(0, dtype=np.uint8)
    sparse = SparseCodes(
        np.zeros(3, dtype=np.int64), nothing.astype(np.int32), nothing, np.zeros(1, np.uint8)
    )
    for parts in ([dense, sparse], [sparse, dense]):
        with pytest.raises(lgb_dp.InvalidArgumentError, match=r"got 1.*1 sparse"):
            joined_codes(parts)


@pytest.mark.parametrize("most", [None, 2])
def test_rows_of_a_person_are_not_trained_on_without_a_limit_nor_a_limit_without_persons(most):
    loss, scale = NewtonLoss("binary", 1.0, 0.1), LabelScale("binary", 1, 0.0, 1.0)
    bins = lgb_dp.Dataset(np.zeros((4, 1)), np.zeros(4), bounds=(0, 1)).construct().bins
    groups = np.array([0, 0, 0, 1]) if most is None else None
    rules = RowRules(bins, ("1 columns of float64",), scale, loss, "raise", None, most, None, 1.0, 1)
    partition = read_partition(rules, np.zeros((4, 1)), np.zeros(4), None, groups)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="groups and rows_per_group"):
        training_rows(rules, partition, 0)


def test_rows_of_a_person_are_held_out_together_and_again_when_a_partition_is_loaded_anew():
    loss, scale = NewtonLoss("binary", 1.0, 0.1), LabelScale("binary", 1, 0.0, 1.0)
    bins = lgb_dp.Dataset(np.zeros((4, 1)), np.zeros(4), bounds=(0, 1)).construct().bins
    person, hold_out = np.repeat(np.arange(200), 3), HoldOut(0.3)
    rules = RowRules(bins, ("1 columns of float64",), scale, loss, "raise", None, 2, None, 1.0, 1)
    rules = replace(rules, hold_out=hold_out)
    held = []
    for seed, value in ((5, 0.0), (5, 1.0), (6, 0.0)):
        partition = read_partition(rules, np.full((600, 1), value), np.full(600, value), None, person)
        rows = training_rows(rules, partition, seed)
        assert rows.is_held.tolist() == np.repeat(rows.is_held[::2], 2).tolist()
        held.append(rows.is_held.tolist())
    assert held[0] == held[1] != held[2]
    assert 0.2 < np.mean(held[0]) < 0.4
