"""``veilboost warm``: compile the kernels of a trainer before it is first used, on made-up rows.

Kernels are compiled for the types that they are called with.  The training runs below have those of common
uses: dense and sparse columns, categories, missing values, several classes and regression, both ciphers.
Which kernels a training run calls also depends on its rows and on what it draws: every branch that calls one
is taken here by a run that cannot miss it.
"""

from __future__ import annotations

import argparse
import logging
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import scipy.sparse
from numpy.typing import NDArray

import gbdt_kernels
import lgb_dp
import lgb_dp.vertical
import xgb_fed
from gbdt_hosts.lightgbm.booster import MIN_ROWS_TO_PREPARE
from gbdt_kernels.compilation import cache_directory, recording_compilation
from veilboost.parsers import Parser

_N_ROWS = 240
_MANY_ROWS = 120_000
"""From which on NewtonBoost releases histograms, distils structures and holds rows out, at any noise."""

_QUIET = {"verbosity": -1, "max_depth": 3, "num_leaves": 8}


def _columns() -> NDArray[np.float64]:
    """Made-up rows of three columns, shape (n_rows, 3); the last one has the categories 0 to 3."""
    row = np.arange(_N_ROWS)
    return np.column_stack([np.sin(row), np.cos(3 * row), row % 4]).astype(np.float64)


def _many_rows() -> NDArray[np.float64]:
    """Made-up rows of two columns, shape (n_rows, 2), of evenly spaced values in [0, 4)."""
    row = np.arange(_MANY_ROWS)
    return np.column_stack([row % 997 / 250, row % 1009 / 253]).astype(np.float64)


def _labels(n_classes: int = 2, n_rows: int = _N_ROWS) -> NDArray[np.float64]:
    return np.floor(np.arange(n_rows) % (2 * n_classes) / 2)


def _private(callback: Callable[[], Any], params: dict[str, Any], n_rounds: int = 2, **data: Any) -> None:
    settings: dict[str, Any] = {"bounds": (-1.0, 4.0), "max_bin": 16, **data}
    X, y = settings.pop("X", _columns()), settings.pop("y", _labels())
    train = lgb_dp.Dataset(X, y, **settings)
    valid = lgb_dp.Dataset(X, y, reference=train)
    asked = {**_QUIET, **params}
    booster = lightgbm.train(asked, train, n_rounds, valid_sets=[valid], callbacks=[callback()])
    booster.predict(np.zeros((MIN_ROWS_TO_PREPARE, train.num_feature())))


def _private_kinds(callback: Callable[[], Any], *, classes: bool, regression: bool) -> None:
    """Train on every kind of table that a private trainer takes."""
    with_gaps = _columns()
    with_gaps[::5, 0] = np.nan
    _private(callback, {"objective": "binary"})
    _private(callback, {"objective": "binary"}, X=with_gaps, categories={2: [0, 1, 2, 3]})
    _private(callback, {"objective": "binary"}, X=scipy.sparse.csr_matrix(_columns()))
    if classes:
        _private(callback, {"objective": "multiclass", "num_class": 3}, y=_labels(3))
    if regression:
        _private(callback, {"objective": "regression"}, y=_labels(8), label_bounds=(0.0, 7.0))


def _warm_newton() -> None:
    def newton() -> Any:
        return lgb_dp.NewtonBoost(epsilon=50.0, delta=1e-5)

    _private_kinds(newton, classes=True, regression=True)
    _private(newton, {"objective": "poisson"}, y=_labels(8), label_bounds=(0.0, 7.0))
    _private(newton, {"objective": "binary", "max_depth": 9, "num_leaves": 512})
    settings: dict[str, Any] = {"epsilon": 50.0, "delta": 1e-5, "n_estimators": 2, "max_bin": 16}
    X, times = _columns(), np.column_stack([_labels(8), _labels(8)]) + 1.0
    lgb_dp.DPLGBMRegressor(**settings).fit(X, times, bounds=(-1.0, 4.0), label_bounds=(1.0, 8.0))
    survival = lgb_dp.DPLGBMSurvival(**settings).fit(X, times, bounds=(-1.0, 4.0), label_bounds=(1.0, 8.0))
    survival.score(X, times)
    for X in (_many_rows(), scipy.sparse.csr_matrix(_many_rows())):
        _private(newton, {"objective": "binary"}, 20, X=X, y=_labels(n_rows=_MANY_ROWS), max_bin=64)


def _warm_dpboost() -> None:
    _private_kinds(lambda: lgb_dp.DPBoost(epsilon=50.0), classes=False, regression=True)


def _warm_mboost() -> None:
    _private_kinds(lambda: lgb_dp.MBoost(epsilon=50.0), classes=False, regression=False)


def _warm_columns() -> None:
    with_gaps = _columns()
    with_gaps[::5, 0] = np.nan
    numbers = {"y": _labels(8), "label_bounds": (0.0, 7.0)}
    for objective, data in (
        ("binary", {"X": with_gaps}),
        ("regression", {"X": scipy.sparse.csr_matrix(_columns()), **numbers}),
        ("poisson", numbers),
    ):
        _private_columns(objective, **data)


def _private_columns(objective: str, **data: Any) -> None:
    X, y = data.pop("X", _columns()), data.pop("y", _labels())
    public: dict[str, Any] = {"bounds": (-1.0, 4.0), "max_bin": 16}
    party = lgb_dp.vertical.ColumnParty(X, name="other", **public)
    train, newton = lgb_dp.Dataset(X, y, **public, **data), lgb_dp.NewtonBoost(epsilon=50.0, delta=1e-5)
    asked = {**_QUIET, "objective": objective}
    booster = lgb_dp.vertical.train(asked, train, 8, parties=[party], callbacks=[newton])
    booster.predict(np.zeros((MIN_ROWS_TO_PREPARE, booster.num_feature())))


def _warm_vertical() -> None:
    own, other = _columns()[:60], _columns()[:60]
    own[::7, 1] = np.nan
    for cipher in (xgb_fed.Paillier(), xgb_fed.OkamotoUchiyama()):
        party = xgb_fed.LocalParty(other, "other", allow_export=True)
        model = xgb_fed.VerticalXGBClassifier(1, max_depth=2, max_bin=8, cipher=cipher)
        model.fit(own, _labels()[:60], parties=[party])
        model.predict(own, parties=[party])
    party = xgb_fed.LocalParty(scipy.sparse.csr_matrix(other), "other")
    sparse = xgb_fed.VerticalXGBRegressor(1, max_depth=2, max_bin=8, cipher=xgb_fed.Plain())
    sparse.fit(own, _labels(8)[:60], parties=[party])
    # Codes of more than 255 bins take two bytes.
    fine = np.sin(np.arange(1200.0))[:, None]
    for X in (fine, scipy.sparse.csr_matrix(fine)):
        wide = xgb_fed.VerticalXGBRegressor(1, max_depth=2, max_bin=512, cipher=xgb_fed.Plain())
        wide.fit(fine, fine[:, 0], parties=[xgb_fed.LocalParty(X, "other")])


def _thirds(X: Any) -> list[tuple[Any, NDArray[np.float64]]]:
    return [(X[k::3], _labels()[k::3]) for k in range(3)]


def _warm_exact() -> None:
    # Codes of more than 255 bins take two bytes.
    parts = [(np.sin(k + np.arange(1200.0))[:, None], np.arange(1200) % 2) for k in range(3)]
    xgb_fed.HorizontalXGBClassifier(1, max_depth=2, max_bin=16).fit(parties=parts)
    xgb_fed.HorizontalXGBClassifier(1, max_depth=2, max_bin=512).fit(parties=parts)


def _warm_simfl() -> None:
    for X in (_columns(), scipy.sparse.csr_matrix(_columns())):
        xgb_fed.HorizontalXGBClassifier(1, max_depth=2, method="simfl").fit(parties=_thirds(X))


PARTS: dict[str, Callable[[], None]] = {
    "newton": _warm_newton,
    "dpboost": _warm_dpboost,
    "mboost": _warm_mboost,
    "columns": _warm_columns,
    "vertical": _warm_vertical,
    "exact": _warm_exact,
    "simfl": _warm_simfl,
}
"""Trainers on made-up rows, by the name of the trainer."""


def warm(part: str) -> list[str]:
    """Compile the kernels of a part in `PARTS`, as far as the cache does not have them.

    The result lists those compiled as ``module.function``; one with several types counts several times.
    """
    with warnings.catch_warnings(), recording_compilation() as compiled:
        warnings.simplefilter("ignore")  # about parties and bounds that are made up
        PARTS[part]()
    return [name for name in compiled if name.startswith("gbdt_kernels.")]


def _warm(args: argparse.Namespace) -> None:
    folder = Path(gbdt_kernels.__path__[0]) / "trees"
    place = cache_directory(folder)
    if place is None:
        raise OSError("compiled kernels cannot be kept: set NUMBA_CACHE_DIR to a directory of this user")
    logging.disable(logging.INFO)  # what made-up training runs have to say
    try:
        for part in args.part or PARTS:
            start = time.process_time()
            n = len(warm(part))
            print(f"{part}: {n} kernels compiled in {time.process_time() - start:.1f} s of processor time")
    finally:
        logging.disable(logging.NOTSET)
    print(f"kept in {place or 'the folders __pycache__ beside their source'}")


def _part(name: str) -> str:
    if name not in PARTS:
        raise argparse.ArgumentTypeError(f"there is no part {name!r}; there are {', '.join(PARTS)}")
    return name


def fill(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the command's parser."""
    parser.add_argument(
        "part", nargs="*", type=_part, metavar="PART", help=f"{', '.join(PARTS)} (default: all)"
    )
    parser.runs(_warm, "veilboost warm newton vertical")
