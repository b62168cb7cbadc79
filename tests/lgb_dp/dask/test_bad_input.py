"""What is wrong with rows, declarations or a client is a named error before a budget is touched."""

import dask.array as da
import numpy as np
import pytest
from distributed import Client

import lgb_dp
import lgb_dp.dask
from dask_training import PUBLIC, X, Y, collections, local_cluster
from newton_training import DELTA, QUIET

pytestmark = pytest.mark.filterwarnings("ignore:random_state is for tests only")
DaskDataset = lgb_dp.dask.DaskDataset


@pytest.fixture(scope="module")
def client():
    with local_cluster(1) as cluster, Client(cluster) as client:
        yield client


def assert_refused(client, data, error, match, params=QUIET, callbacks=None, valid_sets=()):
    budget = lgb_dp.Budget(10.0, 1e-3)
    callbacks = [lgb_dp.NewtonBoost(1.0, DELTA, budget=budget)] if callbacks is None else callbacks
    with pytest.raises(error, match=match) as caught:
        lgb_dp.dask.train(client, params, data, 3, callbacks=callbacks, valid_sets=valid_sets, timeout=120)
    assert isinstance(caught.value, lgb_dp.PrivateTrainingError)
    assert not budget.report().ledger


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), float("inf"), "1"])
def test_a_timeout_is_a_finite_number_of_seconds(client, timeout):
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"timeout=.*seconds"):
        lgb_dp.dask.train(client, {}, None, 3, timeout=timeout)


Xd, Yd = collections((320, 320))
ODD = np.where(np.arange(len(X)) == 400, 7.0, Y)


def of_unknown_lengths(collection):
    return collection[da.ones(len(X), dtype=bool, chunks=collection.chunks[0])]


UNKNOWN = of_unknown_lengths(Xd)

BAD_ROWS = [
    (lambda: DaskDataset(Xd, Yd), "bounds and categories must be given"),
    (
        lambda: DaskDataset(Xd, da.from_array(ODD, chunks=(320,)), **PUBLIC),
        "partition 1: label must be 0 or 1",
    ),
    (
        lambda: DaskDataset(Xd.map_blocks(lambda b: b.astype("f4"), dtype="f8"), Yd, **PUBLIC),
        "from those of the collection: got '4 columns of float32' where '4 columns of float64'",
    ),
    (
        lambda: DaskDataset(Xd.map_blocks(lambda b: b[:, :3], chunks=(320, 4), dtype="f8"), Yd, **PUBLIC),
        "got '3 columns of float64' where '4 columns of float64'",
    ),
    (
        lambda: DaskDataset(Xd, Yd.map_blocks(lambda b: b[:-1], dtype="f8"), **PUBLIC),
        "partition 0: y has another number of rows than X",
    ),
    (
        lambda: DaskDataset(Xd, Yd, weight=da.full(640, 3.0, chunks=(320,)), weight_bound=2.0, **PUBLIC),
        "weight must lie in",
    ),
    (
        lambda: DaskDataset(
            Xd, Yd, groups=da.zeros(640, dtype=int, chunks=(320,)), rows_per_group=2, **PUBLIC
        ),
        "groups must not span partitions",
    ),
    (lambda: DaskDataset(UNKNOWN, Yd.rechunk((400, 240)), **PUBLIC), "partition 0: y has another"),
    (
        lambda: DaskDataset(UNKNOWN, of_unknown_lengths(Yd.rechunk((400, 240))), **PUBLIC),
        "partition 0: y has another number of rows than X",
    ),
    (lambda: DaskDataset(Xd[:0], Yd[:0], **PUBLIC), "X has no rows"),
]


@pytest.mark.parametrize(("make", "match"), BAD_ROWS)
def test_rows_that_do_not_fit(client, make, match):
    assert_refused(client, make(), lgb_dp.InvalidArgumentError, match)


BAD_COLLECTIONS = [
    (lambda: DaskDataset(X, Yd, **PUBLIC), TypeError, "X.*dask.*, got ndarray"),
    (lambda: DaskDataset(Xd, Y, **PUBLIC), TypeError, "y must be a dask array"),
    (lambda: DaskDataset(Xd, Yd[:600], **PUBLIC), ValueError, "y does not match X"),
    (lambda: DaskDataset(UNKNOWN, Yd.rechunk(160), **PUBLIC), ValueError, "y does not match X"),
    (lambda: DaskDataset(Xd, Xd, **PUBLIC), ValueError, "y must have 1 axes"),
    (lambda: DaskDataset(Xd, Yd, max_bins=3), ValueError, "max_bins.*argument of DaskDataset"),
]


@pytest.mark.parametrize(("make", "error", "match"), BAD_COLLECTIONS)
def test_collections_that_do_not_fit(make, error, match):
    with pytest.raises(error, match=match) as caught:
        make()
    assert isinstance(caught.value, lgb_dp.PrivateTrainingError)


def test_columns_of_a_partition_that_differ(client):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=list("abcd")).assign(y=Y)
    rows = dd.from_pandas(frame, npartitions=2)
    other = rows[list("abcd")].map_partitions(
        lambda part: part.rename(columns={"b": "e"}),
        meta=frame[list("abcd")].iloc[:0],
        enforce_metadata=False,
    )
    assert_refused(
        client,
        DaskDataset(other, rows["y"], **PUBLIC),
        lgb_dp.InvalidArgumentError,
        "got 'e: Float64' where 'b: Float64' was declared",
    )
    shifted = rows["y"].repartition(divisions=[0, 100, 639])
    with pytest.raises(lgb_dp.InvalidArgumentError, match="other divisions than X"):
        DaskDataset(rows[list("abcd")], shifted, **PUBLIC)


OTHER_TRAINERS = (
    lgb_dp.DPBoost,
    lgb_dp.SequentialBoost,
    lgb_dp.ParallelBoost,
    lgb_dp.MBoost,
    lgb_dp.RandomForestLaplace,
    lgb_dp.RandomForestExponential,
)


def test_other_trainers_and_datasets(client):
    data = DaskDataset(Xd, Yd, **PUBLIC)
    for make in OTHER_TRAINERS:
        trainer = make(1.0)
        assert_refused(
            client, data, lgb_dp.UnsupportedParameterError, "lgb_dp.NewtonBoost is", callbacks=[trainer]
        )
    assert_refused(client, data, lgb_dp.InvalidArgumentError, "must contain one", callbacks=[])
    plain = lgb_dp.Dataset(X, Y, **PUBLIC)
    assert_refused(client, plain, TypeError, "train_set must be a lgb_dp.dask.DaskDataset")


def test_evaluation_rows_that_are_private_or_those_of_training(client):
    data, private = DaskDataset(Xd, Yd, **PUBLIC), DaskDataset(Xd, Yd)
    assert_refused(client, data, ValueError, "valid_sets must hold public rows", valid_sets=[private])
    assert_refused(client, data, ValueError, "metrics on the training rows", valid_sets=[data])
    plain = lgb_dp.Dataset(X, Y, **PUBLIC)
    assert_refused(client, data, TypeError, "valid_sets must be lgb_dp.dask.DaskDatasets", valid_sets=[plain])
    public = DaskDataset(Xd[:, :3], Yd, public=True)
    assert_refused(client, data, ValueError, "set: .* got '3 columns of float64'", valid_sets=[public])


def test_clients_that_cannot_train():
    data = DaskDataset(Xd, Yd, **PUBLIC)
    assert_refused("tcp://127.0.0.1:1", data, TypeError, "client must be a distributed.Client")
    with local_cluster(1) as cluster:
        client = Client(cluster)
        client.close()
        assert_refused(client, data, ValueError, "client must be connected")


def test_the_extra_is_named_where_dask_is_missing(monkeypatch):
    import importlib
    import sys

    monkeypatch.setitem(sys.modules, "distributed", None)
    monkeypatch.delitem(sys.modules, "lgb_dp.dask")
    with pytest.raises(lgb_dp.MissingDependencyError, match=r"pip install 'veilboost\[dask\]'"):
        importlib.import_module("lgb_dp.dask")
