"""Parties behind nodes that answer each message in a new process, without the platform's processes."""

import pytest

from flower_hospitals import NAMES, FakeCarrier, in_process, pin, write_files
from gbdt_parties import messages
from gbdt_parties.errors import PartyArgumentError, PartyRefusedError, PartyUnavailableError, ProtocolError
from gbdt_parties.secure_sum.messages import AskSum, OpenSum
from lgb_dp import federated
from veilboost.flower import channel
from veilboost.flower.apps import train_over
from veilboost.flower.channel import NodeParty, Nodes, Reply

pytest.importorskip("pyarrow")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(channel, "SECONDS_BETWEEN_LOOKS", 0.01)
    return tmp_path


@pytest.fixture
def pinned(monkeypatch):
    pin(monkeypatch.setattr)


def model(folder):
    return (folder / "model" / "model.txt").read_text()


def test_the_model_is_the_one_in_process_to_the_byte(folder, pinned):
    write_files(folder)
    carrier = FakeCarrier(folder)
    train_over(carrier, "plan.toml")
    assert model(folder) == in_process(folder)
    trips = [[messages.read(one).message for one in sent] for name, sent in carrier.sent if name == "south"]
    # Introduction, roster, signatures, seeds; label counts, two rounds and the end; digest and Finish.
    assert len(trips) == 4 + 4 + 2
    asked = [trip for trip in trips if isinstance(trip[-1], AskSum)]
    assert [sum(isinstance(one, OpenSum) for one in trip) for trip in asked] == [0, 1, 2, 3]
    assert all(not trip[-1].opened for trip in asked)
    for name in NAMES:
        (kept,) = folder.glob(f"{name}/for-flower/models/*.txt")
        assert kept.read_text() == model(folder)


def test_a_node_that_was_killed_comes_back_as_another_one_and_the_run_goes_on(folder, pinned):
    write_files(folder, timeout=0.5, patience=60.0)
    killed = []

    def disturb(number, name, answer):
        if name == "south" and number == 6 and not killed:
            reply = answer()  # it was answered, and charged for, before the node was lost
            killed.append(reply)
            carrier.restart("south")
            return None
        return answer()

    carrier = FakeCarrier(folder, disturb)
    train_over(carrier, "plan.toml")
    assert len(killed) == 1
    assert model(folder) == in_process(folder)


def test_a_node_that_the_platform_has_no_more_is_looked_for_again(folder, pinned):
    write_files(folder, patience=60.0)
    gone = []

    def disturb(number, name, answer):
        reply = answer()
        if name == "south" and number == 6 and not gone:
            carrier.restart("south", is_known=False)  # behind this answer
            gone.append(number)
        return reply

    carrier = FakeCarrier(folder, disturb)
    listed = carrier.nodes
    carrier.nodes = lambda: [99, *listed()]  # listed, and gone whenever it is asked
    carrier.gone.add(99)
    train_over(carrier, "plan.toml")
    assert gone
    assert model(folder) == in_process(folder)


def test_a_process_that_fails_is_asked_again(folder, pinned):
    write_files(folder, patience=60.0)
    failed = []

    def disturb(number, name, answer):
        if name == "west" and number in (1, 3, 5, 9) and number not in failed:
            failed.append(number)
            return Reply("", (), "Flower's error 8: crashed")
        return answer()

    train_over(FakeCarrier(folder, disturb), "plan.toml")
    assert failed == [1, 3, 5, 9]
    assert model(folder) == in_process(folder)


def test_a_coordinator_that_died_goes_on(folder, pinned):
    write_files(folder, timeout=1.0)

    def disturb(number, name, answer):
        return None if number > 6 else answer()

    with pytest.raises(PartyUnavailableError):
        train_over(FakeCarrier(folder, disturb), "plan.toml")
    train_over(FakeCarrier(folder), "plan.toml")
    assert model(folder) == in_process(folder)


def test_a_run_over_the_budget_is_refused_by_the_party(folder):
    write_files(folder, budget=(0.5, 1e-5))
    with pytest.raises(PartyRefusedError, match="of the party's budget"):
        train_over(FakeCarrier(folder), "plan.toml")
    assert not (folder / "model").exists()
    for name in NAMES:
        assert not federated.read_ledger(folder / name).rows


def test_a_party_that_is_behind_no_node_or_behind_two_is_named(folder):
    write_files(folder, timeout=0.05)
    carrier = FakeCarrier(folder)
    del carrier.named[12]
    with pytest.raises(PartyUnavailableError, match="party 'west' is behind no node that answers"):
        train_over(carrier, "plan.toml")
    carrier = FakeCarrier(folder)
    carrier.named[13] = "west"
    with pytest.raises(PartyArgumentError, match=r"nodes \[12, 13\] all say that they are party"):
        train_over(carrier, "plan.toml")


@pytest.mark.parametrize("answers", [[], [b"x"], [b"x", b"y"]])
def test_answers_that_are_none_are_refused_by_name(folder, answers):
    write_files(folder)

    def disturb(number, name, answer):
        reply = answer()
        return Reply(reply.name, answers) if reply.answers else reply

    with pytest.raises(ProtocolError, match="party '"):
        train_over(FakeCarrier(folder, disturb), "plan.toml")


def test_a_reply_to_another_message_is_refused(folder):
    write_files(folder)
    earlier = []

    def disturb(number, name, answer):
        reply = answer()
        if name == "north" and number:
            earlier.append(reply)
        return earlier[0] if number > 1 and earlier else reply

    with pytest.raises(ProtocolError, match="answered another message than the one it was sent"):
        train_over(FakeCarrier(folder, disturb), "plan.toml")


def test_a_question_that_is_given_up_ends(folder):
    write_files(folder, timeout=60.0)
    carrier = FakeCarrier(folder, lambda number, name, answer: None)
    nodes = Nodes(carrier, 60.0)
    nodes._named[10] = "north"
    one = NodeParty(nodes, "north")
    one.interrupt()
    with pytest.raises(PartyUnavailableError, match="given up"):
        nodes.ask("north", [b""], one._given_up)
