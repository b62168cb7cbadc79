"""The runs of secure sums of one coordinator at one party: the one under way, and those that are kept.

A run that has begun is kept with its keys.  A party that was restarted takes it up from its first
sum: the coordinator has all of them, and signatures show that they are the ones that were added up before.
A run that has not begun is not kept: nothing was answered, and the coordinator begins another one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gbdt_commons.errors import VeilboostError
from gbdt_commons.store import Store, bytes_kind, json_kind
from gbdt_parties.errors import ProtocolError, RunLostError
from gbdt_parties.messages import Abort, Message
from gbdt_parties.secure_sum.answers import remove_answers
from gbdt_parties.secure_sum.messages import NEW_RUN, AskModel, BeginRounds, EndRun, Introduced, OpenRun
from gbdt_parties.secure_sum.roster import SESSION_BYTES, SignedEnd
from gbdt_parties.secure_sum.run import PartyRun, Subject
from gbdt_parties.session import SessionHandler

MAX_RUNS = 4
"""Runs of one coordinator that are kept; the oldest are removed first."""

RUNS = json_kind("runs")
"""Records of runs by their numbers, in hexadecimal digits; secret, for the keys in them."""

ENDS = bytes_kind("signed ends")
"""Records of what a party has signed as the end of a run, by the run's number."""


class KeptRuns:
    """State of runs that have begun.

    Parameters
    ----------
    store : Store
        Of one coordinator's runs.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def has(self, run: bytes) -> bool:
        """Whether a run is kept."""
        return self._store.size(RUNS, run.hex()) > 0

    def keep(self, run: PartyRun) -> None:
        """Keep a run; the oldest ones are removed."""
        with self._store.transaction():
            self._store.put(RUNS, run.run.hex(), run.to_dict())
            for oldest in self._store.keys(RUNS)[:-MAX_RUNS]:
                self.forget(bytes.fromhex(oldest))

    def state(self, run: bytes) -> dict[str, Any]:
        """State of a kept run.

        Raises
        ------
        RunLostError
            If it is not kept.
        """
        kept: dict[str, Any] | None = self._store.get(RUNS, run.hex())
        if kept is None:
            raise RunLostError("this party does not know the run: it has ended, or its state was removed")
        return kept

    def sign(self, run: bytes, end: SignedEnd) -> None:
        """Keep an end of a run before its signature leaves; a ProtocolError if another one was signed."""
        kept = self._store.get(ENDS, run.hex())
        if kept is None:
            self._store.put(ENDS, run.hex(), end.message)
        elif kept != end.message:
            raise ProtocolError(
                "this party has signed another end of this run, with other sums or another model: the "
                "coordinator has opened others, or the data, CPU or library versions have changed"
            )

    def answers(self, run: bytes) -> Store:
        """The records of a run's answers, which are removed with it."""
        return self._store.part(f"run {run.hex()}")

    def forget(self, run: bytes) -> None:
        """Remove the keys of a run, and its answers: none can be given any more."""
        with self._store.transaction():
            self._store.delete(RUNS, run.hex())
            self._store.delete(ENDS, run.hex())
            remove_answers(self.answers(run))


class Runs:
    """Runs of one coordinator at one party.

    Parameters
    ----------
    subject_of : callable
        Makes the subject of a run, of its number and the request, which it checks.
    kept : KeptRuns

    Attributes
    ----------
    live : PartyRun or None
        The run under way: only one at a time, others wait in the store.
    """

    def __init__(self, subject_of: Callable[[bytes, str], Subject], kept: KeptRuns) -> None:
        self.subject_of, self._kept = subject_of, kept
        self.live: PartyRun | None = None

    def open(self, message: OpenRun) -> PartyRun:
        """Take up a run, new or known.

        Raises
        ------
        RunLostError
            If it is said to have begun, and is not known here.
        ProtocolError
            If a new run has a number that is known, or a known one another request or damaged state; or if
            the run has not begun.
        """
        run = message.run
        if len(run) != SESSION_BYTES:
            raise ProtocolError("a run id must be 16 bytes")
        live = self.live if self.live is not None and self.live.run == run else None
        if message.n_known == NEW_RUN:
            if live is not None or self._kept.has(run):
                raise ProtocolError("a run of this number has begun already")
            self.close()
            self.live = PartyRun(self.subject_of(run, message.request), run, message.request)
            return self.live
        if live is not None and not live.has_begun:
            raise ProtocolError("the run has not begun")
        if live is None or live.n_opened > message.n_known:
            # A restarted party; or the coordinator has lost sums, which are asked for and answered again.
            self.live = live = self._restored(run)
        if live.request != message.request:
            raise ProtocolError("the run has other settings than when it began")
        return live

    def session(self, message: OpenRun, session: bytes) -> tuple[RunSession, Introduced]:
        """Take up a run in a new session, and introduce this party."""
        run = self.open(message)
        return RunSession(self, run), run.introduced(session)

    def _restored(self, run: bytes) -> PartyRun:
        """The run as it began."""
        kept = self._kept.state(run)
        self.close()
        try:
            return PartyRun(self.subject_of(run, kept["request"]), run, kept["request"], kept)
        except VeilboostError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ProtocolError("this party's state of the run is damaged") from None

    def close(self) -> None:
        """Let go of the run under way, which is taken up again from the store."""
        if self.live is not None:
            self.live.close()
            self.live = None

    def answer(self, run: PartyRun, message: Message) -> Message:
        """Answer a request; what must outlive this process is kept before the answer leaves."""
        if run is not self.live:
            raise ProtocolError("the run was taken up in another session")
        if isinstance(message, (AskModel, EndRun)):
            self._kept.sign(run.run, run.end)
        answer = run.answer(message)
        if isinstance(message, BeginRounds):
            self._kept.keep(run)
        if isinstance(message, EndRun):
            run.close()
            self.live = None
            self._kept.forget(run.run)
        return answer


@dataclass(frozen=True, eq=False)
class RunSession:
    """An open session of a run."""

    runs: Runs
    run: PartyRun

    def answer(self, message: Message) -> Message:
        """Answer a request."""
        return self.runs.answer(self.run, message)

    def closed(self) -> None:
        """Nothing: the run may be taken up again."""


class RunSessions(SessionHandler[RunSession]):
    """A coordinator's sessions of its runs at one party.

    Parameters
    ----------
    name : str
        The party's.
    runs : Runs
    used : set of bytes, optional
        Sessions that were opened before.
    """

    opening = (OpenRun,)
    closing = (EndRun, Abort)

    def __init__(self, name: str, runs: Runs, used: set[bytes] | None = None) -> None:
        super().__init__(used)
        self.name, self.runs = name, runs

    def open(self, message: Message, session: bytes) -> tuple[RunSession, Message]:
        """Take up a run."""
        assert isinstance(message, OpenRun)
        return self.runs.session(message, session)

    def close(self) -> None:
        """Let go of the run under way, which is taken up again from the store."""
        with self._lock:
            self.runs.close()
