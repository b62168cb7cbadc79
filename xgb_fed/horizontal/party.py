"""A party of horizontal training: one organisation's rows and labels, for exact training and for SimFL."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import xgboost

from gbdt_commons.store import MemoryStore, Store
from gbdt_commons.store_file import StoreFile
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.messages import Abort, Message
from gbdt_parties.run.party_run import PartyRun
from gbdt_parties.run.replay import Replay
from gbdt_parties.secure_sum.messages import NEW_RUN, EndRun
from gbdt_parties.secure_sum.trust import AllowList
from gbdt_parties.session import SessionHandler
from gbdt_parties.transport.service import CALLER, part_of
from gbdt_parties.transport.service import STORE_FILE as SERVED
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.horizontal.common.kept_models import KeptModels
from xgb_fed.horizontal.common.messages import Introduce
from xgb_fed.horizontal.common.party_state import KEY, PartyState
from xgb_fed.horizontal.common.rows import (
    MAX_ROUNDS,
    MAX_ROWS,
    MIN_SIMILAR,
    OF_THIS_PROCESS,
    HorizontalLimits,
    HorizontalRows,
)
from xgb_fed.horizontal.common.told_rows import ToldRows
from xgb_fed.horizontal.exact.exchange import OpenExactRun
from xgb_fed.horizontal.exact.run import ExactRuns
from xgb_fed.horizontal.exact.terms import ExactSide, ExactTerms
from xgb_fed.horizontal.exact.training import RoundsDone
from xgb_fed.horizontal.simfl.messages import FinishBoosting
from xgb_fed.horizontal.simfl.party import SimFLSession, SimFLSide

EXACT = "exact"
"""Part of a store with exact training runs."""

STORE_FILE, ROLE = "horizontal.store", "the rows of a party of horizontal training"


class HorizontalSessions(SessionHandler[PartyRun | SimFLSession]):
    """One coordinator's exact runs and SimFL's, with kept `models` and the sessions `used` before."""

    opening = (Introduce, OpenExactRun)
    closing = (FinishBoosting, EndRun, Abort)

    def __init__(
        self, simfl: SimFLSide, exact: ExactRuns, models: KeptModels | None, used: set[bytes] | None = None
    ) -> None:
        super().__init__(used)
        self.name = simfl.name
        self.simfl, self.exact_runs, self._models = simfl, exact, models

    def open(self, message: Message, session: bytes) -> tuple[PartyRun | SimFLSession, Message]:
        """Introduce this party to a coordinator."""
        if isinstance(message, Introduce):
            return SimFLSession(self.simfl, session), self.simfl.introduced(message)
        assert isinstance(message, OpenExactRun)
        if message.n_known == NEW_RUN and self._models is not None:
            self._models.check_room()
        run = self.exact_runs.open(message)
        return run, run.introduced(session)

    def answer(self, kept: PartyRun | SimFLSession, message: Message) -> Message:
        """Answer a further request of an open session."""
        return self.exact_runs.answer(kept, message) if isinstance(kept, PartyRun) else kept.answer(message)

    def closed(self, kept: PartyRun | SimFLSession) -> None:
        """Drop a run of SimFL, which is taken up from its journal; others stay for another session."""
        if isinstance(kept, SimFLSession):
            kept.closed()

    def close(self) -> None:
        """Let go of exact training runs that have not ended: another process, or party, can take them up."""
        with self._lock:
            self.exact_runs.close()


class HorizontalParty(HorizontalSessions):
    """One organisation's rows and labels in horizontal training.

    Parameters
    ----------
    X : array-like, data frame or sparse matrix of shape (n_rows, n_features)
        Rows, with the same columns as every other party's.  NaN, and entries that a sparse matrix does not
        store, are missing values to XGBoost.  To the hashes NaN is the column's mean and an unstored entry is
        zero.
    y : array-like of shape (n_rows,), or array or table of shape (n_rows, 2)
        Labels; of two columns, the lower and upper bounds of times for ``survival:aft``.
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
    as_published : bool, default=False
        Whether the party hashes, draws ties and weighs penalties as the paper does; see `train_simfl`.
    random_state : int, optional
        Determines the party's contribution to the hash seed, which of equally similar rows is chosen, the
        order that others know the rows in, and the rows that trees are grown on: a correct guess of it
        reveals all of these. Drawn from the operating system by default.
    n_jobs : int, default=0
        Number of threads; 0 means all available processors.
    directory : path, optional
        Where the party keeps what it must not forget: its groups of rows, the hashes that it has given away,
        which rows sums were told of, and its part in training runs, so that a run goes on after this process
        was restarted.  One process, and one object in it, uses it at a time.  In memory only by default.
        Rows may change between runs: those added, or are gone or changed, must be none or at least
        `min_rows_per_node` (of `exact`), also beside all states that were told before.
    accept_rows : str, optional
        Name of a state of the rows, from the error that refuses it: these rows are accepted, and no others.
    exact : ExactTerms, optional
        Terms of the party for exact training, with held-out rows and a certificate.
    auditable : bool, default=False
        Whether `directory` keeps messages and keys of exact training runs for an auditor (`replay`): as much
        as the traffic, and as secret as the rows.  They stay until four later ones of the coordinator have
        ended, or their model is removed (``veilboost models --remove``).

    Raises
    ------
    InvalidArgumentError, InvalidDataError
        Naming the argument.
    StoreError
        If the directory is in use, or what is in it is damaged or of another release.

    Notes
    -----
    A change of many rows can hide another one in few of them, which cannot be told from rows that came and
    went; so rows are refused, too, if more than half of them have changed.
    """

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
        as_published: bool = False,
        random_state: int | None = None,
        n_jobs: int = 0,
        directory: str | Path | None = None,
        exact: ExactTerms | None = None,
        auditable: bool = False,
        accept_rows: str | None = None,
    ) -> None:
        if auditable and directory is None:
            raise InvalidArgumentError("auditable=True needs a directory, where messages are kept")
        limits = (min_similar, known_features, max_rows, max_rounds)
        rows = HorizontalRows.of(X, y, name, sample_weight, categorical_labels, *limits, as_published)
        key = None if random_state is None else int(random_state).to_bytes(32, "little")
        self._rows, self._n_jobs, self._auditable = rows, n_jobs, auditable
        self.exact_side = ExactSide.of(ExactTerms() if exact is None else exact, rows)
        store: Store = MemoryStore()
        if directory is not None:
            store = StoreFile(Path(directory) / STORE_FILE, ROLE)
        self.kept = PartyState(key, store)
        held_out = [own for own in self.exact_side.held_out if own is not None]
        terms = self.exact_side.terms
        # With a certificate, and so an allow-list, it takes no part in SimFL behind a server.
        least = max(terms.min_rows_per_node, 1 if terms.tls else rows.min_similar)
        self.kept.rows = ToldRows(store, self.kept.stream, rows, held_out, least)
        try:
            self.kept.rows.check(accept_rows)
            sides = self._sides(store, None, OF_THIS_PROCESS, MemoryAllowance(sys.maxsize))
        except BaseException:
            self.kept.close()
            raise
        super().__init__(*sides)

    def _sides(
        self, store: Store, models: KeptModels | None, limits: HorizontalLimits, memory: MemoryAllowance
    ) -> tuple[SimFLSide, ExactRuns, KeptModels | None]:
        """Both sides of one coordinator's training runs, which share the party's counts and its memory."""
        own = store.part("simfl")
        simfl = SimFLSide(self._rows, self.kept, self._n_jobs, own, models, limits, memory)
        own = store.part(EXACT)
        runs = ExactRuns(self.exact_side, own, models, limits, memory, self.kept, self._auditable)
        return simfl, runs, models

    def close(self) -> None:
        """Let go of the directory: another process, or another party, can use it then."""
        super().close()
        self.kept.close()

    def for_caller(
        self,
        directory: Path,
        store: Store,
        used: set[bytes],
        memory: MemoryAllowance,
        limits: HorizontalLimits,
    ) -> HorizontalSessions:
        """The same party for one of several coordinators, who do not see each other's sessions.

        Parameters
        ----------
        directory : Path
            Where models of this coordinator's training runs are kept.
        store : Store
            Where its training runs are kept.
        used : set of bytes
            Sessions that were opened before.
        memory : MemoryAllowance
        limits : HorizontalLimits
        """
        models = KeptModels(directory / "models", limits.max_models)
        return HorizontalSessions(*self._sides(store, models, limits, memory), used)

    def replay(self, directory: str | Path, *, run: str | None = None) -> Replay:
        """Repeat a party's side of an exact training run from its directory and these rows.

        An auditor makes a `HorizontalParty` of the party's rows and held-out rows, without a directory; the
        others of the run must be those that its terms allow.

        Parameters
        ----------
        directory : path
            Of a party, or its service, that has trained with ``auditable=True``; only read.
        run : str, optional
            Number of the run in hexadecimal digits, the name of its model; by default the only one.

        Raises
        ------
        InvalidArgumentError, PartyArgumentError, StoreError
            If the directory has no such run, or is in use or damaged.
        """
        with ExitStack() as stack:
            paths = [path for name in (STORE_FILE, SERVED) if (path := Path(directory) / name).exists()]
            files = [stack.enter_context(closing(StoreFile(path, None, read_only=True))) for path in paths]
            known = files[0].get(KEY, "") if files else None
            if known is None:
                raise InvalidArgumentError(f"directory={str(directory)!r} has no {STORE_FILE} of a party")
            state, room = PartyState(bytes.fromhex(known)), MemoryAllowance(sys.maxsize)
            runs = ExactRuns(self.exact_side, MemoryStore(), None, OF_THIS_PROCESS, room, state)
            served = [part_of(file, caller) for file in files for caller in file.keys(CALLER)]
            counted = PartyState(store=files[0]).rounds_of
            return runs.replayed([store.part(EXACT) for store in (files[0], *served)], run, counted)

    def __repr__(self) -> str:
        """Name and shape of the rows."""
        n_rows, n_columns = self._rows.X.shape
        return f"{type(self).__name__}({self.name!r}, {n_rows} rows, {n_columns} columns)"

    @property
    def exact_rounds(self) -> RoundsDone:
        """Rounds of the exact run that a coordinator of this process trains with this party."""
        return self.exact_runs.done

    @property
    def allow_list(self) -> AllowList:
        """Parties that its terms allow."""
        return self.exact_side.allowed

    @property
    def exact_terms(self) -> ExactTerms:
        """Terms of the party for exact training."""
        return self.exact_side.terms

    def get_booster(self) -> xgboost.Booster:
        """Return the party's copy of the model.

        Raises
        ------
        InvalidArgumentError
            Before a training run has finished.
        """
        return self.simfl.get_booster() if self.exact_runs.booster is None else self.exact_runs.booster
