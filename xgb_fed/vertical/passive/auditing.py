"""A passive party's side of a run, kept in the log of the run, and repeated by an auditor to the byte.

Kept are the requests, digests of the answers, and a seed for each session, from which the randomness of its
answers follows.  All else follows from the party's rows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from gbdt_commons.errors import VeilboostError
from gbdt_commons.store import Store, json_kind
from gbdt_parties import messages
from gbdt_parties.messages import Envelope, Finish, Refusal
from gbdt_parties.run.log import RunLog
from gbdt_parties.run.replay import Compared, DifferenceError, Replay
from gbdt_parties.session import Reply, SessionHandler
from xgb_fed.vertical.passive.session import TrainingSession
from xgb_fed.vertical.protocol.messages import FindSplits, StartTree

SESSIONS = json_kind("sessions")
"""Records by sessions' numbers: the seed, and the names of the row sets."""


class PassiveAudit:
    """Keeps messages of runs in the caller's store; rows are known by digests of their names."""

    def __init__(self, store: Store, rows: Sequence[str]) -> None:
        self._store, self._rows = store, list(rows)

    def seed(self, session: bytes) -> bytes:
        """Of the randomness of a session's answers, 32 bytes."""
        return os.urandom(32)

    def keep(self, session: TrainingSession, request: Envelope, reply: Reply) -> None:
        """Keep a request, once its run is kept, and a digest of the answer, before that leaves."""
        is_refused = isinstance(reply.envelope.message, Refusal)
        content = messages.write(request.session, request.sequence, request.message)
        session.waiting.append((b"" if is_refused else reply.content, content))
        log = RunLog(self._store, session.model_id)
        if log.has_begun and session.seed is not None:
            with log.store.transaction(sync=False):
                log.store.put(SESSIONS, request.session.hex(), [session.seed.hex(), self._rows])
                for sent, received in session.waiting:
                    log.record.keep(sent, received)
            session.waiting.clear()


class KeptSeeds(PassiveAudit):
    """The seeds of a run that is repeated; nothing is kept of it."""

    def __init__(self, log: RunLog) -> None:
        super().__init__(log.store, ())

    def seed(self, session: bytes) -> bytes:
        """The one that was drawn."""
        seed, _ = self._store.get(SESSIONS, session.hex()) or ("", ())
        return bytes.fromhex(seed) or bytes(32)

    def keep(self, session: TrainingSession, request: Envelope, reply: Reply) -> None:
        """Nothing."""


def compared(log: RunLog, party: SessionHandler[Any]) -> Replay:
    """Give a party all requests of a run, and compare its answers with those given."""
    done, difference, counts = Compared(), None, dict.fromkeys((StartTree, FindSplits, Finish), 0)
    name, sessions = "", set[bytes]()
    try:
        for exchange in log.record.entries():
            if exchange is not None and not exchange.was_refused:
                request = messages.read(exchange.received)
                name = f"request {done.number} ({type(request.message).__name__})"
                done.check(exchange, party.reply(request).content, name)
                sessions.add(request.session)
                for kind in counts:
                    counts[kind] += isinstance(request.message, kind)
    except DifferenceError as error:
        difference = str(error)
    except VeilboostError as error:
        difference = f"{name}: {error}"
    done.n_connections = len(sessions)
    ended = counts[Finish] > 0 and difference is None
    return done.report(counts[StartTree], counts[FindSplits], ended, difference)
