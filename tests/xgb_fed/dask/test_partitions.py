"""Partitions of a party's collections, and those that cannot be."""

import dask.dataframe
import numpy as np
import pandas as pd
import pytest

import xgb_fed
from bad_collections import BLOCKS, VALUES
from xgb_fed.dask import DaskParty


def huge(block):
    block = block.copy()
    block[3, 1] = np.inf
    return block


BAD_COLLECTIONS = [
    (VALUES, xgb_fed.ArgumentTypeError, "X of party 'bank'.*,.*ndarray"),
    (BLOCKS[:, 0], xgb_fed.InvalidDataError, "1 dimensions; a matrix has 2"),
    (BLOCKS[BLOCKS[:, 0] > 0], xgb_fed.InvalidDataError, r"unknown lengths.*compute_chunk_sizes\(\)"),
    (BLOCKS[:0], xgb_fed.InvalidDataError, "has no rows"),
    (BLOCKS[:, :0], xgb_fed.InvalidDataError, "has no columns"),
    (BLOCKS.map_blocks(huge, dtype="f8"), xgb_fed.InvalidDataError, "partition 0: .*infinite"),
    (
        BLOCKS.map_blocks(lambda block: block.astype("f4"), dtype="f8"),
        xgb_fed.InvalidDataError,
        "got '3 columns of float32' where '3 columns of float64' was declared",
    ),
    (
        BLOCKS.map_blocks(lambda block: block[:, :2], dtype="f8"),
        xgb_fed.InvalidDataError,
        "got '2 columns of float64'",
    ),
    (
        BLOCKS.map_blocks(lambda block: np.ma.masked_greater(block, 0), dtype="f8"),
        xgb_fed.InvalidDataError,
        "partition 0.*array",
    ),
    (
        dask.dataframe.from_pandas(pd.DataFrame(VALUES, columns=VALUES[0]), npartitions=2),
        xgb_fed.InvalidDataError,
        "X of party 'bank'.*column 0",
    ),
    (
        BLOCKS.map_blocks(lambda block: 1 / 0, dtype="f8", meta=np.empty((0, 0))),
        xgb_fed.PartitionError,
        r"could not be computed \(ZeroDivisionError\)",
    ),
]


@pytest.mark.parametrize(("collection", "error", "match"), BAD_COLLECTIONS)
def test_collections_that_do_not_fit(client, collection, error, match):
    with pytest.raises(error, match=match) as caught:
        DaskParty(client, collection, "bank", timeout=120)
    assert isinstance(caught.value, xgb_fed.VeilboostError)


def test_evaluation_sets_that_do_not_fit(client):
    with pytest.raises(xgb_fed.InvalidDataError, match=r"3 columns to train.*2"):
        DaskParty(client, BLOCKS, "bank", eval_sets=[BLOCKS[:, :2]], timeout=120)
    assert not client.run(lambda dask_worker: [n for n in dask_worker.plugins if n.startswith("veil")])[
        next(iter(client.scheduler_info()["workers"]))
    ]


def test_partitions_that_are_computed_differently(client):
    changing = BLOCKS.map_blocks(lambda block: block + np.random.default_rng().normal(), dtype="f8")
    with DaskParty(client, changing, "bank", timeout=120) as party:
        leases = party.held[0]
        leases.forget()
        with pytest.raises(xgb_fed.PartitionError, match="first time"):
            leases.load()
