"""Sessions: both sides agree, an auditor repeats every byte, and what is out of order ends them."""

import copy
import os

import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from gbdt_commons.key_stream import KeyStream
from gbdt_parties.errors import PartyArgumentError, ProtocolError, TransferCheckError
from gbdt_parties.two_party.extension import Batch
from gbdt_parties.two_party.life import Failures
from gbdt_parties.two_party.names import Seat, Step
from gbdt_parties.two_party.session import Draws, Session
from two_party_oracle import prefixed
from two_party_sides import RUN, A, B, sessions

pytest.importorskip("nacl")

BATCH = Batch(Step(1, 0, 1), 0)
SEEDS = b"1" * 32, b"2" * 32


def new(own=A, other=B, seed=SEEDS[0], run=RUN, failures=None, nonce=None):
    return Session(run, own, other, seed, failures or Failures(), nonce)


def conversation(one, other):
    """All messages of a set-up, each way."""
    greetings = one.greeting, other.greeting
    points = one.take_greeting(greetings[1]), other.take_greeting(greetings[0])
    trees = one.take_points(points[1]), other.take_points(points[0])
    one.take_trees(trees[1])
    other.take_trees(trees[0])
    return greetings, points, trees


def test_transfers_go_in_both_directions():
    one, other = sessions()
    assert one.digest == other.digest
    assert (one.sending, one.receiving) == (other.receiving, other.sending)
    for receiver, sender in ((one.receiver, other.sender), (other.receiver, one.sender)):
        choices = np.frombuffer(os.urandom(16), np.uint64)
        t, message = receiver.extend(BATCH, choices, KeyStream())
        q = sender.extend(BATCH, 2, message)
        bits = np.unpackbits(choices.view(np.uint8), bitorder="little")[:, None].astype(np.uint64)
        assert (t == q ^ bits * sender.difference).all()
    assert (one.sender.difference != other.sender.difference).any()


def test_an_auditor_repeats_every_byte_of_a_side():
    one, other = new(), new(B, A, SEEDS[1])
    said = conversation(one, other)
    again = new(nonce=one.nonce)
    repeated = again.greeting, again.take_greeting(said[0][1]), again.take_points(said[1][1])
    assert repeated == tuple(pair[0] for pair in said)
    again.take_trees(said[2][1])
    assert (again.sender.difference == one.sender.difference).all()


def test_the_same_seeds_make_other_sessions():
    """A nonce of either side is enough for other keys everywhere."""
    one, other = sessions()
    again, fresh = sessions(nonces=(one.nonce, None))
    assert again.nonce == one.nonce
    assert fresh.nonce != other.nonce
    assert again.digest != one.digest
    assert (again.sender.difference != one.sender.difference).all()


def test_lengths_depend_on_nothing():
    lengths = set()
    for _ in range(2):
        seeds = os.urandom(32), os.urandom(32)
        said = conversation(new(seed=seeds[0]), new(B, A, seeds[1]))
        lengths.add(tuple(len(text) for pair in said for text in pair))
    assert lengths == {(40, 40, 8192, 8192, 4160, 4160)}


@pytest.mark.parametrize(
    ("own", "other", "run"),
    [(B, A, b"another run".ljust(32)), (Seat(2, B.key), A, RUN), (Seat(1, b"c" * 32), A, RUN)],
)
def test_sides_that_mean_another_session_do_not_open_one(own, other, run):
    one, stranger = new(), new(own, other, SEEDS[1], run)
    points = one.take_greeting(stranger.greeting), stranger.take_greeting(one.greeting)
    trees = one.take_points(points[1]), stranger.take_points(points[0])
    with pytest.raises(TransferCheckError, match="trees of seeds"):
        one.take_trees(trees[1])


@pytest.mark.parametrize("twin", [Seat(0, b"b" * 32), Seat(1, A.key)])
def test_twins_begin_no_session(twin):
    with pytest.raises(PartyArgumentError, match=r"two.*differ"):
        new(other=twin)


def test_a_greeting_begins_with_the_versions_of_all_parts():
    one = new()
    assert one.greeting == b"VB2P\1\1\1\0" + one.nonce


def test_greetings_that_do_not_fit_end_the_session():
    for change in (
        lambda text: b"XXXX" + text[4:],
        lambda text: text[:4] + b"\2" + text[5:],
        lambda text: text[:5] + b"\2" + text[6:],
        lambda text: text[:6] + b"\0" + text[7:],
        lambda text: text[:-1],
        lambda text: text + b"\0",
    ):
        one, other = new(), new(B, A, SEEDS[1])
        with pytest.raises(ProtocolError, match=r"version|greeting"):
            one.take_greeting(change(other.greeting))
        with pytest.raises(ProtocolError, match="is over"):
            one.take_greeting(other.greeting)


def test_a_reflected_greeting_is_refused():
    one = new()
    with pytest.raises(ProtocolError, match="side's nonce back"):
        one.take_greeting(one.greeting)


def test_messages_out_of_order_end_the_session():
    one, other = new(), new(B, A, SEEDS[1])
    with pytest.raises(ProtocolError, match=r"message 2.*stage 1"):
        one.take_points(bytes(8192))
    with pytest.raises(ProtocolError, match="is over"):
        one.take_greeting(other.greeting)
    one, other = new(), new(B, A, SEEDS[1])
    one.take_greeting(other.greeting)
    with pytest.raises(ProtocolError, match=r"message 1.*stage 2"):
        one.take_greeting(other.greeting)


def test_points_and_trees_that_are_none_end_the_session():
    one, other = new(), new(B, A, SEEDS[1])
    points = one.take_greeting(other.greeting), other.take_greeting(one.greeting)
    with pytest.raises(ProtocolError, match=r"point.*prime-order"):
        one.take_points(bytes(32) + points[1][32:])
    with pytest.raises(ProtocolError, match="set-up failed with PointError"):
        one.take_points(points[1])
    trees = other.take_points(points[0])
    again = new()
    with pytest.raises(ProtocolError, match=r"transfers where 8192.*due"):
        again.take_greeting(other.greeting), again.take_points(points[1][:-32])
    assert len(trees) == 4160


@pytest.mark.parametrize("at", [40, 2000, -40, -1])
def test_changed_trees_end_the_session_or_change_nothing(at):
    """A bit of a correction may be one that this side has no use for: then it passes, and all is well."""
    failures = Failures()
    one, other = new(failures=failures), new(B, A, SEEDS[1])
    points = one.take_greeting(other.greeting), other.take_greeting(one.greeting)
    one.take_points(points[1])
    bad = bytearray(other.take_points(points[0]))
    bad[at] ^= 1
    try:
        one.take_trees(bytes(bad))
    except TransferCheckError:
        assert failures.count == 1
    else:
        assert failures.count == 0
        assert at in (40, 2000)
        t, message = other.receiver.extend(BATCH, np.zeros(1, np.uint64), KeyStream())
        assert (one.sender.extend(BATCH, 1, message) == t).all()


def test_attempts_go_forward_only():
    one, _ = sessions()
    one.begin(3, 1)
    for number, attempt in ((3, 1), (3, 0), (2, 9)):
        with pytest.raises(ProtocolError, match=f"attempt {attempt}.*{number}.*attempt 1"):
            one.begin(number, attempt)
    one.begin(3, 2)
    one.begin(4, 0)
    with pytest.raises(ProtocolError, match="not open yet"):
        new().begin(0, 0)


def test_after_three_failures_there_is_no_session():
    with pytest.raises(TransferCheckError, match="failed 3 times"):
        new(failures=Failures(3))


def test_a_session_is_not_copied():
    one, _ = sessions()
    for repeat in (copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied"):
            repeat(one)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_has_no_session():
    one, _ = sessions()
    child = os.fork()
    if child == 0:
        code = 0
        for attempt in (
            lambda: one.begin(1, 0),
            lambda: one.receiver.extend(BATCH, np.zeros(1, np.uint64), KeyStream()),
        ):
            try:
                attempt()
            except ProtocolError as error:
                code += "forked process" in str(error)
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


SEED, NONCE = b"s" * 32, b"n" * 32


def test_seed_and_nonce_repeat_every_byte():
    first = Draws(SEED)
    octets = first.octets(100, b"purpose")
    assert Draws(SEED, first.nonce).octets(100, b"purpose") == octets
    assert Draws(SEED).octets(100, b"purpose") != octets
    assert Draws(b"t" * 32, first.nonce).octets(100, b"purpose") != octets


def test_draws_are_chacha_under_hkdf():
    info = prefixed(b"veilboost two-party draws 1", b"some", b"purpose")
    key = HKDF(hashes.SHA256(), 32, salt=NONCE, info=info).derive(SEED)
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor().update(bytes(40))
    assert Draws(SEED, NONCE).octets(37, b"some", b"purpose") == stream[:37]


def test_a_purpose_is_drawn_for_once():
    draws = Draws(SEED, NONCE)
    assert draws.octets(8, b"ab", b"c") != draws.octets(8, b"a", b"bc")
    with pytest.raises(RuntimeError, match="made before"):
        draws.stream(b"ab", b"c")


@pytest.mark.parametrize(("seed", "nonce"), [(b"short", NONCE), (SEED, b"short")])
def test_lengths_are_checked(seed, nonce):
    with pytest.raises(PartyArgumentError, match="must have 32"):
        Draws(seed, nonce)


def test_as_many_octets_as_asked_for():
    draws = Draws(SEED, NONCE)
    for count in (0, 1, 7, 8, 9, 63, 64, 65, 72, 1000):
        assert len(draws.octets(count, b"%d" % count)) == count
