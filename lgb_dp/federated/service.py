"""A party of private training behind a server: `gbdt_parties.transport.Server` passes requests on to it.

Every coordinator has sessions and runs of its own.  The ledger is the party's, for all of them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import ProtocolError
from gbdt_parties.messages import Message
from gbdt_parties.quota import CallerLimits
from gbdt_parties.run.party_run import ANSWERED
from gbdt_parties.run.sessions import RunSessions
from gbdt_parties.secure_sum.trust import AllowList, Credentials
from gbdt_parties.transport.service import Caller, RowService
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.federated.party import MODELS_FOLDER, Party
from lgb_dp.federated.task import OpenPrivateRun


@dataclass(frozen=True)
class FederatedLimits(CallerLimits):
    """Limits that a party sets on each coordinator, beside those of its `Party` and its ledger.

    Attributes
    ----------
    max_request_bytes : int
        Length of a roster, of the contributions to one sum, or of the messages of one request.
    """

    sessions_per_hour: int = 2400
    max_request_bytes: int = 64 << 20


L = TypeVar("L", bound=FederatedLimits)
PartyT = TypeVar("PartyT", bound=Any)


class PrivateService(RowService[L], Generic[L, PartyT]):
    """Base of private parties' services: folder, allow-list and budget, or an InvalidArgumentError."""

    party: PartyT
    anybody: ClassVar[str]
    """Powers of a caller that the party has not allowed."""

    def __init__(
        self, party: PartyT, directory: str | Path, limits: L, ids: list[str] | None = None, max_rows: int = 0
    ) -> None:
        outlived = "behind a server its ledger must outlive the process, or its budget would be spent again"
        chosen = "the first caller would choose what the rows may cost"
        for has, what, why, argument in (
            (party.has_folder, "folder", outlived, "folder="),
            (party.allow_list.entries is not None, "allow-list", self.anybody, "tls= and allowed="),
            (party.has_budget, "budget", chosen, "budget=(epsilon, delta)"),
        ):
            if not has:
                party.close()
                raise InvalidArgumentError(
                    f"party {party.name!r} has no {what}: {why}; pass {argument} to {type(party).__name__}"
                )
        super().__init__(ids or (), ids is not None, directory, party.name, limits, max_rows)
        self.party = party

    @property
    def trust(self) -> tuple[Credentials, AllowList] | None:
        """Credentials that rosters are signed with, and the other signers."""
        return self.party.credentials, self.party.allow_list

    def admit(self, caller: str, message: Message) -> None:
        """Refuse requests that are too long."""
        for field in ("opened", "roster", "signatures", "content", "request"):
            n_bytes = len(getattr(message, field, b""))
            if n_bytes > self.limits.max_request_bytes:
                raise ProtocolError(
                    f"a request of {n_bytes} bytes; this party accepts {self.limits.max_request_bytes}"
                )


class FederatedService(PrivateService[FederatedLimits, Party]):
    """A party's answers.

    Parameters
    ----------
    party : Party
        With a folder, so that its ledger outlives the process, an allow-list and a budget.
    directory : path
        Where models and the record are kept.
    limits : FederatedLimits, optional

    Raises
    ------
    InvalidArgumentError
        If the party has no folder, no allow-list, or no budget.
    """

    role = "a party of private training"
    opening = (OpenPrivateRun,)
    requests = ANSWERED
    anybody = "a coordinator could be all other parties, and take their noise off"

    def __init__(self, party: Party, directory: str | Path, limits: FederatedLimits | None = None) -> None:
        super().__init__(party, directory, limits or FederatedLimits())

    def admit(self, caller: str, message: Message) -> None:
        """Refuse requests that are too long, and runs whose model there is no room for."""
        super().admit(caller, message)
        if isinstance(message, OpenPrivateRun):
            models = (self.folder_of(caller) / MODELS_FOLDER).glob("*.txt")
            self.check_room(len(list(models)), "models of one coordinator")

    def new_handler(self, caller: Caller, positions: list[NDArray[np.int64]]) -> RunSessions:
        """Make the party as this coordinator sees it."""
        return self.party.for_caller(caller.directory, caller.used, caller.memory)
