"""Our ciphers against those of others, under the same keys: phe, HEU and LightPHE.

Plaintexts are encrypted here and decrypted there, and the other way round; sums, products with public
numbers, bins' sums and packed plaintexts that are made on one side are opened on the other.  Then the
randomness of our ciphertexts: no two alike, and its quadratic characters modulo both primes as often 1 as -1.
Copies of our key with a fault must fail the same checks.

    python -m audits.ciphers --out out/audits/ciphers.json
"""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from itertools import pairwise
from types import ModuleType
from typing import Any, Protocol

import gmpy2
import numpy as np

from audits.outcome import PLANTED, Audit, Line, Piece, run
from gbdt_kernels.residues import decode
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.ciphers.paillier import Paillier, PaillierKey
from xgb_fed.ciphers.residue_key import ResidueKey, Residues

LIMITS = (
    "HEU's ZPaillier and its Okamoto-Uchiyama keep ciphertexts in Montgomery form and are read through that "
    "form; its Okamoto-Uchiyama cannot take our keys, nor we its, so only our public operations meet it; it "
    "draws from a subgroup, by whose order it decrypts, and so cannot open what we re-randomise. LightPHE "
    "is pure Python and gets fewer draws, of 1,024 bits. Time and memory are not observed."
)
HEU_DIGIT = 60
"""Bits of a digit of the arithmetic that HEU builds on; its Montgomery radix is a power of two to as many."""
BITS_OF_SCALE = 37


class Peer(Protocol):
    """Another library's Paillier under one key; ciphertexts and plaintexts are integers, from 0."""

    name: str
    p: int
    q: int

    def encrypt(self, plaintext: int) -> int: ...

    def decrypt(self, ciphertext: int) -> int: ...

    def add(self, a: int, b: int) -> int: ...

    def times(self, a: int, number: int) -> int: ...


class Phe:
    """phe (python-paillier)."""

    def __init__(self, phe: ModuleType, name: str, bits: int) -> None:
        self.name, self._phe = name, phe
        self._public, self._private = phe.generate_paillier_keypair(n_length=bits)
        self.p, self.q = int(self._private.p), int(self._private.q)

    def encrypt(self, plaintext: int) -> int:
        return int(self._public.raw_encrypt(plaintext))

    def decrypt(self, ciphertext: int) -> int:
        return int(self._private.raw_decrypt(ciphertext))

    def _number(self, a: int) -> Any:
        # Exponent 0: the plaintext is the integer itself.
        return self._phe.EncryptedNumber(self._public, a, 0)

    def add(self, a: int, b: int) -> int:
        return int((self._number(a) + self._number(b)).ciphertext(be_secure=False))

    def times(self, a: int, number: int) -> int:
        return int((self._number(a) * number).ciphertext(be_secure=False))


class Heu:
    """HEU; what it prints of a key, and the bytes of a ciphertext, are read and written."""

    def __init__(self, heu: ModuleType, name: str, bits: int, schema: str) -> None:
        self.name, self._heu = f"{name} {schema}", heu
        self._schema = getattr(heu.SchemaType, schema)
        kit = heu.setup(self._schema, bits)
        self._kit, secret, public = kit, str(kit.secret_key()), str(kit.public_key())
        self.p, self.q = (int(re.search(rf"\b{x}=([0-9A-F]+)\[", secret)[1], 16) for x in "pq")  # type: ignore[index]
        self.n = int(re.search(r"\bn=([0-9A-F]+)\[", public)[1], 16)  # type: ignore[index]
        self.g = int(found[1], 16) if (found := re.search(r"\bG=([0-9A-F]+)\[", public)) else self.n + 1
        self.modulus = self.n if schema == "OU" else self.n**2
        digits = -(-self.modulus.bit_length() // HEU_DIGIT)
        self._radix = 1 if schema == "IcPaillier" else 1 << HEU_DIGIT * digits
        self._back = pow(self._radix, -1, self.modulus)
        self._template, self._at, self._width = self._place()

    def _place(self) -> tuple[bytes, int, int]:
        """Bytes of some ciphertext, and where in them its number is, little-endian."""
        while True:
            ciphertext = self._kit.encryptor().encrypt_raw(7)
            data, number = ciphertext.serialize(), int(str(ciphertext))
            width = self.modulus.bit_length() // 8 + 1  # with a bit for the sign
            at = data.find(number.to_bytes(width, "little"))
            if at >= 0:
                return data, at, width

    def _read(self, ciphertext: Any) -> int:
        return int(str(ciphertext)) * self._back % self.modulus

    def _made(self, number: int) -> Any:
        held = (number * self._radix % self.modulus).to_bytes(self._width, "little")
        end = self._at + self._width
        return self._heu.Ciphertext.load_from(self._template[: self._at] + held + self._template[end:])

    def encrypt(self, plaintext: int) -> int:
        signed = plaintext if plaintext <= self.n // 2 else plaintext - self.n
        return self._read(self._kit.encryptor().encrypt_raw(signed))

    def decrypt(self, ciphertext: int) -> int:
        return int(self._kit.decryptor().decrypt_raw(self._made(ciphertext))) % self.n

    def add(self, a: int, b: int) -> int:
        return self._read(self._kit.evaluator().add(self._made(a), self._made(b)))

    def times(self, a: int, number: int) -> int:
        return self._read(self._kit.evaluator().mul(self._made(a), self._heu.Plaintext(self._schema, number)))


class LightPhe:
    """LightPHE with our key of either scheme."""

    def __init__(self, module: ModuleType, name: str, p: int, q: int, scheme: str) -> None:
        self.name, self.p, self.q = f"{name} {scheme}", p, q
        if scheme == "Paillier":
            n = p * q
            keys = {"private_key": {"phi": (p - 1) * (q - 1)}, "public_key": {"n": n, "g": n + 1}}
        else:
            n, g = p * p * q, p + 1
            keys = {"private_key": {"p": p, "q": q}, "public_key": {"n": n, "g": g, "h": pow(g, n, n)}}
        self._cipher = getattr(module, scheme)(keys=keys)

    def encrypt(self, plaintext: int) -> int:
        return int(self._cipher.encrypt(plaintext))

    def decrypt(self, ciphertext: int) -> int:
        return int(self._cipher.decrypt(ciphertext))

    def add(self, a: int, b: int) -> int:
        return int(self._cipher.add(a, b))

    def times(self, a: int, number: int) -> int:
        return int(self._cipher.multiply_by_constant(a, number))


def integers(public: ResidueKey, rows: Residues) -> list[int]:
    """Our ciphertexts as other libraries have them."""
    return [int(value) for value in decode(rows, public.modulus)]


def below(limit: int, count: int) -> list[int]:
    return [secrets.randbelow(limit) for _ in range(count)]


def exchanged(key: Any, peer: Peer, n: int, draws: int) -> Iterator[tuple[str, int, int]]:
    """Checks of one key at two libraries: the name, the plaintexts compared, those that differ."""
    public, limit = key.public, key.public.plaintext_limit

    def differing(name: str, seen: list[int], right: list[int]) -> tuple[str, int, int]:
        return name, len(right), sum(a != b for a, b in zip(seen, right, strict=True))

    def theirs(plaintexts: list[int]) -> Residues:
        return public.from_integers([peer.encrypt(m) for m in plaintexts])

    def opened(rows: Residues) -> list[int]:
        return [peer.decrypt(c) for c in integers(public, rows)]

    edges = [0, 1, 2, limit // 2, limit // 2 + 1, limit - 2, limit - 1]
    # Of negative numbers the residue modulo n is encrypted, where plaintexts may be that large.
    edges += [n - 5, n - 2**52] if limit == n else []
    yield differing("edges, here to there", opened(key.encrypt(edges)), edges)
    yield differing("edges, there to here", key.decrypt(theirs(edges)), edges)
    drawn, more = below(limit // 2, draws), below(limit // 2, draws)
    ours, others = key.encrypt(drawn), theirs(more)
    yield differing("here to there", opened(ours), drawn)
    yield differing("there to here", key.decrypt(others), more)
    sums = [a + b for a, b in zip(drawn, more, strict=True)]
    yield differing("sums made here", opened(public.rerandomise(public.add(ours, others))), sums)
    pairs = zip(integers(public, ours), integers(public, others), strict=True)
    made = public.from_integers([peer.add(a, b) for a, b in pairs])
    yield differing("sums made there", key.decrypt(made), sums)
    few = slice(0, max(draws // 20, 8))
    small = below(1 << 64, len(drawn[few]))
    held = key.encrypt(small)
    scaled = [m << BITS_OF_SCALE for m in small]
    yield differing("products made here", opened(public.scale(held, BITS_OF_SCALE)), scaled)
    made = public.from_integers([peer.times(c, 1 << BITS_OF_SCALE) for c in integers(public, held)])
    yield differing("products made there", key.decrypt(made), scaled)
    order = np.random.default_rng(0).permutation(len(small))
    starts = np.unique(np.r_[0, np.arange(1, len(order), 7), len(order)]).astype(np.int64)
    bins = [sum(small[i] for i in order[a:b]) for a, b in pairwise(starts)]
    yield differing("bins' sums made here", opened(public.sum_by_index(held, order, starts)), bins)
    packed = [(small[2 * i] << 64) + small[2 * i + 1] for i in range(len(small) // 2)]
    rows = held[: 2 * len(packed)]
    yield differing("packed here", opened(public.compress(rows, 64, 2)), packed)


def randomness(key: PaillierKey, p: int, q: int, count: int) -> list[tuple[str, bool, str]]:
    """Randomness of encryptions of 0: repeated, and the quadratic characters modulo p² and q².

    An n-th power modulo p² is a square exactly if its base modulo p is, so that characters of a uniform
    residue are independent and fair; 6.5 standard deviations have a chance of 1e-10.
    """
    ciphertexts = integers(key.public, key.encrypt([0] * count))
    repeated = count - len(set(ciphertexts))
    checks = [("randomness repeats", repeated > 0, f"{repeated} of {count:,}")]
    characters = np.array([[gmpy2.legendre(c, prime) for prime in (p, q)] for c in ciphertexts])
    for name, signs in (("p", characters[:, 0]), ("q", characters[:, 1]), ("p·q", characters.prod(axis=1))):
        deviations = abs(int(signs.sum())) / math.sqrt(count)
        checks.append((f"character modulo {name}", deviations > 6.5, f"{deviations:.1f} sd"))
    return checks


class Faulty:
    """A key that does one thing wrongly; everything else is the true one's."""

    def __init__(self, key: Any, **wrong: Any) -> None:
        self._key, self._wrong = key, wrong

    def __getattr__(self, name: str) -> Any:
        return self._wrong[name] if name in self._wrong else getattr(self._key, name)


def faults(key: PaillierKey) -> dict[str, Any]:
    """Copies of a key with planted faults."""
    public, honest = key.public, key.encrypt

    def without_last_row(source: Residues, order: Any, starts: Any) -> Residues:
        return public.sum_by_index(source, order[:-1], np.minimum(starts, len(order) - 1))

    def with_one_wrong(plaintexts: Any) -> Residues:
        return honest([m ^ (i == len(plaintexts) // 2) for i, m in enumerate(plaintexts)])

    def in_blocks(plaintexts: Any) -> Residues:
        """The obfuscator of every 64th row again, one row later."""
        rows = honest(list(plaintexts))
        zeros = public.subtract(rows, encode_plainly(public, plaintexts))
        zeros[1::64] = zeros[::64][: len(zeros[1::64])]
        return public.add(encode_plainly(public, plaintexts), zeros)

    def of_squares(plaintexts: Any) -> Residues:
        rows: Residues = honest([0] * len(plaintexts))
        return public.add(encode_plainly(public, plaintexts), public.add(rows, rows))

    return {
        "one plaintext of all is off by one": Faulty(key, encrypt=with_one_wrong),
        "plaintexts lose their highest bit": Faulty(
            key, encrypt=lambda ms: honest([m % (1 << public.n.bit_length() - 2) for m in ms])
        ),
        "sums of bins forget the last row": Faulty(key, public=Faulty(public, sum_by_index=without_last_row)),
        "scaled by a bit too few": Faulty(
            key, public=Faulty(public, scale=lambda a, bits: public.scale(a, bits - 1))
        ),
        "no randomness": Faulty(key, encrypt=lambda ms: encode_plainly(public, ms)),
        "randomness used twice in 64": Faulty(key, encrypt=in_blocks),
        "randomness from squares": Faulty(key, encrypt=of_squares),
    }


def encode_plainly(public: ResidueKey, plaintexts: Any) -> Residues:
    """(1 + m n) mod n²: a ciphertext without randomness."""
    return public.from_integers([(1 + m * public.n) % public.modulus.value for m in plaintexts])


def public_operations(heu: Heu, draws: int) -> list[tuple[str, int, int]]:
    """Our public operations on the Okamoto-Uchiyama ciphertexts of HEU, under its key.

    HEU draws randomness from a small subgroup and decrypts with the subgroup's order, so that it cannot open
    re-randomised ciphertexts of the whole group: the scheme's formula, with HEU's p and g, opens these.
    """
    public, p = ResidueKey("okamoto-uchiyama", heu.n), heu.p

    def logarithm(c: int) -> int:
        return (pow(c, p - 1, p * p) - 1) // p

    unit = pow(logarithm(heu.g), -1, p)
    drawn = below(1 << 512, draws)
    held = public.from_integers([heu.encrypt(m) for m in drawn])
    again = [logarithm(c) * unit % p for c in integers(public, public.rerandomise(held))]
    sums = [heu.decrypt(c) for c in integers(public, public.add(held, held[::-1]))]
    right = [a + b for a, b in zip(drawn, drawn[::-1], strict=True)]
    return [
        ("re-randomised here", draws, sum(a != b for a, b in zip(again, drawn, strict=True))),
        ("sums made here", draws, sum(a != b for a, b in zip(sums, right, strict=True))),
    ]


# The lines.


def exchange(peer: Peer, key: Any, n: int, draws: int) -> Iterator[Line]:
    """Lines of one key at two libraries."""
    subject = f"{key.public.scheme}, {key.public.n.bit_length():,} bits"
    for check, compared, differ in exchanged(key, peer, n, draws):
        yield Line(peer.name, subject, check, differ > 0, f"{differ} of {compared:,} differ")


def with_phe(name: str, bits: int, draws: int) -> Iterator[Line]:
    phe = Phe(import_module("phe"), name, bits)
    return exchange(phe, PaillierKey(phe.p, phe.q), phe.p * phe.q, draws)


def with_heu(name: str, schema: str, draws: int) -> Iterator[Line]:
    heu = Heu(import_module("heu.phe"), name, 2048, schema)
    return exchange(heu, PaillierKey(heu.p, heu.q), heu.n, draws)


def with_lightphe(name: str, scheme: str, draws: int) -> Iterator[Line]:
    key: Any
    if scheme == "Paillier":
        key = Paillier(1024, allow_weak_key=True).generate()
        p, q = key._numbers
    else:
        key = OkamotoUchiyama(1024, allow_weak_key=True).generate()
        p, q = key._p.value, key._q
    module = import_module(f"lightphe.cryptosystems.{scheme}")
    return exchange(LightPhe(module, name, p, q, scheme), key, key.public.n, draws)


def with_heu_okamoto_uchiyama(name: str, draws: int) -> Iterator[Line]:
    heu = Heu(import_module("heu.phe"), name, 2048, "OU")
    for check, compared, differ in public_operations(heu, draws):
        seen = f"{differ} of {compared:,} differ"
        yield Line(heu.name, "okamoto-uchiyama, its key", check, differ > 0, seen)


def our_randomness(draws: int) -> Iterator[Line]:
    key = Paillier().generate()
    p, q = key._numbers
    for check, objects, seen in randomness(key, p, q, draws):
        yield Line("gmpy2", "paillier, 2,048 bits", check, objects, seen)


def with_faults(name: str) -> Iterator[Line]:
    phe = Phe(import_module("phe"), name, 2048)
    for fault, wrong in faults(PaillierKey(phe.p, phe.q)).items():
        objections = [c for c, _, differ in exchanged(wrong, phe, phe.p * phe.q, 200) if differ]
        objections += [c for c, objects, _ in randomness(wrong, phe.p, phe.q, 2_000) if objects]
        yield Line(phe.name, fault, "all", bool(objections), "; ".join(objections), PLANTED)


def pieces(audit: Audit, quick: bool) -> list[Piece]:
    draws = 1_000 if quick else 10_000
    # A quarter each way: here to there, there to here, sums made here, sums made there.
    each = draws // 4
    todo: list[Piece] = [partial(our_randomness, draws)]
    if found := audit.package("phe"):
        todo += [partial(with_phe, found[1], bits, n) for bits, n in ((2048, each), (3072, each // 10))]
        todo.append(partial(with_faults, found[1]))
    if found := audit.package("heu.phe", "sf-heu"):
        todo += [partial(with_heu, found[1], schema, each) for schema in ("IcPaillier", "ZPaillier")]
        todo.append(partial(with_heu_okamoto_uchiyama, found[1], each // 5))
    if found := audit.package("lightphe"):
        schemes = ("Paillier", "OkamotoUchiyama")
        todo += [partial(with_lightphe, found[1], scheme, each // 20) for scheme in schemes]
    return todo


if __name__ == "__main__":
    run("ciphers against phe, HEU and LightPHE", LIMITS, __doc__, pieces)
