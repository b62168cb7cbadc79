"""The runs of secure sums of one coordinator at one party: the one under way, and those that are kept.

A run that has begun is kept on the disk with its keys.  A party that was restarted takes it up from its first
sum: the coordinator has all of them, and signatures show that they are the ones that were added up before.
A run that has not begun is not kept: nothing was answered, and the coordinator begins another one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gbdt_commons.errors import VeilboostError
from gbdt_commons.files import make_folder
from gbdt_commons.sealed import read_sealed, write_sealed
from gbdt_parties.errors import ProtocolError, RunLostError
from gbdt_parties.messages import Abort, Finish, Message
from gbdt_parties.secure_sum.messages import NEW_RUN, BeginRounds, Introduced, OpenRun
from gbdt_parties.secure_sum.roster import SESSION_BYTES
from gbdt_parties.secure_sum.run import PartyRun, Subject
from gbdt_parties.session import SessionHandler

MAX_RUNS = 4
"""Runs of one coordinator that are kept; the oldest are removed first."""

_RUN = ".json"


class KeptRuns:
    """State of runs that have begun, in a folder; without one, nothing is kept.

    Parameters
    ----------
    folder : Path or None
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def _path(self, run: bytes) -> Path | None:
        return None if self.folder is None else self.folder / f"{run.hex()}{_RUN}"

    def has(self, run: bytes) -> bool:
        """Whether a run is kept."""
        path = self._path(run)
        return path is not None and path.exists()

    def keep(self, run: PartyRun) -> None:
        """Keep a run; the oldest ones are removed."""
        path = self._path(run.run)
        if path is None:
            return
        make_folder(path.parent)
        write_sealed(path, run.to_dict())
        ages = sorted(path.parent.glob(f"*{_RUN}"), key=lambda kept: kept.stat().st_mtime_ns)
        for old in ages[:-MAX_RUNS]:
            self.forget(bytes.fromhex(old.stem))

    def state(self, run: bytes) -> dict[str, Any]:
        """State of a kept run.

        Raises
        ------
        RunLostError
            If it is not kept.
        ValueError
            If it is damaged.
        """
        path = self._path(run)
        if path is None or not path.exists():
            raise RunLostError("this party does not know the run: it has ended, or its state was removed")
        return read_sealed(path)

    def forget(self, run: bytes) -> None:
        """Remove the keys of a run, and then what else is kept of it: no answer can be given any more."""
        path = self._path(run)
        if path is not None:
            path.unlink(missing_ok=True)
            for other in path.parent.glob(f"{run.hex()}.*"):
                other.unlink(missing_ok=True)


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
        The run under way: only one at a time, others wait in the folder.
    """

    def __init__(self, subject_of: Callable[[bytes, str], Subject], kept: KeptRuns) -> None:
        self._subject_of, self._kept = subject_of, kept
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
            self.live = PartyRun(self._subject_of(run, message.request), run, message.request)
            return self.live
        if live is not None and not live.has_begun:
            raise ProtocolError("the run has not begun")
        if live is None or live.n_opened > message.n_known:
            # A restarted party; or the coordinator has lost sums, which are asked for and answered again.
            self.live = live = self._restored(run, live)
        if live.request != message.request:
            raise ProtocolError("the run has other settings than when it began")
        return live

    def session(self, message: OpenRun) -> tuple[RunSession, Introduced]:
        """Take up a run in a new session, and introduce this party."""
        run = self.open(message)
        return RunSession(self, run), run.introduced()

    def _restored(self, run: bytes, live: PartyRun | None) -> PartyRun:
        """The run as it began, from the disk or from memory."""
        try:
            kept = live.to_dict() if live is not None and self._kept.folder is None else self._kept.state(run)
            self.close()
            return PartyRun(self._subject_of(run, kept["request"]), run, kept["request"], kept)
        except VeilboostError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ProtocolError("this party's state of the run is damaged") from None

    def close(self) -> None:
        """Let go of the run under way, which is taken up again from the disk."""
        if self.live is not None and self._kept.folder is not None:
            self.live.close()
            self.live = None

    def answer(self, run: PartyRun, message: Message) -> Message:
        """Answer a request; what must outlive this process is on the disk before the answer leaves."""
        if run is not self.live:
            raise ProtocolError("the run was taken up in another session")
        answer = run.answer(message)
        if isinstance(message, BeginRounds):
            self._kept.keep(run)
        if isinstance(message, Finish) and run.has_ended:
            run.subject.finished(run.result)
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
    closing = (Finish, Abort)

    def __init__(self, name: str, runs: Runs, used: set[bytes] | None = None) -> None:
        super().__init__(used)
        self.name, self._runs = name, runs

    def open(self, message: Message, session: bytes) -> tuple[RunSession, Message]:
        """Take up a run."""
        assert isinstance(message, OpenRun)
        return self._runs.session(message)

    def close(self) -> None:
        """Let go of the run under way, which is taken up again from the disk."""
        with self._lock:
            self._runs.close()
