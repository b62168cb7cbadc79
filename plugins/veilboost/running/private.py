"""Differentially private horizontal runs of the command: the coordinator's part, and predictions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from gbdt_commons.files import write_atomically
from gbdt_parties.secure_sum.checkpoint import Checkpoint
from lgb_dp import DPBooster, NewtonBoost, federated
from lgb_dp.errors import FederatedCheckpointError
from veilboost.plans.declared import Declared, read_declared
from veilboost.plans.entries import PlanError
from veilboost.plans.private import PrivatePlan
from veilboost.plans.private_columns import PrivateColumnsPlan
from veilboost.running.predictions import Predicted, predictions_of
from veilboost.running.run import Run, kept_model, own_credentials, rows_to_predict

PlanT = TypeVar("PlanT", PrivatePlan, PrivateColumnsPlan)
MODEL_FILE = "model.txt"
"""In the model's folder: LightGBM's model, with the guarantee inside."""


class PrivateRun(Run[PlanT]):
    """A training run that ends in a model of LightGBM with its guarantee, which all parties have."""

    model_file = MODEL_FILE
    host = "LightGBM"

    def save(self, model: DPBooster, directory: Path) -> None:
        """Write the model."""
        write_atomically(directory / MODEL_FILE, model.model_to_string(num_iteration=-1))

    def summary(self, model: DPBooster, directory: Path, n_parties: int) -> str:
        """The numbers of trees and parties, and the guarantee."""
        report = model.privacy
        return (
            f"{model.num_trees()} trees with {n_parties} parties: {directory}; epsilon = "
            f"{report.epsilon:.6g}, delta = {report.delta:.3g} ({report.neighbouring})"
        )


class TrainingRun(PrivateRun[PrivatePlan]):
    """Training on noised sums over all parties."""

    warnings = (federated.FewPartiesWarning,)

    def __init__(self, plan: PrivatePlan, plan_file: str, stack: ExitStack) -> None:
        super().__init__(plan, plan_file, stack)
        if plan.data.file is not None:
            party = _own_party(plan, plan.data.file)
            stack.callback(party.close)
            self.own = [party]

    def train(self, parties: Sequence[Any]) -> DPBooster:
        """Coordinate the training run."""
        settings = self.plan.training
        return federated.train(
            self.plan.parameters,
            parties,
            settings.rounds,
            callbacks=[NewtonBoost(settings.epsilon, settings.delta)],
            min_parties=settings.min_parties,
            colluding=settings.colluding,
            max_attempts=settings.max_attempts,
            parties_per_person=settings.parties_per_person,
            trees_per_round=settings.trees_per_round,
            traffic=self.traffic,
            checkpoint=self.plan.path(settings.checkpoint),
            patience=settings.patience,
        )

    def checkpoint(self, folder: Path) -> Checkpoint:
        """The progress in a folder."""
        return Checkpoint(folder, FederatedCheckpointError)


def _declared(plan: PrivatePlan) -> Declared:
    """The columns that a plan declares."""
    if plan.data.declared is None:
        raise PlanError("the plan has no data.declared, which says how columns are read")
    return read_declared(plan.path(plan.data.declared))


def _own_party(plan: PrivatePlan, file: str) -> federated.Party:
    """The coordinator's own rows, as a party in this process."""
    data = plan.data
    tls, name = own_credentials(plan)
    declared = _declared(plan)
    rows = declared.table_of(plan.path(file))
    return federated.Party(
        rows.features,
        rows.label,
        name=name,
        folder=plan.path(data.state),
        budget=data.epsilon_and_delta,
        min_parties=data.min_parties,
        colluding=data.colluding,
        tls=tls,
        allowed=data.allowed,
        **declared.arguments(),
        **rows.own,
    )


def trained_model(plan: PrivatePlan | PrivateColumnsPlan) -> DPBooster:
    """The model in the plan's folder."""
    return DPBooster(model_file=kept_model(plan.path(plan.training.model) / MODEL_FILE))


def predict(plan: PrivatePlan, args: argparse.Namespace) -> Predicted:
    """Predict rows of a file by the model; no other party is asked."""
    model, declared = trained_model(plan), _declared(plan)
    file = rows_to_predict(plan, args)
    rows = declared.table_of(file, id_column=plan.data.id, labelled=False)
    return predictions_of(rows.ids, rows.ids, model.predict(rows.features))
