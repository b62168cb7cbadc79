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

from gbdt_commons.store import MemoryStore, Store, bytes_kind, json_kind
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.progress_folder import ProgressFolder
from gbdt_parties.secure_sum.roster import Roster, SignedEnd

STORE_FILE = "sums.store"

ABOUT, OPENED, MODEL = bytes_kind("about"), bytes_kind("opened sums"), bytes_kind("model")
BEGUN, ATTEMPT, END = json_kind("begun"), json_kind("attempt"), json_kind("end")


class Progress:
    """How far a run has come.

    Parameters
    ----------
    store : Store
    only_last : bool
        Whether the contributions to no sum but the last one are kept.

    Attributes
    ----------
    roster : Roster, optional
        The run's parties, if it has begun.
    endorsements : list of bytes
        Their certificates' signatures of the roster.
    task : str
        JSON of the settings that the parties have agreed on.
    n_starts : int
        How often a coordinator has begun or taken up the run.
    n_opened : int
        Sums that were opened.
    attempt : (int, tuple of int), optional
        Number and members of an attempt at the next sum that was begun.
    model : bytes
        The parts of the result, packed; empty before the end.
    signatures : str
        Those of the parties that have the same end (`SignedEnd.to_json`); empty before the end.
    is_told : bool
        Whether these parties have ended the run.
    """

    def __init__(self, store: Store, only_last: bool = False) -> None:
        self._store, self._only_last = store, only_last
        begun: tuple[str, list[str], str, int] = store.get(BEGUN, "") or ("", [], "", 0)
        roster, endorsements, self.task, self.n_starts = begun
        self.roster = Roster.from_bytes(bytes.fromhex(roster)) if roster else None
        self.endorsements = [bytes.fromhex(one) for one in endorsements]
        self.n_opened, self.model = store.size(OPENED, ""), store.get(MODEL, "") or b""
        end: tuple[str, bool] = store.get(END, "") or ("", False)
        self.signatures, self.is_told = end
        at, number, members = store.get(ATTEMPT, "") or (-1, 0, ())
        self.attempt = (number, tuple(members)) if at == self.n_opened else None
        self._last: bytes | None = None

    def opened(self, number: int) -> bytes:
        """The contributions to a sum; a PartyUnavailableError if they are not kept any more."""
        if self._last is not None and number == self.n_opened - 1:
            return self._last
        place = number - (self.n_opened - self._store.size(OPENED, ""))
        content = self._store.get(OPENED, "", place) if place >= 0 else None
        if content is None:
            raise PartyUnavailableError("a party has missed sums that are not kept any more")
        return content

    def note_start(self, roster: Roster, endorsements: Sequence[bytes], task: str) -> None:
        """Keep that a run has begun, or is taken up."""
        known = [roster.to_bytes().hex(), [one.hex() for one in endorsements], task, self.n_starts + 1]
        self._store.put(BEGUN, "", known)
        self.roster, self.endorsements, self.task = roster, list(endorsements), task
        self.n_starts += 1

    def note_attempt(self, number: int, members: Sequence[int]) -> None:
        """Keep an attempt that is about to be made; a run that is taken up finishes it."""
        with self._store.transaction(sync=False):
            self._store.put(ATTEMPT, "", [self.n_opened, number, list(members)])
        self.attempt = number, tuple(members)

    def note_opened(self, opened: bytes, *, sync: bool) -> None:
        """Keep the contributions to a sum, before any party is sent them; `sync` waits for the disk."""
        keep = self._store.put if self._only_last else self._store.append
        with self._store.transaction(sync=sync):
            keep(OPENED, "", opened)
        self.n_opened, self.attempt, self._last = self.n_opened + 1, None, opened

    def note_model(self, content: bytes, end: SignedEnd) -> None:
        """Keep the model with its signatures, before parties forget the run."""
        with self._store.transaction():
            self._store.put(END, "", [end.to_json(), False])
            self._store.put(MODEL, "", content)
        self.model, self.signatures = content, end.to_json()

    def note_told(self) -> None:
        """Keep that no party waits for the end any more."""
        self._store.put(END, "", [self.signatures, True])
        self.is_told = True


class Memory:
    """No checkpoint: the progress of a run ends with the process.

    Parameters
    ----------
    only_last : bool
        Whether the contributions to no sum but the last one are kept: a party that has missed earlier ones
        cannot take part again.
    """

    def __init__(self, only_last: bool = False) -> None:
        self._only_last = only_last

    @contextmanager
    def taken_up(self, about: Any, names: Sequence[str]) -> Iterator[Progress]:
        """The progress of a new run."""
        yield Progress(MemoryStore(), self._only_last)


class Checkpoint(ProgressFolder):
    """A folder with the progress of one run."""

    store_file, role = STORE_FILE, "a coordinator of secure sums"

    @contextmanager
    def taken_up(self, about: Any, names: Sequence[str]) -> Iterator[Progress]:
        """The kept progress of a run, which may be none; the folder is no other run's meanwhile.

        Parameters
        ----------
        about : object
            Request for training, in JSON's types.
        names : sequence of str
            Of the parties.

        Raises
        ------
        VeilboostError
            Of the kind `error`, if the folder is in use, holds another run, or is damaged.
        """
        digest = hashlib.sha256(json.dumps([about, list(names)]).encode()).digest()
        with self.opened() as store:
            if store.get(ABOUT, "") is None:
                store.put(ABOUT, "", digest)
            elif store.get(ABOUT, "") != digest:
                raise self.of_another_run()
            yield Progress(store)
