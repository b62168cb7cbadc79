"""Runs that are beginning, at parties whose process ends after every message."""

import os
from dataclasses import replace

import pytest

import lgb_dp
from federated_training import BINARY, DELTA, NAMES, party
from gbdt_parties import messages
from gbdt_parties.identity.certificates import make_authority, make_certificate
from gbdt_parties.messages import NO_RUN, Abort, Done, Refusal
from gbdt_parties.secure_sum.messages import (
    BEGINNING,
    NEW_RUN,
    BeginRounds,
    ConfirmRoster,
    Endorsed,
    Introduced,
    ProposeRoster,
    Revealed,
    pack,
)
from gbdt_parties.secure_sum.roster import Introduction, Roster
from lgb_dp.federated.coordinator import _agreement
from lgb_dp.federated.task import FederatedTask, OpenPrivateRun, settings_of

REQUEST = FederatedTask({**BINARY}, settings_of(lgb_dp.NewtonBoost(5.0, DELTA)), 4, 5, 1, 3, 1).to_json()


class Asked:
    """Three parties, each of which is made anew from its folder for every message."""

    def __init__(self, folder):
        self.folder, self.run = folder, os.urandom(16)
        make_authority(folder / "ca")
        certified = [make_certificate(folder / f"of {name}", folder / "ca", name) for name in NAMES[:3]]
        self.allowed = [f"sha256:{one.fingerprint}" for one in certified]

    def __call__(self, place, *asked):
        name = NAMES[place]
        tls = self.folder / f"of {name}"
        one = party(place, folder=self.folder / name, tls=tls, allowed=self.allowed)
        session = os.urandom(16)
        try:
            answers = [one.handle(messages.write(session, k, message)) for k, message in enumerate(asked)]
        finally:
            one.close()
        return messages.read(answers[-1]).message

    def opening(self, n_known):
        return OpenPrivateRun(self.run, REQUEST, n_known)

    def all(self, message):
        return [self(place, self.opening(BEGINNING), message) for place in range(3)]

    def introduced(self):
        return [self(place, self.opening(NEW_RUN)) for place in range(3)]

    def roster(self, introduced):
        own = tuple(Introduction.from_bytes(one.introduction) for one in introduced)
        described = [(one.name, given.description) for one, given in zip(own, introduced, strict=True)]
        return Roster(self.run, _agreement(REQUEST, described)[1], own)


@pytest.fixture
def asked(tmp_path):
    return Asked(tmp_path)


def test_a_run_begins_in_processes_that_end_after_every_message(asked):
    introduced = asked.introduced()
    again = asked(0, asked.opening(BEGINNING))
    assert isinstance(again, Introduced)
    assert again.introduction == introduced[0].introduction
    proposal = ProposeRoster("", asked.roster(introduced).to_bytes())
    signed = asked.all(proposal)
    assert {type(one) for one in signed} == {Endorsed}
    revealed = asked.all(ConfirmRoster(pack([one.signature for one in signed])))
    assert {type(one) for one in revealed} == {Revealed}
    begun = asked.all(BeginRounds(pack([one.seed for one in revealed])))
    assert {type(one) for one in begun} == {Done}
    # From now on it is a run, and its beginning is gone.
    assert isinstance(asked(1, asked.opening(0)), Introduced)
    lost = asked(1, asked.opening(BEGINNING))
    assert isinstance(lost, Refusal)
    assert lost.code == NO_RUN


def test_a_party_signs_one_roster_however_often_it_starts(asked):
    introduced = asked.introduced()
    signed = asked.roster(introduced)
    other = replace(signed, introductions=signed.introductions[::-1])
    assert isinstance(asked(0, asked.opening(BEGINNING), ProposeRoster("", signed.to_bytes())), Endorsed)
    refused = asked(0, asked.opening(BEGINNING), ProposeRoster("", other.to_bytes()))
    assert isinstance(refused, Refusal)
    assert "another roster was signed in this run" in refused.reason


def test_one_beginning_is_kept(asked):
    first = asked.run
    asked(0, asked.opening(NEW_RUN))
    asked.run = os.urandom(16)
    asked(0, asked.opening(NEW_RUN))
    assert isinstance(asked(0, asked.opening(BEGINNING)), Introduced)
    asked.run = first
    assert asked(0, asked.opening(BEGINNING)).code == NO_RUN


def test_a_beginning_has_the_settings_that_it_began_with(asked):
    asked(0, asked.opening(NEW_RUN))
    other = replace(asked.opening(BEGINNING), request=REQUEST.replace('"max_depth": 2', '"max_depth": 3'))
    assert "other settings" in asked(0, other).reason
    assert "has not begun" in asked(0, asked.opening(0)).reason or asked(0, asked.opening(0)).code == NO_RUN
    assert isinstance(asked(0, asked.opening(BEGINNING), Abort()), Done)


def test_a_run_that_has_begun_is_no_beginning_again(asked):
    """Kept in both places, its keys would outlive the end of the run, or its removal for newer ones."""
    introduced = asked.introduced()
    signed = asked.all(ProposeRoster("", asked.roster(introduced).to_bytes()))
    confirmed = ConfirmRoster(pack([one.signature for one in signed]))
    revealed = asked.all(confirmed)
    asked.all(BeginRounds(pack([one.seed for one in revealed])))
    again = asked(0, asked.opening(0), confirmed)
    assert isinstance(again, Refusal)
    assert "has begun already" in again.reason
    assert asked(0, asked.opening(BEGINNING)).code == NO_RUN
    assert isinstance(asked(0, asked.opening(0)), Introduced)
