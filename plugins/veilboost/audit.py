"""The subcommand ``veilboost audit``: `lgb_dp.audit` for a CSV or Parquet file, or for generated rows."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lgb_dp
from gbdt_parties.errors import InvalidDataError
from lgb_dp.checks import checked_integer
from veilboost.parsers import Parser
from veilboost.plans.tables import read_table

VIOLATION_FOUND = 6
"""Exit code if the audit found that a claim does not hold."""

_METHODS = ("newton", "dpboost", "mboost")
_AMOUNTS = ("poisson", "gamma", "tweedie", "huber", "quantile", "regression_l1")
_REGRESSIONS = ("regression", *_AMOUNTS)
_OBJECTIVES = ("binary", "multiclass", *_REGRESSIONS)
_MAX_CLASSES = 1000
_EXAMPLE_BOUNDS = (-1.0, 1.0)


def fill(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the command's parser."""
    add = parser.add_argument
    add("--example", action="store_true", help="audit on generated rows instead of a file")
    add("--data", help="CSV or Parquet file of numbers")
    add("--label", help="its label column; classes are numbered from 0")
    add("--bounds", help='JSON file of public bounds, {"age": [17, 90], ...}; other columns are not used')
    add("--label-bounds", nargs=2, type=float, metavar=("LOW", "HIGH"), help="public bounds of a target")
    add("--classes", type=int, default=3, help="number of classes for multiclass (%(default)s)")
    add("--objective", choices=_OBJECTIVES, default="binary", help="(%(default)s)")
    add("--method", choices=_METHODS, default="newton", help="(%(default)s)")
    add("--epsilon", type=float, default=1.0, help="claimed epsilon (%(default)s)")
    add("--delta", type=float, default=1e-5, help="claimed delta, for newton (%(default)s)")
    add("--rounds", type=int, default=5, help="iterations, for which the budget is planned (%(default)s)")
    add("--depth", type=int, help="levels of a tree (LightGBM's max_depth)")
    add("--runs", type=int, default=1000, help="runs, half of them with the canary (%(default)s)")
    add("--confidence", type=float, default=0.95, help="of each lower bound (%(default)s)")
    parser.runs(run, "veilboost audit --example --runs 400")


def run(args: argparse.Namespace) -> int:
    """Audit and print the report; `VIOLATION_FOUND` if a claim does not hold, else 0."""
    X, y, bounds, label_bounds = _generated(args) if args.example else _read(args)
    params: dict[str, Any] = {"objective": args.objective}
    if args.objective == "multiclass":
        params["num_class"] = checked_integer("--classes", args.classes, 2, _MAX_CLASSES)
    if args.depth is not None:
        params["max_depth"] = args.depth
    report = lgb_dp.audit(
        _trainer(args),
        X,
        y,
        bounds=bounds,
        params=params,
        num_boost_round=args.rounds,
        n_runs=args.runs,
        confidence=args.confidence,
        label_bounds=label_bounds,
    )
    print(report)
    return VIOLATION_FOUND if report.violated else 0


def _trainer(args: argparse.Namespace) -> Any:
    if args.method == "newton":
        return lgb_dp.NewtonBoost(args.epsilon, args.delta)
    return (lgb_dp.DPBoost if args.method == "dpboost" else lgb_dp.MBoost)(args.epsilon)


def _generated(args: argparse.Namespace) -> tuple[NDArray[np.float64], Any, Any, Any]:
    """Rows that crowd around zero, where a model is soon sure, so that a mislabelled one stands out."""
    rng = np.random.default_rng(0)
    X = rng.normal(0.0, 0.25, (200, 3)).clip(*_EXAMPLE_BOUNDS)
    if args.objective in _AMOUNTS:
        return X, np.exp(rng.normal(-1.5, 0.2, len(X))), _EXAMPLE_BOUNDS, (0.05, 20.0)
    if args.objective == "regression":
        return X, rng.normal(-0.8, 0.05, len(X)).clip(-1, 1), _EXAMPLE_BOUNDS, (-1.0, 1.0)
    y = (X[:, 0] > 0.45).astype(np.float64)  # a rare class, and a majority that is easy to tell
    return X, y, _EXAMPLE_BOUNDS, None


def _read(args: argparse.Namespace) -> tuple[NDArray[np.float64], Any, Any, Any]:
    missing = [name for name in ("data", "label", "bounds") if getattr(args, name) is None]
    if missing:
        raise InvalidDataError(f"--{missing[0]} is missing; or give --example")
    bounds = _read_bounds(Path(args.bounds))
    table = read_table(args.data, label=args.label, keep=list(bounds))
    low, high = np.array(list(bounds.values()), dtype=np.float64).T
    label_bounds = None if args.label_bounds is None else tuple(args.label_bounds)
    if args.objective in _REGRESSIONS and label_bounds is None:
        raise InvalidDataError("--label-bounds is missing; regression needs public bounds of the label")
    return np.asarray(table.columns.data, dtype=np.float64), table.label, (low, high), label_bounds


def _read_bounds(path: Path) -> dict[str, list[float]]:
    try:
        bounds = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(bounds, dict) or not bounds:
            raise ValueError
        return {str(name): [float(low), float(high)] for name, (low, high) in bounds.items()}
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise InvalidDataError(
            f'{path} must hold a JSON object of columns and their bounds, {{"age": [17, 90]}}'
        ) from None
