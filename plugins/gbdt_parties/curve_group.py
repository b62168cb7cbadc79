"""The prime-order group of Ed25519: texts hashed to points, secret multiples of points, checks of a peer's.

Functionality: a group of prime order l = 2**252 + 27742317777372353535851937790883648493 in which the
decisional Diffie–Hellman problem is believed to be hard, with a hash to it whose discrete logarithms are
unknown. Points are 32 bytes (RFC 8032, section 5.1.2), and many of them are one text of bytes.

Source: libsodium's ``crypto_core_ed25519`` and ``crypto_scalarmult_ed25519_noclamp``, by the public bindings
of PyNaCl.  Releases before 1.6.2 take points of mixed order for points of the group (CVE-2025-69277), and
PyNaCl can be built on a libsodium of any age; so it is asked about such a point before it is first used.

Properties, each with its reason:

* *Small components vanish.*  The curve has 8·l points, and every secret scalar is 8·r: for a point P + T with
  8·T = 0, 8·r·(P + T) = 8·r·P.  Points that are not of the group are refused as well.
* *No multiple is the neutral element.*  0 < r < 2**252 < l, so that l, a prime, divides neither r nor 8·r.
* *Hashes are as good as random.*  HG(x) = U(h₁) + U(h₂), h₁ and h₂ the halves of SHA-512(x): one map U
  reaches only a part of the group, and the sum of two is indifferentiable from a random oracle (Brier et al.,
  2010).
* *Inputs do not run into each other.*  Each is preceded by its length, so that different sequences of inputs
  are different texts.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType

from gbdt_kernels import threads
from gbdt_parties.errors import ProtocolError

POINT_BYTES = 32
SCALAR_BYTES = 32

_STEPS_PER_POINT = 100_000
"""Cost of a point, in the steps by which `threads.blocks` measures work: a tenth of a millisecond."""

MIXED_ORDER = bytes.fromhex("95" + 31 * "99")
"""The generator of the group plus the point of order 2: the kind that CVE-2025-69277 is about."""


class PointError(ProtocolError):
    """Bytes of a peer are not a point of the group, or not in its only form."""


@cache
def sodium() -> ModuleType:
    """PyNaCl's bindings, once they have refused a point of mixed order.

    Raises ImportError without PyNaCl, or with a libsodium that takes such points for points of the group.
    """
    from nacl import bindings

    # A libsodium may have been built without these functions.
    known = bindings.has_crypto_core_ed25519 and bindings.has_crypto_scalarmult_ed25519
    if not known or bindings.crypto_core_ed25519_is_valid_point(MIXED_ORDER):
        raise ImportError(
            "PyNaCl uses a libsodium that accepts points of mixed order (CVE-2025-69277); "
            "install pynacl>=1.6.2, which the extra veilboost[remote] asks for"
        )
    return bindings


def length_prefixed(inputs: Sequence[bytes]) -> bytes:
    """Inputs as one text, each after its length in 8 bytes: different inputs are different texts."""
    return b"".join(part for one in inputs for part in (len(one).to_bytes(8, "little"), one))


def random_scalar() -> bytes:
    """A fresh secret scalar: 8·r in 32 bytes, r uniform in [1, 2**252)."""
    scalar = bytes(SCALAR_BYTES)
    while not any(scalar):
        scalar = scalar_of(os.urandom(SCALAR_BYTES))
    return scalar


def scalar_of(octets: bytes) -> bytes:
    """The scalar 8·r of 32 uniform bytes, r their upper 252 bits; 0, which is none, for one in 2**252."""
    return (8 * (int.from_bytes(octets, "little") >> 4)).to_bytes(SCALAR_BYTES, "little")


def hash_to_group(domain: Sequence[bytes], inputs: Sequence[bytes]) -> bytes:
    """HG(domain, input) for each input; the `domain` has the purpose and the owner of the points."""
    bindings = sodium()
    uniform, add = bindings.crypto_core_ed25519_from_uniform, bindings.crypto_core_ed25519_add
    begun = hashlib.sha512(length_prefixed(domain))

    def point(k: int) -> bytes:
        text = begun.copy()
        text.update(length_prefixed([inputs[k]]))
        halves = text.digest()
        return bytes(add(uniform(halves[:32]), uniform(halves[32:])))

    return _each(len(inputs), point)


def multiply(scalar: bytes, points: bytes | bytearray | memoryview) -> bytes:
    """Multiples of points, in their order; the scalar is one of `random_scalar`.

    Points are `POINT_BYTES` each, from a peer or one's own; PointError names the position of one that is not
    of the group. libsodium's multiplication refuses what `check_points` refuses, by the same functions; a
    test holds both.
    """
    times = sodium().crypto_scalarmult_ed25519_noclamp
    view = memoryview(points)

    def multiple(k: int) -> bytes:
        try:
            return bytes(times(scalar, bytes(view[k * POINT_BYTES : (k + 1) * POINT_BYTES])))
        except RuntimeError:
            raise _not_of_the_group(k, len(view)) from None

    return _each(_count(view), multiple)


def multiply_each(scalars: Sequence[bytes], points: bytes) -> bytes:
    """Multiples of points (checked as by `multiply`), each by a scalar of its own, or all of one point."""
    times = sodium().crypto_scalarmult_ed25519_noclamp
    step = 0 if len(points) == POINT_BYTES else POINT_BYTES

    def multiple(k: int) -> bytes:
        try:
            return bytes(times(scalars[k], points[k * step : k * step + POINT_BYTES]))
        except RuntimeError:
            raise _not_of_the_group(k * step // POINT_BYTES, len(points)) from None

    return _each(len(scalars), multiple)


def generator_multiples(scalars: Sequence[bytes]) -> bytes:
    """Multiples of the group's generator."""
    times = sodium().crypto_scalarmult_ed25519_base_noclamp
    return _each(len(scalars), lambda k: bytes(times(scalars[k])))


def add(ones: bytes, others: bytes) -> bytes:
    """Sums of points of the group, pair by pair.

    A sum may be the neutral element: `multiply` refuses it.
    """
    plus = sodium().crypto_core_ed25519_add
    return _pairwise(plus, ones, others)


def subtract(ones: bytes, others: bytes) -> bytes:
    """Differences of points of the group, pair by pair."""
    minus = sodium().crypto_core_ed25519_sub
    return _pairwise(minus, ones, others)


def _pairwise(combine: Callable[[bytes, bytes], bytes], ones: bytes, others: bytes) -> bytes:
    def combined(k: int) -> bytes:
        at = slice(k * POINT_BYTES, (k + 1) * POINT_BYTES)
        return bytes(combine(ones[at], others[at]))

    return _each(_count(memoryview(ones)), combined)


def check_points(points: bytes | bytearray | memoryview) -> None:
    """PointError, with the position, unless points are canonical, of the group, and not neutral."""
    is_valid = sodium().crypto_core_ed25519_is_valid_point
    view = memoryview(points)

    def checked(k: int) -> bytes:
        point = bytes(view[k * POINT_BYTES : (k + 1) * POINT_BYTES])
        if not is_valid(point):
            raise _not_of_the_group(k, len(view))
        return point

    _each(_count(view), checked)


def _count(points: memoryview) -> int:
    if len(points) % POINT_BYTES:
        raise PointError(f"{len(points)} bytes are not points of {POINT_BYTES} bytes each")
    return len(points) // POINT_BYTES


def _not_of_the_group(k: int, n_bytes: int) -> PointError:
    return PointError(f"point {k + 1} of {n_bytes // POINT_BYTES} is not a point of the prime-order group")


def _each(count: int, point: Callable[[int], bytes]) -> bytes:
    """Join the points of all positions, made by as many threads as there are processors.

    PyNaCl's functions let other threads run while they compute.
    """
    made = bytearray(count * POINT_BYTES)

    def work(_: int, start: int, stop: int) -> None:
        for k in range(start, stop):
            made[k * POINT_BYTES : (k + 1) * POINT_BYTES] = point(k)

    threads.run(work, threads.blocks(count, 0, _STEPS_PER_POINT))
    return bytes(made)
