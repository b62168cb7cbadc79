"""Journal of a party's answers: no attempt is ever answered twice with different bytes.

One transaction keeps an attempt, what answering it has cost, and the answer, before the answer leaves.  So
costs and answers cannot differ, and an answer that was lost on the way is sent again as it was, also after a
restart.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from gbdt_commons.errors import StoreError
from gbdt_commons.key_stream import this_process
from gbdt_commons.store import MemoryStore, Store, bytes_kind, json_kind
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyArgumentError, ProtocolError

ROLE = "a party of secure sums"
ABOUT, ATTEMPTS = json_kind("subject of a journal"), json_kind("attempts")
"""Records of a journal's subject, and of all attempts in their order."""

ANSWERS = bytes_kind("answers")
"""Records of the answers by session."""

MAX_SESSIONS = 4
"""Sessions, the latest ones, whose answers a journal in memory keeps to be sent again."""


@dataclass(frozen=True)
class Answered:
    """An attempt that was answered.

    Attributes
    ----------
    session : str
        Hexadecimal digits.
    number : int
        Of the attempt.
    asked : str
        Digest of the roster and the attempt.
    note : mapping
        Note of the party about it, such as its cost.
    """

    session: str
    number: int
    asked: str
    note: Mapping[str, Any]


class AnswerJournal:
    """The attempts that a party has answered, in all its sessions.

    Parameters
    ----------
    store : Store
        The journal's own, or a part of one, which it closes.
    about : mapping, optional
        Subject of the journal; written into a new one.  Without it, a new one is about what the first
        answer that is given says.
    sync : bool
        Whether an answer must be on the disk, and not only with the operating system, before it leaves.  It
        need not if the same question always has the same answer, which is then checked by the journal alone.

    Raises
    ------
    PartyArgumentError
        If what is in it is not a journal.
    """

    def __init__(self, store: Store, about: Mapping[str, Any] | None = None, *, sync: bool = True) -> None:
        self.store, self._sync, self._lock = store, sync, Lock()
        self._process = this_process()
        try:
            _, answered = _read(self.store)
            self._answered = {(one.session, one.number): one for one in answered}
            self._places = _places_of(answered)
            self._begin(about)
        except BaseException:
            self.close()
            raise

    def _begin(self, about: Mapping[str, Any] | None) -> None:
        """Write what a new journal is about."""
        if about is not None and self.about is None:
            self.store.put(ABOUT, "", dict(about))

    @property
    def about(self) -> Mapping[str, Any] | None:
        """Subject of the journal, as the store has it: the transaction that wrote it may have failed."""
        return self.store.get(ABOUT, "")

    @property
    def answered(self) -> list[Answered]:
        """All attempts, in the order in which they were answered."""
        with self._lock:
            return list(self._answered.values())

    def has_answered(self, session: bytes, number: int) -> bool:
        """Whether an attempt was answered: asked again, it has the same answer."""
        with self._lock:
            return (session.hex(), number) in self._answered

    def once(
        self,
        session: bytes,
        number: int,
        asked: bytes,
        prepare: Callable[[], Mapping[str, Any]],
        make: Callable[[], bytes],
        about: Mapping[str, Any] | None = None,
    ) -> bytes:
        """The answer to an attempt: the one that was given before, or a new one.

        Parameters
        ----------
        session : bytes
        number : int
        asked : bytes
            Everything that is asked, the roster included.
        prepare : callable
            Decides whether to answer, and returns what to note; an error leaves nothing behind.
        make : callable
            Makes the answer.
        about : mapping, optional
            Subject of the journal from this answer on, unless that is known.

        Raises
        ------
        ProtocolError
            If the attempt was answered before, and asked something else; if its answer is not there any more,
            as its session is long over, or the disk is damaged; or in a forked process, which would spend the
            same budget a second time.
        """
        if self._process != this_process():
            raise ProtocolError("a party cannot answer in a forked process: its parent answers, too")
        key, digest = (session.hex(), number), hashlib.sha256(asked).hexdigest()
        with self._lock:
            if key in self._answered:
                if self._answered[key].asked != digest:
                    raise ProtocolError(
                        f"attempt {number} was answered before, and asked something else; an attempt is "
                        "answered once"
                    )
                return self._given(key)
            answered = Answered(*key, digest, prepare())
            answer = make()
            place = self.store.size(ANSWERS, key[0])
            try:
                with self.store.transaction(sync=self._sync):
                    self._begin(about)
                    self.store.append(ATTEMPTS, "", vars(answered))
                    self.store.append(ANSWERS, key[0], answer)
            except BaseException:
                if self.store.size(ANSWERS, key[0]) > place:
                    # Interrupted after all was kept: asked again, the attempt has this answer, and no other.
                    self._answered[key], self._places[key] = answered, place
                raise
            self._answered[key], self._places[key] = answered, place
            if isinstance(self.store, MemoryStore):
                for oldest in self.store.keys(ANSWERS)[:-MAX_SESSIONS]:
                    self._forget(oldest)
            return answer

    def note(self, session: bytes, note: Mapping[str, Any]) -> None:
        """Keep the cost of something that leaves once, in the transaction that keeps that thing itself.

        Its number is that of all attempts in the journal before.  It has no answer here, so that the journal
        need not remember it: the transaction may still fail.

        Raises
        ------
        ProtocolError
            In a forked process.
        """
        if self._process != this_process():
            raise ProtocolError("a party cannot answer in a forked process: its parent answers, too")
        with self.store.transaction():
            number = self.store.size(ATTEMPTS, "")
            asked = hashlib.sha256(session + number.to_bytes(8, "little")).hexdigest()
            self.store.append(ATTEMPTS, "", vars(Answered(session.hex(), number, asked, note)))

    @property
    def n_kept(self) -> int:
        """Attempts in the store, those of `note` included."""
        return self.store.size(ATTEMPTS, "")

    def read(self) -> list[Answered]:
        """All attempts as the store has them.

        Raises
        ------
        PartyArgumentError
            If it is damaged.
        """
        return _read(self.store)[1]

    def about_from_now(self, about: Mapping[str, Any]) -> None:
        """Write what the journal is about, if that is not known, in the transaction that is under way."""
        self._begin(about)

    def forget(self, session: bytes) -> None:
        """Remove the answers of a session that is over; that they were given stays."""
        with self._lock:
            self._forget(session.hex())

    def _forget(self, session: str) -> None:
        self.store.delete(ANSWERS, session)
        self._places = {key: place for key, place in self._places.items() if key[0] != session}

    def _given(self, key: tuple[str, int]) -> bytes:
        """The answer to an attempt, as it was given."""
        answer = self.store.get(ANSWERS, key[0], self._places[key]) if key in self._places else None
        if answer is None:
            raise ProtocolError(f"attempt {key[1]} was answered in a session that is over")
        return answer

    def close(self) -> None:
        """Let go of the file; another process can use it then."""
        self._process = (-1, None)
        self.store.close()


def remove_answers(store: Store) -> None:
    """Remove a journal: none of its attempts can be answered any more."""
    with store.transaction():
        for kind in (ABOUT, ATTEMPTS, ANSWERS):
            for key in store.keys(kind):
                store.delete(kind, key)


def read_answered(path: Path) -> tuple[Mapping[str, Any], list[Answered]]:
    """Subject of a journal, which may be in use, and the attempts in it.

    Raises
    ------
    StoreError
        If the file is no store of a party of secure sums, or is damaged.
    PartyArgumentError
        If what is in it is not a journal.
    OSError
        If it cannot be read.
    """
    with closing(StoreFile(path, ROLE, read_only=True)) as store:
        about, answered = _read(store)
    if about is None:
        raise PartyArgumentError(f"{path} is not a party's ledger, or nothing is in it")
    return about, answered


def _read(store: Store) -> tuple[Mapping[str, Any] | None, list[Answered]]:
    """Subject of a journal, and the attempts in it, each once."""
    seen: dict[tuple[str, int], Answered] = {}
    try:
        about = store.get(ABOUT, "")
        for head in store.entries(ATTEMPTS, ""):
            answered = _answered(head)
            if (answered.session, answered.number) in seen:
                # One of two costs would count for the attempt: which one, a reader would choose.
                raise ValueError("an attempt is answered once")
            seen[answered.session, answered.number] = answered
        if about is None and seen:
            # The first run to come would choose the subject: a ledger's budget, say.
            raise ValueError("answers have a subject")
        return None if about is None else _table(about), list(seen.values())
    except (StoreError, ValueError, KeyError, TypeError) as error:
        # The text does not name the path, which other organisations could read.
        raise PartyArgumentError(
            "the party's ledger is damaged: its answers and their cost can no longer be known"
        ) from error


def _places_of(answered: Sequence[Answered]) -> dict[tuple[str, int], int]:
    """Where each attempt's answer is among those of its session."""
    n_of: dict[str, int] = defaultdict(int)
    places = {}
    for one in answered:
        places[one.session, one.number] = n_of[one.session]
        n_of[one.session] += 1
    return places


def _answered(head: Any) -> Answered:
    """An attempt, from its record."""
    session, number, asked = head["session"], head["number"], head["asked"]
    digits = all(bytes.fromhex(text).hex() == text for text in (session, asked))
    if type(number) is not int or not digits:
        raise ValueError("not the record of an answer")
    return Answered(session, number, asked, _table(head["note"]))


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("not a table of names and values")
    return value
