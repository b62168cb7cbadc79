"""The command ``replay``: an auditor repeats a party's side of a run, whatever the kind of training."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, cast

import numpy as np

from gbdt_commons.quoting import quoted
from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.run.replay import Replay
from veilboost.parsers import Parser, names
from veilboost.plans.declared import read_declared, read_declared_columns, rows_to_align
from veilboost.plans.entries import Entry, PlanError
from veilboost.plans.file_forms import FileForm
from veilboost.plans.files import parsed
from veilboost.plans.plan import METHODS, module_of, read_plan, read_served
from veilboost.plans.sections import Plan
from veilboost.plans.tables import Table, read_table

DIFFERS = 6
"""Exit code if a message is not what follows from the party's rows."""

AUDITOR = "auditor"


def fill(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the command's parser."""
    add = parser.add_argument
    add("folder", help="the party's, which has trained with `auditable`; it is only read")
    add("kind", metavar="KIND|FILE", help=f"{', '.join(KINDS)}, or the party's plan or file of `serve`")
    add("--data", help="CSV, Parquet or LIBSVM file of the party's rows")
    add("--declared", help="file of what it declares about its columns (private, private-columns)")
    add("--label", help="column of labels")
    add("--id", help="column of ids")
    add("--columns", type=names, help="the only columns that it used")
    add("--drop", type=names, default=[], help="columns that it did not use")
    add("--one-hot", type=names, default=[], help="text columns that it encoded (vertical)")
    add("--categorical", type=names, default=[], help="columns that it split by category (vertical)")
    add("--min-node-rows", type=int, help="as it was served with (vertical; 10)")
    add("--valid", help="file of its held-out rows (exact)")
    for one in fields(FileForm):
        add(f"--{one.name}", help=f"as it was served with: {Entry.of(one).option or Entry.of(one).meaning}")
    add("--categorical-labels", action="store_true", help="its labels are classes (exact)")
    add("--aligned", help="file of the ids in common, for rows that are found by their ids")
    add("--run", help="number of the run, that of its model (the only one in the folder)")
    add("--others", type=names, help="fingerprints (sha256:...) that the other parties' certificates have")
    add("--json", action="store_true", help="print the report as JSON")
    parser.runs(run, "veilboost replay north private --data north.csv --declared columns.toml")


def run(args: argparse.Namespace) -> int:
    """Replay and print the report; `DIFFERS` if a message differs, else 0.

    Nothing differs, either, in a record that stops before the run's end; `Replay.has_ended` says so.
    """
    report = _report(args)
    if args.json:
        print(json.dumps(asdict(report)))
    else:
        print(
            f"{report.rounds} rounds, {report.attempts} attempts and {report.messages} messages "
            f"({report.bytes} bytes) are repeated; the run has {'' if report.has_ended else 'not '}ended"
        )
        print("everything agrees" if report.difference is None else f"DIFFERS: {quoted(report.difference)}")
    return 0 if report.agrees else DIFFERS


def _report(args: argparse.Namespace) -> Replay:
    if args.kind not in METHODS:
        path = Path(args.kind)
        plan = read_plan(path) if "parties" in parsed(path) else None
        if plan is not None and plan.method == "vertical":
            with ExitStack() as stack:
                own = module_of(plan.method, "veilboost.running").RUN(plan, args.kind, stack)
                return cast("Replay", own.replay(args.folder))
        args.kind = _read_settings(args, path, plan)
    if args.kind not in KINDS:
        raise PlanError(f"{args.kind} is not one of {', '.join(KINDS)}, or the plan of an active party")
    if args.data is None:
        raise PlanError("--data is missing, the file of the party's rows")
    return KINDS[args.kind](args)


def _read_settings(args: argparse.Namespace, path: Path, plan: Plan[Any, Any] | None) -> str:
    """Take the party's rows from its plan, or the file that it is served by; gives the kind of training."""
    if plan is not None:
        method, section, at = plan.method, plan.data, plan.path
        more = {"data": section.file, "categorical_labels": getattr(section, "labels", "") == "classes"}
    else:
        method, section = read_served(path)
        more, at = {}, Path
    for name, value in {**{f.name: getattr(section, f.name) for f in fields(section)}, **more}.items():
        if name in vars(args) and not getattr(args, name) and value:
            is_path = name in ("data", "declared", "valid", "aligned", "exclude")
            setattr(args, name, str(at(value)) if is_path else value)
    return method


def _form(args: argparse.Namespace) -> FileForm:
    given = {f.name: getattr(args, f.name) for f in fields(FileForm)}
    return FileForm(**{name: value for name, value in given.items() if value is not None})


def _private(args: argparse.Namespace) -> Replay:
    from lgb_dp.federated import Party

    declared = read_declared(args.declared)
    rows = declared.table_of(args.data, form=_form(args))
    party = Party(
        rows.features, rows.label, name=AUDITOR, allowed=args.others, **declared.arguments(), **rows.own
    )
    return party.replay(args.folder, run=args.run)


def _exact(args: argparse.Namespace) -> Replay:
    from xgb_fed import ExactTerms, HorizontalParty

    def rows(file: str, **how: Any) -> Table:
        how |= {"label": args.label, "drop": args.drop, "form": _form(args)}
        return read_table(file, id_column=args.id, **how)

    table = rows(args.data, keep=args.columns)
    valid = None if args.valid is None else rows(args.valid, keep=args.columns)
    terms = ExactTerms(
        min_rows_per_node=1,
        cuts=("grid", "exact", "given"),
        max_bin=1 << 16,
        held_out=[] if valid is None else [(valid.columns, valid.label)],
        max_samples=1 << 62,
        allowed=args.others,
    )
    own = table.columns, table.label, AUDITOR
    party = HorizontalParty(*own, categorical_labels=args.categorical_labels, exact=terms)
    return party.replay(args.folder, run=args.run)


def _columns(args: argparse.Namespace) -> Replay:
    from lgb_dp import Dataset
    from lgb_dp.vertical import replay

    has_label = "label" in parsed(Path(args.declared))
    declared = (read_declared if has_label else read_declared_columns)(args.declared)
    rows = rows_to_align(declared, args.data, args.id, _form(args))
    at = _places(args, rows.ids)
    own: Any = rows.features.take(at)
    if rows.label is not None:
        own = Dataset(own, rows.label[at], label_overflow="clip", **declared.arguments())
    return replay(args.folder, own, run=args.run, allowed=args.others)


def _vertical(args: argparse.Namespace) -> Replay:
    from veilboost.plans.vertical import VerticalServed
    from xgb_fed.vertical.passive.service import replay

    names = ("data", "id", "columns", "drop", "one_hot", "categorical")
    given = {name: getattr(args, name) for name in names}
    given |= vars(_form(args))
    served = VerticalServed(**given, models=args.folder, tls="", allow=[])
    table = module_of("vertical", "veilboost.serving").table_of(served)
    return replay(args.folder, table, min_node_rows=args.min_node_rows or 10, run=args.run)


def _places(args: argparse.Namespace, ids: Sequence[str]) -> Any:
    """Where the rows in common are; all rows if they have no ids."""
    if args.id is None:
        return np.arange(len(ids))
    kept = [args.aligned] if args.aligned else list(Path(args.folder).glob("for-*/rows/*.ids"))
    if len(kept) != 1:
        raise PlanError(f"--aligned is missing: {args.folder} has {len(kept)} files of ids in common")
    return Alignment.load(kept[0]).positions(ids)


KINDS: dict[str, Callable[[argparse.Namespace], Replay]] = {
    "private": _private,
    "private-columns": _columns,
    "exact": _exact,
    "vertical": _vertical,
}
"""Kinds of training whose runs are repeated."""
