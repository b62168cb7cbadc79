"""Keys that give the secrets of another key: what a party announces to make a mask cancel at another's.

X25519 drops a key's top bit, and multiplies by multiples of 8: points that differ by one whose order
divides 8 give the same secret with everybody.  Of every key there are eight such points on the
curve, or four on its twist; adding (0, 0), the one of order 2, turns u into 1 / u.
"""

import os
import struct
from dataclasses import replace

import numpy as np

from gbdt_parties.channel import Channel
from gbdt_parties.messages import Done
from gbdt_parties.secure_sum.contributions import SIGNATURE_BYTES
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.messages import (
    AskSum,
    BeginRounds,
    ConfirmRoster,
    Contributed,
    Endorsed,
    Revealed,
    pack,
)
from gbdt_parties.secure_sum.rings import MODULO_64, MODULO_128
from gbdt_parties.secure_sum.roster import Introduction, Roster
from gbdt_parties.traffic import Traffic

P = 2**255 - 19
A = 486662


def to_key(u):
    return (u % P).to_bytes(32, "little")


def to_u(key):
    return int.from_bytes(key, "little") % 2**255 % P


def with_top_bit(key):
    """Other bytes, the same number for X25519."""
    return key[:31] + bytes([key[31] ^ 0x80])


def inverse(key):
    """Another number, in canonical form, and the same secrets."""
    return to_key(pow(to_u(key), -1, P))


TWINS = {"top bit": with_top_bit, "inverse": inverse}


def _root(square):
    """A square root modulo p, or None."""
    root = pow(square, (P + 3) // 8, P)
    if root * root % P != square % P:
        root = root * pow(2, (P - 1) // 4, P) % P
    return root if root * root % P == square % P else None


def _u_of_order_8():
    """All u of points whose order divides 8, on the curve or its twist, but for the neutral one."""
    found = {0, 1, P - 1}
    for u4 in (1, -1):
        root = _root(2 + u4 * A)
        for sign in (1, -1) if root is not None else ():
            w = (2 * u4 + sign * 2 * root) % P  # u + 1 / u
            half = _root(w * w - 4)
            if half is not None:
                found |= {(w + half) * pow(2, -1, P) % P, (w - half) * pow(2, -1, P) % P}
    return sorted(found)


SMALL = [to_key(u) for u in _u_of_order_8()]
"""Canonical keys with which every secret is zero."""


def all_twins(key):
    """Every canonical key with the same secrets, but for the key itself.

    The point is (u, 1) on b v² = u³ + A u² + u with b the right side, which is the curve or its twist.
    """
    u = to_u(key)
    b = (u**3 + A * u * u + u) % P
    twins = set()
    for own in map(to_u, SMALL):
        v = _root((own**3 + A * own * own + own) * pow(b, -1, P))
        for sign in (1, -1) if v is not None else ():
            slope = (sign * v - 1) * pow(own - u, -1, P)
            twins.add(to_key(b * slope * slope - A - u - own))
    return sorted(twins - {to_key(u)})


class Twin:
    """A coordinator that takes part as a third party, under a key made of the first party's.

    Parameters
    ----------
    parties : sequence of Party
        The two that are attacked.
    name : str
        Its own, that of its certificate.
    credentials : Credentials
    derive : callable
        Makes the key of another one.
    """

    def __init__(self, parties, name, credentials, derive):
        self._channels = [Channel(party, os.urandom(16), Traffic(), "coordinator") for party in parties]
        self._name, self._credentials, self._derive = name, credentials, derive
        self._keys = SessionKeys()

    def introduced(self, opening, answer):
        """What the two say of themselves."""
        self._answers = [channel.ask(opening, answer) for channel in self._channels]
        return self._answers

    def roster(self, session, statement):
        """The two, and this one with its twin key."""
        own = [Introduction.from_bytes(answer.introduction) for answer in self._answers]
        key = self._derive(own[0].exchange_key)
        self._own = replace(Introduction.of(self._name, self._credentials, self._keys), exchange_key=key)
        self._roster = Roster(session, statement, (*own, self._own))
        return self._roster

    def first_vectors(self, proposal):
        """What the two send as their masked vectors for the first sum, as integers."""
        signatures = [channel.ask(proposal, Endorsed).signature for channel in self._channels]
        signatures.append(self._credentials.sign(self._roster.digest))
        confirmation = ConfirmRoster(pack(signatures))
        seeds = [channel.ask(confirmation, Revealed).seed for channel in self._channels] + [self._keys.seed]
        for channel in self._channels:
            channel.ask(BeginRounds(pack(seeds)), Done)
        question = AskSum(0, 1, np.arange(3, dtype=np.int32), b"")
        return [_numbers(channel.ask(question, Contributed).content) for channel in self._channels]


def _numbers(content):
    """The values of a contribution, modulo 2^64 or 2^128, as they are in it."""
    _, bits, count = struct.unpack_from("<HHQ", content)
    ring = {one.bits: one for one in (MODULO_64, MODULO_128)}[bits]
    values = ring.from_bytes(content[12:-SIGNATURE_BYTES])
    assert len(values) == count
    return [abs(int(value)) for value in ring.centred(values, 2 ** (bits - 1))]


def are_masked(vector):
    """Whether no number of a vector is as small as what parties count; all but one in 2^20 masks are."""
    return min(vector) > 2**43
