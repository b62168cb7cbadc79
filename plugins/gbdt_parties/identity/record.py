"""A record on disk of what a party received and sent: one line per message, without its content."""

from __future__ import annotations

import json
import os
import weakref
from datetime import datetime, timezone
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from gbdt_parties._files import append_lines, open_to_append
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.messages import Envelope, Refusal
from gbdt_parties.quoting import quoted
from gbdt_parties.traffic import Flow, Traffic


class Record:
    """Appends lines to a file, which stays open: a process that runs out of descriptors still records.

    A line says when, from whom, to whom, which kind of message, how long, how much of it ciphertexts, in
    which session; of this party's own refusals, why.

    Parameters
    ----------
    path : path

    Raises
    ------
    OSError
        If the file cannot be opened.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = Lock()
        self._descriptor = open_to_append(self.path)
        weakref.finalize(self, os.close, self._descriptor)

    def add(self, sender: str, receiver: str, envelope: Envelope, n_bytes: int) -> None:
        """Record what this party answers, with the reason if it refuses."""
        line = _line(sender, receiver, envelope, n_bytes)
        if isinstance(envelope.message, Refusal):
            line["reason"] = quoted(envelope.message.reason)
        self._append(line)

    def add_received(self, sender: str, receiver: str, envelope: Envelope, n_bytes: int) -> None:
        """Record what this party is asked: nothing that the other side worded."""
        self._append(_line(sender, receiver, envelope, n_bytes))

    def _append(self, line: dict[str, Any]) -> None:
        with self._lock:
            append_lines(self._descriptor, json.dumps(line) + "\n")


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
    """What a record says.

    Attributes
    ----------
    traffic : Traffic
    refusals : list of (time, to whom, reason)
    damaged : int
        Lines that could not be read, as a full disk or a crash leaves them; they are not in the sums.
    """

    traffic: Traffic
    refusals: list[tuple[str, str, str]]
    damaged: int


def read_record(path: str | Path) -> RecordSums:
    """Sum up a record; lines that are damaged are counted and skipped.

    Raises
    ------
    InvalidDataError
        If the file cannot be read, or has lines and none of them is a record's.
    """
    traffic, refusals, damaged, whole = Traffic(), list[tuple[str, str, str]](), 0, 0
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            for line in file:
                try:
                    key, flow, refusal = _read_line(line)
                except (ValueError, KeyError, TypeError, RecursionError):
                    damaged += 1
                    continue
                whole += 1
                sums = traffic.flows.setdefault(key, Flow())
                sums.messages += flow.messages
                sums.bytes += flow.bytes
                sums.ciphertext_bytes += flow.ciphertext_bytes
                refusals += refusal
    except OSError as error:
        raise InvalidDataError(f"{path} is not a record: {type(error).__name__}") from None
    if damaged and not whole:
        raise InvalidDataError(f"{path} is not a record: none of its {damaged} lines can be read")
    return RecordSums(traffic, refusals, damaged)


def _read_line(text: str) -> tuple[tuple[str, str, str], Flow, list[tuple[str, str, str]]]:
    """Parties and message, sums, and the refusal if it is one; a line is taken as a whole or not at all."""
    line = json.loads(text)
    words = [line[name] for name in ("from", "to", "message", "time")]
    if not all(isinstance(word, str) and word.isprintable() for word in words):
        raise ValueError("not the words of a record")
    sender, receiver, message, time = words
    flow = Flow(int(line.get("count", 1)), int(line["bytes"]), int(line["ciphertext_bytes"]))
    refusal = [(time, receiver, quoted(str(line["reason"])))] if "reason" in line else []
    return (sender, receiver, message), flow, refusal


def write_traffic(path: str | Path, traffic: Traffic) -> None:
    """Append a session's sums to a record: what the active party keeps of a training run or a prediction."""
    now = _now()
    lines = []
    for row in traffic.to_dicts():
        kept = {name: row[name] for name in ("from", "to", "message", "count", "bytes", "ciphertext_bytes")}
        lines.append(json.dumps({"time": now, **kept}) + "\n")
    descriptor = open_to_append(path)
    try:
        append_lines(descriptor, "".join(lines))
    finally:
        os.close(descriptor)
