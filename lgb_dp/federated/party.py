"""`lgb_dp.federated.Party`: an organisation's rows in private training across organisations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gbdt_commons.store_file import StoreFile
from gbdt_parties.identity.certificates import TLS
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.run.log import THIS_PROCESS, runs_of
from gbdt_parties.run.replay import Replay, chosen, replayed
from gbdt_parties.run.sessions import Runs, RunSessions
from gbdt_parties.secure_sum.trust import AllowList, Credentials, credentials_of
from lgb_dp.checks import checked_budget, checked_integer
from lgb_dp.data.dataset import Dataset
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError
from lgb_dp.federated.ledger import LEDGER_FILE, ROLE, PartyLedger
from lgb_dp.federated.run import PrivateSide, PrivateSubject
from lgb_dp.newton.releases.rows_elsewhere import TableElsewhere

MODELS_FOLDER = "models"
"""In a party's folder, or a coordinator's at it: the models that have been trained."""

_DATA_ARGUMENTS = (
    "bounds",
    "label_bounds",
    "max_bin",
    "spacing",
    "categories",
    "bin_edges",
    "weight",
    "weight_bound",
    "groups",
    "rows_per_group",
    "group_weight",
    "feature_name",
)


class Party(RunSessions):
    """One organisation: its rows, its demands, its ledger.

    Nothing that depends on its rows leaves it but integer sums with its share of the noise, masked so that
    only the sum over all parties can be read.

    Parameters
    ----------
    X : ndarray, table or scipy sparse matrix, shape (n_rows, n_features)
        Or a `lgb_dp.spark.SparkTable`, which has labels, weights and persons, too.
    y : array-like, shape (n_rows,)
    name : str
        Under which the others know it; the common name of its certificate, if it has one.
    folder : path, optional
        Where the party keeps its ledger, and the keys of runs that have not ended, across runs and restarts.
        Without it both are forgotten with the process, and nothing limits what many runs cost together.
    budget : (epsilon, delta), optional
        Of all answers that are recorded in `folder` together.  A new ledger without it takes that of the
        first run that it answers.
    min_parties : int
        Parties that must take part in every sum, at least 2.
    colluding : int
        Parties that this one assumes to pool their knowledge, at least.
    parties_per_person : int
        Parties that may have rows of one person, as a run must assume at least.
    tls : TLS or path, optional
        Its certificate and key, and the authorities that it trusts.  Without it, the party signs with a
        certificate of its own making, which is for parties in one process.
    allowed : sequence of str, optional
        Whom it adds its numbers to: ``sha256:`` and a certificate's fingerprint, or names with
        `trust_authority`.  Required with `tls`; parties in one process accept each other without.
    trust_authority : bool
        Whether names are enough: the operator of the authority can then be all other parties.
    auditable : bool
        Whether `folder` keeps the messages and keys of runs for an auditor (`replay`).  The noise of such
        runs can be drawn again from them: the folder is as secret as the rows, and must not leave the party.
        They take as much room as the traffic, and stay until four later ones of the coordinator have ended,
        or their model is removed (``veilboost models --remove``).
    **data
        Arguments of `lgb_dp.Dataset`: `bounds` (required unless all columns are categorical), `label_bounds`,
        `max_bin` (255), `spacing` ("mixed"), `categories`, `bin_edges`, `weight`, `weight_bound`, `groups`,
        `rows_per_group`, `group_weight`, `feature_name`.  All but the rows' own must be the same at all
        parties.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError, PartyArgumentError
        Naming the argument that is not accepted.
    """

    def __init__(
        self,
        X: Any,
        y: Any = None,
        *,
        name: str,
        folder: str | Path | None = None,
        budget: tuple[float, float] | None = None,
        min_parties: int = 2,
        colluding: int = 1,
        parties_per_person: int = 1,
        tls: TLS | str | Path | None = None,
        allowed: Sequence[str] | None = None,
        trust_authority: bool = False,
        auditable: bool = False,
        **data: Any,
    ) -> None:
        unknown = sorted(set(data) - set(_DATA_ARGUMENTS))
        if unknown:
            raise ArgumentTypeError(
                f"Party has no argument {unknown[0]!r}; of data it takes {_DATA_ARGUMENTS}"
            )
        data, make = {"label_overflow": "clip", "max_bin": 255, "spacing": "mixed", **data}, None
        if isinstance(X, TableElsewhere):
            own = {"y": y, "auditable": auditable or None, **data}
            if unused := [one for one in ("y", "auditable", "weight", "groups") if own.get(one) is not None]:
                raise InvalidArgumentError(f"{unused[0]} is not accepted for rows on workers; leave it out")
            make = partial(X.rows, data)
        rows = (Dataset(X, y, **data) if make is None else make().declared).construct()
        if rows.provenance.leaks:
            raise InvalidArgumentError(f"declarations of parties must be public: {rows.provenance.leaks[0]}")
        credentials, known = credentials_of(name, tls, allowed, trust_authority, InvalidArgumentError)
        budget = checked_budget(budget)
        if auditable and folder is None:
            raise InvalidArgumentError("auditable=True needs a folder, where messages are kept")
        self._folder, self._auditable = None if folder is None else Path(folder), auditable
        self.ledger = PartyLedger(self._folder, budget)
        self.side = PrivateSide(
            name,
            rows,
            credentials,
            known,
            checked_integer("min_parties", min_parties, 2),
            checked_integer("colluding", colluding, 1),
            checked_integer("parties_per_person", parties_per_person, 1),
            self.ledger,
            make,
        )
        memory = MemoryAllowance(sys.maxsize)
        super().__init__(name, self._runs_in(self._folder, THIS_PROCESS, memory))

    def _runs_in(self, folder: Path | None, caller: str, memory: MemoryAllowance) -> Runs:
        """Runs of one coordinator, beside the ledger; models are kept in a folder, if there is one."""
        models = None if folder is None else folder / MODELS_FOLDER
        subject_of = partial(PrivateSubject, self.side, models, memory)
        return Runs(subject_of, runs_of(self.ledger.store, caller), self._auditable)

    def replay(self, folder: str | Path, *, run: str | None = None) -> Replay:
        """Repeat a party's side of a run from its folder and these rows, and compare every message.

        An auditor makes a `Party` of the rows, with the party's declarations and without a folder.  If the
        result `agrees` and `has_ended`, the party has sent what its rows give, with noise that it did not
        choose.  Without `allowed`, the run may be one with others of the party's own making.

        Parameters
        ----------
        folder : path
            Of a party that has trained with ``auditable=True``; only read.  **It is private**: with it the
            party's noise can be subtracted.
        run : str, optional
            Number of the run in hexadecimal digits, the name of its model; by default the only one.

        Raises
        ------
        PartyArgumentError, StoreError
            If the folder has no such run, or is in use or damaged.
        """
        side = replace(self.side, ledger=PartyLedger(None, None))

        def subject(number: bytes, request: str) -> PrivateSubject:
            return PrivateSubject(side, None, MemoryAllowance(sys.maxsize), number, request)

        path = Path(folder) / LEDGER_FILE
        if not path.exists():
            raise InvalidArgumentError(f"folder={str(folder)!r} has no {LEDGER_FILE}: it is not a party's")
        callers = THIS_PROCESS, *(one.name for one in Path(folder).iterdir() if one.is_dir())
        with closing(StoreFile(path, ROLE, read_only=True)) as store:
            log, ledger = chosen([runs_of(store, caller) for caller in callers], run), side.ledger
            report = replayed(log, subject, ledger.store)
            difference = report.difference or ledger.difference_from(store)
        return replace(report, difference=difference, has_ended=report.has_ended and difference is None)

    @property
    def has_folder(self) -> bool:
        """Whether its ledger outlives the process."""
        return self._folder is not None

    @property
    def credentials(self) -> Credentials:
        """Credentials that it signs rosters with."""
        return self.side.credentials

    @property
    def allow_list(self) -> AllowList:
        """Whom it adds its numbers to."""
        return self.side.allowed

    @property
    def has_budget(self) -> bool:
        """Whether its ledger has a budget, which otherwise the first run that it answers decides."""
        return self.ledger.budget is not None

    def for_caller(self, directory: Path, used: set[bytes], memory: MemoryAllowance) -> RunSessions:
        """The same party, with the same ledger, for the sessions of one coordinator among several.

        Parameters
        ----------
        directory : Path
            Where models are kept, if the ledger is; its name is that of the coordinator.
        used : set of bytes
            Sessions that were opened before.
        memory : MemoryAllowance
            Of the coordinator.
        """
        folder = directory if self.has_folder else None
        return RunSessions(self.name, self._runs_in(folder, directory.name, memory), used)

    def close(self) -> None:
        """Let go of the ledger, so that another process, or another `Party`, can use the folder."""
        super().close()
        self.ledger.close()
