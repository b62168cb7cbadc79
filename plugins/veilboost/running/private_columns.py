"""Private runs of the command with columns apart: the side with the labels, and predictions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any

from gbdt_parties.identity.alignment import align
from gbdt_parties.identity.record import write_traffic
from gbdt_parties.progress_folder import ProgressFolder
from gbdt_parties.traffic import Flow, Traffic
from lgb_dp import Dataset, DPBooster, NewtonBoost, vertical
from lgb_dp.data.model_columns import columns_of_model
from lgb_dp.errors import FederatedCheckpointError
from lgb_dp.federated.ledger import LEDGER_FILE, ROLE
from lgb_dp.vertical.predicting import check_outputs
from lgb_dp.vertical.task import Flights
from veilboost.plans.declared import DeclaredColumns, read_declared, rows_to_align
from veilboost.plans.private_columns import PrivateColumnsPlan
from veilboost.plans.tables import kind_of, names_in
from veilboost.running.predictions import Predicted, predictions_of
from veilboost.running.private import PrivateRun, trained_model
from veilboost.running.run import connect, own_credentials, rows_to_predict


class ColumnsProgress(ProgressFolder):
    """The folder of a run's progress, with this side's ledger of it."""

    store_file, role = LEDGER_FILE, ROLE


class PrivateColumnsRun(PrivateRun[PrivateColumnsPlan]):
    """Training of the party with the labels, with one that has columns alone."""

    def __init__(self, plan: PrivateColumnsPlan, plan_file: str, stack: ExitStack) -> None:
        super().__init__(plan, plan_file, stack)
        declared = read_declared(plan.path(plan.data.declared))
        rows = rows_to_align(declared, plan.path(plan.data.file), plan.data.id, plan.form)
        declared.check_classes(rows, plan.path(plan.data.file), plan.parameters)
        self._ids = None if plan.data.id is None else rows.ids
        self._rows = Dataset(rows.features, rows.label, label_overflow="clip", **declared.arguments())

    def train(self, parties: Sequence[Any]) -> DPBooster:
        """Train with the party that has columns alone."""
        settings, masked = self.plan.training, vertical.MaskedTraffic()
        tls, _ = own_credentials(self.plan)
        try:
            return vertical.train(
                self.plan.parameters,
                self._rows,
                settings.rounds,
                parties=parties,
                callbacks=[NewtonBoost(settings.epsilon, settings.delta)],
                trees_per_round=settings.trees_per_round,
                ids=self._ids,
                tls=tls,
                allowed=self.plan.data.allowed,
                checkpoint=self.plan.path(settings.checkpoint),
                folder=self.plan.path(self.plan.data.state),
                budget=self.plan.data.epsilon_and_delta,
                traffic=masked,
                patience=settings.patience,
                auditable=self.plan.data.auditable,
            )
        finally:
            self.traffic = recorded(masked)

    def checkpoint(self, folder: Path) -> ColumnsProgress:
        """The progress in a folder."""
        return ColumnsProgress(folder, FederatedCheckpointError)

    def summary(self, model: DPBooster, directory: Path, n_parties: int) -> str:
        """The numbers of trees and parties, and the guarantee."""
        return super().summary(model, directory, 1 + n_parties)


RUN = PrivateColumnsRun


def recorded(masked: vertical.MaskedTraffic) -> Traffic:
    """Masked traffic as a record has it."""
    flows = {
        (sender, receiver, Flights.__name__): Flow(n_messages, n_bytes)
        for (sender, receiver), (n_messages, n_bytes) in masked.flows.items()
    }
    return Traffic(flows=flows)


def predict(plan: PrivateColumnsPlan, args: argparse.Namespace) -> Predicted:
    """Predict rows of a file that has the columns of both parties, or ask the other party about its own."""
    model, file = trained_model(plan), rows_to_predict(plan, args)
    known = columns_of_model(model.model_to_string(num_iteration=1))
    names = model.feature_name() if known.names is None else list(known.names)
    if not set(names) <= set(names_in(file, kind_of(file), plan.form)):
        return ask_parties(plan, model, file)
    values = {**known.categories, **known.codes}
    categories = {names[feature]: list(values[feature]) for feature in values}
    numbers = {name: list[float]() for name in names if name not in categories}
    own = plan.path(plan.data.declared)
    accepted = read_declared(own).accept_undeclared if own.exists() else []
    columns = DeclaredColumns(bounds=numbers, categories=categories, accept_undeclared=accepted)
    rows = columns.table_of(file, id_column=plan.data.id, form=plan.form)
    return predictions_of(rows.ids, rows.ids, model.predict(rows.features.select(names)))


def ask_parties(plan: PrivateColumnsPlan, model: DPBooster, file: Path) -> Predicted:
    """Predictions of rows whose other columns the party of the plan has; it learns which rows they are."""
    # Before rows are aligned: the other party would learn which they are.
    check_outputs(model)
    declared, traffic = read_declared(plan.path(plan.data.declared)), Traffic()
    columns = DeclaredColumns(**{f.name: getattr(declared, f.name) for f in fields(DeclaredColumns)})
    rows = rows_to_align(columns, file, plan.data.id, plan.form)
    features, ids, how = rows.features, rows.ids, dict[str, Any]()
    asked: Any
    with ExitStack() as stack:
        (asked,) = connect(plan, stack)
        stack.callback(lambda: write_traffic(plan.path(plan.training.record), traffic))
        if plan.data.id is not None:
            alignment = align([asked], rows.ids, traffic)
            features, ids = features.take(alignment.positions(rows.ids)), list(alignment.ids)
            asked, how = asked.with_rows(alignment.digest), {"ids": ids}
        kept = plan.path(plan.training.model)
        answers: Any = vertical.predict(model, features, parties=[asked], folder=kept, traffic=traffic, **how)
    return predictions_of(rows.ids, ids, answers)
