"""Traffic that left each party: a table of messages by kind."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass, field
from threading import Lock

from gbdt_commons.documentation import OFFICERS_PAGE
from gbdt_commons.html_tables import html_list, html_paragraph, html_table
from gbdt_parties.messages import Message


@dataclass
class Flow:
    """Messages of one kind in one direction.

    Attributes
    ----------
    messages : int
    bytes : int
        All bytes of these messages.
    ciphertext_bytes : int
        Those of ciphertexts; the others are in clear.
    """

    messages: int = 0
    bytes: int = 0
    ciphertext_bytes: int = 0


@dataclass
class Traffic:
    """Counts of all messages between the parties of a training run or a prediction.

    Attributes
    ----------
    flows : dict
        (sender, receiver, kind of message) to `Flow`.
    encrypted : bool
        False when the "ciphertexts" are integers in clear.
    restarts : list of str
        Work that was done again after a party was lost, one sentence each.
    """

    encrypted: bool = True
    flows: dict[tuple[str, str, str], Flow] = field(default_factory=dict)
    restarts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._lock = Lock()
        self.last_answer = -math.inf
        """When the last answer came, on the clock `time.monotonic`."""

    def __getstate__(self) -> dict[str, object]:
        """Without the lock."""
        return {"encrypted": self.encrypted, "flows": self.flows, "restarts": self.restarts}

    def __setstate__(self, state: dict[str, object]) -> None:
        """With a new lock; answers to another process are long ago."""
        self.__dict__.update(state)
        self.__post_init__()

    def count(self, sender: str, receiver: str, message: Message, n_bytes: int) -> None:
        """Add one message.

        Parameters
        ----------
        sender, receiver : str
            Names of parties.
        message : Message
        n_bytes : int
            Its length on the wire.
        """
        with self._lock:
            flow = self.flows.setdefault((sender, receiver, type(message).__name__), Flow())
            flow.messages += 1
            flow.bytes += n_bytes
            flow.ciphertext_bytes += message.ciphertext_bytes

    def add(self, earlier: Traffic) -> None:
        """Add the flows of an earlier process.

        Parameters
        ----------
        earlier : Traffic
        """
        with self._lock:
            for key, flow in earlier.flows.items():
                sums = self.flows.setdefault(key, Flow())
                sums.messages += flow.messages
                sums.bytes += flow.bytes
                sums.ciphertext_bytes += flow.ciphertext_bytes

    def less(self, earlier: Traffic) -> Traffic:
        """The flows without those of an earlier time."""
        rest = Traffic(self.encrypted)
        for key, flow in self.flows.items():
            before = earlier.flows.get(key, Flow())
            if flow != before:
                rest.flows[key] = Flow(*(a - b for a, b in zip(astuple(flow), astuple(before), strict=True)))
        return rest

    def to_dicts(self) -> list[dict[str, object]]:
        """One row per flow, for a data frame.

        Returns
        -------
        list of dict
            With "from", "to", "message", "count", "bytes", "ciphertext_bytes" and "content" ("ciphertext",
            "clear", or "clear text (no encryption)").
        """
        content = "ciphertext" if self.encrypted else "clear text (no encryption)"
        return [
            {
                "from": sender,
                "to": receiver,
                "message": kind,
                "count": flow.messages,
                "bytes": flow.bytes,
                "ciphertext_bytes": flow.ciphertext_bytes if self.encrypted else 0,
                "content": content if flow.ciphertext_bytes else "clear",
            }
            for (sender, receiver, kind), flow in self.flows.items()
        ]

    def __str__(self) -> str:
        """A table, the restarts below it, and where the officer's page is."""
        rows = self.to_dicts()
        head = ("from", "to", "message", "count", "bytes", "ciphertext_bytes", "content")
        cells = [head, *(tuple(_cell(row[name]) for name in head) for row in rows)]
        widths = [max(len(line[k]) for line in cells) for k in range(len(head))]
        right = {3, 4, 5}
        table = [
            "  ".join(
                text.rjust(w) if k in right else text.ljust(w)
                for k, (text, w) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in cells
        ]
        return "\n".join([*table, *self.restarts, OFFICERS_PAGE])

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        return html_table(self.to_dicts()) + html_list(self.restarts) + html_paragraph(OFFICERS_PAGE)


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
