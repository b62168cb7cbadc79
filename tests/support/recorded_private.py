"""Small runs of every way of private training, for the recorded digests."""

import contextlib
import tempfile
from contextlib import ExitStack
from pathlib import Path

import dask.array as da
import lightgbm as lgb
import numpy as np
import pytest
import scipy.sparse
from distributed import Client

import columns_apart
import federated_training
import lgb_dp
import lgb_dp.dask
import lgb_dp.federated
import lgb_dp.vertical
from dask_training import local_cluster
from flower_hospitals import FakeCarrier, Hospitals, write_files
from gbdt_parties.identity.certificates import TLS, make_authority, make_certificate
from gbdt_parties.traffic import Traffic
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import Server
from lgb_dp.federated.ledger import read_ledger
from lgb_dp.federated.service import FederatedService
from lgb_dp.vertical import ColumnService, MaskedTraffic
from newton_training import live_booster
from recording import GUARANTEE, of_private
from small_training import binary_data, dataset
from veilboost.flower import channel
from veilboost.flower.training import train_over

DELTA = 1e-5
X, Y = binary_data(600)
RNG = np.random.default_rng(2)
TARGET = X[:, 0] * 2 + X[:, 1]
CLASS = (X[:, 0] > 0).astype(float) + (X[:, 1] > 0)
COUNT = RNG.poisson(np.exp(X[:, 0] / 2)).astype(float)
LABELS = {
    "binary": (Y, None),
    "multiclass": (CLASS, None),
    "regression": (TARGET, (-9, 9)),
    "huber": (TARGET, (-9, 9)),
    "regression_l1": (TARGET, (-9, 9)),
    "quantile": (TARGET, (-9, 9)),
    "poisson": (COUNT, (0, 20)),
    "gamma": (COUNT + 0.5, (0.5, 21)),
    "tweedie": (COUNT, (0, 20)),
}


def params_of(objective, **params):
    of_objective = {"num_class": 3} if objective == "multiclass" else {}
    return {"objective": objective, "verbosity": -1, "num_threads": 1, **of_objective, **params}


def rows(objective="binary", X=X, **settings):
    label, bounds = LABELS[objective]
    return dataset(X, label, **{"label_bounds": bounds, **settings})


def newton(objective="binary", data=None, n_rounds=12, epsilon=5.0, params=None, trainer=None, **kwargs):
    """Train with a given trainer, NewtonBoost unless another is given, on given rows."""
    boost = lgb_dp.NewtonBoost(epsilon, DELTA, **(trainer or {})) if not callable(trainer) else trainer()
    data = rows(objective) if data is None else data()
    callbacks = [boost, *kwargs.pop("callbacks", ())]
    return of_private(
        lgb.train(params_of(objective, **(params or {})), data, n_rounds, callbacks=callbacks, **kwargs)
    )


def objective(name):
    return lambda: newton(name, epsilon=8.0, n_rounds=16)


def other(trainer, name="binary", **params):
    return lambda: newton(name, n_rounds=3, trainer=trainer, params={"max_depth": 3, **params})


def with_categories():
    features = X.copy()
    features[:, 2] = np.abs(np.rint(features[:, 2]))
    features[::5, 1] = np.nan
    declared = {"bounds": {0: (-3, 3), 1: (-3, 3), 3: (-3, 3)}, "categories": {2: range(4)}}
    return lgb_dp.Dataset(features, Y, max_bin=16, **declared)


def sparse_rows():
    table = scipy.sparse.random(400, 5, density=0.3, random_state=1, format="csr")
    return lgb_dp.Dataset(table, np.asarray(table.sum(axis=1)).ravel() > 0.7, bounds=(0, 1), max_bin=8)


def grouped(**settings):
    groups = np.random.default_rng(3).integers(0, 120, len(Y))
    return lambda: dataset(X, Y, groups=groups, rows_per_group=3, **settings)


def continued():
    first = lgb.train(
        params_of("binary"), rows(free_raw_data=False), 4, callbacks=[lgb_dp.NewtonBoost(3.0, DELTA)]
    )
    return newton(data=lambda: rows(free_raw_data=False), init_model=first)


def rolled_back():
    live = live_booster(20, rows(), params_of("binary"))
    for step in (live.update,) * 6 + (live.rollback_one_iter,) * 2 + (live.update,) * 5:
        step()
    return of_private(live)


def early_stopped():
    data = rows()
    held_out = data.create_valid(X[:200], Y[:200], public=True)
    stop = lgb.early_stopping(3, verbose=False)
    return newton(data=lambda: data, valid_sets=[held_out], callbacks=[stop], n_rounds=40)


def with_many_rows():
    """Structures are distilled, and rows are held out."""
    features, label = binary_data(40_000, 5)
    return newton(data=lambda: dataset(features, label, max_bin=32), epsilon=40.0, n_rounds=24)


def fold():
    data = rows()
    chosen, _ = next(lgb_dp.folds(3, data).split())
    return newton(data=lambda: data.subset(chosen))


HERE = {
    **{f"newton {name}": objective(name) for name in LABELS},
    "newton random": lambda: newton(trainer={"structure": "random"}),
    "newton cyclic": lambda: newton(trainer={"structure": "cyclic"}),
    "newton without noise": lambda: newton(epsilon=np.inf),
    "newton regression without noise": lambda: newton("regression", epsilon=np.inf),
    "newton many rows": with_many_rows,
    "newton weights": lambda: newton(data=lambda: rows(weight=1 + X[:, 3] ** 2 / 9, weight_bound=2.0)),
    "newton persons": lambda: newton(data=grouped()),
    "newton means of persons": lambda: newton(data=grouped(group_weight="mean")),
    "newton categories": lambda: newton(data=with_categories),
    "newton sparse": lambda: newton(data=sparse_rows),
    "newton monotone": lambda: newton(params={"monotone_constraints": [1, 0, -1, 0]}),
    "newton subsample": lambda: newton(trainer={"subsample": 0.4}, n_rounds=6),
    "newton given settings": lambda: newton(
        params={"learning_rate": 0.3, "max_depth": 2, "lambda_l2": 3.0},
        trainer={"rounds": 20, "hessian_share": 0.2, "gradient_clip": 0.5},
    ),
    "newton clipped labels": lambda: newton(
        "regression", lambda: rows("regression", label_bounds=(-2, 2), label_overflow="clip")
    ),
    "newton changed rate": lambda: newton(
        callbacks=[lgb.reset_parameter(learning_rate=lambda k: 0.5 / (k + 1))]
    ),
    "newton many bins": lambda: newton("gamma", lambda: rows("gamma", max_bin=255)),
    "newton continued": continued,
    "newton rolled back": rolled_back,
    "newton early stopped": early_stopped,
    "newton fold": fold,
    "dpboost": other(lambda: lgb_dp.DPBoost(2.0)),
    "dpboost regression": other(lambda: lgb_dp.DPBoost(2.0), "regression"),
    "dpboost of the paper": other(lambda: lgb_dp.DPBoost(2.0, variant="paper")),
    "sequential": other(lambda: lgb_dp.SequentialBoost(2.0)),
    "parallel": other(lambda: lgb_dp.ParallelBoost(2.0), "regression"),
    "mboost": other(lambda: lgb_dp.MBoost(2.0)),
    "mboost multiclass": other(lambda: lgb_dp.MBoost(2.0), "multiclass"),
    "forest of Laplace noise": other(lambda: lgb_dp.RandomForestLaplace(2.0)),
    "forest of chosen classes": other(lambda: lgb_dp.RandomForestExponential(2.0)),
}


# Rows of a Dask cluster.


def on_cluster(objective, subsample=1.0, **declared):
    label, bounds = LABELS[objective]
    parts = da.from_array(X, chunks=(170, X.shape[1])), da.from_array(label, chunks=(170,))
    if "weight" in declared:
        declared["weight"] = da.from_array(declared["weight"], chunks=(170,))
    with local_cluster(2) as cluster, Client(cluster) as client:
        data = lgb_dp.dask.DaskDataset(*parts, bounds=(-3, 3), max_bin=16, label_bounds=bounds, **declared)
        trainer = lgb_dp.NewtonBoost(5.0, DELTA, subsample=subsample)
        params = params_of(objective)
        return of_private(lgb_dp.dask.train(client, params, data, 8, callbacks=[trainer]))


DASK = {
    "dask binary": lambda: on_cluster("binary"),
    "dask weights": lambda: on_cluster("multiclass", weight=1 + np.abs(X[:, 3]) / 3, weight_bound=2.0),
    "dask poisson": lambda: on_cluster("poisson"),
}


# Rows of several parties.


def of_ledgers(folder):
    """Charges of parties, by their names."""
    kept = ("release", "answers", "mu", "closeness", "neighbouring")
    return {
        path.name: [{key: row.get(key) for key in kept} for row in read_ledger(path).rows]
        for path in sorted(Path(folder).iterdir())
    }


def party_settings(objective):
    label, bounds = LABELS[objective]
    return {"bounds": (-3, 3), "max_bin": 8, "label_bounds": bounds}, label


def of_parties(objective="binary", n_parties=3, n_rounds=4, trainer=None, params=None, **settings):
    declared, label = party_settings(objective)
    traffic, boost = Traffic(), lgb_dp.NewtonBoost(8.0, DELTA, **(trainer or {}))
    with tempfile.TemporaryDirectory() as folder:
        names = federated_training.NAMES[:n_parties]
        members = [
            lgb_dp.federated.Party(
                X[k::n_parties], label[k::n_parties], name=name, folder=Path(folder) / name, **declared
            )
            for k, name in enumerate(names)
        ]
        booster = lgb_dp.federated.train(
            params_of(objective, **(params or {})),
            members,
            n_rounds,
            callbacks=[boost],
            traffic=traffic,
            **settings,
        )
        for member in members:
            member.close()
        return {**of_private(booster, traffic), "charges of parties": of_ledgers(folder)}


def served_parties():
    declared, label = party_settings("binary")
    names, traffic = federated_training.NAMES[:3], Traffic()
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder = Path(made)
        make_authority(folder / "ca")
        known = [f"sha256:{make_certificate(folder / n, folder / 'ca', n).fingerprint}" for n in names]
        make_certificate(folder / "acme", folder / "ca", "acme")
        own, remote = TLS.from_directory(folder / "acme"), []
        for k, name in enumerate(names):
            member = lgb_dp.federated.Party(
                X[k::3],
                label[k::3],
                name=name,
                folder=folder / "kept" / name,
                budget=(9.0, DELTA),
                tls=folder / name,
                allowed=known,
                **declared,
            )
            service = FederatedService(member, folder / f"{name} served")
            server = Server(service, "127.0.0.1:0", TLS.from_directory(folder / name), ["acme"])
            stack.callback(member.close)
            stack.callback(server.stop, grace=0)
            remote.append(RemoteParty(f"127.0.0.1:{server.port}", own, name, timeout=60))
            stack.callback(remote[-1].close)
        trainer = lgb_dp.NewtonBoost(8.0, DELTA)
        booster = lgb_dp.federated.train(params_of("binary"), remote, 3, callbacks=[trainer], traffic=traffic)
        stack.close()
        return {**of_private(booster, traffic), "charges of parties": of_ledgers(folder / "kept")}


def behind_nodes(method="private"):
    """Messages are relayed as by nodes of Flower, in this process."""
    sent, model = [], {"private": "model.txt", "exact": "model.json"}[method]
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        write_files(Path(folder), method, rounds=3)
        with Hospitals(Path(folder)) as running, pytest.MonkeyPatch.context() as patch:
            patch.setattr(channel, "SECONDS_BETWEEN_LOOKS", 0.01)
            carrier = FakeCarrier(running)
            train_over(carrier, "plan.toml")
            sent = [[name, [len(one) for one in requests]] for name, requests in carrier.sent]
        text = GUARANTEE.sub("", (Path("model") / model).read_text())
    return {"model": text, "traffic": sorted(sent)}


PARTIES = {
    "parties binary": of_parties,
    "parties multiclass": lambda: of_parties("multiclass"),
    "parties regression": lambda: of_parties("regression", trees_per_round=2, n_rounds=5),
    "parties gamma": lambda: of_parties("gamma"),
    "parties cyclic": lambda: of_parties(trainer={"structure": "cyclic"}, params={"max_depth": 2}),
    "parties that pool": lambda: of_parties(n_parties=4, colluding=2, parties_per_person=2),
    "parties over TLS": served_parties,
    "parties behind nodes": behind_nodes,
    "exact behind nodes": lambda: behind_nodes("exact"),
}


# Columns of two parties.


def apart(label=columns_apart.Y, objective="binary", n_trees=4, bounds=None, trainer=None, **params):
    traffic = MaskedTraffic()
    with tempfile.TemporaryDirectory() as folder:
        party = columns_apart.bank(folder=Path(folder) / "bank")
        data = lgb_dp.Dataset(columns_apart.X[:, :2], label, bounds=(-1, 1), max_bin=64, label_bounds=bounds)
        booster = lgb_dp.vertical.train(
            params_of(objective, max_depth=2, **params),
            data,
            n_trees,
            parties=[party],
            callbacks=[lgb_dp.NewtonBoost(30.0, DELTA, **(trainer or {}))],
            trees_per_round=2,
            traffic=traffic,
        )
        party.close()
        return {**of_private(booster, traffic), "charges of parties": of_ledgers(folder)}


def served_columns():
    traffic = MaskedTraffic()
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder = Path(made)
        make_authority(folder / "ca")
        prints = {
            name: f"sha256:{make_certificate(folder / name, folder / 'ca', name).fingerprint}"
            for name in ("hospital", "bank")
        }
        own = {"tls": folder / "bank", "allowed": [prints["hospital"]], "budget": columns_apart.BUDGET}
        party = columns_apart.bank(folder=folder / "kept" / "bank", **own)
        service = ColumnService(party, folder / "served")
        server = Server(service, "127.0.0.1:0", TLS.from_directory(folder / "bank"), ["hospital"])
        stack.callback(service.close)
        stack.callback(server.stop, grace=0)
        tls = folder / "hospital"
        remote = RemoteParty(f"127.0.0.1:{server.port}", TLS.from_directory(tls), "bank", timeout=60)
        with contextlib.closing(remote):
            booster = columns_apart.trained(remote, tls=tls, allowed=[prints["bank"]], traffic=traffic)
        stack.close()
        return {**of_private(booster, traffic), "charges of parties": of_ledgers(folder / "kept")}


NUMBERS = columns_apart.X[:, 0] + columns_apart.X[:, 2]
APART = {
    "apart binary": apart,
    "apart regression": lambda: apart(NUMBERS, "regression", bounds=(-2, 2)),
    "apart poisson": lambda: apart(np.rint(np.exp(NUMBERS)), "poisson", bounds=(0, 9)),
    "apart huber monotone": lambda: apart(
        NUMBERS, "huber", bounds=(-2, 2), monotone_constraints=[1, 0, 1, 0]
    ),
    "apart several classes": lambda: apart(columns_apart.CLASSES, "multiclassova", num_class=3, n_trees=2),
    "apart over TLS": served_columns,
}
RUNS = {**HERE, **DASK, **PARTIES, **APART}
