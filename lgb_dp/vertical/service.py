"""The party with columns alone behind a server: `gbdt_parties.transport.Server` passes requests on to it.

Every caller has sessions and runs of its own.  The ledger is the party's, for all of them together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import ProtocolError
from gbdt_parties.identity.alignment_messages import REQUESTS as ALIGNMENT_REQUESTS
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.messages import Message
from gbdt_parties.secure_sum.messages import NEW_RUN
from gbdt_parties.transport.service import Caller, RowService
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.vertical.party import ColumnParty
from lgb_dp.vertical.prediction.questions import REQUESTS as QUESTIONS
from lgb_dp.vertical.prediction.questions import OpenQuestions
from lgb_dp.vertical.run import REQUESTS, ColumnSessions
from lgb_dp.vertical.task import OpenColumns


@dataclass(frozen=True)
class ColumnLimits:
    """Limits that a party with columns alone sets beside its ledger.

    Attributes
    ----------
    max_rows : int
        Ids that one alignment may be about.
    questions_per_hour : int
        Alignments of one caller: many of them are a way to probe.
    sessions_per_hour : int
        Of one caller; a lost connection takes another one.
    max_request_bytes : int
        Length of a roster, or of the messages of one request.
    max_memory : int
        Bytes that one caller's rows and runs may hold.
    max_runs : int
        Runs that are kept for one caller.
    """

    max_rows: int = 50_000_000
    questions_per_hour: int = 120
    sessions_per_hour: int = 2400
    max_request_bytes: int = 64 << 20
    max_memory: int = 8 << 30
    max_runs: int = 1000


class ColumnService(RowService):
    """Answers of a party with columns alone.

    Parameters
    ----------
    party : ColumnParty
        With a folder, so that its ledger outlives the process, an allow-list and a budget.
    directory : path
        Where callers' alignments and the record are kept.
    limits : ColumnLimits, optional

    Raises
    ------
    InvalidArgumentError
        If the party has no folder, no allow-list, or no budget.
    """

    role = "a party of columns apart"
    opening = (OpenColumns, OpenQuestions)
    requests = (*REQUESTS, *QUESTIONS)
    questions = ()

    def __init__(self, party: ColumnParty, directory: str | Path, limits: ColumnLimits | None = None) -> None:
        for has, what, why, argument in (
            (
                party.has_folder,
                "folder",
                "behind a server its ledger must outlive the process, or its budget would be spent again",
                "folder=",
            ),
            (
                party.has_allow_list,
                "allow-list",
                "every holder of a certificate could train with its columns",
                "tls= and allowed=",
            ),
            (
                party.has_budget,
                "budget",
                "the first caller would choose what the rows may cost",
                "budget=(epsilon, delta)",
            ),
        ):
            if not has:
                party.close()
                raise InvalidArgumentError(
                    f"party {party.name!r} has no {what}: {why}; pass {argument} to ColumnParty"
                )
        limits = ColumnLimits() if limits is None else limits
        ids = party.ids or ()
        super().__init__(
            ids,
            party.ids is not None,
            directory,
            party.name,
            limits.max_rows,
            limits.questions_per_hour,
            limits.sessions_per_hour,
            limits.max_memory,
        )
        self._party, self._limits = party, limits

    def close(self) -> None:
        """Let go of the directory, and of the party's: another service, or process, can use them then."""
        super().close()
        self._party.close()

    def reset_questions(self) -> None:
        """Forget the last hour's alignments, sessions and questions about rows."""
        super().reset_questions()
        self._party.answers.answered.reset_hour()

    def admit(self, caller: str, message: Message) -> None:
        """Refuse requests that are too long, alignments without ids, and runs for which there is no room."""
        if isinstance(message, ALIGNMENT_REQUESTS) and not self._has_ids:
            raise ProtocolError("rows of this party have no ids; they are taken in their order")
        for field in ("roster", "signatures", "content", "request"):
            n_bytes = len(getattr(message, field, b""))
            if n_bytes > self._limits.max_request_bytes:
                raise ProtocolError(
                    f"a request of {n_bytes} bytes; this party accepts {self._limits.max_request_bytes}"
                )
        if isinstance(message, OpenColumns) and message.n_known == NEW_RUN:
            n_runs = self._party.n_runs_of(self.folder_of(caller).name)
            if n_runs >= self._limits.max_runs:
                raise ProtocolError(f"this party keeps at most {self._limits.max_runs} runs of one caller")

    def _caller(self, identity: Identity) -> Caller:
        """Know those alone that the party computes with: others learn nothing, nor who its rows are."""
        self._party.check_caller(identity)
        return super()._caller(identity)

    @property
    def row_bytes(self) -> int:
        """Codes of a row; runs reserve what they take beside them."""
        return len(self._party.bins.names)

    def new_handler(self, caller: Caller, positions: list[NDArray[np.int64]]) -> ColumnSessions:
        """Make the party as this caller sees it."""
        if len(positions) > 1:
            raise ProtocolError("a run with columns apart is about one set of rows")
        rows = positions[0] if positions else None
        return self._party.for_caller(caller.directory.name, rows, caller.used, caller.memory)
