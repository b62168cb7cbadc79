"""Random oblivious transfers from public keys: the few from which all others are extended.

Functionality: A has nothing, B has bits c_i; afterwards A has pairs of keys (k_i0, k_i1) and B has
k_i,c_i.

Source: Masny and Rindal, "Endemic oblivious transfer" (CCS 2019), with one key of the sender for all
transfers and hashes bound to their number as in McQuoid, Rosulek and Roy, "Batching base oblivious
transfers" (ASIACRYPT 2021); in the group of `curve_group`.

For transfer i, B draws ρ and b, and sends r_(1-c) = ρG and r_c = bG − HG(i, c, r_(1-c)).  A draws one a,
sends aG, and takes k_j = SHA-256(i, j, aG, r_0, r_1, a·(r_j + HG(i, j, r_(1-j)))); B has k_c from b·aG.

* *Equal keys*: r_c + HG(i, c, r_(1-c)) = bG, and a·bG = b·aG.
* *A learns nothing of c*: HG is fixed by what is hashed, so that r_c is uniform as b is, and r_(1-c) as ρ
  is; the pair has the same distribution for either c, whatever A does with it.
* *B, even one that deviates, has one of the keys at most*: the later of the two queries HG(i, 0, r_1) and
  HG(i, 1, r_0) is a uniform point, chosen after both r are fixed, so that of that side the discrete
  logarithm is unknown.  Then a·(...) is a computational Diffie–Hellman problem for aG, and the key a
  random oracle's value that B does not ask for.
* *Any points are safe*: each is checked to be of the group, and scalars are multiples of 8.  A transfer's
  number, session, direction and both parties' places and keys are hashed, so that none stands for another.
* *Endemic*: either side, if it deviates, can choose its own keys.  The extension uses them as masks and
  seeds only, of the side's own secrets.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.key_stream import KeyStream
from gbdt_parties.curve_group import (
    POINT_BYTES,
    SCALAR_BYTES,
    add,
    check_points,
    generator_multiples,
    hash_to_group,
    length_prefixed,
    multiply,
    multiply_each,
    scalar_of,
    subtract,
)
from gbdt_parties.errors import ProtocolError
from gbdt_parties.two_party.life import Unrepeatable

KEY_BYTES = 16

_POINT, _KEY = b"veilboost base transfer point 1", b"veilboost base transfer key 1"


def _scalars(stream: KeyStream, count: int) -> list[bytes]:
    """Secret scalars of a stream; of 2**252 bytes drawn so, one is refused by the multiplication."""
    octets = stream.words(count * SCALAR_BYTES // 8).astype("<u8").tobytes()
    return [scalar_of(octets[k * SCALAR_BYTES : (k + 1) * SCALAR_BYTES]) for k in range(count)]


def _hashes(context: bytes, sides: NDArray[np.uint8], others: bytes) -> bytes:
    """HG(i, j, r_(1-j)) for every transfer."""
    points = [others[k * POINT_BYTES : (k + 1) * POINT_BYTES] for k in range(len(sides))]
    inputs = [
        i.to_bytes(2, "little") + bytes([side]) + point
        for i, (side, point) in enumerate(zip(sides.tolist(), points, strict=True))
    ]
    return hash_to_group([_POINT, context], inputs)


def _keys(context: bytes, sides: NDArray[np.uint8], point: bytes, pairs: bytes, shared: bytes) -> list[bytes]:
    keys = []
    for i, side in enumerate(sides.tolist()):
        pair = pairs[2 * i * POINT_BYTES : 2 * (i + 1) * POINT_BYTES]
        secret = shared[i * POINT_BYTES : (i + 1) * POINT_BYTES]
        text = length_prefixed([_KEY, context, i.to_bytes(2, "little"), bytes([side]), point, pair, secret])
        keys.append(hashlib.sha256(text).digest()[:KEY_BYTES])
    return keys


def _columns(points: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(points, dtype=np.uint8).reshape(-1, POINT_BYTES)


class BaseReceiver(Unrepeatable):
    """The side with the choice bits, zeros and ones; its draws come from the stream.

    The context is the digest of session and direction.  `message` has r_0 and r_1 of every transfer, for the
    other side.
    """

    def __init__(self, context: bytes, choices: NDArray[np.uint8], stream: KeyStream) -> None:
        n = len(choices)
        self._context, self._choices = context, choices
        scalars = _scalars(stream, 2 * n)
        self._secrets, strangers = scalars[:n], _columns(generator_multiples(scalars[n:]))
        hashed = _hashes(context, choices, strangers.tobytes())
        chosen = _columns(subtract(generator_multiples(self._secrets), hashed))
        # All ones where the bit is 1: the places are exchanged by arithmetic.
        swap = (chosen ^ strangers) & -choices[:, None]
        pairs = np.stack([chosen ^ swap, strangers ^ swap], axis=1)
        self.message = pairs.tobytes()

    def keys(self, point: bytes) -> list[bytes]:
        """The chosen keys, 16 bytes each, from the other's point aG; `PointError` if not of the group."""
        if len(point) != POINT_BYTES:
            raise ProtocolError(f"a base transfer's key has {len(point)} bytes, not {POINT_BYTES}")
        check_points(point)
        shared = multiply_each(self._secrets, point)
        return _keys(self._context, self._choices, point, self.message, shared)


class BaseSender(Unrepeatable):
    """The side that gets both keys of every transfer; its draws come from the stream.

    The context is the digest of session and direction.  `message` is aG, for the other side.
    """

    def __init__(self, context: bytes, stream: KeyStream) -> None:
        self._context, self._scalar = context, _scalars(stream, 1)
        self.message = generator_multiples(self._scalar)

    def keys(self, pairs: bytes, n: int) -> list[tuple[bytes, bytes]]:
        """Both keys of each of n transfers, from r_0 and r_1 of every one as the other side sent them.

        Raises `ProtocolError` if they are not n pairs, and `PointError` if a point is not of the group, or
        the key of one side would not be secret.
        """
        if len(pairs) != 2 * n * POINT_BYTES:
            raise ProtocolError(f"{len(pairs)} bytes of base transfers where {2 * n * POINT_BYTES} were due")
        check_points(pairs)
        points = _columns(pairs).reshape(n, 2, POINT_BYTES)
        made = []
        for j in (0, 1):
            sides = np.full(n, j, dtype=np.uint8)
            hashed = _hashes(self._context, sides, points[:, 1 - j].tobytes())
            shared = multiply(self._scalar[0], add(points[:, j].tobytes(), hashed))
            made.append(_keys(self._context, sides, self.message, pairs, shared))
        return list(zip(*made, strict=True))
