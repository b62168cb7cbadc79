"""`lgb_dp.vertical.ColumnParty`: the party with columns alone."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import make_folder, write_atomically
from gbdt_commons.store_file import StoreFile
from gbdt_kernels.trees import DenseCodes, SparseCodes
from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.identity.certificates import TLS, Identity
from gbdt_parties.identity.row_ids import check_ids
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.run.log import RUNS, THIS_PROCESS, RunLog, runs_of
from gbdt_parties.secure_sum.trust import AllowList, credentials_of
from gbdt_parties.two_party.life import Unrepeatable
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.checks import checked_budget
from lgb_dp.data.arguments import checked_data
from lgb_dp.data.bins import feature_names, public_bins
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError
from lgb_dp.federated.ledger import LEDGER_FILE, ROLE, PartyLedger
from lgb_dp.vertical.prediction.answering import AskedRows, PartyAnswers
from lgb_dp.vertical.prediction.consent import Consent
from lgb_dp.vertical.replica import model_text
from lgb_dp.vertical.run import ColumnSessions, ColumnSide, digest_of_rows
from lgb_dp.vertical.task import ColumnTask

MODELS_FOLDER = "models"
"""In a party's folder: the models that have been trained."""

_ANSWERS = "answers"
"""Part of the ledger's store with all that questions about rows need."""

_DATA_ARGUMENTS = ("bounds", "max_bin", "spacing", "categories", "bin_edges", "feature_name")


class ColumnParty(ColumnSessions, Unrepeatable):
    """Columns of the rows whose labels another party has.

    Nothing that depends on its rows leaves it but histograms with its own noise, and masked numbers from
    which sums with the noise of both parties can be read.  It has rows, keys and a ledger, and refuses to be
    copied or pickled.

    Parameters
    ----------
    X : ndarray, table or scipy sparse matrix, shape (n_rows, n_features)
        Rows in the order of the other party's, or with `ids`.
    name : str
        Under which the other party knows it; the common name of its certificate, if it has one.
    folder : path, optional
        Where the party keeps its ledger, and state and keys of runs until they end, across restarts.  Without
        it, all of it ends with the process: until then, runs that were interrupted can go on, whatever other
        ones have begun since.
    budget : (epsilon, delta), optional
        Of all that is recorded in its ledger together.  A ledger in a folder takes that of its first run
        without it; in memory, each run then has one of its own, which limits nothing beyond it.
    ids : sequence of str, optional
        A name for each row; rows are then aligned with those of the other party.
    tls : TLS or path, optional
        Its certificate and key, and the authorities that it trusts.  Without it, the party signs with a
        certificate of its own making, which is for parties in one process.
    allowed : sequence of str, optional
        Parties that it computes with: ``sha256:`` and a certificate's fingerprint, or names with
        `trust_authority`.  Required with `tls`; parties in one process accept each other without.
    trust_authority : bool
        Whether names are enough: the operator of the authority can then be the other party.
    consent : Consent, optional
        Limits of the questions that it answers about its rows (`predict`).
    auditable : bool
        Whether the folder keeps all messages that the party receives in training, digests of those that it
        sends, and the keys and nonces of runs that have ended, so that an auditor can `replay` its side.
        Messages take as much room as the traffic of runs.
    **data
        Public declarations, as of `lgb_dp.Dataset`: `bounds` (required unless all columns are categorical),
        `max_bin` (255), `spacing` ("mixed"), `categories`, `bin_edges` and `feature_name`.

    Attributes
    ----------
    bins : PublicBins
        Public.
    codes : DenseCodes or SparseCodes
        Of the rows: private, they do not leave the party.
    ids : list of str or None
    credentials : Credentials
    answers : PartyAnswers
        Models that it has trained, and the questions that were answered about any of its rows.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError, PartyArgumentError
        Naming the argument that is not accepted.
    """

    def __init__(
        self,
        X: Any,
        *,
        name: str,
        folder: str | Path | None = None,
        budget: tuple[float, float] | None = None,
        ids: Sequence[str] | None = None,
        tls: TLS | str | Path | None = None,
        allowed: Sequence[str] | None = None,
        trust_authority: bool = False,
        consent: Consent | None = None,
        auditable: bool = False,
        **data: Any,
    ) -> None:
        unknown = sorted(set(data) - set(_DATA_ARGUMENTS))
        if unknown:
            raise ArgumentTypeError(
                f"ColumnParty has no argument {unknown[0]!r}; of data it takes {_DATA_ARGUMENTS}: labels and "
                "weights are the other party's"
            )
        if not isinstance(name, str) or not name:
            raise ArgumentTypeError(f"name must be a text of at least one character, got {name!r}")
        declared = {"bounds": None, "max_bin": 255, "categories": None, "bin_edges": None, "spacing": "mixed"}
        given = checked_data(X)
        names = feature_names(given, data.pop("feature_name", None))
        bins = public_bins(given, names, **{**declared, **data})
        codes = bins.transform(given)
        leaks = bins.provenance.leaks
        if leaks:
            raise InvalidArgumentError(f"declarations of party {name!r} must be public: {leaks[0]}")
        self.ids = None if ids is None else check_ids(list(ids), "ids of the rows")
        if self.ids is not None and len(self.ids) != codes.n_rows:
            raise InvalidArgumentError(f"ids has {len(self.ids)} entries for {codes.n_rows} rows")
        self.credentials, self._allowed = credentials_of(
            name, tls, allowed, trust_authority, InvalidArgumentError
        )
        budget = checked_budget(budget)
        if auditable and folder is None:
            raise InvalidArgumentError("auditable=True needs a folder, where messages are kept")
        self._auditable = auditable
        self._folder = None if folder is None else Path(folder)
        self._budget = budget
        self.ledger = PartyLedger(self._folder, budget)
        self.runs_apart: dict[tuple[str, bytes], PartyLedger] = {}
        self._runs_over: set[tuple[str, bytes]] = set()
        self._apart = Lock()
        kept = None if folder is None else self.ledger.store.part(_ANSWERS)
        self.answers = PartyAnswers(consent, kept)
        super().__init__(
            name,
            self._side,
            codes,
            bins,
            THIS_PROCESS,
            self._keep_model,
            lambda: self.own_rows,
            self._is_over,
        )

    def _keep_model(self, caller: str, run: bytes, booster: DPBooster, task: ColumnTask) -> None:
        """Keep a model in the folder, and to answer a caller with unless it has several classes."""
        if task.n_classes == 1:
            self.answers.remember(booster, self.bins, task.label_bounds, caller)
        if self._folder is not None:
            path = make_folder(self._folder / MODELS_FOLDER) / f"{run.hex()}.txt"
            write_atomically(path, model_text(booster))

    @cached_property
    def own_rows(self) -> AskedRows:
        """The rows of training, for questions about them."""
        return self.own(self.codes, self.ids, THIS_PROCESS)

    def own(self, codes: DenseCodes | SparseCodes, ids: list[str] | None, caller: str) -> AskedRows:
        """Rows of the table, whose places are the same after a restart."""
        selection = None if ids is not None else self.answers.selection_of(digest_of_rows(codes))
        return AskedRows.of(self.name, self.bins, codes, ids, self.answers, selection, caller)

    def with_rows(self, X: Any, *, ids: Sequence[Any] | None = None) -> AskedRows:
        """Other rows of the party, for questions about them: with the same declarations, consent and counts.

        Parameters
        ----------
        X : ndarray, table or scipy sparse matrix, shape (n_rows, n_features)
        ids : sequence of str, shape (n_rows,), optional
            Names of the rows, by which both parties have aligned them.  A row is counted by its id, in every
            selection and after a restart; without ids by its place in this selection alone, so that the rows
            of another selection count as others.

        Raises
        ------
        InvalidArgumentError
            If the columns differ, or there is not one id for each row.
        InvalidDataError
            If an id is not a canonical text, or is there twice.
        """
        codes = self.bins.transform(checked_data(X))
        return AskedRows.of(self.name, self.bins, codes, ids, self.answers)

    def _side(self, caller: str, run: bytes, is_new: bool) -> ColumnSide:
        """The party with its ledger; with one for each run if nothing is to be limited or kept."""
        ledger = self.ledger
        if self._folder is None and self._budget is None:
            ledger = self._ledger_apart(caller, run, is_new)
        return ColumnSide(self.name, self.credentials, self._allowed, ledger, self._auditable)

    def _ledger_apart(self, caller: str, run: bytes, is_new: bool) -> PartyLedger:
        """The ledger of one run; those of runs that are over are let go when another one begins."""
        with self._apart:
            self._runs_over.discard((caller, run))  # it is taken up once more
            if is_new:
                for over in self._runs_over:
                    del self.runs_apart[over]
                self._runs_over.clear()
                self.runs_apart.setdefault((caller, run), PartyLedger(None))
            return self.runs_apart.get((caller, run), self.ledger)

    def _is_over(self, caller: str, run: bytes) -> None:
        """Take note that no session can go on with a run."""
        with self._apart:
            self._runs_over |= {(caller, run)} & self.runs_apart.keys()

    @property
    def has_folder(self) -> bool:
        """Whether its ledger outlives the process."""
        return self._folder is not None

    @property
    def allow_list(self) -> AllowList:
        """Whom it computes with."""
        return self._allowed

    @property
    def has_budget(self) -> bool:
        """Whether its ledger has a budget, which otherwise the first run decides."""
        return self.ledger.budget is not None

    def check_caller(self, caller: Identity) -> None:
        """Refuse a caller, known by TLS, that is not on the party's allow-list (`AuthenticationError`).

        With `trust_authority` names are enough; a server's own list may have names, under which the operator
        of the authority could ask about rows.
        """
        if not self._allowed.trust_authority:
            self._allowed.check_holder(caller)

    def for_caller(
        self,
        caller: str,
        positions: NDArray[np.int64] | None = None,
        used: set[bytes] | None = None,
        memory: MemoryAllowance | None = None,
    ) -> ColumnSessions:
        """The sessions of one caller, with the party's ledger, about the aligned rows at `positions` (all by
        default).

        Sessions in `used` were opened before; `memory` is the caller's allowance, without limit by default.
        """
        codes = self.codes if positions is None else self.codes.take(positions)

        def asked() -> AskedRows:
            if self.ids is None or positions is None:
                return self.own(codes, self.ids, caller)
            return self.own(codes, [self.ids[k] for k in positions.tolist()], caller)

        own = self.name, self._side, codes, self.bins
        return ColumnSessions(*own, caller, self._keep_model, asked, self._is_over, used, memory)

    def n_runs_of(self, caller: str) -> int:
        """Runs of a caller that are kept, whether they have ended or not."""
        return len(runs_of(self.ledger.store, caller).keys(RUNS))

    def aligned(self, ids: Sequence[str]) -> tuple[Alignment, ColumnSessions]:
        """Rows in common with another party in this process, and this party's sessions about them.

        Raises `InvalidArgumentError` if this party has no ids, or there is no row in common.
        """
        if self.ids is None:
            raise InvalidArgumentError(f"party {self.name!r} has no ids; pass ids= to ColumnParty")
        common = Alignment(tuple(sorted(set(ids) & set(self.ids))))
        if not common.ids:
            raise InvalidArgumentError(
                f"train_set and the other party have no id in common: party {self.name!r}"
            )
        return common, self.for_caller(THIS_PROCESS, common.positions(self.ids))

    def close(self) -> None:
        """Let go of the ledger, so that another process, or another `ColumnParty`, can use the folder."""
        super().close()
        self.ledger.close()

    def __repr__(self) -> str:
        """Name and number of features; no cell."""
        return f"ColumnParty(name={self.name!r}, n_features={len(self.bins.names)})"


def kept_runs(folder: Path, callers: Sequence[str]) -> dict[str, str]:
    """The `callers` of the runs in a party's folder, perhaps in use, by run in hexadecimal digits."""
    with closing(StoreFile(folder / LEDGER_FILE, ROLE, read_only=True)) as store:
        return {
            run: caller for caller in (*callers, THIS_PROCESS) for run in runs_of(store, caller).keys(RUNS)
        }


def remove_model(path: Path, caller: str) -> None:
    """Remove a model from the folder of a party that is not in use, which then answers nothing about it.

    Its run goes, too, with its seed and messages: a caller that took it up again would have it kept anew.
    Charges and counts stay.
    """
    with closing(StoreFile(path.parents[1] / LEDGER_FILE, ROLE)) as store:
        RunLog(runs_of(store, caller), bytes.fromhex(path.stem)).end()
        PartyAnswers(store=store.part(_ANSWERS)).forget(path.read_text())
        path.unlink()
