"""Vertical runs of the command: alignment, training and prediction by a plan."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from gbdt_commons.files import make_folder, write_atomically
from gbdt_commons.sealed import write_sealed
from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.identity.alignment import align
from gbdt_parties.identity.record import write_traffic
from gbdt_parties.traffic import Traffic
from gbdt_parties.transport.remote import RemoteParty
from veilboost.model_folders import check_free
from veilboost.parsers import read_json
from veilboost.plans.plan import ExactPlan, HorizontalPlan, PlanError, PrivatePlan, VerticalPlan, read_plan
from veilboost.plans.tables import Table, log_unseen, read_table
from veilboost.running import exact as exact_runs
from veilboost.running import private as private_runs
from veilboost.running import simfl as horizontal_runs
from veilboost.running.connections import connect
from veilboost.running.predictions import write_contributions, write_predictions
from veilboost.running.progress import RoundLines
from xgb_fed.vertical.model.model import MODEL_FILE, VerticalModel
from xgb_fed.vertical.training.checkpoint import Checkpoint
from xgb_fed.vertical.training.task import ActiveData
from xgb_fed.vertical.training.train import train

logger = logging.getLogger(__name__)

TABLE_FILE = "active.table.json"
"""In an active party's model folder: columns of its file, and values of those that were encoded."""


def _active_table(plan: VerticalPlan, file: str, like: Table | None = None) -> Table:
    """Read a file of the active party; with the columns and categories of another one, if given."""
    data = plan.data
    if like is not None and like.used:
        return read_table(
            plan.path(file),
            id_column=data.id,
            label=data.label,
            keep=like.used,
            one_hot=like.categories,
            categorical=like.categorical,
        )
    return read_table(
        plan.path(file),
        id_column=data.id,
        label=data.label,
        drop=data.drop,
        one_hot=data.one_hot,
        categorical=data.categorical,
    )


def _kept_alignment(args: argparse.Namespace, path: Path) -> Alignment:
    """Read the ids that `align` wrote."""
    if not path.exists():
        raise PlanError(f"{path} does not exist; run align first: veilboost align {args.plan}")
    return Alignment.load(path)


def _labelled_rows(
    args: argparse.Namespace, plan: VerticalPlan, table: Table, aligned: str
) -> tuple[ActiveData, list[bytes]]:
    """The rows of a file that all parties hold, and the name of the row set; all rows if there are no ids."""
    assert table.label is not None
    if plan.data.id is None:
        return ActiveData(table.columns, table.label), []
    alignment = _kept_alignment(args, plan.path(aligned))
    positions = alignment.positions(table.ids)
    return ActiveData(table.columns.take(positions), table.label[positions]), [alignment.digest]


def run_align(args: argparse.Namespace) -> None:
    """Run ``align``: find the rows that the parties of a plan have in common."""
    plan = read_plan(args.plan)
    if not isinstance(plan, VerticalPlan):
        raise PlanError(f"{args.plan}: rows are not aligned in horizontal training; each party has its own")
    if plan.data.id is None:
        raise PlanError(f"{args.plan}: data.id is missing; rows are aligned by their ids")
    files = [(plan.data.file, plan.data.aligned)]
    if plan.data.valid is not None:
        files.append((plan.data.valid, plan.data.aligned_valid))
    with ExitStack() as stack:
        parties = connect(plan, plan.training.timeout, stack)
        for file, kept in files:
            table = _active_table(plan, file)
            alignment = _aligned(plan, parties, table)
            alignment.save(plan.path(kept))
            print(f"{len(alignment.ids)} of {len(table.ids)} rows are held by all parties: {plan.path(kept)}")


def _aligned(plan: VerticalPlan, parties: Sequence[RemoteParty], table: Table) -> Alignment:
    traffic = Traffic()
    try:
        return align(parties, table.ids, traffic)
    finally:
        write_traffic(plan.path(plan.training.record), traffic)


def run_train(args: argparse.Namespace) -> None:
    """Run ``train``, by a plan of any kind; kinds other than vertical have modules of their own."""
    plan = read_plan(args.plan)
    if isinstance(plan, ExactPlan):
        return exact_runs.train(plan, args.overwrite)
    if isinstance(plan, HorizontalPlan):
        return horizontal_runs.train(plan, args.overwrite)
    if isinstance(plan, PrivatePlan):
        return private_runs.train(plan, args.overwrite)
    directory, training = plan.path(plan.training.model), plan.training
    check_free(directory / MODEL_FILE, args.overwrite)
    table = _active_table(plan, plan.data.file)
    data, row_sets = _labelled_rows(args, plan, table, plan.data.aligned)
    evals = []
    if plan.data.valid is not None:
        valid = _active_table(plan, plan.data.valid, like=table)
        log_unseen(valid, plan.data.valid, logger)
        rows, digests = _labelled_rows(args, plan, valid, plan.data.aligned_valid)
        evals, row_sets = [(rows, "valid")], row_sets + digests
    checkpoint = plan.path(training.checkpoint)
    with ExitStack() as stack:
        model = train(
            {"enable_categorical": True, **plan.parameters} if table.categorical else plan.parameters,
            data,
            connect(plan, training.timeout, stack, row_sets),
            training.rounds,
            evals=evals,
            cipher=training.scheme,
            early_stopping_rounds=training.early_stopping_rounds,
            verbose_eval=False,
            callbacks=[RoundLines(logger, training.rounds)],
            checkpoint=checkpoint,
            patience=training.patience,
        )
    # Once more: somebody else's may be there by now.
    check_free(directory / MODEL_FILE, args.overwrite)
    kept: dict[str, Any] = {"columns": table.used, "categories": table.categories}
    if table.categorical:
        kept["categorical"] = table.categorical
    make_folder(directory)
    # The model comes last: a crash before it leaves no model, and the checkpoint.
    write_sealed(directory / TABLE_FILE, kept)
    model.save(directory)
    write_traffic(plan.path(plan.training.record), model.traffic)
    Checkpoint(checkpoint, "").clear()
    if model.best_iteration is not None:
        logger.info("best round %d, %s", model.best_iteration + 1, f"metric {model.best_score:.5f}")
    print(f"{len(model.trees)} trees on {len(data.label)} rows: {directory}")


def run_predict(args: argparse.Namespace) -> None:
    """Run ``predict``: write predictions, or contributions of columns, for the rows of a file."""
    plan = read_plan(args.plan)
    if not isinstance(plan, VerticalPlan) and (args.contribs or args.hide_paths):
        raise PlanError(
            "--contribs and --hide-paths are for models whose splits lie with several parties; a native "
            "model explains itself"
        )
    if isinstance(plan, (ExactPlan, HorizontalPlan)):
        return horizontal_runs.predict(plan, args)
    if isinstance(plan, PrivatePlan):
        return private_runs.predict(plan, args)
    directory = plan.path(plan.training.model)
    model = VerticalModel.load(directory)
    known = read_json(directory / TABLE_FILE)
    file = Path(args.data) if args.data else plan.path(plan.data.file)
    table = read_table(
        file,
        id_column=plan.data.id,
        keep=known["columns"] or None,
        one_hot=known["categories"],
        categorical=known.get("categorical", {}),
    )
    log_unseen(table, file, logger)
    traffic = Traffic()
    with ExitStack() as stack:
        parties = connect(plan, plan.training.timeout, stack)
        positions, ids, row_sets = np.arange(table.columns.n_rows), table.ids, list[bytes]()
        if plan.data.id is not None:
            given = None if args.data else _kept_alignment(args, plan.path(plan.data.aligned))
            alignment = given or _aligned(plan, parties, table)
            positions, ids = alignment.positions(table.ids), list(alignment.ids)
            row_sets = [alignment.digest]
        rows = [party.with_rows(*row_sets) for party in parties]
        try:
            X = table.columns.take(positions)
            if args.contribs:
                explanation = model.explain(X, rows, traffic=traffic)
            else:
                predictions = model.predict(X, rows, hide_paths=args.hide_paths, traffic=traffic)
        finally:
            write_traffic(plan.path(plan.training.record), traffic)
    if args.contribs:
        write_contributions(args.out, ids, explanation)
    else:
        write_predictions(args.out, ids, predictions)
    _report_missing(args, table.ids, ids)


def _report_missing(args: argparse.Namespace, asked: list[str], predicted: list[str]) -> None:
    """Say how many rows of the file were predicted, and write the ids of the others."""
    known = set(predicted)
    missing = [one for one in asked if one not in known]
    text = f"{len(predicted)} of {len(asked)} rows predicted"
    if args.out != "-":
        text += f": {args.out}"
    file = args.missing or (None if args.out == "-" else f"{args.out}.missing")
    if file is not None and (missing or args.missing):
        write_atomically(file, "".join(f"{one}\n" for one in missing))
        text += f"; ids of the others: {file}"
    print(text, file=sys.stderr if args.out == "-" else sys.stdout)
