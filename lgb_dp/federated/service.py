"""A party of private training behind a server: `gbdt_parties.transport.Server` passes requests on to it.

Every coordinator has sessions and runs of its own.  The ledger is the party's, for all of them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import ProtocolError
from gbdt_parties.identity.alignment_messages import REQUESTS as ALIGNMENT_REQUESTS
from gbdt_parties.messages import Message
from gbdt_parties.secure_sum.run import ANSWERED
from gbdt_parties.secure_sum.runs import RunSessions
from gbdt_parties.transport.service import Caller, RowService
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.federated.party import MODELS_FOLDER, Party
from lgb_dp.federated.task import OpenPrivateRun


@dataclass(frozen=True)
class FederatedLimits:
    """Limits that a party sets beside those of its `Party` and its ledger.

    Attributes
    ----------
    sessions_per_hour : int
        Of one coordinator; a lost connection takes another one.
    max_request_bytes : int
        Length of a roster, or of the contributions to one sum.
    max_memory : int
        Bytes that one coordinator's runs may hold.
    max_models : int
        Models that are kept for one coordinator; an operator removes those that are not needed.
    """

    sessions_per_hour: int = 2400
    max_request_bytes: int = 64 << 20
    max_memory: int = 8 << 30
    max_models: int = 1000


class FederatedService(RowService):
    """A party's answers.

    Parameters
    ----------
    party : Party
        With a folder, so that its ledger outlives the process, an allow-list and a budget.
    directory : path
        Where runs and the record are kept.
    limits : FederatedLimits

    Raises
    ------
    InvalidArgumentError
        If the party has no folder, no allow-list, or no budget.
    """

    role = "a party of private training"
    opening = (OpenPrivateRun,)
    requests = ANSWERED
    questions = ()

    def __init__(self, party: Party, directory: str | Path, limits: FederatedLimits | None = None) -> None:
        if not party.has_folder:
            raise InvalidArgumentError(
                f"party {party.name!r} has no folder: behind a server its ledger must outlive the process, "
                "or what it has answered would be answered again; pass folder= to Party"
            )
        if not party.has_allow_list:
            raise InvalidArgumentError(
                f"party {party.name!r} has no allow-list: a coordinator could be all other parties, and take "
                "their noise off; pass tls= and allowed= to Party"
            )
        if not party.has_budget:
            party.close()
            raise InvalidArgumentError(
                f"party {party.name!r} has no budget: the first coordinator would choose what the rows may "
                "cost; pass budget=(epsilon, delta) to Party"
            )
        limits = FederatedLimits() if limits is None else limits
        super().__init__((), False, directory, party.name, 0, 0, limits.sessions_per_hour, limits.max_memory)
        self._party, self._limits = party, limits

    def close(self) -> None:
        """Let go of the directory, and of the party's: another service, or process, can use them then."""
        super().close()
        self._party.close()

    def admit(self, caller: str, message: Message) -> None:
        """Refuse alignments, requests that are too long, and runs whose model there is no room for."""
        if isinstance(message, ALIGNMENT_REQUESTS):
            raise ProtocolError("rows are not aligned here: each party has rows of its own")
        content = getattr(message, "opened", b"") or getattr(message, "roster", b"")
        if len(content) > self._limits.max_request_bytes:
            raise ProtocolError(
                f"a request of {len(content)} bytes; this party accepts {self._limits.max_request_bytes}"
            )

        if isinstance(message, OpenPrivateRun):
            n_models = sum(1 for _ in (self.folder_of(caller) / MODELS_FOLDER).glob("*.txt"))
            if n_models >= self._limits.max_models:
                raise ProtocolError(
                    f"this party keeps at most {self._limits.max_models} models of one coordinator; its "
                    "operator can remove some (veilboost models)"
                )

    @property
    def row_bytes(self) -> int:
        """None: all coordinators' sessions are about the same rows."""
        return 0

    def new_handler(self, caller: Caller, positions: list[NDArray[np.int64]]) -> RunSessions:
        """Make the party as this coordinator sees it."""
        return self._party.for_caller(caller.directory, caller.store, caller.used, caller.memory)
