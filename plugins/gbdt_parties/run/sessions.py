"""The runs of secure sums of one coordinator at one party: the one under way, and those kept.

A run that has begun is kept with its keys.  A party that was restarted takes it up from its first
sum: the coordinator has all of them, and signatures show that they are the ones that were added up before.
A run that has not begun is not kept: nothing was answered, and the coordinator begins another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from gbdt_commons.errors import VeilboostError
from gbdt_commons.store import Store
from gbdt_parties.errors import ProtocolError
from gbdt_parties.messages import Abort, Message, write
from gbdt_parties.run.log import RunLog
from gbdt_parties.run.party_run import PartyRun, Subject
from gbdt_parties.secure_sum.messages import NEW_RUN, EndRun, OpenRun
from gbdt_parties.secure_sum.roster import SESSION_BYTES
from gbdt_parties.session import SessionHandler


class Runs:
    """Runs of one coordinator at one party, in a store.

    The subject of a run is made of its number and the request, which it checks.  Keys and messages of new
    runs are kept for an auditor if they are `auditable` (`gbdt_parties.run.replay`).  Only one run is `live`
    at a time; others wait in the store.
    """

    def __init__(
        self, subject_of: Callable[[bytes, str], Subject], store: Store, auditable: bool = False
    ) -> None:
        self.subject_of, self._store, self._auditable = subject_of, store, auditable
        self.live: PartyRun | None = None

    def open(self, message: OpenRun) -> PartyRun:
        """Take up a run, new or known.

        A RunLostError says that a run which has begun is not known here; a ProtocolError, that a new run has
        a number that is known, that a known one has another request or damaged state, or that it has not
        begun.
        """
        run = message.run
        if len(run) != SESSION_BYTES:
            raise ProtocolError("a run id must be 16 bytes")
        live = self.live if self.live is not None and self.live.log.run == run else None
        if message.n_known == NEW_RUN:
            if live is not None or RunLog(self._store, run).has_begun:
                raise ProtocolError("a run of this number has begun already")
            self.close()
            self.live = self._run(run, {"request": message.request, "auditable": self._auditable})
            return self.live
        if live is not None and not live.has_begun:
            raise ProtocolError("the run has not begun")
        if live is None or live.n_opened > message.n_known:
            # A restarted party; or the coordinator has lost sums, which are asked for and answered again.
            self.live = live = self._restored(run)
        if live.request != message.request:
            raise ProtocolError("the run has other settings than when it began")
        return live

    def _run(self, run: bytes, record: Mapping[str, Any]) -> PartyRun:
        return PartyRun(self.subject_of(run, record["request"]), RunLog(self._store, run), record)

    def _restored(self, run: bytes) -> PartyRun:
        """The run as it began."""
        log = RunLog(self._store, run)
        kept = log.take_up()
        self.close()
        try:
            restored = self._run(run, kept)
        except VeilboostError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ProtocolError("this party's state of the run is damaged") from None
        if restored.is_auditable:
            log.record.begin()
        return restored

    def close(self) -> None:
        """Let go of the run under way, which is taken up again from the store."""
        if self.live is not None:
            self.live.close()
            self.live = None

    def answer(self, run: PartyRun, message: Message) -> Message:
        """Answer a request."""
        if run is not self.live:
            raise ProtocolError("the run was taken up in another session")
        sent, is_kept, is_end = b"", run.has_begun and run.is_auditable, isinstance(message, EndRun)
        # Of a run that has ended, an auditor finds the end.
        with run.log.store.transaction() if is_end else nullcontext():
            try:
                answer = run.answer(message)
                sent = write(bytes(16), 0, answer) if is_kept else b""
            finally:
                if is_kept:
                    run.log.record.keep(sent, write(bytes(16), 0, message))
        if is_end:
            self.close()
        return answer


class RunSessions(SessionHandler[PartyRun]):
    """A coordinator's sessions of its runs at a party of this name; none in `used` is opened again."""

    opening = (OpenRun,)
    closing = (EndRun, Abort)

    def __init__(self, name: str, runs: Runs, used: set[bytes] | None = None) -> None:
        super().__init__(used)
        self.name, self.runs = name, runs

    def open(self, message: Message, session: bytes) -> tuple[PartyRun, Message]:
        """Take up a run, and introduce this party."""
        assert isinstance(message, OpenRun)
        run = self.runs.open(message)
        return run, run.introduced(session)

    def answer(self, kept: PartyRun, message: Message) -> Message:
        """Answer a request of an open session."""
        return self.runs.answer(kept, message)

    def close(self) -> None:
        """Let go of the run under way, which is taken up again from the store."""
        with self._lock:
            self.runs.close()
