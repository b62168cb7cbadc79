"""Okamoto–Uchiyama ciphertexts for the wire, in 72% of their length, as the key's holder sends them.

Modulo q a ciphertext M (a row as it is kept, in Montgomery form, which changes nothing here) is any unit, so
that the key's holder may choose a third of M's bits.  Both sides make a public number T for each ciphertext
from a seed that is sent along, and M is sent as the number e, of w words, with ``M = T + e mod n``.  The
holder of a ciphertext c takes ``e = ((c − T) mod p²) + p²·j`` with j uniform below ``J = ⌊2^(64 w) / p²⌋``: M
is c modulo p², so it has c's plaintext.

**Nothing is learned from T and e beyond M.**  Compare with an ordinary M (uniform modulo q), e uniform in
[0, 2^(64 w)) and ``T = M − e``, which anybody makes from M.  Both ways, given c modulo p² and e below p²·J,
any (T, e) that fits c has the chance 1 / (n·J); in the second, e is beyond p²·J with a chance of less than
p² / 2^(64 w), at most 2^-96.  That takes T to be uniform modulo n.  Here it is uniform below the largest
power of two that is not above n, as if M and e were drawn again until ``M − e`` is such a number; one in two
is, so that an attacker's advantage doubles at most.  And T is ChaCha20's stream under a fresh public seed,
taken to be a random function, as in other schemes that expand public numbers from seeds.

**A ciphertext is sent once.**  Two numbers M of one c agree modulo p² and not modulo q, so that their
difference has p² in common with n.  `GradientsAhead` encrypts whatever it sends; a message that is repeated
is the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from gbdt_commons.key_stream import KEY_BYTES, KeyStream
from gbdt_kernels.residues import Modulus, Reduction, multiply
from gbdt_kernels.residues.lanes import LIMB_BITS
from gbdt_kernels.residues.limb_sums import differences
from gbdt_kernels.residues.limbs import WORD_BITS, add_rows, n_limbs, n_words, to_rows, widened
from gbdt_kernels.residues.modulus import Rows
from xgb_fed.ciphers.base import KeepsSecrets
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.errors import CorruptDataError

SPARE_BITS = 96
"""Bits of e beyond those of p², at least."""

SEED_WORDS = KEY_BYTES * 8 // WORD_BITS


def short_words(key_bits: int) -> int:
    """Words w of a ciphertext on the wire: 23 for keys of 2048 bits; 0 if that saves none (toy keys)."""
    words = n_words(2 * -(-key_bits // 3) + SPARE_BITS)
    return words if words < n_words(key_bits) else 0


class MessageNumbers:
    """The numbers T of a message, in order, from a seed of four words and the modulus n."""

    def __init__(self, seed: Rows, modulus: Modulus) -> None:
        self._stream = KeyStream(np.ascontiguousarray(seed, dtype="<u8").tobytes())
        self._width = modulus.width
        bits = modulus.value.bit_length() - 1
        self._top = np.uint64((1 << (bits - WORD_BITS * (modulus.width - 1))) - 1)

    def draw(self, count: int) -> Rows:
        """The next ones."""
        drawn = np.array(self._stream.words(count * self._width)).reshape(count, self._width)
        drawn[:, -1] &= self._top
        return drawn


def lengthened(rows: Rows, modulus: Modulus) -> Rows:
    """Ciphertexts of a message, a seed and then the numbers e; `CorruptDataError` if it is none."""
    words = short_words(modulus.value.bit_length())
    if not words or rows.shape[1] != words or not len(rows) or rows[0, SEED_WORDS:].any():
        raise CorruptDataError("not short ciphertexts of this key")
    numbers = MessageNumbers(rows[0, :SEED_WORDS], modulus)
    return add_rows(numbers.draw(len(rows) - 1), widened(rows[1:], modulus.width), modulus.words)


class Shortening(KeepsSecrets):
    """The secret side: numbers e of ciphertexts modulo `whole`, n; `square` is p²."""

    def __init__(self, square: Modulus, whole: Modulus, n_threads: int) -> None:
        self.words = short_words(whole.value.bit_length())
        self._square, self._whole, self._n_threads = square, whole, n_threads
        self._modulo_square = Reduction(whole.width, square, pow(square.radix, -1, square.value))
        self._steps = (1 << (WORD_BITS * self.words)) // square.value
        self._step_limbs = n_limbs(self._steps.bit_length())
        self._step = to_rows([(square.value << (LIMB_BITS * self._step_limbs)) % whole.value], whole.width)

    def message(self, parts: Iterable[Rows], random: SecretStream) -> Iterator[Rows]:
        """Rows of a message, part by part; the seed is the first row of the first part."""
        head = np.zeros((1, self.words), dtype=np.uint64)
        head[:, :SEED_WORDS] = random.words(1, SEED_WORDS)
        numbers = MessageNumbers(head[0, :SEED_WORDS], self._whole)
        for part in parts:
            yield np.concatenate([head, self._offsets(part, numbers.draw(len(part)), random)])
            head = head[:0]

    def _offsets(self, ciphertexts: Rows, numbers: Rows, random: SecretStream) -> Rows:
        """The number e of each ciphertext; all sums and products after the first are of integers below n."""
        whole = self._whole
        apart = add_rows(
            ciphertexts, differences(np.repeat(whole.words[None], len(numbers), 0), numbers), whole.words
        )
        rest = widened(self._modulo_square(apart, self._n_threads), whole.width)
        steps = random.below(self._steps, len(rest))
        multiples = multiply(self._step, steps, whole, self._n_threads, b_limbs=self._step_limbs)
        return add_rows(rest, multiples, whole.words)[:, : self.words]
