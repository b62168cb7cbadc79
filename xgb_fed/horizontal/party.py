"""A party of horizontal training: one organisation's rows and labels, for exact training and for SimFL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import xgboost

from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.messages import Abort, Finish, Message
from xgb_fed.horizontal.common.messages import Introduce
from xgb_fed.horizontal.common.rows import MAX_ROUNDS, MAX_ROWS, MIN_SIMILAR, PartyRows, RunLimits
from xgb_fed.horizontal.exact.messages import OpenExact
from xgb_fed.horizontal.exact.run import ExactRun
from xgb_fed.horizontal.exact.runs import ExactRuns
from xgb_fed.horizontal.exact.terms import ExactSide, ExactTerms
from xgb_fed.horizontal.simfl.messages import FinishBoosting
from xgb_fed.horizontal.simfl.party import SimFLParty

RUNS_FOLDER = "exact"
"""In a party's folder, or a coordinator's at it: exact training runs that have not ended."""


class HorizontalParty(SimFLParty):
    """One organisation's rows and labels in horizontal training.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Rows, with the same columns as every other party's.  NaN, and entries that a sparse matrix does not
        store, are missing values to XGBoost.  To the hashes NaN is the column's mean and an unstored entry is
        zero.
    y : array-like of shape (n_rows,)
        Labels.
    name : str, default="party"
        Name, unique among the parties.
    sample_weight : array-like of shape (n_rows,), optional
        Factors of gradients and hessians.
    categorical_labels : bool, default=False
        Declares that the labels are classes.  Only then does the party tell which distinct labels it has, as
        classification requires; there may be at most 256.
    min_similar : int, default=3
        Minimum number of rows (of weights above 0) whose gradients are sent as one sum.  The value of the
        paper is 1, with which the other parties can read single labels.
    known_features : int, default=0
        Number of features of these rows that others may know; it lowers the number of hashes given away.  The
        training run may ask for more, never for fewer.
    max_rows : int, default=10_000_000
        Maximum number of rows of all parties together; training runs with more are refused.
    max_rounds : int, default=10_000
        Maximum number of rounds, in all of its training runs together.  Each one can tell more of the
        features: those of groups of rows to an attacker who makes up trees, and those of single rows to one
        who makes up the sums that this party grows trees on.
    random_state : int, optional
        Determines the party's contribution to the hash seed, which of equally similar rows is chosen, the
        order that others know the rows in, and the rows that trees are grown on: a correct guess of it
        reveals all of these. Drawn from the operating system by default.
    n_jobs : int, default=0
        Number of threads; 0 means all available processors.
    directory : path, optional
        Where the party keeps what it must not forget: its groups of rows, the hashes that it has given away,
        and its part in training runs, so that a run goes on after this process was restarted.  In memory only
        by default.

    exact : ExactTerms, optional
        Terms of the party for exact training, with held-out rows and a certificate.

    Raises
    ------
    InvalidArgumentError, InvalidDataError
        Naming the argument.
    """

    opening = (Introduce, OpenExact)
    closing = (FinishBoosting, Finish, Abort)

    def __init__(
        self,
        X: Any,
        y: Any,
        name: str = "party",
        *,
        sample_weight: Any = None,
        categorical_labels: bool = False,
        min_similar: int = MIN_SIMILAR,
        known_features: int = 0,
        max_rows: int = MAX_ROWS,
        max_rounds: int = MAX_ROUNDS,
        random_state: int | None = None,
        n_jobs: int = 0,
        directory: str | Path | None = None,
        exact: ExactTerms | None = None,
    ) -> None:
        rows = PartyRows.of(
            X, y, name, sample_weight, categorical_labels, min_similar, known_features, max_rows, max_rounds
        )
        super().__init__(rows, random_state, n_jobs, directory)
        self._side = ExactSide.of(ExactTerms() if exact is None else exact, self._rows)
        self._runs = self._runs_in(None if directory is None else Path(directory))

    def _runs_in(self, directory: Path | None) -> ExactRuns:
        folder = None if directory is None else directory / RUNS_FOLDER
        return ExactRuns(self._side, folder, self._models, self._limits, self._memory, self._kept)

    def for_caller(
        self, directory: Path, used: set[bytes], memory: MemoryAllowance, limits: RunLimits
    ) -> HorizontalParty:
        """The same party for one of several coordinators, who do not see each other's sessions.

        Parameters
        ----------
        directory : Path
            Where journals and models of this coordinator's training runs are kept.
        used : set of bytes
            Sessions that were opened before.
        memory : MemoryAllowance
        limits : RunLimits
        """
        other: HorizontalParty = super().for_caller(directory, used, memory, limits)
        other._side = self._side
        other._runs = other._runs_in(directory)
        return other

    def close(self) -> None:
        """Let go of exact training runs that have not ended: another process, or party, can take them up."""
        self._runs.close()

    @property
    def exact_terms(self) -> ExactTerms:
        """Terms of the party for exact training."""
        return self._side.terms

    def get_booster(self) -> xgboost.Booster:
        """Return the party's copy of the model.

        Raises
        ------
        InvalidArgumentError
            Before a training run has finished.
        """
        return super().get_booster() if self._runs.booster is None else self._runs.booster

    def open(self, message: Message, session: bytes) -> tuple[Any, Message]:
        """Introduce this party to a coordinator."""
        if not isinstance(message, OpenExact):
            return super().open(message, session)
        run = self._runs.open(message)
        return run, run.introduced(bool(message.wants_classes))

    def answer(self, kept: Any, message: Message) -> Message:
        """Answer a request of the open session."""
        if isinstance(kept, ExactRun):
            return self._runs.answer(kept, message)
        return super().answer(kept, message)
