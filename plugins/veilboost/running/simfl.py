"""Runs of SimFL by the command: the coordinator's part, and predictions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from veilboost.plans.simfl import SimFLPlan
from veilboost.running.native_models import OBJECTIVES, NativeRun, labelled_rows, predict
from veilboost.running.progress import RoundLines, RoundLog
from xgb_fed.horizontal.common.model import HorizontalModel
from xgb_fed.horizontal.simfl.checkpoint import SimFLCheckpoint
from xgb_fed.horizontal.train_simfl import train_simfl

__all__ = ["RUN", "predict"]
logger = logging.getLogger(__name__)


class SimFLRun(NativeRun[SimFLPlan]):
    """Training by parties that grow trees in turn."""

    warnings = (UserWarning,)

    def __init__(self, plan: SimFLPlan, plan_file: str, stack: ExitStack) -> None:
        super().__init__(plan, plan_file, stack)
        data = plan.data
        self._evals = [] if data.valid is None else [(labelled_rows(plan, data.valid), "valid")]
        if data.file is not None:
            terms = {"min_similar": data.min_similar, "known_features": data.known_features}
            party = self.own_party(data.file, data.name, **terms)
            stack.callback(party.close)
            self.own = [party]

    def train(self, parties: Sequence[Any]) -> HorizontalModel:
        """Coordinate the training run."""
        settings = self.plan.training
        return train_simfl(
            {"objective": OBJECTIVES[self.plan.data.labels], **self.plan.parameters},
            parties,
            settings.rounds,
            n_hashes=settings.n_hashes,
            known_features=settings.known_features,
            evals=self._evals,
            early_stopping_rounds=settings.early_stopping_rounds,
            verbose_eval=False,
            callbacks=[RoundLines(RoundLog(logger, settings.rounds, self.plan.path(settings.checkpoint)))],
            checkpoint=self.plan.path(settings.checkpoint),
            patience=settings.patience,
            traffic=self.traffic,
        )

    def checkpoint(self, folder: Path) -> SimFLCheckpoint:
        """The progress in a folder."""
        return SimFLCheckpoint(folder)


RUN = SimFLRun
