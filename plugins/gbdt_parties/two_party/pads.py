"""Pads from transfers: a hash of rows that stays random beside the same rows shifted by multiples of Δ.

Functionality: of q and t = q ⊕ cΔ, both sides compute H(t, i) for some counter i; H(q ⊕ jΔ, i) looks
random to the side that has t and not Δ, for all multiples j ≠ c that are used and all i.

Source: TMMO of Guo, Katz, Wang and Yu, "Efficient and secure multiparty computation from fixed-key block
ciphers" (IEEE S&P 2020): H(x, i) = π(π(x) ⊕ i) ⊕ π(x), π = AES under a public key.  It is tweakable
circular correlation robust for a random permutation π.

* *One side's rows can be chosen.*  A receiver that deviates chooses its t, even twice the same.  The
  counter differs for all inputs of one key, and by π it enters so that no two of them cancel.
* *Multiples of Δ.*  For j ≠ c, the input is t ⊕ (j ⊕ c)Δ, a bijection of Δ as j ⊕ c is not zero in
  GF(2^128).  Of p evaluations by the other side and n inputs, one is hit, or two inputs of one counter or
  inner values meet, with probability at most about (2·p·n + 2·n²)·2^-128; otherwise all outputs are
  independent and uniform.
* *A guess of b bits of Δ that a check let pass* takes away b of the 128 bits, and passed with chance 2^-b.
* *Keys*: one for each purpose of a step in a direction of a session, whose name has parties and places in
  it.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from gbdt_kernels.transfers.pads import tweak, tweak_levels
from gbdt_parties.two_party.base_transfers import KEY_BYTES
from gbdt_parties.two_party.names import Step

_PADS = b"pads"
_BLOCK_BYTES = 16
PIECE = 1 << 11
"""Rows that are hashed at a time: their blocks stay in the processor's cache."""

Words = NDArray[np.uint64]
A = TypeVar("A", bound=NDArray[Any])


def aligned(part: A) -> A:
    """Part of a message as kernels read it: a copy, unless its place in memory is a multiple of its words'.

    Where a message begins depends on those that came with it.
    """
    if part.flags.aligned:
        return part
    copy: A = part.copy()
    # Kernels are compiled once, for what is only read.
    copy.flags.writeable = False
    return copy


class Pads:
    """The hash for one purpose of one step's masked messages, bound to session and direction."""

    def __init__(self, context: bytes, step: Step, purpose: bytes) -> None:
        key = step.digest(context, _PADS, purpose)[:KEY_BYTES]
        self._cipher = Cipher(algorithms.AES(key), modes.ECB()).encryptor()

    def hashed(self, inputs: Words, first: int) -> tuple[Words, Words]:
        """Hash blocks; the pads are the exclusive or of both results.

        The inputs, shape (n, k, n_blocks, 2) as the results have, are overwritten.  The first row has the
        number `first` among all rows of this purpose, and row i's block b has the counter
        ``i * n_blocks + b``, the same for all k.
        """
        inner = self._permuted(inputs)
        tweak(inner, first * inputs.shape[2], inputs)
        return inner, self._permuted(inputs)

    def hashed_levels(self, inputs: Words, first: int) -> tuple[Words, Words]:
        """Hash the blocks of a tree's levels: as `hashed` of each repeated for its nodes, permuted once.

        The inputs and the inner values have shape (n, k, n_levels, 2), the outer ones (n, k, 2**(n_levels -
        1), 2). A level's blocks begin as of `gbdt_kernels.transfers.pads.tweak_levels`.
        """
        n, k, n_levels, _ = inputs.shape
        n_blocks = 1 << n_levels >> 1
        inner, tweaked = self._permuted(inputs), np.empty((n, k, n_blocks, 2), dtype=np.uint64)
        tweak_levels(inner, first * n_blocks, tweaked)
        return inner, self._permuted(tweaked)

    def _permuted(self, blocks: Words) -> Words:
        # A cipher asks for room for a block more than it writes.
        room = np.empty(blocks.nbytes + _BLOCK_BYTES, dtype=np.uint8)
        self._cipher.update_into(blocks.data.cast("B"), room.data)
        return room[: blocks.nbytes].view(np.uint64).reshape(blocks.shape)
