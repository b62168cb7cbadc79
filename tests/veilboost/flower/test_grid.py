"""Our bytes in Flower's own messages, over a grid that is none."""

import pytest

pytest.importorskip("flwr", reason="the extra veilboost[flower] is not installed")

from flwr.app import Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from gbdt_parties.errors import PartyRefusedError, PartyUnavailableError
from veilboost.flower import client_app, server_app
from veilboost.flower.carrier import NodeReply
from veilboost.flower.grid import GridCarrier, answered


@pytest.fixture(autouse=True)
def of_a_run():
    """Flower's processes know their run before they make messages."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


class Grid:
    """Flower's `Grid` as far as it is used: messages wait here."""

    def __init__(self, takes=True):
        self.takes, self.pushed, self.replies = takes, [], []

    def get_node_ids(self):
        return [5, 6]

    def push_messages(self, pushed):
        if not self.takes:
            return []
        for one in pushed:
            one.metadata.__dict__["_message_id"] = one.object_id
            self.pushed.append(one)
        return [one.metadata.message_id if one.metadata.dst_node_id in (5, 6) else "" for one in pushed]

    def pull_messages(self, numbers):
        return [one for one in self.replies if one.metadata.reply_to_message_id in numbers]


def test_bytes_arrive_as_they_were_sent():
    grid = Grid()
    carrier = GridCarrier(grid)
    number = carrier.push(5, [b"\0one", b""], 7.0)
    (message,) = grid.pushed
    assert (message.metadata.dst_node_id, message.metadata.ttl) == (5, 7.0)
    assert carrier.nodes() == [5, 6]
    assert carrier.pull([number]) == {}
    seen = []

    def answer(requests):
        seen.append(list(requests))
        return NodeReply("north", [b"\xff", b"two"])

    grid.replies.append(answered(message, answer))
    assert seen == [[b"\0one", b""]]
    assert carrier.pull([number]) == {number: NodeReply("north", [b"\xff", b"two"])}
    assert carrier.pull([]) == {}


def test_a_message_that_the_platform_does_not_take_is_refused_by_name():
    with pytest.raises(PartyRefusedError, match="3 bytes to node 6"):
        GridCarrier(Grid(takes=False)).push(6, [b"abc"], 1.0)


def test_a_node_that_is_gone_is_a_party_that_is_lost():
    with pytest.raises(PartyUnavailableError, match="node 7"):
        GridCarrier(Grid()).push(7, [b"abc"], 1.0)


@pytest.mark.parametrize("work", ["get_node_ids", "push_messages", "pull_messages"])
def test_a_superlink_that_fails_is_a_loss_that_is_waited_for(monkeypatch, work):
    httpx = pytest.importorskip("httpx")

    def fail(*_):
        raise httpx.ReadTimeout("slow")

    grid = Grid()
    monkeypatch.setattr(grid, work, fail)
    carrier = GridCarrier(grid)
    with pytest.raises(PartyUnavailableError, match="SuperLink: ReadTimeout"):
        _ = carrier.nodes(), carrier.push(5, [b"abc"], 1.0), carrier.pull(["1"])


def test_errors_of_the_platform_and_replies_of_others_are_failures():
    grid = Grid()
    carrier = GridCarrier(grid)
    numbers = [carrier.push(node, [], 1.0) for node in (5, 6)]
    crashed, other = grid.pushed
    grid.replies = [Message(Error(8, "crashed"), reply_to=crashed), Message(RecordDict({}), reply_to=other)]
    found = carrier.pull(numbers)
    assert [found[number].failure for number in numbers] == [
        "Flower's error 8: crashed",
        "a reply of another app",
    ]


def test_both_apps_are_flowers():
    assert type(client_app()).__name__ == "ClientApp"
    assert type(server_app()).__name__ == "ServerApp"
