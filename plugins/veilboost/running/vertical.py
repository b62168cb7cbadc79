"""Vertical runs of the command: alignment, training and prediction by a plan."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from gbdt_commons.sealed import write_sealed
from gbdt_hosts.xgboost.model import as_json
from gbdt_parties.errors import ConsentError, InvalidDataError
from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.identity.alignment import align
from gbdt_parties.identity.record import write_traffic
from gbdt_parties.run.replay import Replay
from gbdt_parties.traffic import Traffic
from gbdt_parties.transport.remote import RemoteParty
from veilboost.kept_files import read_json
from veilboost.plans.entries import PlanError
from veilboost.plans.tables import Table, log_unseen, read_table
from veilboost.plans.vertical import VerticalPlan
from veilboost.running.predictions import Predicted, contributions_of, predictions_of
from veilboost.running.progress import RoundLines, RoundLog
from veilboost.running.run import Run, connect, rows_to_predict
from xgb_fed.boosting.params import Settings
from xgb_fed.vertical.model.model import MODEL_FILE, VerticalModel
from xgb_fed.vertical.training.auditing import replay
from xgb_fed.vertical.training.checkpoint import VerticalCheckpoint
from xgb_fed.vertical.training.task import ActiveData
from xgb_fed.vertical.training.train import train

logger = logging.getLogger(__name__)

TABLE_FILE = "active.table.json"
"""In an active party's model folder: columns of its file, and values of those encoded."""


def _active_table(plan: VerticalPlan, file: str, like: Table | None = None) -> Table:
    """Read a file of the active party; with the columns and categories of another one, if given."""
    data = plan.data
    how: dict[str, Any] = {"drop": data.drop, "one_hot": data.one_hot, "categorical": data.categorical}
    if like is not None and like.used:
        how = {"keep": like.used, "one_hot": like.categories, "categorical": like.categorical}
    return read_table(plan.path(file), id_column=data.id, label=data.label, form=plan.form, **how)


def _kept_alignment(plan_file: str, path: Path, own: Sequence[str] | None = None) -> Alignment:
    """Read the ids that `align` wrote, which are all among a file's own if these are given."""
    remedy = f"run align first: veilboost align {plan_file}"
    if not path.exists():
        raise PlanError(f"{path} does not exist; {remedy}")
    try:
        alignment = Alignment.load(path)
        if not len(alignment.ids if own is None else alignment.positions(own)):
            raise InvalidDataError("there are none")
    except InvalidDataError as error:
        raise PlanError(f"{path} must have sorted ids, one id per line in UTF-8: {error}; {remedy}") from None
    return alignment


def align_rows(plan: VerticalPlan, plan_file: str) -> None:
    """Find the rows that the parties of a plan have in common."""
    if plan.data.id is None:
        raise PlanError(f"{plan_file}: data.id is missing; rows are aligned by their ids")
    files = [(plan.data.file, plan.data.aligned)]
    if plan.data.valid is not None:
        files.append((plan.data.valid, plan.data.aligned_valid))
    with ExitStack() as stack:
        parties = connect(plan, stack)
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


class VerticalRun(Run[VerticalPlan]):
    """Training of an active party with passive ones."""

    model_file = MODEL_FILE
    host, is_native = "XGBoost", False
    warnings = (UserWarning,)

    def __init__(self, plan: VerticalPlan, plan_file: str, stack: ExitStack) -> None:
        super().__init__(plan, plan_file, stack)
        self._plan_file = plan_file
        self._table = _active_table(plan, plan.data.file)
        self._data = self._labelled_rows(self._table, plan.data.file, plan.data.aligned)
        self._evals: list[tuple[ActiveData, str]] = []
        if plan.data.valid is not None:
            valid = _active_table(plan, plan.data.valid, like=self._table)
            log_unseen(valid, plan.data.valid, logger)
            self._evals = [(self._labelled_rows(valid, plan.data.valid, plan.data.aligned_valid), "valid")]

    def _labelled_rows(self, table: Table, file: str, aligned: str) -> ActiveData:
        """The rows of a file that all parties hold; all rows if there are no ids."""
        if table.label is None:
            raise PlanError(f"{self._plan_file}: data.label is missing; it names the column of labels")
        if table.label.ndim == 2:
            raise PlanError(f"{self._plan_file}: data.label={self.plan.data.label!r} must name one column")
        label = f"{self.plan.path(file)}: column {self.plan.data.label!r} of labels"
        Settings.from_params(self.plan.parameters).loss.check_labels(table.label.astype(np.float32), label)
        if self.plan.data.id is None:
            return ActiveData(table.columns, table.label)
        alignment = _kept_alignment(self._plan_file, self.plan.path(aligned), table.ids)
        self.row_sets.append(alignment.digest)
        positions = alignment.positions(table.ids)
        return ActiveData(table.columns.take(positions), table.label[positions])

    def train(self, parties: Sequence[Any]) -> VerticalModel:
        """Train with the passive parties."""
        settings, auditable = self.plan.training, self.plan.data.auditable
        return self._train(parties, self.plan.path(settings.checkpoint), auditable)

    def replay(self, folder: str) -> Replay:
        """Repeat a run whose messages are in a folder."""
        return replay(folder, self._train)

    def _train(
        self, parties: Sequence[Any], checkpoint: str | Path, auditable: bool = False
    ) -> VerticalModel:
        settings, categorical = self.plan.training, self._table.categorical
        return train(
            {"enable_categorical": True, **self.plan.parameters} if categorical else self.plan.parameters,
            self._data,
            parties,
            settings.rounds,
            evals=self._evals,
            cipher=settings.scheme,
            early_stopping_rounds=settings.early_stopping_rounds,
            verbose_eval=False,
            callbacks=[RoundLines(RoundLog(logger, settings.rounds, Path(checkpoint)))],
            checkpoint=checkpoint,
            patience=settings.patience,
            traffic=self.traffic,
            auditable=auditable,
        )

    def save(self, model: VerticalModel, directory: Path) -> None:
        """Write the model; it comes last: a crash before it leaves no model, and the checkpoint."""
        table = self._table
        kept: dict[str, Any] = {"columns": table.used, "categories": table.categories}
        if table.categorical:
            kept["categorical"] = table.categorical
        write_sealed(directory / TABLE_FILE, kept)
        model.save(directory)
        if model.best_iteration is not None:
            logger.info("best round %d, %s", model.best_iteration + 1, f"metric {model.best_score:.5f}")

    @classmethod
    def exported(cls, plan: VerticalPlan, plan_file: str) -> tuple[bytes, str]:
        """The booster on the columns of all parties, which reveal their splits if they consent."""
        model, traffic = VerticalModel.load(plan.path(plan.training.model)), Traffic()
        # Parties with ids answer about aligned rows only, also where no row is asked about.
        aligned = plan.path(plan.data.aligned)
        row_sets = [] if plan.data.id is None else [_kept_alignment(plan_file, aligned).digest]
        with ExitStack() as stack:
            try:
                booster = model.export_booster(connect(plan, stack, row_sets), traffic=traffic)
            except ConsentError as error:
                raise ConsentError(f"{error}; with --allow-export its server gives them") from None
            finally:
                write_traffic(plan.path(plan.training.record), traffic)
        about = (
            f"{len(model.trees)} trees, {booster.num_features()} columns of {1 + len(model.parties)} parties"
        )
        return as_json(booster), about

    def checkpoint(self, folder: Path) -> VerticalCheckpoint:
        """The progress in a folder."""
        return VerticalCheckpoint(folder, "")

    def summary(self, model: VerticalModel, directory: Path, n_parties: int) -> str:
        """The numbers of trees and rows."""
        return f"{len(model.trees)} trees on {len(self._data.label)} rows: {directory}"


RUN = VerticalRun


def predict(plan: VerticalPlan, args: argparse.Namespace) -> Predicted:
    """Predict rows of a file with the parties that hold its other columns, or explain the predictions."""
    directory = plan.path(plan.training.model)
    model = VerticalModel.load(directory)
    known = read_json(directory / TABLE_FILE)
    file = rows_to_predict(plan, args)
    table = read_table(
        file,
        id_column=plan.data.id,
        keep=known["columns"] or None,
        one_hot=known["categories"],
        categorical=known.get("categorical", {}),
        form=plan.form,
    )
    log_unseen(table, file, logger)
    traffic = Traffic()
    with ExitStack() as stack:
        parties = connect(plan, stack)
        positions, ids, row_sets = np.arange(table.columns.n_rows), table.ids, list[bytes]()
        if plan.data.id is not None:
            kept = plan.path(plan.data.aligned)
            given = None if args.data else _kept_alignment(args.plan, kept, table.ids)
            alignment = given or _aligned(plan, parties, table)
            positions, ids = alignment.positions(table.ids), list(alignment.ids)
            row_sets = [alignment.digest]
        rows = [party.with_rows(*row_sets) for party in parties]
        X = table.columns.take(positions)
        try:
            if args.contribs:
                return contributions_of(table.ids, ids, model.explain(X, rows, traffic=traffic))
            predictions = model.predict(X, rows, hide_paths=args.hide_paths, traffic=traffic)
            return predictions_of(table.ids, ids, predictions)
        finally:
            write_traffic(plan.path(plan.training.record), traffic)
