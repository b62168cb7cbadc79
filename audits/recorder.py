"""Oblivious' `dp-recorder` on whole fits: releases are frozen, and the inputs of neighbours compared.

A fit is recorded with a row, and played without it: every release gives the recorded numbers again (Cebere et
al., PETS 2026).  If the releases then differ in number, order, scale or shape, something private has come
around them; if the inputs of one differ by more than was charged, its sensitivity is wrong.  So does a sum of
charges that is below what all releases lost together.  Trainers with a fault must be found.

    PYTHONPATH=dp-recorder/src python -m audits.recorder --out out/audits/recorder.json
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from importlib import import_module
from typing import Any
from unittest.mock import patch

import lightgbm
import numpy as np

import lgb_dp
from audits.outcome import HONEST, MEASURED, PLANTED, Audit, Line, Piece, run
from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.mechanisms.noise import PrivateValues, observed, release_gaussian
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton import run_task
from lgb_dp.newton.releases.leaf_sums import LocalLeafSums

LIMITS = (
    "Pairs of neighbours that are drawn at random, small data, and one replay of each: other rows may move a "
    "release further. The noise itself is trusted, as are the charges that composition starts from. Of two "
    "releases that are charged together, each may use the charge of both, unless all of them do."
)
N_ROWS, N_COLUMNS, N_ROUNDS = 60, 3, 3
ROUNDING = 1 + 1e-6
Fit = Callable[[np.ndarray, np.ndarray], Any]
# With a seed, so that public draws, of splits or of the rows of a tree, are the same for both neighbours.
TRAINERS: dict[str, Callable[[], Any]] = {
    "NewtonBoost": lambda: lgb_dp.NewtonBoost(4.0, 1e-5, random_state=1),
    "DPBoost": lambda: lgb_dp.DPBoost(4.0, random_state=1),
    "MBoost": lambda: lgb_dp.MBoost(4.0, random_state=1),
}


def rows(random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = random.uniform(-1, 1, (N_ROWS, N_COLUMNS))
    return X, (X[:, 0] + random.normal(0, 0.5, N_ROWS) > 0).astype(float)


def fitted(name: str, X: np.ndarray, y: np.ndarray) -> PrivacyReport:
    data = lgb_dp.Dataset(X, y, bounds=(-1, 1), max_bin=8)
    params = {"objective": "binary", "verbosity": -1, "max_depth": 2}
    booster = lightgbm.train(params, data, N_ROUNDS, callbacks=[TRAINERS[name]()])
    report: PrivacyReport = booster.privacy
    return report


# How far the inputs of a release are apart, in units of its noise: μ, or ε.


def distance(mechanism: str, one: np.ndarray, other: np.ndarray) -> float:
    if one.shape != other.shape:
        return float("inf")
    with np.errstate(invalid="ignore"):
        moved = np.nan_to_num(one.astype(float) - other, nan=0.0, posinf=np.inf, neginf=-np.inf)
    if mechanism == "Gaussian":
        return float(np.linalg.norm(moved))
    if mechanism == "exponential":
        # The rows of a node move its candidates within an interval, and other nodes not at all.
        return float(np.ptp(moved, axis=1).max())
    return float(np.abs(moved).sum())


def frozen(module: Any, fit: Fit, X: np.ndarray, y: np.ndarray) -> tuple[str, float]:
    """What the recorder objects to without the last row, and the loss of all releases over the charge."""
    recorder = module.Auditor()

    def intercepted(read: PrivateValues, release: Callable[[], np.ndarray]) -> np.ndarray:
        # Drawn for the replay, too, so that the draws after it stay the same.
        drawn = release()

        def released(values: np.ndarray, scale: float, shape: tuple[int, ...]) -> np.ndarray:
            return drawn

        metric = partial(distance, read.mechanism)
        spec = module.audit_spec(read.mechanism, "values", "scale", metric)(released)
        return np.array(spec(read.values, float(read.scale), read.values.shape))

    with contextlib.redirect_stdout(io.StringIO()), observed(intercepted):
        with recorder:
            report = fit(X, y)
        charges = {one: [row for row in report.ledger if row["mechanism"] == one] for one in NAMES}
        for entry in recorder.log:
            key = "mu" if entry.kind == "Gaussian" else "epsilon"
            charged = max((row[key] for row in charges[entry.kind]), default=0.0)
            entry.sensitivity_val = charged * entry.params["scale"] * ROUNDING
        recorder.set_replay()
        try:
            with recorder:
                fit(X[:-1], y[:-1])
            recorder.validate_records()
        except (AssertionError, RuntimeError) as error:
            return str(error).splitlines()[0][:100], float("inf")
        if any(entry.inputs_dp is None for entry in recorder.log):
            return "fewer releases", float("inf")
    return "", loss_of(recorder.log, report)


NAMES = "Gaussian", "discrete Laplace", "exponential"


def loss_of(log: list[Any], report: PrivacyReport) -> float:
    """The loss of all releases of a pair, over the charge: μ of Gaussian ones, and ε of the others."""
    squares = epsilon = 0.0
    for entry in log:
        moved = entry.metric_fn(entry.inputs_d["values"], entry.inputs_dp["values"]) / entry.params["scale"]
        squares += moved**2 if entry.kind == "Gaussian" else 0.0
        epsilon += moved if entry.kind != "Gaussian" else 0.0
    shares = [(np.sqrt(squares), report.cost.mu), (epsilon, report.cost.epsilon)]
    return max(float(loss / charge) if charge else float(loss and np.inf) for loss, charge in shares)


def twice(self: Any, question: Any) -> Any:
    """The sums of leaves, with a factor that was forgotten in the charge."""
    return 2 * _SUMMED(self, question)


def by_the_rows(sums: Any, scale: float, random: Any) -> Any:
    """A release whose noise follows the sums."""
    return release_gaussian(sums, scale * (1 + np.abs(sums).sum() % 1000 * 1e-6), SecureRandom())


def again(sums: Any, scale: float, random: Any) -> Any:
    """A release that is repeated where the sums say so."""
    released = release_gaussian(sums, scale, random)
    return release_gaussian(sums, scale, random) if np.abs(sums).sum() // 1000 % 2 else released


_SUMMED = LocalLeafSums.sums
FAULTS: dict[str, Callable[[], Any]] = {
    "a forgotten factor 2": lambda: patch.object(LocalLeafSums, "sums", twice),
    "noise that follows the rows": lambda: patch.object(run_task, "release_gaussian", by_the_rows),
    "a release that the rows repeat": lambda: patch.object(run_task, "release_gaussian", again),
}
"""Of NewtonBoost."""


def of_trainer(name: str, fault: str, outside: str, n_pairs: int) -> Iterator[Line]:
    """The line of one trainer, or of one with a fault."""
    warnings.simplefilter("ignore")
    module, random = import_module("dp_recorder.auditing.audit_primitives"), np.random.default_rng(1)
    objections, losses = list[str](), list[float]()
    with FAULTS[fault]() if fault else nullcontext():
        for _ in range(n_pairs):
            X, y = rows(random)
            objection, loss = frozen(module, partial(fitted, name), X, y)
            objections += [objection] if objection else []
            losses += [] if objection else [loss]
    found = bool(objections) or max(losses) > ROUNDING
    seen = objections[0] if objections else f"at most {max(losses):.2f} of the charge lost"
    kind = PLANTED if fault else HONEST
    yield Line(outside, f"{name}: {fault}" if fault else name, f"{n_pairs} pairs", found, seen, kind)


NOT_RUN = (
    "opacus: of neural networks, not tried",
    "DP-EBM (interpret): its noise is drawn in compiled code",
    "dp-xgboost: it is no Python package",
)


def of_diffprivlib(name: str, outside: str, n_pairs: int) -> Iterator[Line]:
    """The line of one of IBM's models: each number's distance, over the sensitivity that it is noised by."""
    warnings.simplefilter("ignore")
    module, random = import_module("dp_recorder.auditing.audit_primitives"), np.random.default_rng(1)
    models, mechanisms = (import_module(f"diffprivlib.{one}") for one in ("models", "mechanisms"))
    kinds = [one for one in vars(mechanisms).values() if isinstance(one, type) and "randomise" in vars(one)]
    makers = {
        "GaussianNB": lambda: models.GaussianNB(epsilon=1.0, bounds=(-1, 1)),
        "LinearRegression": lambda: models.LinearRegression(epsilon=1.0, bounds_X=(-1, 1), bounds_y=(0, 1)),
    }

    def frozen_randomise(kind: Any) -> Any:
        randomise = kind.randomise

        def replaced(self: Any, value: Any) -> Any:
            def released(value: Any, sensitivity: float, kind: str) -> Any:
                return randomise(self, value)

            def moved(one: Any, other: Any) -> float:
                return float(np.abs(one - other).max())

            sensitivity = float(getattr(self, "sensitivity", np.inf))
            if is_within or not isinstance(value, (int, float, np.number)) or not np.isfinite(sensitivity):
                return randomise(self, value)
            is_within.append(kind)  # a mechanism that uses another one is recorded once
            try:
                spec = module.audit_spec(kind.__name__, "value", "sensitivity", moved)(released)
                return spec(value, sensitivity, kind.__name__)
            finally:
                is_within.clear()

        return patch.object(kind, "randomise", replaced)

    objections, is_within = [], []
    for _ in range(n_pairs):
        X, y = rows(random)
        recorder, (X_other, y_other) = module.Auditor(), (X.copy(), y.copy())
        # For diffprivlib the number of rows is public: another row stands in for the last.
        X_other[-1], y_other[-1] = random.uniform(-1, 1, N_COLUMNS), 1 - y[-1]
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            for kind in kinds:
                stack.enter_context(frozen_randomise(kind))
            with recorder:
                makers[name]().fit(X, y)
            if not recorder.log:
                break
            recorder.set_replay()
            try:
                with recorder:
                    makers[name]().fit(X_other, y_other)
                recorder.validate_records()
            except (AssertionError, RuntimeError) as error:
                objections.append(str(error).splitlines()[0][:100])
    seen = f"{len(objections)} of {n_pairs}: {objections[0]}" if objections else "nothing"
    yield Line(outside, f"diffprivlib's {name}", f"{n_pairs} pairs", bool(objections), seen, MEASURED)


def pieces(audit: Audit, quick: bool) -> list[Piece]:
    found = audit.package("dp_recorder")
    audit.not_run += NOT_RUN
    if not found:
        return []
    n_pairs = 5 if quick else 40
    ours = [partial(of_trainer, name, "", found[1], n_pairs) for name in TRAINERS]
    planted = [partial(of_trainer, "NewtonBoost", fault, found[1], n_pairs) for fault in FAULTS]
    peers = ("GaussianNB", "LinearRegression") if audit.package("diffprivlib") else ()
    return ours + planted + [partial(of_diffprivlib, name, found[1], n_pairs) for name in peers]


if __name__ == "__main__":
    run("frozen releases", LIMITS, __doc__, pieces)
