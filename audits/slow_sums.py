"""Secure sums a second time: one word at a time, in plain integers, from the published descriptions.

X25519 (RFC 7748), HKDF-SHA256 (RFC 5869), ChaCha20 (RFC 8439) and Ed25519's check (RFC 8032), and on top of
them the description of `gbdt_parties.secure_sum`.  Nothing here is taken from the packages or from their
cryptographic libraries; SHA-2 and HMAC are Python's.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator, Mapping, Sequence

P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, P) % P
_WORD = (1 << 32) - 1
Point = tuple[int, int]


def x25519(scalar: bytes, u: bytes) -> bytes:
    """The Montgomery ladder of RFC 7748, section 5."""
    k = int.from_bytes(scalar, "little") & ~7 & ~(1 << 255) | 1 << 254
    x1 = int.from_bytes(u, "little") & (1 << 255) - 1
    x2, z2, x3, z3, swapped = 1, 0, x1, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if swapped != bit:
            x2, z2, x3, z3 = x3, z3, x2, z2
        swapped = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb, e = d * a % P, c * b % P, a * a - b * b
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        x2, z2 = a * a * b * b % P, e * (a * a + 121665 * e) % P
    if swapped:
        x2, z2 = x3, z3
    return (x2 * pow(z2, P - 2, P) % P).to_bytes(32, "little")


def hkdf(secret: bytes, salt: bytes, info: bytes) -> bytes:
    """32 bytes: extract, and one block of expand."""
    key = hmac.digest(salt, secret, "sha256")
    return hmac.digest(key, info + b"\1", "sha256")


def chacha20_block(key: bytes, counter: int, nonce: bytes) -> bytes:
    """RFC 8439, section 2.3."""
    start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
    start += [int.from_bytes(key[i : i + 4], "little") for i in range(0, 32, 4)]
    start += [counter, *(int.from_bytes(nonce[i : i + 4], "little") for i in range(0, 12, 4))]
    s = list(start)

    def turn(a: int, b: int, c: int, d: int) -> None:
        for x, y, z, bits in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = s[x] + s[y] & _WORD
            mixed = s[z] ^ s[x]
            s[z] = (mixed << bits | mixed >> 32 - bits) & _WORD

    for _ in range(10):
        for i in range(4):
            turn(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            turn(i, 4 + (1 + i) % 4, 8 + (2 + i) % 4, 12 + (3 + i) % 4)
    return b"".join((a + b & _WORD).to_bytes(4, "little") for a, b in zip(s, start, strict=True))


def stream_words(key: bytes) -> Iterator[int]:
    """Words of 64 bits of the stream under a key, with a nonce of zeros."""
    counter = 0
    while True:
        block = chacha20_block(key, counter, bytes(12))
        yield from (int.from_bytes(block[i : i + 8], "little") for i in range(0, 64, 8))
        counter += 1


def _added(a: Point, b: Point) -> Point:
    k = _D * a[0] * b[0] * a[1] * b[1] % P
    x = (a[0] * b[1] + b[0] * a[1]) * pow(1 + k, -1, P)
    return x % P, (a[1] * b[1] + a[0] * b[0]) * pow(1 - k, -1, P) % P


def _times(n: int, a: Point) -> Point:
    total = (0, 1)
    for bit in bin(n)[2:]:
        total = _added(total, total)
        total = _added(total, a) if bit == "1" else total
    return total


def _point(octets: bytes) -> Point:
    number = int.from_bytes(octets, "little")
    y, sign = number & (1 << 255) - 1, number >> 255
    square = (y * y - 1) * pow(_D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if (x * x - square) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P:
        raise ValueError("no point of the curve")
    return (x if x & 1 == sign else -x % P), y


def ed25519_holds(key: bytes, message: bytes, signature: bytes) -> bool:
    """S·B = R + H(R, A, M)·A, for S below the order."""
    s = int.from_bytes(signature[32:], "little")
    if s >= _ORDER:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % _ORDER
    base = _point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    return _times(s, base) == _added(_point(signature[:32]), _times(h, _point(key)))


def attempt_bytes(number_of_round: int, number: int, members: Sequence[int], question: bytes) -> bytes:
    """Round, number, how many members, their places, the question's digest."""
    numbers = number_of_round.to_bytes(8, "little") + number.to_bytes(8, "little")
    places = b"".join(place.to_bytes(2, "little") for place in members)
    return numbers + len(members).to_bytes(2, "little") + places + question


def confirmed_roster(roster: bytes, ciphertexts: Sequence[Sequence[bytes]]) -> bytes:
    """The digest of a roster and of each party's ciphertexts, by place and by receiver."""
    digests = [b"".join(hashlib.sha256(one).digest() for one in sent) for sent in ciphertexts]
    parts = b"".join(len(part).to_bytes(8, "little") + part for part in (roster, *digests))
    return hashlib.sha256(b"veilboost confirmed roster 1\0" + parts).digest()


def masked_vector(
    place: int,
    secret_key: bytes,
    public_keys: Sequence[bytes],
    kem_secrets: Mapping[int, bytes],
    kem_pairs: Mapping[int, bytes],
    members: Sequence[int],
    confirmed: bytes,
    attempt: bytes,
    values: Sequence[int],
    bits: int,
) -> list[int]:
    """A party's vector plus its masks, modulo ``2**bits``.

    Of each pair with another party, by its place, `kem_secrets` has the secret by ML-KEM-768, and `kem_pairs`
    the earlier one's key and the later one's ciphertext.
    """
    total = [value % (1 << bits) for value in values]
    for other in members:
        if other == place:
            continue
        pair = b"".join(p.to_bytes(2, "little") + public_keys[p] for p in sorted((place, other)))
        pair += hashlib.sha256(kem_pairs[other]).digest()
        info = b"veilboost secure sum mask 3\0" + pair + attempt
        secret = x25519(secret_key, public_keys[other]) + kem_secrets[other]
        words = stream_words(hkdf(secret, confirmed, info))
        for i in range(len(total)):
            mask = next(words)
            mask |= next(words) << 64 if bits == 128 else 0
            total[i] = (total[i] + (mask if place < other else -mask)) % (1 << bits)
    return total


def signed_text(roster: bytes, attempt: bytes, place: int, bits: int, vector: bytes, n_values: int) -> bytes:
    """The bytes that a contribution's signature covers."""
    head = place.to_bytes(2, "little") + bits.to_bytes(2, "little") + n_values.to_bytes(8, "little")
    return (
        b"veilboost secure sum contribution 2\0"
        + roster
        + hashlib.sha256(attempt).digest()
        + head
        + hashlib.sha256(vector).digest()
    )
