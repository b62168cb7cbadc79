"""Journal of a party's answers: no attempt is ever answered twice with different bytes.

An entry holds an attempt, what answering it has cost, and the answer, and is on the disk before the answer
leaves.  So costs and answers cannot differ, and an answer that was lost on the way is sent again as it was,
also after a restart.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from gbdt_commons.key_stream import this_process
from gbdt_commons.quoting import quoted
from gbdt_parties._entries import EntryFile, read_entries
from gbdt_parties.errors import PartyArgumentError, ProtocolError

FORMAT = 1
MAX_SESSIONS = 4
"""Sessions, the latest ones, whose answers a journal without a file keeps in memory to be sent again."""

_BREAK = b"\n"


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
    path : Path or None
        None keeps them in memory: they are forgotten with the process.
    about : mapping, optional
        Subject of the journal; written into a new one.  Without it, a new one is about what the first
        answer that is given says.
    sync : bool
        Whether an answer must be on the disk, and not only with the operating system, before it leaves.  It
        need not if the same question always has the same answer, which is then checked by the journal alone.

    Attributes
    ----------
    about : mapping or None
        As the journal has it.

    Raises
    ------
    PartyArgumentError
        If another process uses the file, or it is damaged.
    """

    def __init__(
        self, path: Path | None, about: Mapping[str, Any] | None = None, *, sync: bool = True
    ) -> None:
        self._sync = sync
        self._lock = Lock()
        self._answered: dict[tuple[str, int], Answered] = {}
        self._answers: dict[str, dict[int, bytes]] = {}
        self._places: dict[tuple[str, int], int] = {}
        self._process = this_process()
        self._file: EntryFile | None = None
        self.about: Mapping[str, Any] | None = None
        self._held: tuple[Any, ...] = ()
        if path is None:
            self._begin(about)
            return
        self._held = _locked(path)
        try:
            size = 0
            for content, end in _entries(path):
                if isinstance(content, Answered):
                    self._answered[content.session, content.number] = content
                    self._places[content.session, content.number] = size
                else:
                    self.about = content
                size = end
            self._file = EntryFile(path, size)
            self._begin(about)
        except BaseException:
            self.close()
            raise

    def _begin(self, about: Mapping[str, Any] | None) -> None:
        """Write what a new journal is about."""
        if self.about is not None or about is None:
            return
        if self._file is not None:
            self._file.append(json.dumps({"format": FORMAT, "about": about}).encode() + _BREAK, sync=True)
        self.about = dict(about)

    @property
    def answered(self) -> list[Answered]:
        """All attempts, in the order in which they were answered."""
        with self._lock:
            return list(self._answered.values())

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
        if not all(map(_is_in_place, self._held)):
            # Another process may have a lock, or a ledger, of its own by now.
            raise ProtocolError("the party's ledger was removed or replaced while it was in use")
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
            self._begin(about)
            if self._file is not None:
                head = {"session": key[0], "number": number, "asked": digest, "note": answered.note}
                content = json.dumps(head).encode() + _BREAK + answer
                self._places[key] = self._file.append(content, sync=self._sync)
            else:
                self._remember(key, answer)
            self._answered[key] = answered
            return answer

    def _given(self, key: tuple[str, int]) -> bytes:
        """The answer to an attempt, as it was given."""
        if self._file is not None:
            try:
                return self._file.read(self._places[key]).partition(_BREAK)[2]
            except ValueError:
                raise ProtocolError(
                    f"the answer to attempt {key[1]} is damaged on the party's disk"
                ) from None
        if key[1] not in self._answers.get(key[0], {}):
            raise ProtocolError(f"attempt {key[1]} was answered in a session that is over")
        return self._answers[key[0]][key[1]]

    def _remember(self, key: tuple[str, int], answer: bytes) -> None:
        self._answers[key[0]] = {**self._answers.pop(key[0], {}), key[1]: answer}
        while len(self._answers) > MAX_SESSIONS:
            del self._answers[next(iter(self._answers))]

    def close(self) -> None:
        """Let go of the file; another process can use it then."""
        self._file = None
        self._process = (-1, None)
        for file in self._held:
            file.close()


def read_answered(path: Path) -> tuple[Mapping[str, Any], list[Answered]]:
    """Subject of a journal, and the attempts in it.

    Raises
    ------
    PartyArgumentError
        If the file is not a journal, or is damaged.
    OSError
        If it cannot be read.
    """
    about: Mapping[str, Any] | None = None
    answered: list[Answered] = []
    for content, _ in _entries(path):
        if isinstance(content, Answered):
            answered.append(content)
        else:
            about = content
    if about is None:
        raise PartyArgumentError(f"{path} is not a party's ledger, or nothing is in it")
    return about, answered


def _entries(path: Path) -> Iterator[tuple[Mapping[str, Any] | Answered, int]]:
    """Subject of a journal, then the attempts in it, each once, and where each entry ends.

    Errors do not name the path, which other organisations could read.
    """
    seen: set[tuple[str, int]] = set()
    try:
        for index, (content, end) in enumerate(read_entries(path)):
            head = json.loads(content.partition(_BREAK)[0])
            if index == 0:
                yield _about(head), end
                continue
            answered = _answered(head)
            key = (answered.session, answered.number)
            if key in seen:
                # One of two costs would count for the attempt: which one, a reader would choose.
                raise ValueError("an attempt is answered once")
            seen.add(key)
            yield answered, end
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, PartyArgumentError):
            raise
        raise PartyArgumentError(
            "the party's ledger is damaged: its answers and their cost can no longer be known"
        ) from None


def _about(head: Any) -> Mapping[str, Any]:
    """Subject of a journal, from its first entry."""
    if head["format"] != FORMAT:
        raise PartyArgumentError(
            f"the party's ledger is of format {quoted(json.dumps(head['format']))}, not {FORMAT}"
        )
    return _table(head["about"])


def _answered(head: Any) -> Answered:
    """An attempt, from its entry."""
    session, number, asked = head["session"], head["number"], head["asked"]
    digits = all(bytes.fromhex(text).hex() == text for text in (session, asked))
    if type(number) is not int or not digits:
        raise ValueError("not the entry of an answer")
    return Answered(session, number, asked, _table(head["note"]))


def _table(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise TypeError("not a table of names and values")
    return value


def _is_in_place(file: Any) -> bool:
    """Whether an open file is still the one of its name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), os.stat(file.name))
    except OSError:
        return False


def _locked(path: Path) -> tuple[Any, Any]:
    """The journal, made if there is none, and a file beside it that one process holds a lock on."""
    path.touch(mode=0o600)
    lock = open(path.with_suffix(".lock"), "w")  # noqa: SIM115 (held for as long as the journal is in use)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise PartyArgumentError(
            "the party's ledger is in use by another process, or by another party object"
        ) from None
    return open(path, "rb"), lock
