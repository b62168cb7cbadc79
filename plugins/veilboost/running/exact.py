"""Exact horizontal runs of the command: the coordinator's part, and predictions."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from gbdt_parties.run.progress import Checkpoint
from veilboost.plans.exact import ExactPlan
from veilboost.running.native_models import OBJECTIVES, NativeRun, labelled_rows, predict
from veilboost.running.progress import RoundLog
from veilboost.running.run import own_credentials
from xgb_fed.boosting.features import MAX_BINS
from xgb_fed.errors import CheckpointError, FewPartiesWarning
from xgb_fed.horizontal.common.model import HorizontalModel
from xgb_fed.horizontal.exact.terms import ExactTerms
from xgb_fed.horizontal.train_exact import train_exact

__all__ = ["RUN", "predict"]
logger = logging.getLogger(__name__)


class ExactRun(NativeRun[ExactPlan]):
    """Training on sums over all parties; the demands of the coordinator's rows are those of the plan."""

    warnings = (FewPartiesWarning,)

    def __init__(self, plan: ExactPlan, plan_file: str, stack: ExitStack) -> None:
        super().__init__(plan, plan_file, stack)
        data, settings = plan.data, plan.training
        if data.file is None:
            return
        tls, name = own_credentials(plan)
        terms = ExactTerms(
            min_rows_per_node=settings.min_rows_per_node,
            min_parties=settings.min_parties,
            cuts=[settings.cuts],
            max_bin=MAX_BINS,
            held_out=[] if data.valid is None else [labelled_rows(plan, data.valid)],
            tls=tls,
            allowed=data.allowed,
            max_samples=data.max_samples,
        )
        party = self.own_party(data.file, name, exact=terms, auditable=data.auditable)
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
            # A coordinator without rows sees masked sums, and learns of rounds at the end.
            on_round=RoundLog(logger, settings.rounds, self.plan.path(settings.checkpoint))
            if self.own
            else None,
            traffic=self.traffic,
            checkpoint=self.plan.path(settings.checkpoint),
            patience=settings.patience,
        )

    def checkpoint(self, folder: Path) -> Checkpoint:
        """The progress in a folder."""
        return Checkpoint(folder, CheckpointError)


RUN = ExactRun
