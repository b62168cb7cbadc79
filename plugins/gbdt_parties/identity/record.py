"""A record on disk of what a party received and sent: one line per message, without its content.

When its file has become long, it is set aside under a number, and a new one begins with the name and the
SHA-256 of the old one, and with the sums of everything before, also those of refusals by caller and reason.
The digests detect damage, such as a file that was lost or cut off.  They have no key: a person who can write
the files can rewrite all of them.  Keep a copy elsewhere if they are to be evidence.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import weakref
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from gbdt_commons.files import append_lines, open_to_append, write_atomically
from gbdt_commons.quoting import quoted
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.messages import Envelope, Refusal
from gbdt_parties.traffic import Flow, Traffic

MAX_BYTES = 16 << 20
"""Length from which a record is continued in a new file."""

MAX_RECEIVERS, MAX_REASONS = 64, 64
"""Callers, and reasons for each of them, whose refusals in earlier files are counted one by one."""

OTHERS, OTHER_REASONS = "others", "for other reasons"

MAX_NUMBER = 1 << 63
"""Numbers of a line at most: no sum of bytes comes near."""

MAX_NAME = 255
"""Bytes of a file's name at most."""

MAX_FILES = 16
"""Files of a record that are set aside; the oldest one is removed first."""


class Record:
    """Appends lines to a file, which stays open: a process that runs out of descriptors still records.

    A line says when, from whom, to whom, which kind of message, how long, how much of it ciphertexts, in
    which session; of this party's own refusals, why. Raises OSError if the file cannot be opened.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = Lock()
        if not self.path.exists() and (aside := self._set_aside()):
            # A crash came between setting the old file aside and putting the new one in its place.
            write_atomically(self.path, _beginning_after(aside[-1], aside[-1].name))
        self.descriptor = open_to_append(self.path)
        weakref.finalize(self, os.close, self.descriptor)

    def add(self, sender: str, receiver: str, envelope: Envelope, n_bytes: int) -> None:
        """Record what this party answers, with the reason if it refuses."""
        line = _line(sender, receiver, envelope, n_bytes)
        if isinstance(envelope.message, Refusal):
            line["reason"] = quoted(envelope.message.reason)
        self._append(line)

    def add_received(self, sender: str, receiver: str, envelope: Envelope, n_bytes: int) -> None:
        """Record what this party is asked: nothing that the other side worded."""
        self._append(_line(sender, receiver, envelope, n_bytes))

    def add_turned_away(self, sender: str, receiver: str, reason: str, count: int) -> None:
        """Record calls that this party refused without reading their requests, with the reason."""
        line = {"time": _now(), "from": sender, "to": quoted(receiver), "message": "TurnedAway"}
        self._append({**line, "count": count, "bytes": 0, "ciphertext_bytes": 0, "reason": quoted(reason)})

    def _append(self, line: dict[str, Any]) -> None:
        with self._lock:
            append_lines(self.descriptor, json.dumps(line) + "\n")
            if os.fstat(self.descriptor).st_size >= MAX_BYTES:
                # Without room or descriptors the file grows on, until there are some.
                with suppress(OSError, InvalidDataError):
                    self._continue_in_a_new_file()

    def _continue_in_a_new_file(self) -> None:
        aside = self._set_aside()
        number = _number_of(aside[-1]) + 1 if aside else 1
        old = self.path.with_name(f"{self.path.stem}-{number:06d}{self.path.suffix}")
        new = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        write_atomically(new, _beginning_after(self.path, old.name))
        descriptor = open_to_append(new)
        try:
            os.replace(self.path, old)
            os.replace(new, self.path)
            # The same number: closing it when this object is gone closes the new file.
            os.dup2(descriptor, self.descriptor, inheritable=False)
        finally:
            os.close(descriptor)
        for path in aside[: max(0, len(aside) + 1 - MAX_FILES)]:
            path.unlink(missing_ok=True)

    def _set_aside(self) -> list[Path]:
        """Files of this record that were set aside, the oldest first."""
        stem, suffix = self.path.stem, self.path.suffix
        near = self.path.parent.glob(f"{glob.escape(stem)}-[0-9]*{glob.escape(suffix)}")
        # Other files may have names that begin alike: an operator's copy, for instance.
        number = re.compile(f"{re.escape(stem)}-[0-9]+{re.escape(suffix)}")
        return sorted((path for path in near if number.fullmatch(path.name)), key=_number_of)


def _beginning_after(old: Path, name: str) -> str:
    """The first lines of the file that continues an old one of that name."""
    head = {"time": _now(), "continues": name, "sha256": digest_of_file(old)}
    traffic, refused, _ = _read(old)
    return json.dumps(head) + "\n" + _lines_of(traffic) + _lines_of_refusals(refused)


def _number_of(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])


def digest_of_file(path: Path) -> str:
    """SHA-256 of a file, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _lines_of(traffic: Traffic) -> str:
    """The sums as lines of a record."""
    now = _now()
    lines = []
    for row in traffic.to_dicts():
        kept = {name: row[name] for name in ("from", "to", "message", "count", "bytes", "ciphertext_bytes")}
        lines.append(json.dumps({"time": now, **kept}) + "\n")
    return "".join(lines)


class _Refused(NamedTuple):
    """Refusals of one kind: when the last one was, to whom, why, how many."""

    time: str
    receiver: str
    reason: str
    times: int

    def __str__(self) -> str:
        return self.reason if self.times == 1 else f"{self.reason} ({self.times} times up to then)"


def _lines_of_refusals(refused: list[_Refused]) -> str:
    """Refusals as lines of the next file, one for each caller and reason.

    Numbers within reasons are left out, so that a caller does not make new reasons without end.
    """
    sums: dict[str, dict[str, _Refused]] = {}
    for time, receiver, text, count in refused:
        if receiver not in sums and len(sums) >= MAX_RECEIVERS:
            receiver = OTHERS
        of_receiver, reason = sums.setdefault(receiver, {}), re.sub(r"\d+", "#", text)
        if reason not in of_receiver and len(of_receiver) >= MAX_REASONS:
            reason = OTHER_REASONS
        before = of_receiver[reason].times if reason in of_receiver else 0
        of_receiver[reason] = _Refused(time, receiver, reason, before + count)
    lines = [
        {"time": one.time, "to": one.receiver, "reason": one.reason, "refused": one.times}
        for of_receiver in sums.values()
        for one in of_receiver.values()
    ]
    return "".join(json.dumps(line) + "\n" for line in lines)


def _line(sender: str, receiver: str, envelope: Envelope, n_bytes: int) -> dict[str, Any]:
    return {
        "time": _now(),
        "from": sender,
        "to": receiver,
        "message": type(envelope.message).__name__,
        "bytes": n_bytes,
        "ciphertext_bytes": envelope.message.ciphertext_bytes,
        "session": envelope.session.hex()[:8],
    }


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


class RecordSums(NamedTuple):
    """Totals of a record: traffic, and refusals by time, receiver and reason.

    Refusals of earlier files are one entry for each caller and reason, which says how many they were.
    `damaged` lines could not be read, as a full disk or a crash leaves them; they are not in the sums.
    """

    traffic: Traffic
    refusals: list[tuple[str, str, str]]
    damaged: int


def check_chain(path: str | Path) -> list[str]:
    """Faults of the files that a record continues: one sentence for each file removed or altered.

    Files beyond the `MAX_FILES` newest ones are removed by the record itself, and so end the chain.
    """
    path, faults = Path(path), list[str]()
    continues = continued_by(path)
    for _ in range(MAX_FILES):
        if continues is None:
            break
        name, digest = continues
        earlier = path.with_name(name)
        if not earlier.is_file():
            faults.append(f"{name} is missing")
            break
        if digest_of_file(earlier) != digest:
            faults.append(f"{name} has been altered")
        continues = continued_by(earlier)
    return faults


def continued_by(path: str | Path) -> tuple[str, str] | None:
    """Name and SHA-256 of the file that a record continues, whose sums are in this one."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return _read_head(file.readline())


def read_record(path: str | Path) -> RecordSums:
    """Sum up a record; lines that are damaged are counted and skipped.

    Raises InvalidDataError if the file cannot be read, or has lines and none of them is a record's.
    """
    traffic, refused, damaged = _read(path)
    return RecordSums(traffic, [(one.time, one.receiver, str(one)) for one in refused], damaged)


def _read(path: str | Path) -> tuple[Traffic, list[_Refused], int]:
    """Sums, refusals, and the number of damaged lines."""
    traffic, refused, damaged, whole = Traffic(), list[_Refused](), 0, 0
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file):
                if number == 0 and _read_head(line) is not None:
                    whole += 1
                    continue
                try:
                    flows, refusals = _read_line(line)
                except (ValueError, KeyError, TypeError, RecursionError):
                    damaged += 1
                    continue
                whole += 1
                traffic.add(Traffic(flows=flows))
                refused += refusals
    except OSError as error:
        raise InvalidDataError(f"{path} is not a record: {error.strerror}") from None
    if damaged and not whole:
        raise InvalidDataError(f"{path} is not a record: none of its {damaged} lines can be read")
    return traffic, refused, damaged


def _read_head(text: str) -> tuple[str, str] | None:
    """Name and digest of the file that a record continues, if the line says so."""
    try:
        line = json.loads(text)
        name, digest = line["continues"], line["sha256"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if not (isinstance(name, str) and isinstance(digest, str)):
        return None
    return (name, digest) if _is_file_name(name) and re.fullmatch("[0-9a-f]{64}", digest) else None


def _is_file_name(name: str) -> bool:
    """Whether a text names a file beside another one."""
    alone = name.isprintable() and name not in ("", ".", "..") and "/" not in name
    return alone and len(name.encode()) <= MAX_NAME


def _read_line(text: str) -> tuple[dict[tuple[str, str, str], Flow], list[_Refused]]:
    """The sums of a line, and the refusals; a line is taken as a whole or not at all."""
    line = json.loads(text)
    if "refused" in line:
        time, receiver = _words(line, "time", "to")
        (count,) = _numbers(line["refused"])
        return {}, [_Refused(time, receiver, quoted(str(line["reason"])), count)]
    sender, receiver, message, time = _words(line, "from", "to", "message", "time")
    flow = Flow(*_numbers(line.get("count", 1), line["bytes"], line["ciphertext_bytes"]))
    refused = (
        [_Refused(time, receiver, quoted(str(line["reason"])), flow.messages)] if "reason" in line else []
    )
    return {(sender, receiver, message): flow}, refused


def _words(line: dict[str, Any], *names: str) -> list[str]:
    words = [line[name] for name in names]
    if not all(isinstance(word, str) and word.isprintable() for word in words):
        raise ValueError("not the words of a record")
    return words


def _numbers(*numbers: Any) -> list[int]:
    if not all(type(number) is int and 0 <= number <= MAX_NUMBER for number in numbers):
        raise ValueError("not the numbers of a record")
    return list(numbers)


def write_traffic(path: str | Path, traffic: Traffic) -> None:
    """Append a session's sums to a record: what the active party keeps of a training run or a prediction."""
    descriptor = open_to_append(path)
    try:
        append_lines(descriptor, _lines_of(traffic))
    finally:
        os.close(descriptor)
