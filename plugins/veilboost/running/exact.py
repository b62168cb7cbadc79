"""Exact horizontal runs of the command: the coordinator's part, and predictions."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from veilboost.plans.exact import ExactPlan
from veilboost.running.native_models import MODEL_FILE, OBJECTIVES, labelled_rows, predict, write_model
from veilboost.running.run import Run, own_credentials
from xgb_fed.boosting.features import MAX_BINS
from xgb_fed.errors import FewPartiesWarning
from xgb_fed.horizontal.common.model import HorizontalModel
from xgb_fed.horizontal.exact.checkpoint import ExactCheckpoint
from xgb_fed.horizontal.exact.terms import ExactTerms
from xgb_fed.horizontal.party import HorizontalParty
from xgb_fed.horizontal.train_exact import train_exact

__all__ = ["TrainingRun", "predict"]


class TrainingRun(Run[ExactPlan]):
    """Training on sums over all parties."""

    model_file = MODEL_FILE
    warnings = (FewPartiesWarning,)

    def __init__(self, plan: ExactPlan, plan_file: str, stack: ExitStack) -> None:
        super().__init__(plan, plan_file, stack)
        if plan.data.file is not None:
            party = _own_party(plan, plan.data.file)
            stack.callback(party.close)
            self.own = [party]

    def train(self, parties: Sequence[Any]) -> HorizontalModel:
        """Coordinate the training run."""
        settings = self.plan.training
        return train_exact(
            {"objective": OBJECTIVES[self.plan.data.labels], **self.plan.parameters},
            parties,
            settings.rounds,
            cuts=settings.cuts,
            min_rows_per_node=settings.min_rows_per_node,
            min_parties=settings.min_parties,
            early_stopping_rounds=settings.early_stopping_rounds,
            verbose_eval=False,
            traffic=self.traffic,
            checkpoint=self.plan.path(settings.checkpoint),
            patience=settings.patience,
        )

    def save(self, model: HorizontalModel, directory: Path) -> None:
        """Write the model."""
        write_model(directory, model)

    def forget(self) -> None:
        """Remove the checkpoint."""
        ExactCheckpoint(self.plan.path(self.plan.training.checkpoint)).clear()

    def summary(self, model: HorizontalModel, n_parties: int) -> str:
        """The numbers of rounds and parties."""
        return f"{model.booster.num_boosted_rounds()} rounds with {n_parties} parties: {{}}"


def _own_party(plan: ExactPlan, file: str) -> HorizontalParty:
    """The coordinator's own rows, as a party in this process; its demands are those of the plan."""
    data, training = plan.data, plan.training
    tls, name = own_credentials(plan)
    columns, label = labelled_rows(plan, file)
    return HorizontalParty(
        columns,
        label,
        name,
        categorical_labels=data.labels == "classes",
        max_rows=data.max_rows,
        max_rounds=data.max_rounds,
        directory=plan.path(data.state),
        exact=ExactTerms(
            min_rows_per_node=training.min_rows_per_node,
            min_parties=training.min_parties,
            cuts=[training.cuts],
            max_bin=MAX_BINS,
            held_out=[] if data.valid is None else [labelled_rows(plan, data.valid)],
            tls=tls,
            allowed=data.allowed,
            max_samples=data.max_samples,
        ),
    )
