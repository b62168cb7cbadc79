"""Entries of secret tables at secret places, as shares: one of up to 256 for every row.

Functionality: A has a table T_i of ring elements for every row i, B has a number p_i of an entry;
afterwards A has s_i and B has T_i[p_i] − s_i, and neither has learnt anything.

Source: one of N from transfers with one difference, after Kolesnikov and Kumaresan (CRYPTO 2013), with the
bits of p as coefficients of a polynomial: Σ_t x^t·(q_t ⊕ p_t·Δ) = q ⊕ p·Δ in GF(2^128).

B chooses with the bits of p, lowest first, and has t = q ⊕ pΔ.  With pads P_j = H(q ⊕ jΔ) A takes s = T[0]
+ P_0, and sends T[j] − s + P_j for j > 0; entry 0 needs no message, since B would be sent 0.

* *B has its entry*: message_p − P_p = T[p] − s for p > 0, and −P_0 = T[0] − s for p = 0.
* *B learns no more*: P_j for j ≠ p look uniform (`pads`), the differences (j ⊕ p)Δ being different and not
  zero.  Of s it then has T[p] − s and nothing else: s = T[0] + P_0 is uniform if p ≠ 0; if p = 0, s is
  what P_0 says, and every message T[j] − s + P_j is uniform.
* *A learns nothing of p*: it receives nothing but the transfers' messages.
* *No question is off the table*: each p below N has an entry; those from N to the next power of
  two are refused on B's own side, and have no message.  A table's entries must be in bounds for every p.
* *Shares add in the ring*: the lowest bits of words modulo 2^64 are sent; 2^64 is a multiple.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.transfers.pads import combine, spread
from gbdt_kernels.transfers.tables import mask_tables, unmask_entries
from gbdt_parties.errors import PartyArgumentError, ProtocolError
from gbdt_parties.two_party.pads import PIECE, Pads, Words, aligned

MAX_POINTS = 256
_POLYNOMIAL = (1 << 128) | 0x87


def bits_of(n_points: int) -> int:
    """Transfers of a lookup in a table of 2 to 256 entries; else `PartyArgumentError`."""
    if not 2 <= n_points <= MAX_POINTS:
        raise PartyArgumentError(f"n_points={n_points} of a table must be 2 to {MAX_POINTS}")
    return (n_points - 1).bit_length()


def multiples(difference: Words, n_points: int) -> Words:
    """j·Δ in GF(2^128) for all j, as polynomials; shape (n_points, 2)."""
    element = int(difference[0]) | int(difference[1]) << 64
    powers = np.empty((bits_of(n_points), 2), dtype=np.uint64)
    for power in powers:
        power[:] = element & (1 << 64) - 1, element >> 64
        # The highest bit is subtracted by a product, not by a branch.
        element = (element << 1) ^ (element >> 127) * _POLYNOMIAL
    numbers = np.arange(n_points, dtype=np.uint64)
    bits = numbers[:, None] >> np.arange(len(powers), dtype=np.uint64) & np.uint64(1)
    return np.asarray(np.bitwise_xor.reduce(powers[None] * bits[:, :, None], axis=1))


def keys_of(rows: Words, n_points: int) -> Words:
    """The transfers of each row's bits in one: all that a lookup needs of them, and shorter to keep.

    `rows` is q or t of the transfers of each bit, m of them, the lowest bit first.  The result is Σ_t
    x^t·q_t, or the same of t, of each row, shape (m, 2).
    """
    n_bits = bits_of(n_points)
    keys = np.empty((len(rows) // n_bits, 2), dtype=np.uint64)
    combine(rows, n_bits, keys)
    return keys


def message_bytes(n: int, n_points: int, n_outputs: int, ring_bits: int) -> int:
    """Length of A's message for n rows."""
    return n * (n_points - 1) * n_outputs * (ring_bits // 8)


class LookupSender:
    """The side with tables for one step's rows, in a ring of 48 or 64 bits, by the transfers' difference."""

    def __init__(self, pads: Pads, difference: Words, n_points: int, ring_bits: int) -> None:
        self._pads, self._parts = pads, ring_bits // 16
        self._offsets = multiples(difference, n_points)

    def answer(self, keys: Words, first: int, table: Words) -> tuple[Words, memoryview]:
        """Mask the tables of n rows, from number `first` in the step on.

        There are m ≥ n keys of `keys_of`, and a table of shape (n, n_points, n_outputs).  The result is this
        side's shares, shape (n, n_outputs), and the message, as bytes.
        """
        n, n_points, n_outputs = table.shape
        if n_points != len(self._offsets):
            raise PartyArgumentError(f"a table of {n_points} points; agreed on were {len(self._offsets)}")
        shares = np.empty((n, n_outputs), dtype=np.uint64)
        message = np.empty((n, n_points - 1, n_outputs, self._parts), dtype="<u2")
        n_blocks = -(-n_outputs // 2)
        for start in range(0, n, PIECE):
            piece = slice(start, min(start + PIECE, n))
            inputs = np.empty((piece.stop - start, n_points, n_blocks, 2), dtype=np.uint64)
            spread(keys[piece], self._offsets, n_blocks, inputs)
            inner, outer = self._pads.hashed(inputs, first + start)
            mask_tables(table[piece], inner, outer, shares[piece], message[piece])
        return shares, message.data.cast("B")


class LookupReceiver:
    """The side with numbers of entries, for the rows of one step, in a ring of 48 or 64 bits."""

    def __init__(self, pads: Pads, n_points: int, n_outputs: int, ring_bits: int) -> None:
        self._pads = pads
        self._shape = (n_points - 1, n_outputs, ring_bits // 16)
        self._ring_bits = ring_bits

    def take(self, keys: Words, first: int, points: NDArray[np.uint8], message: bytes | memoryview) -> Words:
        """Take A's message about n rows, from number `first` in the step on; gives this side's shares.

        There are m ≥ n keys of `keys_of`, and points as they were chosen with; shares have shape (n,
        n_outputs). Raises `ProtocolError` if the message has another length.
        """
        n, (n_others, n_outputs, _) = len(points), self._shape
        due = message_bytes(n, n_others + 1, n_outputs, self._ring_bits)
        if len(message) != due:
            raise ProtocolError(f"masked tables of {len(message)} bytes where {due} were due")
        masked = np.frombuffer(message, dtype="<u2").reshape(n, *self._shape)
        shares = np.empty((n, n_outputs), dtype=np.uint64)
        n_blocks = -(-n_outputs // 2)
        nothing = np.zeros((1, 2), dtype=np.uint64)
        for start in range(0, n, PIECE):
            piece = slice(start, min(start + PIECE, n))
            inputs = np.empty((piece.stop - start, 1, n_blocks, 2), dtype=np.uint64)
            spread(keys[piece], nothing, n_blocks, inputs)
            inner, outer = self._pads.hashed(inputs, first + start)
            unmask_entries(points[piece], inner, outer, aligned(masked[piece]), shares[piece])
        return shares
