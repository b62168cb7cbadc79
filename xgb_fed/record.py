"""A record on disk of what a party received and gave away: a line a message, no content."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from pathlib import Path
from threading import Lock

from xgb_fed.errors import InvalidDataError
from xgb_fed.messages import Envelope, Refusal
from xgb_fed.traffic import Flow, Traffic


class Record:
    """Appends lines to a file.

    A line says when, from whom, to whom, which kind of message, how long, how much of it ciphertexts, in
    which session; of a refusal, why.

    Parameters
    ----------
    path : path
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._lock = Lock()

    def add(self, sender: str, receiver: str, envelope: Envelope, n_bytes: int) -> None:
        """Record a message."""
        message = envelope.message
        line = {
            "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "from": sender,
            "to": receiver,
            "message": type(message).__name__,
            "bytes": n_bytes,
            "ciphertext_bytes": message.ciphertext_bytes,
            "session": envelope.session.hex()[:8],
        }
        if isinstance(message, Refusal):
            line["reason"] = message.reason
        with self._lock, open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def read_record(path: str | Path) -> tuple[Traffic, list[tuple[str, str, str]]]:
    """Sum up a record.

    Returns
    -------
    traffic : Traffic
    refusals : list of (time, to whom, reason)

    Raises
    ------
    InvalidDataError
        If the file is no record.
    """
    traffic, refusals = Traffic(), []
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                one = json.loads(line)
                flow = traffic.flows.setdefault((one["from"], one["to"], one["message"]), Flow())
                flow.messages += int(one.get("count", 1))
                flow.bytes += int(one["bytes"])
                flow.ciphertext_bytes += int(one["ciphertext_bytes"])
                if "reason" in one:
                    refusals.append((str(one["time"]), str(one["to"]), str(one["reason"])))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidDataError(f"{path} is not a record: {type(error).__name__}") from None
    return traffic, refusals


def write_traffic(path: str | Path, traffic: Traffic) -> None:
    """Append a session's sums to a record: what the active party keeps of a training or a prediction."""
    now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    with open(path, "a", encoding="utf-8") as file:
        for row in traffic.to_dicts():
            kept = {
                name: row[name] for name in ("from", "to", "message", "count", "bytes", "ciphertext_bytes")
            }
            file.write(json.dumps({"time": now, **kept}) + "\n")
