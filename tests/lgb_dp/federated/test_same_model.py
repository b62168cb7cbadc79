"""A coordinator that makes private noise twice for the last sum: no party ends with another model alone."""

import pytest

from disturbed import Between, lost
from federated_training import parties, party, train
from forked_runs import Fork
from gbdt_parties.errors import PartyRefusedError, PartyUnavailableError, ProtocolError, RunLostError
from gbdt_parties.messages import Done
from gbdt_parties.secure_sum.messages import AskModel, AskSum, EndRun, FinishedModel
from gbdt_parties.secure_sum.roster import SignedEnd

N_SUMS = 5
"""Of four rounds: label counts first."""


def second_attempt(place, question, answer, send):
    """Both are charged, as spare attempts are, and have noise of their own."""
    number = question.number + 1
    return number, send(AskSum(question.round, number, question.members, b"")).content


def forked(tmp_path, n_parties=3, victim=1):
    members = [party(k, n_parties, folder=tmp_path / str(k)) for k in range(n_parties)]
    fork = Fork(members, victim, N_SUMS - 1, second_attempt)
    with pytest.raises(ProtocolError, match=r"another.*others"):
        train(fork.relays, 4, min_parties=2)
    return fork, {place: fork.asked(place) for place in range(n_parties)}


def models_in(tmp_path, place):
    return sorted((tmp_path / str(place)).glob("models/*"))


@pytest.mark.parametrize("n_parties", [2, 3])
def test_same_model_for_all_that_end_a_private_run_with_two_last_sums(tmp_path, n_parties):
    fork, ends = forked(tmp_path, n_parties)
    assert len({end.digests for end in ends.values()}) == 2
    assert len({end.transcript for end in ends.values()}) == 2
    for signatures in fork.pretences(1, ends):
        with pytest.raises(PartyRefusedError, match="signed"):
            fork.end(1, signatures)
    assert models_in(tmp_path, 1) == []
    others = {place: end.signature for place, end in ends.items() if place != 1}
    if n_parties == 2:
        with pytest.raises(PartyRefusedError, match=r"2 parties, only \['ada'\].*signed"):
            fork.end(0, others)
        return
    for place in others:
        fork.end(place, others)
        end = SignedEnd.from_json(models_in(tmp_path, place)[0].read_text())
        end.check(2)
        assert [one.name for one in end.signers] == ["ada", "cyd"]


def test_same_model_for_all_though_a_party_is_led_through_the_run_again(tmp_path):
    """Its state outlives restarts: it signs no other end than the one whose signature has left."""
    fork, _ = forked(tmp_path)
    for _ in range(2):
        with pytest.raises(PartyRefusedError, match=r"'bob'.*signed"):
            fork.replayed(1, fork.opened[N_SUMS - 1]).ask(AskModel(0), FinishedModel)
        fork.parties[1].close()
        fork.parties[1] = party(1, folder=tmp_path / "1")
    with pytest.raises(PartyRefusedError, match="signed another end"):
        fork.replayed(1, fork.opened[N_SUMS - 1]).ask(EndRun(b""), Done)
    assert models_in(tmp_path, 1) == []


def test_same_model_for_all_or_a_party_that_signed_twice_is_in_both_ends(tmp_path, monkeypatch):
    """At least two have to sign an end of three parties: the one that convicts itself is in both files."""
    fork, ends = forked(tmp_path)
    with monkeypatch.context() as lying:
        lying.setattr("gbdt_parties.run.log.RunLog.sign_end", lambda *_: None)
        other = fork.replayed(2, fork.other_sum).ask(AskModel(0), FinishedModel)
    assert (other.transcript, other.digests) == (ends[1].transcript, ends[1].digests)
    fork.end(0, {0: ends[0].signature, 2: ends[2].signature})
    fork.end(1, {1: ends[1].signature, 2: other.signature})
    one, another = (SignedEnd.from_json(models_in(tmp_path, k)[0].read_text()) for k in (0, 1))
    assert one.roster == another.roster
    assert one.message != another.message
    for end in (one, another):
        end.check(2)
    assert set(one.signers) & set(another.signers) == {one.roster.introductions[2]}


def test_same_model_for_all_of_a_private_run_that_is_split_up(tmp_path):
    """Half of the parties can go on with sums, but not end: the other half could end with others."""
    members = [Between(party(k, 4, folder=tmp_path / str(k))) for k in range(4)]
    for member in members[2:]:
        member.disturb = lambda number, message, send: send() if number <= 4 else lost()
    with pytest.raises(PartyUnavailableError, match=r"\['ada', 'bob'\] are left.*3"):
        train(members, 4, min_parties=2)
    assert not any(isinstance(asked, AskModel) for asked, _ in members[0].answers)
    assert models_in(tmp_path, 0) == []


def test_a_run_goes_no_further_when_too_few_are_left_to_sign_its_end():
    """Nothing more is asked, and charged: without folders, two of four have forgotten the run."""
    members = [Between(party(k, 4)) for k in range(4)]

    def forget(place):
        def disturb(number, message, send):
            if number == 6:
                members[place].party = party(place, 4)
                lost()
            return send()

        return disturb

    members[2].disturb, members[3].disturb = forget(2), forget(3)
    with pytest.raises(RunLostError, match=r"'dan'.*know"):
        train(members, 4, min_parties=2)
    assert max(asked.round for asked, _ in members[0].answers if isinstance(asked, AskSum)) == 1


def test_same_model_for_all_with_the_signatures_of_those_that_were_there(tmp_path):
    members = [Between(party(k, folder=tmp_path / str(k))) for k in range(3)]
    members[1].disturb = lambda number, message, send: lost() if isinstance(message, AskModel) else send()
    booster = train(members, 4)
    end = SignedEnd.from_json(booster.signatures)
    end.check(2)
    assert [one.name for one in end.signers] == ["ada", "cyd"]
    for place in (0, 2):
        signatures, model = models_in(tmp_path, place)
        assert model.read_text() == booster.model_to_string(num_iteration=-1)
        assert SignedEnd.from_json(signatures.read_text()) == end
    assert models_in(tmp_path, 1) == []


def test_messages_grow_by_the_signatures_of_the_end():
    """Each answer about the model by a transcript and a signature, the end by one signature of each party."""
    members = [Between(one) for one in parties()]
    train(members, 1)
    asked = [answer for asked, answer in members[1].answers if isinstance(asked, AskModel)]
    assert [(len(one.digests), len(one.transcript), len(one.signature), one.content) for one in asked] == [
        (32, 32, 64, b"")
    ]
    (end,) = [asked for asked, _ in members[1].answers if isinstance(asked, EndRun)]
    assert len(end.signatures) == 3 * (8 + 64)
