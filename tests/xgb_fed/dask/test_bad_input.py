"""What is wrong with a client, a collection or a partition is a named error before anything is sent."""

import numpy as np
import pytest
from distributed import Client

import xgb_fed
from dask_party import N_ACTIVE, X, Y, chunked
from dask_training import local_cluster
from xgb_fed.dask import DaskParty

VALUES = X[:, N_ACTIVE:].astype(np.float64)
BLOCKS = chunked(VALUES, (100, 200))


@pytest.fixture(scope="module")
def client():
    with local_cluster(1) as cluster, Client(cluster) as client:
        yield client


def huge(block):
    block = block.copy()
    block[3, 1] = np.inf
    return block


BAD_COLLECTIONS = [
    (VALUES, xgb_fed.ArgumentTypeError, "X of party 'bank' must be a dask array .*, got ndarray"),
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
        BLOCKS.map_blocks(lambda block: 1 / 0, dtype="f8", meta=np.empty((0, 0))),
        xgb_fed.PartitionError,
        r"could not be computed \(ZeroDivisionError\)",
    ),
]


@pytest.mark.parametrize(("collection", "error", "match"), BAD_COLLECTIONS)
def test_collections_that_do_not_fit(client, collection, error, match):
    with pytest.raises(error, match=match) as caught:
        DaskParty(client, collection, "bank", timeout=20)
    assert isinstance(caught.value, xgb_fed.VeilboostError)


def test_evaluation_sets_that_do_not_fit(client):
    with pytest.raises(xgb_fed.InvalidDataError, match="3 columns to train on and 2 in other rows"):
        DaskParty(client, BLOCKS, "bank", eval_sets=[BLOCKS[:, :2]], timeout=20)
    assert not client.run(lambda dask_worker: [n for n in dask_worker.plugins if n.startswith("veil")])[
        next(iter(client.scheduler_info()["workers"]))
    ]


def test_data_frames(client):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(VALUES, columns=list("abc"))
    rows = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(xgb_fed.InvalidDataError, match=r"unknown divisions.*calculate_divisions=True"):
        DaskParty(client, rows.clear_divisions(), "bank")
    other = rows.map_partitions(
        lambda part: part.rename(columns={"b": "e"}), meta=frame.iloc[:0], enforce_metadata=False
    )
    with pytest.raises(xgb_fed.InvalidDataError, match="got 'e: float64' where 'b: float64' was declared"):
        DaskParty(client, other, "bank")
    words = frame.assign(b="word")
    with pytest.raises(xgb_fed.InvalidDataError, match=r"columns that are not numbers: \['b'\]"):
        DaskParty(client, dd.from_pandas(words, npartitions=2), "bank")
    named = dd.from_pandas(frame.set_index(np.arange(len(frame)) + 5), npartitions=2)
    active = pd.DataFrame(X[:, :N_ACTIVE])
    with DaskParty(client, named, "bank") as party, pytest.raises(xgb_fed.RowMismatchError):
        xgb_fed.VerticalXGBClassifier(2).fit(active.set_index(np.arange(len(X)) + 6), Y, parties=[party])


def test_partitions_that_are_computed_differently(client):
    changing = BLOCKS.map_blocks(lambda block: block + np.random.default_rng().normal(), dtype="f8")
    with DaskParty(client, changing, "bank", timeout=20) as party:
        leases = party._held[0]._leases
        leases.forget()
        with pytest.raises(xgb_fed.PartitionError, match="not those of the first time"):
            leases.load()


def test_clients_that_cannot_be_used():
    with pytest.raises(xgb_fed.ArgumentTypeError, match=r"client must be a distributed\.Client"):
        DaskParty("tcp://127.0.0.1:1", BLOCKS, "bank")
    with local_cluster(1) as cluster:
        client = Client(cluster)
        client.close()
        with pytest.raises(xgb_fed.InvalidArgumentError, match="client must be connected"):
            DaskParty(client, BLOCKS, "bank")
        with Client(cluster) as client:
            for name in ("active", "", 3):
                with pytest.raises(xgb_fed.InvalidArgumentError, match="must be a printable text"):
                    DaskParty(client, BLOCKS, name)
            for timeout in (0, -1.0, float("nan"), "1"):
                with pytest.raises(xgb_fed.InvalidArgumentError, match="timeout="):
                    DaskParty(client, BLOCKS, "bank", timeout=timeout)


def test_the_extra_is_named_where_dask_is_missing(monkeypatch):
    import importlib
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "xgb_fed.dask")
    with pytest.raises(xgb_fed.MissingDependencyError, match=r"pip install 'veilboost\[dask\]'"):
        importlib.import_module("xgb_fed.dask")
