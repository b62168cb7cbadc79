"""What a party has answered, kept so that no attempt is ever answered twice with different bytes.

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

from gbdt_parties._entries import EntryFile, read_entries
from gbdt_parties.errors import PartyArgumentError, ProtocolError
from gbdt_parties.key_stream import this_process

FORMAT = 1
MAX_SESSIONS = 4
"""Sessions, the latest ones, whose answers are kept in memory to be sent again."""

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
        What the party notes about it: what it has cost, for instance.
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
    about : mapping
        What the journal is about; written into a new one.

    Attributes
    ----------
    about : mapping
        As the journal has it.

    Raises
    ------
    PartyArgumentError
        If another process uses the file, or it is damaged.
    """

    def __init__(self, path: Path | None, about: Mapping[str, Any]) -> None:
        self._lock = Lock()
        self._answered: dict[tuple[str, int], Answered] = {}
        self._answers: dict[str, dict[int, bytes]] = {}
        self._process = this_process()
        self._file: EntryFile | None = None
        self.about: Mapping[str, Any] = dict(about)
        self._held: tuple[Any, ...] = ()
        if path is None:
            return
        self._held = _locked(path)
        found, size = False, 0
        for head, answer, end in _entries(path):
            size = end
            if found:
                self._note(_answered(head), answer)
            else:
                self.about, found = head["about"], True
        self._file = EntryFile(path, size)
        if not found:
            first = json.dumps({"format": FORMAT, "about": self.about}).encode()
            self._file.append(first + _BREAK, sync=True)

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

        Raises
        ------
        ProtocolError
            If the attempt was answered before, and asked something else, or its session is long over; or in a
            forked process, which would spend the same budget a second time.
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
                if key[1] not in self._answers.get(key[0], {}):
                    raise ProtocolError(f"attempt {number} was answered in a session that is over")
                return self._answers[key[0]][key[1]]
            answered = Answered(*key, digest, prepare())
            answer = make()
            if self._file is not None:
                head = {"session": key[0], "number": number, "asked": digest, "note": answered.note}
                self._file.append(json.dumps(head).encode() + _BREAK + answer, sync=True)
            self._note(answered, answer)
            return answer

    def _note(self, answered: Answered, answer: bytes) -> None:
        self._answered[answered.session, answered.number] = answered
        self._answers.setdefault(answered.session, {})[answered.number] = answer
        while len(self._answers) > MAX_SESSIONS:
            del self._answers[next(iter(self._answers))]

    def close(self) -> None:
        """Let go of the file; another process can use it then."""
        self._file = None
        self._process = (-1, None)
        for file in self._held:
            file.close()


def read_answered(path: Path) -> tuple[Mapping[str, Any], list[Answered]]:
    """What a journal is about, and the attempts in it.

    Raises
    ------
    PartyArgumentError
        If the file is not a journal, or is damaged.
    OSError
        If it cannot be read.
    """
    heads = [head for head, _, _ in _entries(path)]
    if not heads:
        raise PartyArgumentError(f"{path} is not a party's ledger, or nothing is in it")
    return heads[0]["about"], [_answered(head) for head in heads[1:]]


def _answered(head: Mapping[str, Any]) -> Answered:
    return Answered(str(head["session"]), int(head["number"]), str(head["asked"]), dict(head["note"]))


def _entries(path: Path) -> Iterator[tuple[Mapping[str, Any], bytes, int]]:
    try:
        for index, (content, end) in enumerate(read_entries(path)):
            text, _, answer = content.partition(_BREAK)
            head = json.loads(text)
            if index == 0 and head["format"] != FORMAT:
                raise PartyArgumentError(f"{path} is a ledger of format {head['format']}, not {FORMAT}")
            yield head, answer, end
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, PartyArgumentError):
            raise
        raise PartyArgumentError(
            f"{path} is damaged: what was answered, and what it has cost, can no longer be known"
        ) from None


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
        raise PartyArgumentError(f"{path} is in use by another process, or by another party object") from None
    return open(path, "rb"), lock
