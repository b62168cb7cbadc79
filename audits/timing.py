"""Whether times tell secrets apart, after `dudect` (Reparaz, Balasch and Verbauwhede, DATE 2017).

One step is timed many times, in random order, with a secret that is always the same and with secrets drawn
anew.  Welch's t of the two samples of times, the largest of those without and with the slowest cut off, is
evidence of a difference above 4.5.  Steps with a fault must be found.

    python -m audits.timing --out out/audits/timing.json
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from audits.outcome import HONEST, MEASURED, PLANTED, Audit, Line, Piece, run
from gbdt_commons.key_stream import KeyStream
from gbdt_parties.secure_sum.masks import mask_stream, masked
from gbdt_parties.secure_sum.rings import Ring
from gbdt_parties.two_party.base_transfers import BaseReceiver
from gbdt_parties.two_party.extension import Batch
from gbdt_parties.two_party.names import Step
from two_party_sides import transfer_sides
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.ciphers.paillier import Paillier

LIMITS = (
    "One process of one machine, by its clock: differences far below the scatter stay unseen, as do "
    "caches, power and other threads. Python's integers and GMP's are not constant in time by design, "
    "so that no t below the bound is a promise. A peer sees sums of many steps and the network's scatter."
)
BOUND = 4.5
KEPT = (1.0, 0.99, 0.95, 0.9, 0.75, 0.5)
"""Shares of the fastest times."""
Timed = Callable[[Any], object]
Subject = tuple[Timed, Callable[[], Any], Callable[[], Any]]
"""A step, what gives its input with the fixed secret, and one with a new secret."""


def welch(one: np.ndarray, other: np.ndarray) -> float:
    """Welch's t of two samples."""
    scatter = np.sqrt(one.var(ddof=1) / len(one) + other.var(ddof=1) / len(other))
    return float((one.mean() - other.mean()) / scatter) if scatter else 0.0


def largest_t(subject: Subject, n: int) -> float:
    """The largest t of a subject's times in size, of n runs of each class."""
    step, fixed, drawn = subject
    is_drawn = np.random.default_rng().permutation(np.repeat([False, True], n))
    # Inputs are made before, those of both classes alike, so that caches know neither.
    inputs = [(drawn if one else fixed)() for one in is_drawn]
    for _ in range(20):
        step(fixed())
    times = np.empty(2 * n)
    gc.collect()
    gc.disable()
    try:
        for k, one in enumerate(inputs):
            begun = time.perf_counter_ns()
            step(one)
            times[k] = time.perf_counter_ns() - begun
    finally:
        gc.enable()
    limits = np.quantile(times, KEPT)
    samples = [[times[(times <= limit) & (is_drawn == c)] for c in (False, True)] for limit in limits]
    return max((welch(*pair) for pair in samples), key=abs)


def vector_under_masks() -> Subject:
    """A party's numbers: zeros, or any."""
    ring, streams = Ring(64), [KeyStream(os.urandom(32)) for _ in range(2)]

    def step(values: Any) -> None:
        list(masked(ring, values, streams[:1], streams[1:]))

    def words(n_set: int) -> Any:
        octets = os.urandom(8 * n_set) + bytes(8 * (2048 - n_set))
        # Copied, since zeros that were only asked for share one page of memory.
        return ring.from_integers(np.frombuffer(octets, np.int64)).copy()

    return step, lambda: words(0), lambda: words(2048)


def key_of_a_mask() -> Subject:
    """The secret of a pair."""
    fixed = os.urandom(64)
    return (
        lambda secret: mask_stream(secret, b"pair", bytes(32), b"attempt").words(64),
        lambda: bytes(bytearray(fixed)),
        lambda: os.urandom(64),
    )


def x25519() -> Subject:
    """A party's key of a session."""
    other, fixed = X25519PrivateKey.generate().public_key(), os.urandom(32)
    make = X25519PrivateKey.from_private_bytes
    return lambda key: key.exchange(other), lambda: make(fixed), lambda: make(os.urandom(32))


def ml_kem() -> Subject:
    """A party's key of a session, and a ciphertext to it."""

    def pair(seed: bytes) -> Any:
        key = MLKEM768PrivateKey.from_seed_bytes(seed)
        return key, key.public_key().encapsulate()[1]

    fixed = os.urandom(64)
    return lambda one: one[0].decapsulate(one[1]), lambda: pair(fixed), lambda: pair(os.urandom(64))


def choices_of_base_transfers() -> Subject:
    """The receiver's choice bits."""
    context = bytes(32)

    def step(choices: Any) -> None:
        BaseReceiver(context, choices, KeyStream(os.urandom(32)))

    random = np.random.default_rng()
    return (step, lambda: np.zeros(8, dtype=np.uint8), lambda: random.integers(0, 2, 8).astype(np.uint8))


def choices_of_extended_transfers() -> Subject:
    """The receiver's choice bits."""
    sides, rounds = transfer_sides(), iter(range(1, 1 << 30))

    def step(choices: Any) -> None:
        sides.receiver.extend(Batch(Step(next(rounds), 0, 1), 0), choices, KeyStream())

    return (step, lambda: np.zeros(16, np.uint64), lambda: np.frombuffer(os.urandom(128), np.uint64).copy())


def decryption(scheme: Any) -> Subject:
    """The plaintext of a fresh ciphertext: 0, or any."""
    key = scheme(key_length=2048, n_threads=1).generate()
    bits = key.public.plaintext_limit.bit_length() - 1

    def encrypted(plaintext: int) -> Any:
        return key.encrypt([plaintext])

    return key.decrypt, lambda: encrypted(0), lambda: encrypted(int.from_bytes(os.urandom(bits // 8)))


def pauses_at_ones() -> Subject:
    """A fault: a choice of 1 takes a loop longer."""
    step, fixed, drawn = choices_of_base_transfers()

    def faulty(choices: Any) -> None:
        step(choices)
        sum(range(int(choices.sum()) * 4000))

    return faulty, fixed, drawn


def zeros_left_out() -> Subject:
    """A fault: a vector of zeros gets no second mask."""
    step, fixed, drawn = vector_under_masks()
    return lambda values: step(values[: 2048 if values.any() else 1024]), fixed, drawn


def powers_bit_by_bit() -> Subject:
    """A fault: decryption that multiplies where the key's bit is 1; the fixed key has few of them."""
    modulus = int.from_bytes(os.urandom(128)) | 1

    def step(exponent: int) -> int:
        power, base = 1, 3
        while exponent:
            if exponent & 1:
                power = power * base % modulus
            base = base * base % modulus
            exponent >>= 1
        return power

    return step, lambda: (1 << 127) + 1, lambda: int.from_bytes(os.urandom(16)) | (1 << 127)


SUBJECTS: dict[str, tuple[Callable[[], Subject], str, int]] = {
    "numbers under masks": (vector_under_masks, HONEST, 1),
    "key of a mask": (key_of_a_mask, HONEST, 1),
    "X25519": (x25519, HONEST, 1),
    "ML-KEM-768": (ml_kem, HONEST, 1),
    "choices of base transfers": (choices_of_base_transfers, HONEST, 4),
    "choices of extended transfers": (choices_of_extended_transfers, HONEST, 1),
    "Paillier's decryption": (partial(decryption, Paillier), MEASURED, 8),
    "Okamoto–Uchiyama's decryption": (partial(decryption, OkamotoUchiyama), MEASURED, 8),
    "choices: a loop longer at ones": (pauses_at_ones, PLANTED, 4),
    "masks: zeros are cut short": (zeros_left_out, PLANTED, 1),
    "decryption: bit by bit": (powers_bit_by_bit, PLANTED, 1),
}
"""A subject's kind of line, and by what its number of runs is divided."""


def timed(name: str, n: int) -> Iterator[Line]:
    """The line of one subject."""
    make, kind, slower = SUBJECTS[name]
    t = largest_t(make(), n // slower)
    text = f"t = {t:.1f}"
    yield Line("ours, after dudect", name, f"{n // slower:,} runs of each class", abs(t) > BOUND, text, kind)


def pieces(audit: Audit, quick: bool) -> list[Piece]:
    return [partial(timed, name, 1_000 if quick else 10_000) for name in SUBJECTS]


if __name__ == "__main__":
    run("times", LIMITS, __doc__, pieces)
