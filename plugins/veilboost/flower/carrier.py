"""The carrying of bytes to nodes and back, which is all that is needed of a platform."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class NodeReply:
    """Reply of a node to one message of the platform.

    `name` is the party's, as the node says: signatures decide whether it is. `answers` are those to our
    requests, up to the first refusal; `failure` is the reason why there are none, empty without one.
    """

    name: str
    answers: Sequence[bytes]
    failure: str = ""


class Carrier(Protocol):
    """Messages to nodes and their replies; threads take turns."""

    def nodes(self) -> Iterable[int]:
        """Numbers of the nodes that are connected."""

    def push(self, node: int, requests: Sequence[bytes], seconds: float) -> str:
        """Send a message that is worth so many seconds; gives its number.

        Raises `PartyRefusedError` if the platform does not take it, for its length, and
        `PartyUnavailableError` if the node is gone.
        """

    def pull(self, numbers: Sequence[str]) -> Mapping[str, NodeReply]:
        """The replies that have come, by the numbers of the messages."""
