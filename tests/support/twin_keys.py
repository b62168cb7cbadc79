"""Keys that give the secrets of another key: what a party announces to make a mask cancel at another's.

X25519 drops a key's top bit, and multiplies by multiples of 8: points that differ by one whose order
divides 8 give the same secret with everybody.  Of every key there are eight such points on the
curve, or four on its twist; adding (0, 0), the one of order 2, turns u into 1 / u.
"""

import os
import struct
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np
import pytest

from gbdt_parties.channel import Channel
from gbdt_parties.errors import PartyRefusedError, PartyUnavailableError
from gbdt_parties.identity.certificates import TLS, make_authority, make_certificate
from gbdt_parties.messages import Done
from gbdt_parties.run.log import RUNS
from gbdt_parties.secure_sum.contributions import SIGNATURE_BYTES
from gbdt_parties.secure_sum.encapsulations import Encapsulations, forwarded_to
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.messages import (
    AskSum,
    BeginRounds,
    ConfirmRoster,
    Contributed,
    Endorsed,
    Introduced,
    ProposeRoster,
    Revealed,
    pack,
)
from gbdt_parties.secure_sum.rings import MODULO_64, MODULO_128
from gbdt_parties.secure_sum.roster import Introduction, Roster
from gbdt_parties.secure_sum.trust import Credentials
from gbdt_parties.traffic import Traffic
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import Server

RUN = bytes(16)
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

    def introduced(self, opening):
        """What the two say of themselves."""
        self._answers = [channel.ask(opening, Introduced) for channel in self._channels]
        return self._answers

    def roster(self, statement):
        """The two, and this one with its twin key."""
        own = [Introduction.from_bytes(answer.introduction) for answer in self._answers]
        key = self._derive(own[0].exchange_key)
        self._own = replace(Introduction.of(self._name, self._credentials, self._keys), exchange_key=key)
        self._roster = Roster(RUN, statement, (*own, self._own))
        return self._roster

    def first_vectors(self, task):
        """What the two send as their masked vectors for the first sum, as integers."""
        proposal = ProposeRoster(task, self._roster.to_bytes())
        endorsed = [channel.ask(proposal, Endorsed) for channel in self._channels]
        signatures = [*(one.signature for one in endorsed), self._credentials.sign(self._roster.digest)]
        own = Encapsulations.to_earlier(self._roster, 2).signed(self._roster, 2, self._keys)
        sent, seeds = [*(one.ciphertexts for one in endorsed), own], []
        for place, channel in enumerate(self._channels):
            confirmation = ConfirmRoster(pack(signatures), forwarded_to(place, self._roster.names, sent))
            seeds.append(channel.ask(confirmation, Revealed).seed)
        seeds.append(self._keys.seed)
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


class Attack:
    """A way of training whose first sum is asked for by a coordinator with a twin key.

    Parameters
    ----------
    names : sequence of str
        Two parties, and the coordinator's.
    parties : callable
        Makes the parties, in this process.
    service : callable
        Makes the service of a party, of its place, a folder, its folder of certificates and an allow-list.
    opening : OpenRun
    agreed : callable
        The task and the statement, of a party's description.
    """

    def __init__(self, names, parties, service, opening, agreed):
        self.names, self.parties, self._service = names, parties, service
        self._opening, self._agreed = opening, agreed

    def vectors(self, members, credentials, derive):
        """What two parties send for the first sum."""
        twin = Twin(members, self.names[2], credentials, derive)
        first, _ = twin.introduced(self._opening)
        task, statement = self._agreed(first.description)
        twin.roster(statement)
        return twin.first_vectors(task)

    @contextmanager
    def attacked(self, folder, over_tls):
        """Two parties, here or behind servers that let the third coordinate, and its credentials."""
        if not over_tls:
            yield self.parties()[:2], Credentials.self_signed(self.names[2])
            return
        make_authority(folder / "ca")
        made = [make_certificate(folder / name, folder / "ca", name) for name in self.names]
        known = [f"sha256:{one.fingerprint}" for one in made]
        own = TLS.from_directory(folder / self.names[2])
        with ExitStack() as stack:
            remote = []
            for place, name in enumerate(self.names[:2]):
                service = self._service(place, folder / "kept", folder / name, known)
                server = Server(service, "127.0.0.1:0", TLS.from_directory(folder / name), [self.names[2]])
                stack.callback(server.stop, grace=0)
                one = RemoteParty(f"127.0.0.1:{server.port}", own, name, timeout=60)
                stack.callback(one.close)
                remote.append(one)
            yield remote, Credentials.of(own)


@pytest.mark.parametrize("over_tls", [False, True], ids=["here", "over TLS"])
@pytest.mark.parametrize("twin", TWINS)
class TwinKeys:
    """Tests of a way of training; a subclass has its `attack`."""

    attack: Attack

    def test_a_twin_key_is_refused(self, tmp_path, twin, over_tls):
        refusal = r"'ada'.* refuses: the public keys? for masks of .*'cyd'"
        with (
            self.attack.attacked(tmp_path, over_tls) as (members, credentials),
            pytest.raises(PartyRefusedError, match=refusal),
        ):
            self.attack.vectors(members, credentials, TWINS[twin])

    def test_a_twin_key_that_is_not_noticed_takes_no_mask_off(self, tmp_path, twin, over_tls, monkeypatch):
        """Before, the vector of the party between the two left as it is, or under its own noise alone."""
        monkeypatch.setattr(Roster, "check_keys", lambda self: None)
        with self.attack.attacked(tmp_path, over_tls) as (members, credentials):
            first, between = self.attack.vectors(members, credentials, TWINS[twin])
        assert are_masked(first)
        assert are_masked(between)


def refuses_keys_of_another_release(make, train, between, runs_of, spoil):
    """A run with keys of the first format, whose masks did not say whose they are, is not taken up.

    Parameters
    ----------
    make : callable
        Makes the party of a place.
    train : callable
        Trains with three parties.
    between : type
        Of what stands between the coordinator and a party.
    runs_of : callable
        The store of the runs of a party.
    spoil : callable
        Alters what is kept of the party's membership.
    """

    def lost(number, message, send):
        if isinstance(message, AskSum):
            raise PartyUnavailableError("lost")
        return send()

    members = [between(make(place)) for place in range(3)]
    members[1].disturb = lost
    with pytest.raises(PartyUnavailableError):
        train(members)
    runs = runs_of(members[0].party)
    (run,) = runs.keys(RUNS)
    kept = runs.get(RUNS, run)
    spoil(kept["agreement"])
    runs.put(RUNS, run, kept)
    members[0].party.close()
    members[0].party = make(0)
    members[1].disturb = lambda number, message, send: send()
    with pytest.raises(PartyRefusedError, match=r"'ada'.*release of veil"):
        train(members)
    for member in members:
        member.party.close()


OTHER_FORMATS = {
    "no format": lambda kept: kept.pop("format"),
    "the first": lambda kept: kept.update(format=1),
}
"""What runs of other releases say of the format of their keys."""
