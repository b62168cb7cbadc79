"""The model of a cluster is that of one process, byte for byte, however the rows are divided."""

import dask.array as da
import lightgbm as lgb
import numpy as np
import pytest
from distributed import Client
from distributed.security import Security

import lgb_dp
import lgb_dp.dask
from dask_training import (
    N_ROUNDS,
    PUBLIC,
    X,
    Y,
    collections,
    entries,
    even,
    in_one_process,
    local_cluster,
    on_cluster,
    pinned,
)
from gbdt_hosts.dask import cluster as cluster_module
from gbdt_hosts.dask import connections
from lgb_dp.losses.loss import STEPS
from lgb_dp.mechanisms.noise import observed
from lgb_dp.newton.releases.held_out_rows import HoldOut
from newton_training import QUIET

pytestmark = pytest.mark.filterwarnings("ignore:random_state is for tests only")


@pytest.fixture(scope="module")
def client():
    with local_cluster(3) as cluster, Client(cluster) as client:
        yield client


@pytest.mark.parametrize(
    "lengths",
    [even(1), (0, 1, 600, 0, 39), *(pytest.param(even(n), marks=pytest.mark.slow) for n in (7, 64))],
)
def test_partitions_do_not_change_the_model(client, lengths):
    booster = on_cluster(client, lengths)
    assert booster.model_to_string() == in_one_process()
    assert entries(booster.privacy) == {"label counts": 1, "leaf sums": N_ROUNDS}


def test_the_number_of_workers_does_not_change_the_model():
    for n_workers in (1, 4):
        with local_cluster(n_workers) as cluster, Client(cluster) as client:
            assert on_cluster(client, even(8)).model_to_string() == in_one_process()


def test_a_cluster_with_tls_trains_over_direct_connections_with_tls(monkeypatch):
    pytest.importorskip("cryptography")
    security, used = Security.temporary(), []

    async def noted(client, address, *how):
        used.append((address, await connections.connected(client, address, *how)))
        return used[-1][1]

    monkeypatch.setattr(cluster_module, "connected", noted)
    with local_cluster(2, security=security) as cluster, Client(cluster, security=security) as client:
        assert on_cluster(client, even(4)).model_to_string() == in_one_process()
    assert len(used) == 2
    for address, connection in used:
        assert address.startswith("tls://")
        assert isinstance(connection, connections.DirectConnection)


OBJECTIVES = [
    ({"objective": "multiclass", "num_class": 3}, np.digitize(X[:, 0], [-0.5, 0.5]).astype(float), {}),
    ({"objective": "regression"}, X[:, 0] * 2, {"label_bounds": (-4, 4), "label_overflow": "clip"}),
    ({"objective": "binary"}, np.where(X[:, 1] > 1, np.nan, Y), {"label_overflow": "clip"}),
    ({"objective": "poisson"}, np.rint(np.exp(X[:, 0])), {"label_bounds": (0, 40)}),
    (
        {"objective": lgb_dp.AFT()},
        np.rec.fromarrays([Y > 0, np.exp(X[:, 0])], names=["event", "time"]),
        {"label_bounds": (0.1, 8), "label_overflow": "clip"},
    ),
    ({"objective": "quantile", "alpha": 0.8}, X[:, 0] * 2, {"label_bounds": (-9, 9)}),
]


@pytest.mark.parametrize(("params", "label", "declared"), OBJECTIVES)
def test_objectives_and_weights_are_those_of_one_process(client, params, label, declared):
    weight = np.linspace(0, 2, len(X))
    known = {**PUBLIC, **declared, "weight_bound": 2.0}
    params = {**params, "verbosity": -1}
    one = lgb.train(params, lgb_dp.Dataset(X, label, weight=weight, **known), 8, callbacks=[pinned(50.0)])
    Xd, yd = collections((100, 0, 540), X, label)
    data = lgb_dp.dask.DaskDataset(Xd, yd, weight=da.from_array(weight, chunks=(640,)), **known)
    many = lgb_dp.dask.train(client, params, data, 8, callbacks=[pinned(50.0)])
    assert many.model_to_string() == one.model_to_string()
    assert ("sums over all rows" in entries(many.privacy)) == (
        params["objective"] in ("poisson", "regression", lgb_dp.AFT())
    )


def test_lengths_and_divisions_that_are_not_known_are_found_by_the_workers(client):
    lengths = (100, 0, 540)
    Xd, Yd = collections(lengths)
    unknown = Xd[da.from_array(np.ones(len(X), dtype=bool), chunks=(lengths,))]
    assert np.isnan(unknown.shape[0])
    data = lgb_dp.dask.DaskDataset(unknown, Yd, **PUBLIC)
    booster = lgb_dp.dask.train(client, QUIET, data, N_ROUNDS, callbacks=[pinned()])
    assert booster.model_to_string() == in_one_process()


def test_data_frames_train_as_tables_do(client):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X[:, :2], columns=["a", "b"])
    frame["kind"] = pd.Categorical(np.where(Y > 0, "yes", "no"), categories=["no", "yes", "never"])
    frame["label"], frame["weight"] = Y, 0.5
    names = ["a", "b", "kind"]
    known = {
        "bounds": {"a": (-3, 3), "b": (-3, 3)},
        "categories": {"kind": ["no", "yes", "never"]},
        "weight_bound": 1,
    }
    one = lgb.train(
        QUIET,
        lgb_dp.Dataset(frame[names], frame["label"], weight=frame["weight"], **known),
        8,
        callbacks=[pinned()],
    )
    rows = dd.from_pandas(frame, npartitions=5)
    data = lgb_dp.dask.DaskDataset(rows[names], rows["label"], weight=rows["weight"], **known)
    many = lgb_dp.dask.train(client, QUIET, data, 8, callbacks=[pinned()])
    assert many.model_to_string() == one.model_to_string()


@pytest.mark.parametrize("group_weight", [None, "mean"])
def test_groups_are_the_unit_wherever_their_rows_are(client, group_weight):
    groups = np.arange(len(X)) // 2
    known = {**PUBLIC, "rows_per_group": 2, "group_weight": group_weight}
    one = lgb.train(QUIET, lgb_dp.Dataset(X, Y, groups=groups, **known), 8, callbacks=[pinned()])
    Xd, yd = collections((100, 300, 240))
    data = lgb_dp.dask.DaskDataset(Xd, yd, groups=da.from_array(groups, chunks=(640,)), **known)
    many = lgb_dp.dask.train(client, QUIET, data, 8, callbacks=[pinned()])
    assert many.model_to_string() == one.model_to_string()
    assert many.privacy.to_dict() == one.privacy.to_dict()


def test_rows_beyond_those_of_a_group_are_left_out(client):
    groups = da.from_array(np.zeros(len(X), dtype=int), chunks=(640,))
    data = lgb_dp.dask.DaskDataset(*collections((640,)), groups=groups, rows_per_group=5, **PUBLIC)
    seen = []
    with observed(lambda private, release: seen.append(private.values) or release()):
        lgb_dp.dask.train(client, QUIET, data, 1, callbacks=[pinned()])
    assert seen[0].sum() == 5 * STEPS  # the label counts


def test_a_sample_is_drawn_in_secret_by_the_workers(client, monkeypatch):
    monkeypatch.setattr("lgb_dp.newton.budget_plan.sampled_mu", lambda *_: 0.1)
    booster = on_cluster(client, even(4), callbacks=[lgb_dp.NewtonBoost(5.0, 1e-5, subsample=0.5)])
    assert booster.num_trees() == N_ROUNDS
    assert [row["probability"] for row in booster.privacy.ledger] == [1.0, 0.5]


def test_workers_forget_the_rows(client):
    on_cluster(client, even(2), 1)

    def names(dask_worker):
        return [name for name in (*dask_worker.plugins, *dask_worker.handlers) if "veilboost" in str(name)]

    assert set(map(tuple, client.run(names).values())) == {()}


def test_sparse_blocks_train_as_a_sparse_matrix_does(client):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    sparse = np.where(np.abs(X) > 1, X, 0.0)
    one = lgb.train(
        QUIET, lgb_dp.Dataset(scipy_sparse.csr_matrix(sparse), Y, **PUBLIC), 8, callbacks=[pinned()]
    )
    Xd, yd = collections((100, 540), sparse)
    data = lgb_dp.dask.DaskDataset(Xd.map_blocks(scipy_sparse.csr_matrix), yd, **PUBLIC)
    assert lgb_dp.dask.train(client, QUIET, data, 8, callbacks=[pinned()]).model_to_string() == (
        one.model_to_string()
    )


def test_public_rows_are_evaluated_and_stop_training_early(client):
    params = {**QUIET, "metric": ["auc", "binary_logloss"], "learning_rate": 0.9}
    train_set = lgb_dp.Dataset(X, Y, **PUBLIC)
    weight = np.linspace(0.1, 1, len(X))
    valid = lgb_dp.Dataset(X, 1 - Y, weight=weight, weight_bound=1, reference=train_set, public=True)
    one, many = {}, {}

    def callbacks(results):
        return [pinned(), lgb.early_stopping(3, verbose=False), lgb.record_evaluation(results)]

    booster = lgb.train(params, train_set, 20, valid_sets=[valid], callbacks=callbacks(one))
    Xd, yd = collections((0, 200, 440), X, 1 - Y)
    valid = lgb_dp.dask.DaskDataset(Xd, yd, weight=da.from_array(weight, chunks=(640,)), public=True)
    data = lgb_dp.dask.DaskDataset(*collections(even(3)), **PUBLIC)
    other = lgb_dp.dask.train(client, params, data, 20, valid_sets=[valid], callbacks=callbacks(many))
    for metric, values in one["valid_0"].items():  # threads of LightGBM add up losses in any order
        assert many["valid_0"][metric] == pytest.approx(values, rel=1e-12)
    assert many.keys() == one.keys()
    assert many["valid_0"].keys() == one["valid_0"].keys()
    assert other.best_iteration == booster.best_iteration < 20
    assert other.model_to_string() == booster.model_to_string()


@pytest.mark.parametrize("holds_out", [False, True])
def test_distilled_structures_are_those_of_one_process(client, monkeypatch, holds_out):
    monkeypatch.setattr("lgb_dp.newton.core.distilled_depth", lambda *_: (3, not holds_out))
    monkeypatch.setattr("lgb_dp.newton.core.can_hold_out", lambda *_: holds_out)
    data = lgb_dp.Dataset(X, Y, **PUBLIC)
    one = lgb.train(QUIET, data, 8, callbacks=[pinned()])
    many = on_cluster(client, even(5), 8)
    assert many.model_to_string() == one.model_to_string()
    assert entries(many.privacy) == {"label counts": 1, "feature histograms": 1, "leaf sums": 8}


@pytest.fixture
def by_codes(monkeypatch):
    """Rows are held out by their own codes, so that it does not matter where they are."""
    divided = HoldOut.divided

    def chosen(self, is_held, codes, label, weight):
        return divided(self, codes.codes.sum(axis=1, dtype=int) % 3 == 0, codes, label, weight)

    monkeypatch.setattr(HoldOut, "divided", chosen)
    monkeypatch.setattr("lgb_dp.boosting.run_rows.RunRows.draw_words", lambda self, _: np.zeros(1, np.uint64))


@pytest.mark.parametrize("place", range(3))
def test_held_out_rows_are_counted_as_in_one_process(client, place, by_codes):
    params, label, declared = [({"objective": "binary"}, Y, {}), *OBJECTIVES][place]
    params, rows = {**params, "verbosity": -1}, np.column_stack([X, np.arange(len(X)) % 2])
    known = {**PUBLIC, **declared, "bounds": {k: (-3, 3) for k in range(X.shape[1])}}
    known["categories"] = {X.shape[1]: [0, 1]}
    trainer = pinned(20.0, validation_fraction=0.3, by=X.shape[1])
    one = lgb.train(params, lgb_dp.Dataset(rows, label, **known), 6, callbacks=[trainer])
    data = lgb_dp.dask.DaskDataset(*collections((100, 0, 540), rows, label), **known)
    many = lgb_dp.dask.train(client, params, data, 6, callbacks=[trainer])
    assert many.model_to_string() == one.model_to_string()
    assert many.evaluation.groups.keys() == {"0", "1", "missing or undeclared"}


def test_estimators_on_a_cluster_hold_rows_out_and_are_calibrated(client, monkeypatch):
    monkeypatch.setattr("lgb_dp.evaluation.evaluation.PrivateEvaluation.platt", lambda _: (2.0, 0.5))
    model = lgb_dp.dask.DaskDPLGBMClassifier(
        50.0, client=client, n_estimators=8, validation_fraction=0.5, calibrate=True
    )
    model.fit(*collections((300, 340)), bounds=(-3, 3))
    assert 200 < model.evaluation_.n_rows.value < 440
    assert model.to_local().evaluation_.to_dict() == model.evaluation_.to_dict()
    assert 0.5 in model.evaluation_.edges
