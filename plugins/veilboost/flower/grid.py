"""Our bytes in Flower's messages: a record of bytes in either direction."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from gbdt_parties.errors import PartyRefusedError, PartyUnavailableError
from veilboost.flower.carrier import NodeReply

logger = logging.getLogger(__name__)
RECORD = "veilboost"
KIND = "query"
"""Of the platform's kinds of messages, the one that neither trains nor evaluates by its name."""


class GridCarrier:
    """Messages over Flower's `Grid`."""

    def __init__(self, grid: Any) -> None:
        self._grid = grid

    def nodes(self) -> Iterable[int]:
        """As for `Carrier`."""
        with _reachable():
            return list(self._grid.get_node_ids())

    def push(self, node: int, requests: Sequence[bytes], seconds: float) -> str:
        """As for `Carrier`."""
        from flwr.app import ConfigRecord, Message, RecordDict

        content = RecordDict({RECORD: ConfigRecord({"requests": list(requests)})})
        with _reachable():
            pushed = list(self._grid.push_messages([Message(content, node, KIND, ttl=seconds)]))
        if len(pushed) != 1:
            n_bytes = sum(map(len, requests))
            raise PartyRefusedError(f"Flower does not take a message of {n_bytes} bytes to node {node}")
        if not pushed[0]:
            # A node that was there a moment ago, or that a hostile operator takes away and back again.
            raise PartyUnavailableError(f"Flower has no node {node} any more")
        return str(pushed[0])

    def pull(self, numbers: Sequence[str]) -> Mapping[str, NodeReply]:
        """As for `Carrier`."""
        if not numbers:
            return {}
        with _reachable():
            found = list(self._grid.pull_messages(list(numbers)))
        return {str(message.metadata.reply_to_message_id): _reply(message) for message in found}


@contextmanager
def _reachable() -> Iterator[None]:
    """Make a failed exchange with the SuperLink the loss of a party, which is waited for."""
    import httpx  # with which Flower talks to it

    try:
        yield
    except httpx.HTTPError as error:
        raise PartyUnavailableError(f"Flower's SuperLink: {type(error).__name__}") from None


def _reply(message: Any) -> NodeReply:
    """The reply in a message of a node."""
    if message.has_error():
        return NodeReply("", (), f"Flower's error {message.error.code}: {message.error.reason}")
    try:
        record = message.content[RECORD]
        answers = [bytes(memoryview(one)) for one in record["answers"]]
        return NodeReply(str(record["name"]), answers, str(record["failure"]))
    except (KeyError, TypeError):
        return NodeReply("", (), "a reply of another app")


def answered(message: Any, answer: Callable[[Sequence[bytes]], NodeReply]) -> Any:
    """The message that replies to one of the coordinator's."""
    from flwr.app import ConfigRecord, Message, RecordDict

    reply = answer(list(message.content[RECORD]["requests"]))
    record: dict[str, Any] = {"name": reply.name, "answers": list(reply.answers), "failure": reply.failure}
    return Message(RecordDict({RECORD: ConfigRecord(record)}), reply_to=message)
