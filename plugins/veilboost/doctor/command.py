"""The command ``doctor``: a plan, a served party's file, or the options of ``serve``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from veilboost.parsers import Parser
from veilboost.plans.entries import PlanError
from veilboost.plans.files import parsed
from veilboost.plans.plan import METHODS, read_plan, read_served
from veilboost.serving.options import add_options, settings_of

if TYPE_CHECKING:
    from veilboost.doctor.findings import Finding

NOT_READY = 1
"""Exit code if a check fails."""


def fill(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the parser of ``doctor``: a file, or a kind of training and the options of ``serve``."""
    first = arguments[0] if arguments else ""
    if first in METHODS:
        summaries = {first: (f"check the options of serve {first}", partial(_fill_kind, first))}
        parser.add_commands("kinds of training", "KIND", summaries)
        return
    parser.usage = "veilboost doctor [-h] PLAN.toml | KIND and the options of veilboost serve KIND"
    parser.add_argument("plan", help="plan of a run, or file of a party that veilboost serve takes")
    parser.runs(_of_file, "veilboost doctor plan.toml")


def _fill_kind(method: str, parser: Parser, arguments: Sequence[str]) -> None:
    add_options(parser, method)
    parser.runs(lambda args: _of_options(method, args))


def _of_file(args: argparse.Namespace) -> int:
    # Loaded when it is needed, with the libraries of connections and kernels.
    from veilboost.doctor import examination
    from veilboost.doctor.findings import Finding

    try:
        if "parties" in parsed(Path(args.plan)):
            return report(examination.of_plan(read_plan(args.plan)))
        return report(examination.of_served(*read_served(args.plan)))
    except PlanError as error:
        return report([Finding("plan", args.plan, str(error))])


def _of_options(method: str, args: argparse.Namespace) -> int:
    from veilboost.doctor import examination

    return report(examination.of_served(method, settings_of(args, method)))


def report(findings: Iterable[Finding]) -> int:
    """Print a line for each check as it ends, then "ready" or the first remedy; gives the exit code."""
    first: Finding | None = None
    for finding in findings:
        print(f"{'MEND' if finding.mend else 'ok':4}  {finding.check}: {finding.seen}", flush=True)
        first = first or (finding if finding.mend else None)
    if first is None:
        print("ready")
        return 0
    print(f"first to mend: {first.check}: {first.mend}")
    return NOT_READY
