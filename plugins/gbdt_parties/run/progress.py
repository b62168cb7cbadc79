"""The progress of a run of secure sums at its coordinator, in memory or in a folder.

It holds what the coordinator has seen: introductions, public settings, and contributions, which are masked;
nothing of any party's rows.  A coordinator that was killed goes on with it, and a party that was restarted is
sent the sums that it has missed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gbdt_commons.store import MemoryStore, Store
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.progress_folder import ProgressFolder
from gbdt_parties.run.log import ANSWERS, END, ENTRIES, RUNS, GivenAnswer, RunLog
from gbdt_parties.secure_sum.messages import pack, unpack
from gbdt_parties.secure_sum.roster import Roster, SignedEnd

STORE_FILE = "sums.store"


def log_of(folder: ProgressFolder, store: Store, about: bytes) -> RunLog:
    """The log of a coordinator's run in a folder's store, which is no other run's.

    The run is named by a digest of all that it is about; another one's folder is refused by its own error.
    """
    if store.kinds() and store.keys(RUNS) != [about.hex()]:
        raise folder.of_another_run()
    return RunLog(store, about)


class Progress:
    """How far a run has come; with `only_last`, contributions to no sum but the last one are kept.

    `roster` and `endorsements` are the run's parties and their certificates' signatures of it, `task` the
    JSON of the agreed settings, `n_starts` how often a coordinator has begun or taken up the run, `n_opened`
    the opened sums, `attempt` number and members of an attempt at the next sum. `model` and `signatures` are
    the parts of the result, packed, and the signatures of the parties that have the same end
    (`SignedEnd.to_json`), empty before it; `is_told` says that these parties have ended the run.
    """

    def __init__(self, log: RunLog, only_last: bool = False) -> None:
        self._log, self._store, self._only_last, known = log, log.store, only_last, log.past()
        self.n_starts, self.task = known.get("n_starts", 0), known.get("task", "")
        self.roster = Roster.from_bytes(bytes.fromhex(known["roster"])) if known else None
        self.endorsements = [bytes.fromhex(one) for one in known.get("endorsements", ())]
        self.n_opened, self.is_told = self._store.size(ENTRIES, ""), log.has_ended
        end = self._store.get(END, "")
        self.model, signatures = (b"", b"") if end is None else unpack(end)
        self.signatures = signatures.decode()
        at = self._store.size(ANSWERS, "") - 1
        last = self._store.get(ANSWERS, "", at) if at >= 0 else None
        is_next = last is not None and last.asked == _asked(self.n_opened)
        self.attempt = (last.number, tuple(json.loads(last.content))) if last and is_next else None
        self._last: bytes | None = None

    def opened(self, number: int) -> bytes:
        """The contributions to a sum; a PartyUnavailableError if they are not kept any more."""
        if self._last is not None and number == self.n_opened - 1:
            return self._last
        place = number - (self.n_opened - self._store.size(ENTRIES, ""))
        content = self._store.get(ENTRIES, "", place) if place >= 0 else None
        if content is None:
            raise PartyUnavailableError("a party has missed sums that are not kept any more")
        return content

    def note_start(self, roster: Roster, endorsements: Sequence[bytes], task: str) -> None:
        """Keep that a run has begun, or is taken up."""
        self.roster, self.endorsements, self.task = roster, list(endorsements), task
        self.n_starts += 1
        self._log.begin(self._known())

    def _known(self) -> dict[str, Any]:
        assert self.roster is not None, "the run has not begun"
        return {
            "roster": self.roster.to_bytes().hex(),
            "endorsements": [one.hex() for one in self.endorsements],
            "task": self.task,
            "n_starts": self.n_starts,
        }

    def note_attempt(self, number: int, members: Sequence[int]) -> None:
        """Keep an attempt that is about to be made; a run that is taken up finishes it."""
        with self._store.transaction(sync=False):
            attempt = GivenAnswer(number, _asked(self.n_opened), json.dumps(list(members)).encode())
            self._store.append(ANSWERS, "", attempt)
        self.attempt = number, tuple(members)

    def note_opened(self, opened: bytes, *, sync: bool) -> None:
        """Keep the contributions to a sum, before any party is sent them; `sync` waits for the disk."""
        keep = self._store.put if self._only_last else self._store.append
        with self._store.transaction(sync=sync):
            keep(ENTRIES, "", opened)
        self.n_opened, self.attempt, self._last = self.n_opened + 1, None, opened

    def note_model(self, content: bytes, end: SignedEnd) -> None:
        """Keep the model with its signatures, before parties forget the run."""
        self.model, self.signatures = content, end.to_json()
        self._log.sign_end(pack([content, self.signatures.encode()]))

    def note_told(self) -> None:
        """Keep that no party waits for the end any more."""
        self._log.begin({**self._known(), "has_ended": True})
        self.is_told = True


def _asked(n_opened: int) -> bytes:
    """Names the sum that an attempt is at."""
    return n_opened.to_bytes(32, "little")


class Memory:
    """No checkpoint: the progress of a run ends with the process.

    With `only_last`, a party that has missed earlier sums than the last one cannot take part again.
    """

    def __init__(self, only_last: bool = False) -> None:
        self._only_last = only_last

    @contextmanager
    def taken_up(self, about: Any, names: Sequence[str]) -> Iterator[Progress]:
        """The progress of a new run."""
        yield Progress(RunLog(MemoryStore(), b""), self._only_last)


class Checkpoint(ProgressFolder):
    """A folder with the progress of one run."""

    store_file, role = STORE_FILE, "a coordinator of secure sums"

    @contextmanager
    def taken_up(self, about: Any, names: Sequence[str]) -> Iterator[Progress]:
        """The kept progress of a run, which may be none; the folder is no other run's meanwhile.

        The request for training, in JSON's types, and the parties' names are what the run is about.  An error
        of the kind `error` says that the folder is in use, holds another run, or is damaged.
        """
        digest = hashlib.sha256(json.dumps([about, list(names)]).encode()).digest()
        with self.opened() as store:
            log = log_of(self, store, digest)
            if not log.has_begun:
                log.begin({})
            yield Progress(log)
