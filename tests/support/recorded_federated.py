"""Small runs of every way of federated training without noise, for the recorded digests."""

import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np

import xgb_fed
from exact_training import NAMES
from exact_training import X as ROWS
from exact_training import Y as LABEL
from gbdt_parties.identity.certificates import TLS, make_authority, make_certificate
from gbdt_parties.traffic import Traffic
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import Server
from recording import of_trees
from small_keys import KEYS
from vertical_training import parties_of, parts, problem, train
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.ciphers.paillier import Paillier
from xgb_fed.horizontal.common.rows import HorizontalLimits
from xgb_fed.horizontal.service import HorizontalService
from xgb_fed.horizontal.train_exact import train_exact
from xgb_fed.horizontal.train_simfl import train_simfl


class Kept:
    """A cipher with a key that is made once."""

    def __init__(self, scheme):
        self._key = KEYS[scheme]

    def generate(self):
        return self._key


def vertical(objective="binary:logistic", cipher=None, missing=0.0, weight=None, rounds=2, **params):
    X, y = problem(objective, n=160, missing=missing)
    active, *passive = parts(X, 2, 4)
    members, traffic = parties_of(passive), Traffic()
    of_objective = {"num_class": 3} if objective.startswith("multi") else {}
    settings = {"objective": objective, "max_depth": 3, "max_bin": 8, **of_objective, **params}
    if objective in ("count:poisson", "reg:gamma"):
        y = np.exp(y.astype(np.float32)).round() + 1
    cipher = None if cipher is None else Kept(cipher)
    given = {} if weight is None else {"weight": weight[: len(y)]}
    model = train(settings, active, y, members, rounds, cipher=cipher, traffic=traffic, **given)
    return of_trees(model.export_booster(members), traffic)


def exact(objective="binary:logistic", label=LABEL, weight=None, **params):
    traffic, settings = Traffic(), {"objective": objective, "max_depth": 2, "max_bin": 8, **params}
    members = [
        (ROWS[k::3], label[k::3]) if weight is None else (ROWS[k::3], label[k::3], weight[k::3])
        for k in range(3)
    ]
    model = train_exact(settings, members, 2, random_state=3, verbose_eval=False, traffic=traffic)
    return of_trees(model.booster, traffic)


def served_exact():
    traffic = Traffic()
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder = Path(made)
        make_authority(folder / "ca")
        known = [f"sha256:{make_certificate(folder / n, folder / 'ca', n).fingerprint}" for n in NAMES]
        make_certificate(folder / "acme", folder / "ca", "acme")
        own, remote = TLS.from_directory(folder / "acme"), []
        for k, name in enumerate(NAMES):
            member = xgb_fed.HorizontalParty(
                ROWS[k::3],
                LABEL[k::3],
                name,
                categorical_labels=True,
                max_rounds=100,
                directory=folder / f"{name} kept",
                n_jobs=1,
                exact=xgb_fed.ExactTerms(allowed=known, tls=folder / name),
            )
            service = HorizontalService(member, folder / f"{name} served", HorizontalLimits())
            server = Server(service, "127.0.0.1:0", TLS.from_directory(folder / name), ["acme"])
            stack.callback(server.stop, grace=0)
            remote.append(RemoteParty(f"127.0.0.1:{server.port}", own, name, timeout=60))
            stack.callback(remote[-1].close)
        model = train_exact(
            {"objective": "binary:logistic", "max_depth": 2, "max_bin": 8},
            remote,
            2,
            verbose_eval=False,
            traffic=traffic,
        )
        return of_trees(model.booster, traffic)


def similar(objective="binary:logistic", label=LABEL, weight=None, **options):
    traffic, settings = Traffic(), {"objective": objective, "max_depth": 2, "learning_rate": 0.3}
    members = [
        (ROWS[k::3], label[k::3]) if weight is None else (ROWS[k::3], label[k::3], weight[k::3])
        for k in range(3)
    ]
    model = train_simfl(settings, members, 4, hash_seed=0, verbose_eval=False, traffic=traffic, **options)
    return of_trees(model.booster, traffic)


NUMBERS = (3 * ROWS[:, 0] + ROWS[:, 1]).astype(np.float32)
CLASSES = np.digitize(ROWS[:, 0], [-0.5, 0.5])
WEIGHT = np.random.default_rng(9).uniform(0.5, 2, len(ROWS)).astype(np.float32)
RUNS = {
    "vertical paillier": lambda: vertical(cipher=Paillier),
    "vertical okamoto-uchiyama": lambda: vertical(cipher=OkamotoUchiyama),
    "vertical paillier multi-output": lambda: vertical("multi:softprob", cipher=Paillier, multi_output=True),
    "vertical okamoto-uchiyama regression": lambda: vertical("reg:squarederror", cipher=OkamotoUchiyama),
    "vertical multi-class": lambda: vertical("multi:softprob"),
    "vertical goss": lambda: vertical(goss=(0.2, 0.1), seed=3),
    "vertical missing lossguide": lambda: vertical(missing=0.2, grow_policy="lossguide", max_leaves=6),
    "vertical forest": lambda: vertical(num_parallel_tree=3, subsample=0.7, colsample_bynode=0.6, seed=4),
    "vertical layered": lambda: vertical(tree_mode="layered", active_depth=1),
    "vertical poisson": lambda: vertical("count:poisson", weight=WEIGHT),
    "exact binary": exact,
    "exact squared error": lambda: exact("reg:squarederror", NUMBERS, WEIGHT),
    "exact several classes": lambda: exact("multi:softprob", CLASSES),
    "exact columns": lambda: exact(colsample_bytree=0.7, seed=5),
    "exact over TLS": served_exact,
    "simfl binary": similar,
    "simfl squared error": lambda: similar("reg:squarederror", NUMBERS, WEIGHT, min_similar=1),
    "simfl large groups": lambda: similar(min_similar=5),
}
