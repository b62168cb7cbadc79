"""Many correlated transfers from 128 base transfers: 4 bytes each, with a check of every batch.

Functionality: A has nothing, B has bits c_i; afterwards A has a secret Δ of 128 bits, the same for all
batches of the session, and q_i, and B has t_i = q_i ⊕ c_i·Δ.  B that deviates may have A find out, for
each batch, whether Δ has certain bits that B chose, among those of blocks of four; if it has not, the
session is over.

Source: SoftSpokenOT (Roy, CRYPTO 2022) over GF(16) with the repetition code, and its consistency check
(section 4).  The check's linear hash is GHASH, its key by Fiat and Shamir.

In block b, B has the seeds of 16 streams r_x, and A those of all but y, the block's bits of Δ.  B computes
u = ⊕_x r_x and v = Σ_x x·r_x, A w = Σ_x (x ⊕ y)·r_x = v ⊕ y·u, in which r_y has the factor 0.  B sends e_b
= u_b ⊕ c, and A takes q = w ⊕ y·e_b = v ⊕ y·c: the columns of q and of t = v of the block.

* *A, even one that deviates, learns nothing of c*: e_b is under r_y, a pseudorandom stream that A has not.
  It sends nothing here.
* *B that follows learns nothing of Δ*: it receives nothing.
* *B that deviates guesses.*  Let c_b = e_b ⊕ u_b.  For a linear hash R, B sends c̃ and a digest of 128
  values, and A compares the digest of R(q^m) ⊕ Δ_m·c̃ = R(t^m) ⊕ Δ_m·R'_b with R'_b = R(c_b) ⊕ c̃.  The
  digest fixes values T^m; so the batch passes if and only if T^m ⊕ R(t^m) = Δ_m·R'_b: for a block with
  R'_b ≠ 0, B must have known its four bits, and the chance is 2^-4 for each such block.
* *Blocks with R'_b = 0 agree*: R is GHASH under a key that is SHA-256 of the corrections, so that two
  different c_b of L words collide for a tried batch with probability (L/2 + 1)·2^-128.
* *c̃ tells A nothing*: the batch's last 128 choices are random, and R is one-to-one on them (their block's
  factor is a power of the key, zero for one key of 2^128); no other use is made of these transfers.  T^m
  is what A computes itself.
* *Nothing repeats*: the streams are AES of (round, attempt, flight, batch, counter), and steps only go
  forward.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from gbdt_commons.key_stream import KeyStream
from gbdt_kernels.transfers.columns import correct, fold, transpose
from gbdt_parties.errors import ProtocolError
from gbdt_parties.two_party.life import Life, Unrepeatable
from gbdt_parties.two_party.names import DIGEST_BYTES, Step
from gbdt_parties.two_party.pads import aligned
from gbdt_parties.two_party.punctured_trees import DEPTH, N_BITS, N_BLOCKS, N_LEAVES, Octets

SPARE_WORDS = 2
"""Words of random choices at the end of each batch: they mask the hash of all choices."""

MAX_WORDS = 1 << 26
"""Of a batch; a stream's counter of 16 bytes each has 32 bits."""

_BLOCK_BYTES = 16
_NONCE = bytes(12)
"""Each key of the linear hash is for one batch, and it hides nothing."""

_CHECK, _VALUES = b"consistency key", b"consistency values"
Words = NDArray[np.uint64]


@dataclass(frozen=True, order=True)
class Batch:
    """A step's batch below 2**32, to which streams, keys and checks are bound, as to the session."""

    step: Step
    number: int

    def to_bytes(self) -> bytes:
        """Twelve bytes, which no other batch has."""
        return self.step.to_bytes() + b"\0" + self.number.to_bytes(4, "little")

    def digest(self, context: bytes, *more: bytes) -> bytes:
        """A digest that names this batch of a direction and what it is for."""
        return self.step.digest(context, self.to_bytes(), *more)


def words_with_spares(n_words: int) -> int:
    """Words that a batch of so many words of choices has: full blocks of 16 bytes, and the spare ones."""
    return n_words + n_words % 2 + SPARE_WORDS


def message_bytes(n_words: int) -> int:
    """Length of the message for a batch of so many words of choices."""
    return N_BLOCKS * 8 * words_with_spares(n_words) + _BLOCK_BYTES + DIGEST_BYTES


def linear_hashes(key: bytes, columns: Words) -> Octets:
    """GHASH of every row of the columns under a public key, of 16 bytes each: linear over GF(2).

    A GMAC is GHASH of text and length, with a block added that depends on the key only; the GMAC of as many
    zeros takes away both.  The key, of 16 bytes, is one of AES, which makes GHASH's.  Columns have an even
    number of words.
    """
    gmac = AESGCM(key)
    texts = columns.view(np.uint8)
    tags = [gmac.encrypt(_NONCE, b"", text.data) for text in texts]
    zeros = gmac.encrypt(_NONCE, b"", bytes(texts.shape[1]))
    return np.frombuffer(b"".join(tags), dtype=np.uint8).reshape(-1, _BLOCK_BYTES) ^ np.frombuffer(
        zeros, dtype=np.uint8
    )


class _Extension(Unrepeatable):
    """Common to both sides: streams, their columns, and steps that only go forward."""

    def __init__(self, context: bytes, seeds: Octets, life: Life) -> None:
        self._context, self.life = context, life
        self._ciphers = [[_cipher(seed.tobytes()) for seed in block] for block in seeds]
        self._last: Batch | None = None

    def _begin(self, batch: Batch) -> None:
        with self.life.held():
            if self._last is not None and batch <= self._last:
                raise ProtocolError(f"{batch} is not after {self._last}: transfers are made once")
            self._last = batch

    def columns(self, batch: Batch, words: int) -> tuple[Words, Words]:
        """Columns of all blocks, and the sum of each block's streams."""
        columns = np.empty((N_BITS, words), dtype=np.uint64)
        totals = np.empty((N_BLOCKS, words), dtype=np.uint64)
        counters = _counters(batch, words)
        n_bytes = 8 * words
        # A cipher asks for room for a block more than it writes.
        room = np.empty(N_LEAVES * n_bytes + _BLOCK_BYTES, dtype=np.uint8)
        streams = room[: N_LEAVES * n_bytes].view(np.uint64).reshape(N_LEAVES, words)
        places = [room[x * n_bytes : (x + 1) * n_bytes + _BLOCK_BYTES].data for x in range(N_LEAVES)]
        for b, ciphers in enumerate(self._ciphers):
            for cipher, place in zip(ciphers, places, strict=True):
                cipher.update_into(counters, place)
            fold(streams, DEPTH * b, columns, totals[b])
        return columns, totals

    def key(self, batch: Batch, corrections: bytes | memoryview) -> bytes:
        digest = hashlib.sha256(batch.digest(self._context, _CHECK))
        digest.update(corrections)
        return digest.digest()[:_BLOCK_BYTES]

    def values_digest(self, batch: Batch, values: Octets) -> bytes:
        return batch.digest(self._context, _VALUES, values.tobytes())


def _cipher(key: bytes) -> CipherContext:
    return Cipher(algorithms.AES(key), modes.ECB()).encryptor()


def _counters(batch: Batch, words: int) -> memoryview:
    """Blocks that no other batch encrypts."""
    counters = np.empty((words // 2, 4), dtype="<u4")
    counters[:, :3] = np.frombuffer(batch.to_bytes(), dtype="<u4")
    counters[:, 3] = np.arange(words // 2)
    return counters.data.cast("B")


def rows_of_bits(columns: Words, n_words: int) -> Words:
    """Columns of bits turned into rows of two words."""
    rows = np.empty((64 * n_words, 2), dtype=np.uint64)
    transpose(columns, rows)
    return rows


def _check_words(n_words: int) -> None:
    if not 0 < n_words <= MAX_WORDS:
        raise ProtocolError(f"{n_words} words of choices in a batch; there must be 1 to {MAX_WORDS}")


class TransferReceiver(_Extension):
    """The side with choices and seeds of `punctured_trees.grown`; context: session and direction."""

    def extend(self, batch: Batch, choices: Words, stream: KeyStream) -> tuple[Words, bytes]:
        """Make a batch of transfers: t of every one, shape (64·w, 2), and the message for the other side.

        Of the choices, w words of bits, that of the first transfer is lowest.  The spare choices come from
        the stream of this side's draws for this attempt.

        Raises `ProtocolError` if the batch is not after the last one, or the session is over.
        """
        _check_words(len(choices))
        self._begin(batch)
        words = words_with_spares(len(choices))
        chosen = np.concatenate([choices, stream.words(words - len(choices))])
        columns, corrections = self.columns(batch, words)
        corrections ^= chosen
        sent = corrections.data.cast("B")
        key = self.key(batch, sent)
        values = self.values_digest(batch, linear_hashes(key, columns))
        message = b"".join([sent, linear_hashes(key, chosen[None]).data, values])
        return rows_of_bits(columns, len(choices)), message


class TransferSender(_Extension):
    """The side with the secret difference Δ, of 128 bits, with the seeds of `punctured_trees.punctured`.

    The context is the digest of session and direction.  Δ is given as bits and kept as two words.
    """

    def __init__(self, context: bytes, seeds: Octets, difference: Octets, life: Life) -> None:
        super().__init__(context, seeds, life)
        self.difference: Words = np.packbits(difference, bitorder="little").view("<u8").astype(np.uint64)
        self._masks: Words = -difference.astype(np.uint64)

    def extend(self, batch: Batch, n_words: int, message: bytes | memoryview) -> Words:
        """Take the other side's message for a batch of `n_words` words of choices; gives q of every transfer.

        Raises `TransferCheckError` if the corrections are not consistent, and the session is then over.
        Raises `ProtocolError` if the message has another length, the batch is not after the last one, or the
        session is over.
        """
        _check_words(n_words)
        if len(message) != message_bytes(n_words):
            raise ProtocolError(
                f"a batch of transfers has {len(message)} bytes where {message_bytes(n_words)} were due"
            )
        self._begin(batch)
        words = words_with_spares(n_words)
        view = memoryview(message)
        end = N_BLOCKS * 8 * words
        corrections = aligned(np.frombuffer(view[:end], dtype="<u8").reshape(N_BLOCKS, words))
        columns, _ = self.columns(batch, words)
        correct(columns, corrections, self._masks)
        self.check(batch, columns, self.key(batch, view[:end]), view[end:])
        return rows_of_bits(columns, n_words)

    def check(self, batch: Batch, columns: Words, key: bytes, said: memoryview) -> None:
        """Raise a ProtocolError unless the corrections are those of one choice in each row."""
        hashed_choices = np.frombuffer(said[:_BLOCK_BYTES], dtype=np.uint8)
        masks = self._masks.astype(np.uint8)[:, None]
        values = linear_hashes(key, columns) ^ (hashed_choices & masks)
        if not hmac.compare_digest(self.values_digest(batch, values), said[_BLOCK_BYTES:]):
            self.life.fail("the other side's corrections of transfers are not consistent")
