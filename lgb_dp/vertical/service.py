"""The party with columns alone behind a server: `gbdt_parties.transport.Server` passes requests on to it.

Every caller has sessions and runs of its own.  The ledger is the party's, for all of them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import ProtocolError
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.messages import Message
from gbdt_parties.secure_sum.messages import NEW_RUN
from gbdt_parties.transport.service import Caller
from lgb_dp.federated.service import FederatedLimits, PrivateService
from lgb_dp.vertical.party import ColumnParty
from lgb_dp.vertical.prediction.questions import REQUESTS as QUESTIONS
from lgb_dp.vertical.prediction.questions import OpenQuestions
from lgb_dp.vertical.run import REQUESTS, ColumnSessions
from lgb_dp.vertical.task import OpenColumns


@dataclass(frozen=True)
class ColumnLimits(FederatedLimits):
    """Limits that a party with columns alone sets on each caller, beside its ledger: ids of one alignment."""

    max_rows: int = 50_000_000


class ColumnService(PrivateService[ColumnLimits, ColumnParty]):
    """Answers of a party with columns alone.

    The `party` must have a folder, so that its ledger outlives the process, an allow-list and a budget
    (`InvalidArgumentError`); callers' alignments and the record are kept in `directory`.
    """

    role = "a party of columns apart"
    opening = (OpenColumns, OpenQuestions)
    requests = (*REQUESTS, *QUESTIONS)
    anybody = "every holder of a certificate could train with its columns"

    def __init__(self, party: ColumnParty, directory: str | Path, limits: ColumnLimits | None = None) -> None:
        limits = limits or ColumnLimits()
        super().__init__(party, directory, limits, party.ids, limits.max_rows)

    def reset_questions(self) -> None:
        """Forget the last hour's alignments, sessions and questions about rows."""
        super().reset_questions()
        self.party.answers.answered.reset_hour()

    def admit(self, caller: str, message: Message) -> None:
        """Refuse requests that are too long, and runs for which there is no room."""
        super().admit(caller, message)
        if isinstance(message, OpenColumns) and message.n_known == NEW_RUN:
            self.check_room(self.party.n_runs_of(self.folder_of(caller).name), "runs of one caller")

    def known_caller(self, identity: Identity) -> Caller:
        """Know those alone that the party computes with: others learn nothing, nor who its rows are."""
        self.party.check_caller(identity)
        return super().known_caller(identity)

    @property
    def row_bytes(self) -> int:
        """Codes of a row; runs reserve what they take beside them."""
        return len(self.party.bins.names)

    def new_handler(self, caller: Caller, positions: list[NDArray[np.int64]]) -> ColumnSessions:
        """Make the party as this caller sees it."""
        if len(positions) > 1:
            raise ProtocolError("a run with columns apart is about one set of rows")
        rows = positions[0] if positions else None
        return self.party.for_caller(caller.directory.name, rows, caller.used, caller.memory)
