"""Runs of SimFL by the command: the coordinator's part, and predictions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from veilboost.plans.simfl import SimFLPlan
from veilboost.running.native_models import MODEL_FILE, OBJECTIVES, labelled_rows, predict, write_model
from veilboost.running.progress import RoundLines
from veilboost.running.run import Run
from xgb_fed.horizontal.common.model import HorizontalModel
from xgb_fed.horizontal.party import HorizontalParty
from xgb_fed.horizontal.simfl.checkpoint import Checkpoint
from xgb_fed.horizontal.train_simfl import train_simfl

__all__ = ["TrainingRun", "predict"]
logger = logging.getLogger(__name__)


class TrainingRun(Run[SimFLPlan]):
    """Training by parties that grow trees in turn."""

    model_file = MODEL_FILE
    warnings = (UserWarning,)

    def __init__(self, plan: SimFLPlan, plan_file: str, stack: ExitStack) -> None:
        super().__init__(plan, plan_file, stack)
        data = plan.data
        self._evals = [] if data.valid is None else [(labelled_rows(plan, data.valid), "valid")]
        if data.file is not None:
            self.own = [_own_party(plan, data.file)]

    def train(self, parties: Sequence[Any]) -> HorizontalModel:
        """Coordinate the training run."""
        settings = self.plan.training
        model = train_simfl(
            {"objective": OBJECTIVES[self.plan.data.labels], **self.plan.parameters},
            parties,
            settings.rounds,
            n_hashes=settings.n_hashes,
            known_features=settings.known_features,
            evals=self._evals,
            early_stopping_rounds=settings.early_stopping_rounds,
            verbose_eval=False,
            callbacks=[RoundLines(logger, settings.rounds)],
            checkpoint=self.plan.path(settings.checkpoint),
            patience=settings.patience,
        )
        self.traffic = model.traffic
        return model

    def save(self, model: HorizontalModel, directory: Path) -> None:
        """Write the model."""
        write_model(directory, model)

    def forget(self) -> None:
        """Remove the checkpoint."""
        Checkpoint(self.plan.path(self.plan.training.checkpoint)).clear()

    def summary(self, model: HorizontalModel, n_parties: int) -> str:
        """The numbers of rounds and parties."""
        return f"{model.booster.num_boosted_rounds()} rounds with {n_parties} parties: {{}}"


def _own_party(plan: SimFLPlan, file: str) -> HorizontalParty:
    """The coordinator's own rows, as a party in this process."""
    data = plan.data
    columns, label = labelled_rows(plan, file)
    return HorizontalParty(
        columns,
        label,
        data.name,
        categorical_labels=data.labels == "classes",
        min_similar=data.min_similar,
        known_features=data.known_features,
        max_rows=data.max_rows,
        max_rounds=data.max_rounds,
        directory=plan.path(data.state),
    )
