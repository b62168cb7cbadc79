"""Differentially private horizontal runs of the command: the coordinator's part, and predictions."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from gbdt_commons.files import write_signed
from gbdt_kernels.trees.layout import MAX_BINS
from gbdt_parties.run.progress import Checkpoint
from gbdt_parties.transport.server import MAX_REQUEST_BYTES
from lgb_dp import DPBooster, NewtonBoost, federated
from lgb_dp.accounting.cost import pair_text
from lgb_dp.boosting.params import training_parameters
from lgb_dp.errors import FederatedCheckpointError
from lgb_dp.newton.settings import MAX_AUTOMATIC_DEPTH, MAX_COUNTED_FEATURES
from veilboost.plans.declared import Declared, read_declared
from veilboost.plans.entries import PlanError
from veilboost.plans.private import PrivatePlan, PrivateTraining
from veilboost.plans.private_columns import PrivateColumnsPlan
from veilboost.running.predictions import Predicted, predictions_of
from veilboost.running.run import Run, kept_model, own_credentials, rows_to_predict

PlanT = TypeVar("PlanT", PrivatePlan, PrivateColumnsPlan)
MODEL_FILE = "model.txt"
"""In the model's folder: LightGBM's model, with the guarantee inside."""

_HEAD_BYTES = 1024
"""Of a party's contribution beside its values, at most."""


class PrivateRun(Run[PlanT]):
    """A training run that ends in a model of LightGBM with its guarantee, which all parties have."""

    model_file = MODEL_FILE
    host = "LightGBM"

    def save(self, model: DPBooster, directory: Path) -> None:
        """Write the model."""
        write_signed(directory / MODEL_FILE, model.model_to_string(num_iteration=-1), model.signatures)

    def summary(self, model: DPBooster, directory: Path, n_parties: int) -> str:
        """The numbers of trees and parties, and the guarantee."""
        report, evaluation = model.privacy, model.evaluation
        quality = "" if evaluation is None else f"\n{evaluation}"
        return (
            f"{model.num_trees()} trees with {n_parties} parties: {directory}; "
            f"{pair_text(report.epsilon, report.delta)} ({report.neighbouring}){quality}"
        )


class PrivateRowsRun(PrivateRun[PrivatePlan]):
    """Training on noised sums over all parties."""

    warnings = (federated.FewPartiesWarning,)

    def __init__(self, plan: PrivatePlan, plan_file: str, stack: ExitStack) -> None:
        super().__init__(plan, plan_file, stack)
        n_bytes = largest_message(plan)
        if n_bytes > MAX_REQUEST_BYTES:
            raise PlanError(
                f"{plan_file}: messages would have up to {n_bytes} bytes, and a party takes "
                f"{MAX_REQUEST_BYTES}; max_depth, training.trees_per_round or the number of parties must be "
                "smaller"
            )
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
            callbacks=[trainer_of(settings)],
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


RUN = PrivateRowsRun


def trainer_of(settings: PrivateTraining) -> NewtonBoost:
    """The callback of a plan."""
    held_out = settings.validation_fraction
    return NewtonBoost(settings.epsilon, settings.delta, validation_fraction=held_out, by=settings.by)


def largest_message(plan: PrivatePlan) -> int:
    """Bytes of the longest message of private training, at most: all parties' contributions to one round.

    A contribution has 8 bytes for each gradient and hessian of a leaf, twice if rows are held out, of all
    trees of a round, or for each bin of the features whose histograms are released.
    """
    # As every party reads them, by whatever names; `max_bin` is compared there.
    known = training_parameters({**plan.parameters, "max_bin": None}, None)
    depth = known.depth if "max_depth" in known.given else MAX_AUTOMATIC_DEPTH
    leaves = plan.training.trees_per_round * 4 * 2**depth * known.n_outputs
    histograms = MAX_COUNTED_FEATURES * (MAX_BINS + 1)
    n_parties = len(plan.parties) + (plan.data.file is not None)
    return int(n_parties * (8 * max(leaves, histograms) + _HEAD_BYTES))


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
    rows = declared.table_of(plan.path(file), form=plan.form)
    declared.check_classes(rows, plan.path(file), plan.parameters)
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
        auditable=data.auditable,
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
    rows = declared.table_of(file, id_column=plan.data.id, labelled=False, form=plan.form)
    return predictions_of(rows.ids, rows.ids, model.predict(rows.features))
