"""Base transfers: keys as agreed on, beside the curve in plain integers; points that are refused."""

import os

import numpy as np
import pytest

import edwards
from gbdt_commons.key_stream import KeyStream
from gbdt_parties.curve_group import PointError, hash_to_group, subtract
from gbdt_parties.errors import ProtocolError
from gbdt_parties.two_party.base_transfers import BaseReceiver, BaseSender
from two_party_oracle import base_key, base_points
from two_party_sides import CONTEXT

pytest.importorskip("nacl")


@pytest.fixture(scope="module", autouse=True)
def group():
    """The curve itself."""


def parties(choices, context=CONTEXT):
    receiver = BaseReceiver(context, np.array(choices, np.uint8), KeyStream(b"r" * 32))
    return receiver, BaseSender(CONTEXT, KeyStream(b"s" * 32))


def test_the_receiver_has_the_chosen_keys_and_not_the_others():
    choices = [0, 1, 1, 0, 1]
    receiver, sender = parties(choices)
    pairs = sender.keys(receiver.message, 5)
    chosen = receiver.keys(sender.message)
    assert chosen == [pair[c] for pair, c in zip(pairs, choices, strict=True)]
    keys = {key for pair in pairs for key in pair}
    assert len(keys) == 10
    assert {len(key) for key in keys} == {16}


def test_points_and_keys_are_those_of_the_curve_in_integers():
    choices = [1, 0, 1]
    receiver, sender = parties(choices)
    words = KeyStream(b"r" * 32).words(6 * 4).astype("<u8").tobytes()
    scalars = [8 * (int.from_bytes(words[k : k + 32], "little") >> 4) for k in range(0, len(words), 32)]
    octets = KeyStream(b"s" * 32).words(4).astype("<u8").tobytes()
    a = 8 * (int.from_bytes(octets, "little") >> 4)
    point = edwards.encoded(edwards.times(a, edwards.GENERATOR))
    assert sender.message == point
    expected, chosen, both = b"", [], []
    for i, c in enumerate(choices):

        def hashed(side, stranger, i=i):
            text = i.to_bytes(2, "little") + bytes([side]) + stranger
            return edwards.decoded(hash_to_group([b"veilboost base transfer point 1", CONTEXT], [text]))

        pair = base_points(c, scalars[i], scalars[3 + i], hashed)
        expected += b"".join(pair)
        bodies = [edwards.add(edwards.decoded(pair[j]), hashed(j, pair[1 - j])) for j in (0, 1)]
        secrets = [edwards.encoded(edwards.times(a, body)) for body in bodies]
        both.append(tuple(base_key(CONTEXT, i, j, point, pair, secrets[j]) for j in (0, 1)))
        shared = edwards.encoded(edwards.times(scalars[i], edwards.decoded(point)))
        chosen.append(base_key(CONTEXT, i, c, point, pair, shared))
    assert receiver.message == expected
    assert receiver.keys(sender.message) == chosen
    assert sender.keys(receiver.message, 3) == both


def test_the_message_does_not_show_the_choice():
    """Both points of either choice are drawn: no fixed bit tells them apart in many runs."""
    seen = {0: [], 1: []}
    for k in range(40):
        for c in (0, 1):
            stream = KeyStream(bytes([k, c]) * 16)
            message = BaseReceiver(CONTEXT, np.array([c], np.uint8), stream).message
            seen[c].append(np.unpackbits(np.frombuffer(message, np.uint8)))
    difference = np.abs(np.mean(seen[0], axis=0) - np.mean(seen[1], axis=0))
    assert difference.max() < 0.55


def test_other_contexts_give_other_keys():
    receiver, sender = parties([0, 1], context=b"other".ljust(32))
    pairs = sender.keys(receiver.message, 2)
    assert not set(receiver.keys(sender.message)) & {key for pair in pairs for key in pair}


@pytest.mark.parametrize("octets", [bytes(32), edwards.encoded(edwards.NEUTRAL), b"\xff" * 32])
def test_points_off_the_group_are_refused(octets):
    receiver, sender = parties([0, 1])
    with pytest.raises(PointError):
        receiver.keys(octets)
    with pytest.raises(PointError, match="point 3 of 4"):
        sender.keys(receiver.message[:64] + octets + receiver.message[96:], 2)


@pytest.mark.parametrize("k", range(1, 8))
def test_points_of_mixed_order_are_refused(k):
    receiver, sender = parties([0])
    mixed = edwards.encoded(edwards.add(edwards.GENERATOR, edwards.TORSION[k]))
    with pytest.raises(PointError):
        receiver.keys(mixed)
    with pytest.raises(PointError):
        sender.keys(receiver.message[:32] + mixed, 1)


def test_a_pair_made_so_that_a_key_is_known_without_a_secret_is_refused():
    """r_0 = −HG(0, 0, r_1): the sender's first key would be a hash of the neutral element."""
    sender = BaseSender(CONTEXT, KeyStream(os.urandom(32)))
    stranger = edwards.encoded(edwards.GENERATOR)
    hashed = hash_to_group([b"veilboost base transfer point 1", CONTEXT], [bytes(3) + stranger])
    neutral = subtract(stranger, stranger)
    with pytest.raises(PointError):
        sender.keys(subtract(neutral, hashed) + stranger, 1)


def test_wrong_lengths_are_refused():
    receiver, sender = parties([0, 1])
    with pytest.raises(ProtocolError, match=r"96 bytes.*transfers where 128"):
        sender.keys(receiver.message[:-32], 2)
    with pytest.raises(ProtocolError, match="has 33 bytes, not 32"):
        receiver.keys(sender.message + b"\0")
