"""The commands ``align``, ``train``, ``predict`` and ``export``, by a plan of any kind of training."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from veilboost.parsers import Parser
from veilboost.plans.entries import PlanError
from veilboost.plans.paths import UsedPath, faults_of_paths
from veilboost.plans.plan import module_of, read_plan
from veilboost.plans.sections import Plan


def fill_align(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the parser of ``align``."""
    _add_plan(parser, run_align, "veilboost align plan.toml")


def fill_train(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the parser of ``train``."""
    _add_plan(parser, run_train, "veilboost train plan.toml")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace the model that the plan's folder holds"
    )


def fill_predict(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the parser of ``predict``."""
    _add_plan(parser, run_predict, "veilboost predict plan.toml --data new.csv --out predictions.csv")
    add = parser.add_argument
    add("--data", help="file of the rows; the plan's, as aligned for training, if not given")
    add("--out", default="-", help="CSV of id and prediction (standard output)")
    add(
        "--contribs",
        action="store_true",
        help="write what each column contributes to the margin (Tree SHAP), if the parties consent",
    )
    add(
        "--hide-paths",
        action="store_true",
        help="ask about all splits, so that parties do not learn which rows reach them, if they consent",
    )
    add("--missing", help="file for the ids that some party does not have (OUT.missing)")


def fill_export(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the parser of ``export``."""
    _add_plan(parser, run_export, "veilboost export plan.toml --out booster.json")
    add = parser.add_argument
    add("--out", help="file to write (booster.json beside the model; not needed if the model is native)")
    add("--overwrite", action="store_true", help="replace the file if there is one")


def _add_plan(parser: Parser, command: Callable[[argparse.Namespace], None], example: str) -> None:
    parser.add_argument("plan", help="TOML or YAML file: method, tls, data, parties, training, parameters")
    parser.runs(command, example)


def kind_of(method: str) -> Any:
    """The module of a kind of training, with the libraries that it needs."""
    return module_of(method, "veilboost.running")


def run_align(args: argparse.Namespace) -> None:
    """Run ``align``: find the rows that the parties of a plan have in common."""
    plan = read_plan(args.plan)
    if plan.method == "private-columns":
        raise PlanError(f"{args.plan}: with private-columns, veilboost train aligns the rows itself")
    if plan.method != "vertical":
        raise PlanError(f"{args.plan}: rows are not aligned in horizontal training; each party has its own")
    kind_of(plan.method).align_rows(plan, args.plan)


def run_train(args: argparse.Namespace) -> None:
    """Run ``train``."""
    plan = read_plan(args.plan)
    # Loaded when it is needed, as it connects to parties.
    from veilboost.running import run

    run.train(kind_of(plan.method), plan, args)


def run_export(args: argparse.Namespace) -> None:
    """Run ``export``: write the model as one of XGBoost or LightGBM alone."""
    plan = read_plan(args.plan)
    from veilboost.running import run

    run.export(kind_of(plan.method), plan, args)


def _check_outputs(plan: Plan[Any, Any], args: argparse.Namespace) -> None:
    """Refuse files that predictions would spoil, before parties are asked."""
    used = [UsedPath("the plan", Path(args.plan)), *(one._replace(writes="") for one in plan.paths)]
    if args.data is not None:
        used.append(UsedPath("--data", Path(args.data)))
    if args.out != "-":
        used.append(UsedPath("--out", Path(args.out), "predictions"))
    missing = args.missing or (None if args.out == "-" else f"{args.out}.missing")
    if missing is not None:
        used.append(UsedPath("--missing", Path(missing), "ids"))
    for fault in faults_of_paths(used):
        raise PlanError(fault)


def run_predict(args: argparse.Namespace) -> None:
    """Run ``predict``: write predictions, or contributions of columns, for the rows of a file."""
    plan = read_plan(args.plan)
    if plan.method != "vertical" and (args.contribs or args.hide_paths):
        raise PlanError(
            "--contribs and --hide-paths are for models whose splits lie with several parties; a native "
            "model explains itself"
        )
    from veilboost.running.predictions import write

    _check_outputs(plan, args)
    write(kind_of(plan.method).predict(plan, args), args.out, args.missing)
