"""A party that deviates is refused by name, opens nothing twice, and is charged for all that it gets."""

import copy
import os
import pickle
import re
from dataclasses import replace

import pytest

from gbdt_commons.errors import StoreError
from gbdt_commons.store import MemoryStore
from gbdt_parties.curve_group import PointError
from gbdt_parties.errors import (
    AuthenticationError,
    PartyArgumentError,
    PartyRefusedError,
    PartyUnavailableError,
    ProtocolError,
    SumRangeError,
    TransferCheckError,
)
from gbdt_parties.run.engine import carried_out
from gbdt_parties.run.flights.connection import NOTHING, Status
from gbdt_parties.run.flights.frames import HEADER_BYTES, FrameKind
from gbdt_parties.run.flights.kept import EVENTS, Charge, RoundAttempt
from gbdt_parties.two_party.session import Draws
from gbdt_parties.two_party.sides import CHOICES, LAST, SUMS, TABLES
from kept_stores import restarted
from two_party_flights import KEYS, LEDGER, Heard, Killed, Party, layout_of, meet, survive, terms_of, whole

pytest.importorskip("nacl")

ONE_SLOW = [0, pytest.param(1, marks=pytest.mark.slow)]
ONE, TWO = [layout_of()], [layout_of(), layout_of()]


def new_parties(layouts=ONE, **options):
    return [Party(place, layouts, **options) for place in (0, 1)]


def is_of(message, kind, flight=0):
    return message[4] == kind and message[5] == flight


class Changing:
    """A channel of a party that sends something else in the place of some messages.

    Parameters
    ----------
    change : callable
        Gives the messages to send for one.
    """

    def __init__(self, channel, change):
        self._channel, self._change = channel, change
        self.receive, self.hand_over = channel.receive, channel.hand_over

    def send(self, message):
        for one in self._change(message):
            self._channel.send(one)


def deviating(parties, place, kind, flight, change, nth=0):
    """A connection in which a party changes its n-th message of a kind and a flight."""
    seen = [0]

    def changed(message):
        if not is_of(message, kind, flight):
            return [message]
        seen[0] += 1
        return change(message) if seen[0] == nth + 1 else [message]

    outcomes = meet(parties, change=lambda k, channel: Changing(channel, changed) if k == place else channel)
    assert seen[0] > nth
    return outcomes


def flipped(at):
    """A change of one bit."""

    def change(message):
        changed = bytearray(message)
        changed[at] ^= 1
        return [bytes(changed)]

    return change


def has_noised_shares_of(outcome):
    return any(message[4] == FrameKind.SHARES for message in outcome.channel.sent)


@pytest.mark.parametrize("place", ONE_SLOW)
def test_inconsistent_corrections_are_counted_and_three_are_the_last(place):
    """Over connections, processes and runs: the count is in the store."""
    parties = new_parties()
    honest = parties[1 - place]
    for _ in range(3):
        turned = flipped(HEADER_BYTES + 20)
        outcomes = deviating(parties, place, FrameKind.ROUND, CHOICES, turned, nth=1)
        assert isinstance(outcomes[1 - place].error, TransferCheckError)
        assert isinstance(outcomes[place].error, PartyRefusedError)
        assert not has_noised_shares_of(outcomes[1 - place])
        assert honest.n_paid == 0
    outcomes = meet(parties)
    assert isinstance(outcomes[1 - place].error, TransferCheckError)
    assert "failed 3 times" in str(outcomes[1 - place].error)
    # Another run with the same party.
    other_run = [
        Party(k, ONE, store=parties[k].store, terms=terms_of(k, 1, run=b"other".ljust(32, b".")))
        for k in (0, 1)
    ]
    outcomes = meet(other_run)
    assert "failed 3 times" in str(outcomes[1 - place].error)


MESSAGES = [
    (0, FrameKind.GREETING, 0),
    (0, FrameKind.POINTS, 0),
    (0, FrameKind.TREES, 0),
    (0, FrameKind.SEAL, 0),
    (0, FrameKind.BEGIN, 0),
    (0, FrameKind.ROUND, CHOICES),
    (0, FrameKind.ROUND, TABLES),
    (0, FrameKind.SHARES, TABLES),
    (0, FrameKind.SHARES, LAST),
    (0, FrameKind.END, 0),
    (1, FrameKind.ROUND, SUMS),
    (1, FrameKind.SHARES, SUMS),
]


CHANGES = {
    "shorter": (lambda message: [message[:-1]], "bytes|not sign"),
    "longer": (lambda message: [message + b"\0"], "bytes|not sign"),
    "repeated": (lambda message: [message, message], "came where"),
    "attempt": (flipped(6), "attempt"),
}


@pytest.mark.parametrize(
    ("place", "kind", "flight", "change"),
    [
        pytest.param(*message, change, marks=() if (k + n) % 16 == 0 else pytest.mark.slow)
        for k, message in enumerate(MESSAGES)
        for n, change in enumerate(CHANGES)
    ],
)
def test_a_message_that_is_not_the_one_due_is_refused_by_name(place, kind, flight, change):
    """And the run goes on with a party that is honest again."""
    parties = new_parties()
    damage, text = CHANGES[change]
    error = deviating(parties, place, kind, flight, damage)[1 - place].error
    if kind == FrameKind.END and change == "repeated":
        assert error is None
    else:
        assert isinstance(error, ProtocolError)
        assert re.search(text, str(error)), error
    survive(parties, [])


def test_points_off_the_group_are_refused():
    parties = new_parties()

    def off_the_group(message):
        return [message[:HEADER_BYTES] + bytes(len(message) - HEADER_BYTES)]

    outcomes = deviating(parties, 1, FrameKind.POINTS, 0, off_the_group)
    assert isinstance(outcomes[0].error, PointError)
    assert isinstance(outcomes[1].error, PartyRefusedError)


@pytest.mark.parametrize(
    "kind", [FrameKind.GREETING, pytest.param(FrameKind.TREES, marks=pytest.mark.slow), FrameKind.SEAL]
)
def test_messages_of_an_earlier_session_do_not_open_one(kind):
    """One in between sends what it has heard before, in the place of a party's own message."""
    parties = new_parties()
    earlier = [one for one in meet(parties)[1].channel.sent if one[4] == kind]
    parties = new_parties()
    outcomes = deviating(parties, 1, kind, 0, lambda message: [*earlier])
    assert isinstance(outcomes[0].error, ProtocolError)
    assert not has_noised_shares_of(outcomes[0])


def test_a_party_with_another_key_is_refused():
    parties = new_parties()
    stranger = copy.copy(parties[1].terms)
    object.__setattr__(stranger, "signing", KEYS[0])
    parties[1].terms = stranger
    outcomes = meet(parties)
    assert isinstance(outcomes[0].error, AuthenticationError)
    assert str(outcomes[0].error) == "party 'bank' did not sign this side's set-up"
    with pytest.raises(PartyArgumentError, match="private key"):
        replace(terms_of(1), signing=KEYS[0])


def test_a_round_that_is_not_signed_is_not_opened():
    """The last flight of the side with tables, with another signature."""
    parties = new_parties()
    outcomes = deviating(parties, 0, FrameKind.SHARES, LAST, flipped(-1))
    assert isinstance(outcomes[1].error, AuthenticationError)
    assert [party.process().kept.n_opened for party in parties] == [1, 0]
    # What was kept is sent again.
    survive(parties, [])


def test_a_side_that_has_not_signed_the_last_round_gets_no_shares_of_another_one():
    for place in (0, 1):
        parties = new_parties(TWO)
        outcomes = deviating(parties, place, FrameKind.BEGIN, 0, flipped(-1), nth=1)
        assert isinstance(outcomes[1 - place].error, AuthenticationError)
        assert "did not sign this side's round" in str(outcomes[1 - place].error)
        assert parties[1 - place].n_paid == 1


def test_shares_that_were_changed_open_nothing_since_both_sign_the_sums():
    parties = new_parties()
    outcomes = deviating(parties, 0, FrameKind.SHARES, LAST, flipped(HEADER_BYTES))
    assert isinstance(outcomes[1].error, AuthenticationError)
    assert parties[1].process().kept.n_opened == 0
    parties = new_parties()
    # Masked tables are not checked; the transcripts differ.
    outcomes = deviating(parties, 0, FrameKind.ROUND, TABLES, flipped(HEADER_BYTES))
    assert isinstance(outcomes[1].error, AuthenticationError)
    assert parties[1].process().kept.n_opened == 0


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("is_during", [False, True])
def test_a_party_with_an_older_store_is_refused(place, is_during):
    """Its copy was made before the first round, or in the middle of it; the other side has opened it."""
    parties = new_parties(TWO if is_during else ONE)
    if is_during:
        party = parties[place]

        def copied(message):
            if is_of(message, FrameKind.SHARES, SUMS if place else TABLES) and not hasattr(party, "older"):
                party.older = copy.deepcopy(party.store)
            return [message]

        meet(parties, change=lambda k, channel: Changing(channel, copied) if k == place else channel)
    else:
        parties[place].older = MemoryStore()
        survive(parties, [])
    shares = [one.own for one in parties[1 - place].process().kept.all(Charge)]
    parties[place].store = parties[place].older
    outcomes = meet(parties)
    error = outcomes[1 - place].error
    # By its own comparison, and not because the other side says so.
    assert type(error) is ProtocolError
    assert "not of one history" in str(error)
    assert outcomes[place].sums is None
    # Nothing is answered again.
    assert [one.own for one in parties[1 - place].process().kept.all(Charge)] == shares


@pytest.mark.parametrize("place", [0, 1])
def test_a_party_that_has_lost_an_attempt_is_refused_before_the_next_one(place):
    """No round is open, but noise has left: its ledger would have left out the charge."""
    parties = new_parties()
    older = copy.deepcopy(parties[place].store)

    class Lost:
        def __init__(self, channel):
            self.send, self._channel = channel.send, channel
            self.hand_over = channel.hand_over

        def receive(self):
            message = self._channel.receive()
            if is_of(message, FrameKind.SHARES, SUMS):
                raise PartyUnavailableError("the connection is lost")
            return message

    meet(parties, change=lambda k, channel: channel if k else Lost(channel))
    assert [party.n_paid for party in parties] == [1, 1]
    newer, parties[place].store = parties[place].store, older
    outcomes = meet(parties)
    assert type(outcomes[place].error) is ProtocolError
    assert "attempt 1 is charged there, and was not made, or charged, here" in str(outcomes[place].error)
    assert isinstance(outcomes[1 - place].error, PartyRefusedError)
    assert [party.n_paid for party in parties] == [place, 1 - place]
    # With the newer one the run goes on.
    parties[place].store = newer
    survive(parties, [])


def test_other_sums_of_earlier_rounds_stop_the_run():
    """Two histories of equal length: the digests of sums differ."""
    parties, others = new_parties(TWO), new_parties(TWO)
    for pair in (parties, others):
        survive(pair, [])
    parties[1].store = others[1].store
    outcomes = meet(parties)
    assert "the sums of the 2 rounds before, or the roster" in str(outcomes[0].error)


def test_a_side_that_claims_to_have_opened_what_is_not_pending_is_refused():
    """A status with zeros in the place of attempts, signed by its sender."""
    parties = new_parties()
    processes = [party.process() for party in parties]
    forged = Status(1, 1, 0, 0, bytes(32), NOTHING, NOTHING, bytes(64))
    kept = processes[0].kept
    with pytest.MonkeyPatch.context() as patch:
        true = Status.of
        patch.setattr(Status, "of", lambda of: forged if of is kept else true(of))
        outcomes = meet(parties, processes)
    assert type(outcomes[1].error) is ProtocolError
    assert "it is at round 1, and this side at round 0" in str(outcomes[1].error)
    survive(parties, [])


@pytest.mark.parametrize("claimed", [7, 60_000, 65_535])
def test_a_claim_of_too_many_attempts_is_refused_and_not_kept(claimed):
    parties = new_parties()
    assert parties[0].terms.max_attempts == 6
    liar = Party(1, ONE)
    liar.store.append(EVENTS, "", RoundAttempt(0, claimed))
    outcomes = meet([parties[0], liar])
    assert f"claims to have begun attempt {claimed}" in str(outcomes[0].error)
    assert parties[0].process().kept.last_attempt == 0
    survive(parties, [])


@pytest.mark.parametrize("place", ONE_SLOW)
def test_each_noised_share_of_a_round_that_is_abandoned_again_and_again_is_charged(place):
    """A party takes the other one's noised shares and goes away, as often as it can."""
    parties = new_parties()
    honest, got = parties[1 - place], []
    most = honest.terms.max_attempts

    class Gone(Exception):
        pass

    class Leaving:
        def __init__(self, channel):
            self.send, self._channel = channel.send, channel
            self.hand_over = channel.hand_over

        def receive(self):
            message = self._channel.receive()
            if message[4] == FrameKind.SHARES:
                got.append(message[HEADER_BYTES:])
                raise Gone
            return message

    def leave(k, channel):
        return Leaving(channel) if k == place else channel

    for attempt in range(1, most + 1):
        meet(parties, change=leave)
        assert len(got) == len(set(got)) == honest.n_paid == attempt
    outcomes = meet(parties)
    assert f"attempt {most + 1} would be made" in str(outcomes[1 - place].error)
    assert len(got) == honest.n_paid == most
    numbers = [one.number for one in honest.process().kept.all(Charge)]
    assert numbers == list(range(1, most + 1))


def test_sums_out_of_range_are_charged_and_not_opened():
    def refuse(layout, sums):
        assert [one.shape for one in sums] == [(4,), (4,)]
        raise SumRangeError("sums are out of range")

    parties = new_parties()
    parties[0].check = refuse
    outcomes = meet(parties)
    assert isinstance(outcomes[0].error, SumRangeError)
    assert isinstance(outcomes[1].error, PartyRefusedError)
    assert not any(is_of(message, FrameKind.SHARES, LAST) for message in outcomes[0].channel.sent)
    assert [party.process().kept.n_opened for party in parties] == [0, 0]
    assert [party.n_paid for party in parties] == [1, 1]
    parties[0].check = lambda layout, sums: None
    survive(parties, [])
    assert [party.n_paid for party in parties] == [2, 2]


@pytest.mark.parametrize("place", [0, 1])
def test_nothing_noised_leaves_if_a_charge_is_refused(place):
    parties = new_parties()
    party = parties[place]

    def refuse():
        party.store.append(LEDGER, "charges", 1)
        raise ValueError("no budget is left")

    party.pay = refuse
    outcomes = meet(parties)
    assert str(outcomes[place].error) == "no budget is left"
    assert not has_noised_shares_of(outcomes[place])
    assert party.n_paid == 0
    assert party.process().kept.all(Charge) == []
    del party.pay
    survive(parties, [])


@pytest.mark.parametrize(
    ("place", "nth"),
    [
        pytest.param(place, nth, marks=() if nth == 3 or (place, nth) == (0, 4) else pytest.mark.slow)
        for place in (0, 1)
        for nth in (1, 2, 3, 4)
    ],
)
def test_a_full_disk_stops_before_noise_leaves(place, nth):
    """Whatever transaction finds no room: that of the connection, the attempt, the charge or the sums."""
    parties = new_parties()
    events, n_commits = parties[place].events, [0]

    def happens(what, before=events.happens):
        before(what)
        n_commits[0] += what == "before a commit"
        if what == "before a commit" and n_commits[0] == nth:
            raise OSError(28, "No space left on device")

    events.happens = happens
    outcomes = meet(parties)
    assert isinstance(outcomes[place].error, OSError)
    assert has_noised_shares_of(outcomes[place]) == (nth > 3)
    assert parties[place].n_paid == int(nth > 3)
    del events.happens
    survive(parties, [])


def test_two_processes_with_one_store_make_no_attempt_twice():
    """A store in a file lets one process in; in memory, attempts are compared with what is kept."""
    parties = new_parties()
    stale = parties[1].process()
    meet(parties)
    charges = parties[1].process().kept.all(Charge)
    kept = stale.kept
    with pytest.raises(ProtocolError, match="made twice"):
        kept.begin(RoundAttempt(0, 1))
    with pytest.raises(ProtocolError, match="not the latest"):
        kept.charge(charges[0], parties[1].pay)
    assert parties[1].n_paid == 1


def test_an_attempt_is_charged_once_and_only_the_latest():
    parties = new_parties()
    kept = parties[0].process().kept
    kept.begin(RoundAttempt(0, 1))
    outcomes = new_parties()
    meet(outcomes)
    charge = outcomes[0].process().kept.all(Charge)[0]
    kept.charge(charge, parties[0].pay)
    with pytest.raises(ProtocolError, match="was charged before"):
        kept.charge(charge, parties[0].pay)
    kept.begin(RoundAttempt(0, 2))
    with pytest.raises(ProtocolError, match="not the latest"):
        kept.charge(charge, parties[0].pay)
    assert parties[0].n_paid == len(kept.all(Charge)) == 1
    for number in (0, 1, 2):
        with pytest.raises(ProtocolError, match="made twice"):
            kept.begin(RoundAttempt(0, number))
    with pytest.raises(ProtocolError, match="6 attempts together"):
        kept.begin(RoundAttempt(0, 7))


def test_rounds_and_layouts_that_are_not_due_are_refused():
    parties = new_parties(TWO)
    survive(parties, [])
    exchange = parties[0].process()
    with pytest.raises(ProtocolError, match=r"round 2.*2 of 2.*over"):
        carried_out(exchange.round(2, TWO[0], None, None), None)
    with pytest.raises(ProtocolError, match="round -1 was asked"):
        carried_out(exchange.round(-1, TWO[0], None, None), None)
    with pytest.raises(ProtocolError, match=r"round 1.*layout"):
        carried_out(exchange.round(1, layout_of(71), None, None), None)
    swapped = replace(TWO[0], parties=TWO[0].parties[::-1])
    with pytest.raises(PartyArgumentError, match="run"):
        carried_out(exchange.round(0, swapped, None, None), None)
    with pytest.raises(ProtocolError, match=r"0 of 2 rounds.*over"):
        carried_out(new_parties(TWO)[0].process().end(), None)


def test_sides_that_mean_other_layouts_refuse_each_other():
    parties = [Party(0, [layout_of()]), Party(1, [layout_of(71)])]
    outcomes = meet(parties)
    assert "round, attempt or layout is another one" in str(outcomes[0].error)
    assert [party.n_paid for party in parties] == [0, 0]


def test_noise_is_another_one_in_every_attempt_even_if_a_nonce_comes_again():
    """A machine that was copied while it ran gives its nonces twice: the other side's are fresh."""
    noise = []
    for _ in range(2):
        parties = new_parties()
        parties[0].nonce = b"n" * 32
        assert [one.error for one in meet(parties)] == [None, None]
        (given,) = parties[0].inputs.values()
        noise.append(b"".join(words.tobytes() for words in given.noise))
    assert noise[0] != noise[1]


@pytest.mark.parametrize("place", [0, 1])
def test_no_side_can_choose_its_noise_by_its_nonce(place):
    """Before, noise followed from seed and nonces: whoever knew the other's could try its own."""
    noise, other = [], 1 - place
    for seed in (b"3" * 32, b"3" * 32, b"4" * 32):
        parties = new_parties()
        parties[other].terms = terms_of(other, len(ONE), seed=seed)
        for party, nonce in zip(parties, (b"m" * 32, b"n" * 32), strict=True):
            party.nonce = nonce
        assert [one.error for one in meet(parties)] == [None, None]
        (given,) = parties[place].inputs.values()
        noise.append([words.tolist() for words in given.noise])
    # An auditor repeats it; it follows from messages that the other side makes once it knows both nonces.
    assert noise[0] == noise[1] != noise[2]


def test_draws_are_made_once_and_not_copied():
    parties = new_parties()
    found = []

    def inputs(draws):
        assert isinstance(draws, Draws)
        draws.stream(b"noise")
        with pytest.raises(RuntimeError, match="made before"):
            draws.stream(b"noise")
        with pytest.raises(TypeError, match="cannot be copied"):
            copy.copy(draws)
        found.append(draws)
        raise Killed

    parties[0].inputs_of = lambda number: inputs
    meet(parties)
    assert len(found) == 1
    for change in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copied or pickled"):
            change(parties[0].process())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_process_is_refused():
    parties = new_parties()
    processes = [party.process() for party in parties]
    for party in parties:
        party.train = lambda exchange: iter(())
    assert [one.error for one in meet(parties, processes)] == [None, None]
    waiting = whole(parties[0], processes[0], Heard([]))
    assert next(waiting) == FrameKind.GREETING
    child = os.fork()
    if child == 0:
        refused = 0
        for use in (
            lambda: carried_out(processes[0].round(0, ONE[0], None, None), None),
            lambda: carried_out(processes[0].over(None, None), None),
            lambda: waiting.send(b"a greeting"),
        ):
            try:
                use()
            except ProtocolError as error:
                refused += "forked process" in str(error)
        os._exit(5 + refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 8


def test_a_run_in_files_goes_on_after_processes_have_ended(tmp_path):
    parties = [Party(place, TWO, store=restarted(tmp_path / str(place))) for place in (0, 1)]
    for place, event in ((0, 60), (1, 45)):
        for party in parties:
            party.events.n_events, party.events.kill_at = 0, None
        parties[place].events.kill_at = event
        assert isinstance(meet(parties)[place].error, Killed)
        for k, party in enumerate(parties):
            party.store = restarted(tmp_path / str(k))
    survive(parties, [])
    with pytest.raises(StoreError):
        restarted(tmp_path / "0", role="another")
