"""The coordinator: one that is killed goes on, parties elsewhere are asked at once, and it waits for some."""

import threading
from itertools import count

import pytest

from disturbed import Between, lost
from federated_training import charges, parties, train
from gbdt_parties import patience
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.run.progress import STORE_FILE, Checkpoint
from gbdt_parties.secure_sum.messages import AskSum, OpenSum
from lgb_dp.errors import FederatedCheckpointError, InvalidArgumentError
from toy_federation import answers_by_attempt, toy_runs

__all__ = ["toy_runs"]
N_ROUNDS = 4


class Killed(BaseException):
    """The coordinator's process ends here."""


def members_with(disturb, n_parties=3):
    return [Between(one, disturb) for one in parties(n_parties)]


def killed_at(call, after):
    """The coordinator is killed at a call, before or after the party has answered it."""
    calls = count(1)

    def disturb(number, message, send):
        if next(calls) != call:
            return send()
        if after:
            send()
        raise Killed

    return disturb


@pytest.mark.parametrize("after", [False, True])
def test_a_coordinator_killed_at_any_call_goes_on_and_nothing_is_charged_twice(after, tmp_path):
    outcomes = []
    for call in range(1 + after, 100, 2):
        members = members_with(killed_at(call, after))
        folder = tmp_path / str(call)
        try:
            train(members, N_ROUNDS, checkpoint=folder)
            break
        except Killed:
            pass
        model = train(members, N_ROUNDS, checkpoint=folder)
        for member in members:
            given = answers_by_attempt(member)
            assert all(len(contents) == 1 for contents in given.values()), call
            # The attempt that was under way is finished, not made anew.
            assert sorted(given) == sorted(one["number"] for one in charges(member.party)), call
            assert len(given) == N_ROUNDS, call
        outcomes.append(model.text)
        # The model is there until the folder is removed.
        n_calls = [member.calls for member in members]
        assert train(members, N_ROUNDS, checkpoint=folder).text == model.text
        assert [member.calls for member in members] == n_calls
    assert call > 30
    assert len(outcomes) == (call - 1) // 2


def test_a_coordinator_taken_up_without_a_party_makes_another_attempt(tmp_path):
    calls = count(1)

    def killed_once(number, message, send):
        if isinstance(message, AskSum) and message.round == 2 and next(calls) == 3:
            send()
            raise Killed
        return send()

    members = members_with(killed_once)
    with pytest.raises(Killed):
        train(members, N_ROUNDS, checkpoint=tmp_path)
    members[1].disturb = lost
    train(members, N_ROUNDS, checkpoint=tmp_path)
    numbers = [[one["number"] for one in charges(member.party)] for member in members]
    assert numbers == [[1, 2, 3, 2**32 + 1, 2**32 + 2], [1, 2, 3], [1, 2, 3, 2**32 + 1, 2**32 + 2]]


def test_a_checkpoint_is_of_one_run_and_of_one_process_at_a_time(tmp_path):
    train(members_with(None), N_ROUNDS, checkpoint=tmp_path)
    with pytest.raises(FederatedCheckpointError, match="data, parameters"):
        train(members_with(None), N_ROUNDS + 1, checkpoint=tmp_path)
    with pytest.raises(FederatedCheckpointError, match="data, parameters"):
        train(members_with(None, 2), N_ROUNDS, checkpoint=tmp_path)
    with (
        Checkpoint(tmp_path, FederatedCheckpointError).opened(),
        pytest.raises(FederatedCheckpointError, match="in use"),
    ):
        train(members_with(None), N_ROUNDS, checkpoint=tmp_path)
    content = bytearray((tmp_path / STORE_FILE).read_bytes())
    content[60] ^= 1
    (tmp_path / STORE_FILE).write_bytes(content)
    with pytest.raises(FederatedCheckpointError, match="cannot be read"):
        train(members_with(None), N_ROUNDS, checkpoint=tmp_path)


def test_a_run_waits_for_a_party_that_it_cannot_do_without(monkeypatch):
    monkeypatch.setattr(patience, "SECONDS_BETWEEN_TRIES", 1e-3)
    calls = count(1)

    def away(number, message, send):
        if isinstance(message, AskSum) and message.round == 1 and next(calls) < 8:
            send()
            lost()
        return send()

    members = members_with(None)
    members[2].disturb = away
    train(members, N_ROUNDS, min_parties=3, patience=60.0)
    # The same attempt with the same members: asked again, charged once.
    assert [len(charges(member.party)) for member in members] == [N_ROUNDS] * 3
    members = members_with(None)
    members[2].disturb = lambda number, message, send: lost() if isinstance(message, AskSum) else send()
    with pytest.raises(PartyUnavailableError, match=r"only \['ada', 'bob'\] are left"):
        train(members, N_ROUNDS, min_parties=3, patience=0.05)


@pytest.mark.parametrize("patience", [-1.0, float("inf"), "soon"])
def test_patience_is_a_number_of_seconds(patience):
    with pytest.raises(InvalidArgumentError, match="patience"):
        train(members_with(None), patience=patience)


class Elsewhere(Between):
    """A party that works while others are asked."""

    def interrupt(self):
        """Nothing is under way for long."""


def test_parties_elsewhere_are_asked_at_once():
    together = threading.Barrier(3)

    def meet(number, message, send):
        if isinstance(message, AskSum):
            together.wait(60)  # until all three are being asked
        return send()

    members = [Elsewhere(one, meet) for one in parties(3)]
    train(members, N_ROUNDS)
    assert [len(charges(member.party)) for member in members] == [N_ROUNDS] * 3


def test_training_goes_on_while_a_party_elsewhere_is_being_reached():
    """It is lost in the second round, comes back late, and is sent what it has missed."""
    others_are_done, came_back = threading.Event(), threading.Event()
    asked = []

    def slow(number, message, send):
        if isinstance(message, AskSum) and message.round == 1:
            asked.append(number)
            lost()
        if asked and number > asked[0] + 1 and not came_back.is_set():
            assert others_are_done.wait(60)
            came_back.set()
        return send()

    def others(number, message, send):
        if isinstance(message, AskSum) and message.round == 5:
            others_are_done.set()
            assert came_back.wait(60)
        return send()

    members = [Elsewhere(one, others) for one in parties(3)]
    members[2].disturb = slow
    train(members, 40)
    attempted = [one["round"] for one in charges(members[2].party)]
    assert attempted[0] == 0
    assert not set(attempted) & set(range(1, 6))
    kinds = [type(message) for message, _ in members[2].answers]
    assert (OpenSum in kinds) == (len(attempted) > 1)
