"""A party that signs two vectors for the last sum, and a coordinator: no party ends with another model."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from disturbed import Between, lost
from exact_training import N_SUMS, parties, party, text_of, train
from forked_runs import Fork
from gbdt_parties import patience
from gbdt_parties.errors import PartyRefusedError, PartyUnavailableError, ProtocolError
from gbdt_parties.messages import read, write
from gbdt_parties.secure_sum.contributions import SecureSession
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.messages import AskModel, EndRun, FinishedModel
from gbdt_parties.secure_sum.roster import SignedEnd
from xgb_fed import InvalidArgumentError


@pytest.fixture
def fork(monkeypatch):
    """Two ends of a run: ada's and cyd's, and bob's, who is shown another vector of cyd."""
    contribute, other = SecureSession.contribute, {}

    def contributed(self, attempt, ring, values):
        if self.place == 2:
            shifted = values.copy().reshape(-1)
            shifted[::2] += np.uint64(1 << 60)
            other[attempt.round] = contribute(self, attempt, ring, shifted.reshape(values.shape))
        return contribute(self, attempt, ring, values)

    monkeypatch.setattr(SecureSession, "contribute", contributed)

    def another(place, question, answer, send):
        return question.number, other[question.round] if place == 2 else answer.content

    forked = Fork(parties(), 1, N_SUMS - 1, another)
    with pytest.raises(ProtocolError, match=r"'bob'.*others"):
        train(forked.relays)
    return forked


def test_same_model_for_all_that_end_an_exact_run_with_two_vectors_of_a_party(fork):
    ends = {place: fork.asked(place) for place in range(3)}
    assert ends[1].digests != ends[0].digests == ends[2].digests
    for place in range(2):
        for signatures in fork.pretences(place, ends):
            with pytest.raises(PartyRefusedError, match="signed"):
                fork.end(place, signatures)
        with pytest.raises(InvalidArgumentError):
            fork.parties[place].get_booster()


def test_same_model_for_all_of_an_exact_run_though_a_party_signs_both_ends(fork, monkeypatch):
    """Every party has to sign: an honest one's signature is missing on either end."""
    ends = {place: fork.asked(place) for place in range(3)}
    monkeypatch.setattr("gbdt_parties.run.log.RunLog.sign_end", lambda *_: None)
    other = fork.replayed(2, fork.other_sum).ask(AskModel(0), FinishedModel)
    assert other.transcript == ends[1].transcript
    with pytest.raises(PartyRefusedError, match=r"only \['bob', 'cyd'\] have signed"):
        fork.end(1, {1: ends[1].signature, 2: other.signature})
    with pytest.raises(PartyRefusedError, match=r"'bob'.*signed this end"):
        fork.end(0, {place: end.signature for place, end in ends.items()})


def test_same_model_for_all_is_what_the_coordinator_checks_itself():
    """Who stands between a party and it cannot answer about the model in the party's place."""

    def forged(number, message, send):
        answer = read(send())
        if not isinstance(answer.message, FinishedModel):
            return write(answer.session, answer.sequence, answer.message)
        signature = SessionKeys().signing.sign(answer.message.digests)
        return write(answer.session, answer.sequence, replace(answer.message, signature=signature))

    members = [Between(one) for one in parties()]
    members[1].disturb = forged
    with pytest.raises(ProtocolError, match=r"'bob'.*signed"):
        train(members)
    assert not any(isinstance(asked, EndRun) for one in members for asked, _ in one.answers)


def test_same_model_for_all_after_stops_between_signatures_and_end(tmp_path, monkeypatch):
    """A party that signed is restarted, and the coordinator taken up again: the same end, signed alike."""
    monkeypatch.setattr(patience, "SECONDS_BETWEEN_TRIES", 0.001)
    members, down = [Between(one) for one in parties(tmp_path)], []

    def stopped(number, message, send):
        if isinstance(message, AskModel):
            down.append(send())
            members[1].party.close()
            members[1].party = party(1, tmp_path)
        return lost() if down else send()

    members[1].disturb = stopped
    with pytest.raises(PartyUnavailableError, match="at least 3"):
        train(members, checkpoint=tmp_path / "progress")
    assert not any(isinstance(asked, EndRun) for one in members for asked, _ in one.answers)
    members[1].disturb = lambda number, message, send: send()
    model = train(members, checkpoint=tmp_path / "progress")
    signed = [answer for asked, answer in members[1].answers if isinstance(asked, AskModel)]
    assert len(signed) == 2
    assert len({(one.transcript, one.digests, one.signature) for one in signed}) == 1
    end = SignedEnd.from_json(model.signatures)
    end.check(3)
    assert end.digests[0] == hashlib.sha256(model.as_json()).digest()
    assert train(members, checkpoint=tmp_path / "progress").signatures == model.signatures
    assert {bytes(one.party.get_booster().save_raw("json")) for one in members} == {text_of(model)}
