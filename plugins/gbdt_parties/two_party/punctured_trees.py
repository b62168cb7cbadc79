"""All but one of 16 seeds in each of 32 trees, and the check that the other side's trees are ones.

Functionality: A has nothing, B has a number y_b below 16 for each of 32 blocks; afterwards A has seeds
s_b,0 … s_b,15 of every block, and B has all of them but s_b,y_b.  A that deviates may have B find out,
with one answer for all blocks, whether (y_b) is in a set that A chose; if it is not, the session is over.

Source: the trees of Goldreich, Goldwasser and Micali punctured by base transfers, with the check of Boyle
et al., "Efficient two-round OT extension" (CCS 2019), as SoftSpokenOT uses it (Roy, CRYPTO 2022).

A tree's first two nodes are the keys of its first base transfer.  For each further level A sends the
exclusive ors of all left and of all right children, each under one key of a base transfer; B's choice is
the side off its path, so that it has all nodes but the one on the path.  A leaf is hashed to a check value
c_x of 256 bits and a seed s_x.  A sends C = ⊕_x c_x of each block, and one digest of all c_b,x.

* *B has all others*: on the side off the path it knows all children but the path's sibling, hence that
  one.
* *A learns nothing of y*, beyond the bit above: its view but for the base transfers does not depend on it.
* *B learns nothing of s_y*: the nodes on the path are SHA-256 of what B does not have, its sums are under
  the keys that B did not choose, and C gives c_y, which is a random oracle's other output, of the leaf
  unknown.
* *Deviation is a guess*: B completes c_y = C ⊕ the others, and compares digests.  The digest fixes all
  c_b,x (or SHA-256 collides).  For a y that passes, all leaves that B has hash to these values, so that
  they are the ones that A can work out from its queries: the same for all y that pass.  Hence A chose a
  set of y.
* *Base transfers are used once*, and bound with each hash to block, level, session and direction.
"""

from __future__ import annotations

import hashlib
import hmac

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.curve_group import length_prefixed
from gbdt_parties.errors import ProtocolError
from gbdt_parties.two_party.base_transfers import KEY_BYTES
from gbdt_parties.two_party.life import Life
from gbdt_parties.two_party.names import DIGEST_BYTES

N_BLOCKS, DEPTH = 32, 4
N_LEAVES = 1 << DEPTH
N_BITS = N_BLOCKS * DEPTH
"""Base transfers; bits of the secret difference."""

_NODE, _LEAF, _CHECK = (
    b"veilboost two-party node 1",
    b"veilboost two-party leaf 1",
    b"veilboost two-party leaves 1",
)
_CORRECTION_BYTES = N_BLOCKS * (DEPTH - 1) * 2 * KEY_BYTES
MESSAGE_BYTES = _CORRECTION_BYTES + N_BLOCKS * DIGEST_BYTES + DIGEST_BYTES

Octets = NDArray[np.uint8]


def _children(context: bytes, level: int, nodes: Octets) -> Octets:
    """Both children of every node: (32, w, 16) bytes to (32, 2·w, 16)."""
    begun = hashlib.sha256(length_prefixed([_NODE, context]) + bytes([level]))
    return _hashed(begun, nodes).reshape(N_BLOCKS, -1, KEY_BYTES)


def _finished(context: bytes, leaves: Octets) -> tuple[Octets, Octets]:
    """Check values (32, 16, 32) and seeds (32, 16, 16) of all leaves."""
    both = _hashed(hashlib.sha512(length_prefixed([_LEAF, context])), leaves)
    return both[:, :, :DIGEST_BYTES], both[:, :, DIGEST_BYTES : DIGEST_BYTES + KEY_BYTES]


def _hashed(begun: hashlib._Hash, nodes: Octets) -> Octets:
    """The hash of every node, behind its block and place, shape (32, w, n_bytes)."""
    made = bytearray()
    for b, block in enumerate(nodes):
        for x, node in enumerate(block):
            text = begun.copy()
            text.update(bytes([b, x]) + node.tobytes())
            made += text.digest()
    return np.frombuffer(made, dtype=np.uint8).reshape(N_BLOCKS, nodes.shape[1], -1)


def _digest(context: bytes, checks: Octets) -> bytes:
    return hashlib.sha256(length_prefixed([_CHECK, context, checks.tobytes()])).digest()


def _sums(nodes: Octets) -> Octets:
    """Exclusive ors of all left and of all right children of each block, shape (32, 2, n_bytes)."""
    paired = nodes.reshape(N_BLOCKS, -1, 2, nodes.shape[2])
    return np.asarray(np.bitwise_xor.reduce(paired, axis=1))


def grown(context: bytes, keys: list[tuple[bytes, bytes]]) -> tuple[Octets, bytes]:
    """A's side: all seeds, shape (32, 16, 16), and the message for B, of `MESSAGE_BYTES`.

    The context is the digest of session and direction.  The keys are both of each of the 128 base transfers,
    those of a block together, its first level first.
    """
    pairs = np.frombuffer(b"".join(b"".join(pair) for pair in keys), dtype=np.uint8)
    pairs = pairs.reshape(N_BLOCKS, DEPTH, 2, KEY_BYTES)
    nodes, corrections = pairs[:, 0], []
    for level in range(1, DEPTH):
        nodes = _children(context, level, nodes)
        corrections.append(_sums(nodes) ^ pairs[:, level])
    checks, seeds = _finished(context, nodes)
    completion = np.bitwise_xor.reduce(checks, axis=1)
    message = np.stack(corrections).tobytes() + completion.tobytes() + _digest(context, checks)
    return seeds, message


def base_choices(difference: Octets) -> Octets:
    """The choices of the base transfers: of each level, the side off the path to leaf y.

    Of the 128 bits of the difference, those of a block are the bits of its y, the lowest first.
    """
    return np.ascontiguousarray(1 - difference.reshape(N_BLOCKS, DEPTH)[:, ::-1]).ravel()


def punctured(context: bytes, difference: Octets, keys: list[bytes], message: bytes, life: Life) -> Octets:
    """B's side: the seeds of every block, in the order y ^ 0, y ^ 1, …, shape (32, 16, 16).

    The first one of every block, which B does not have, is none of the other side's.  All nodes are worked
    out, the one on the path from anything; what is not known is chosen by masks.

    There is the chosen key of each base transfer, and the other side's message.  Raises `TransferCheckError`
    if the check fails: the life is then ended, and a failure counted.  Raises `ProtocolError` if the message
    has another length.
    """
    if len(message) != MESSAGE_BYTES:
        raise ProtocolError(f"a message of trees has {len(message)} bytes, not {MESSAGE_BYTES}")
    received = np.frombuffer(message, dtype=np.uint8)
    corrections = received[:_CORRECTION_BYTES].reshape(DEPTH - 1, N_BLOCKS, 2, KEY_BYTES)
    completion = received[_CORRECTION_BYTES:-DIGEST_BYTES].reshape(N_BLOCKS, DIGEST_BYTES)
    chosen = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(N_BLOCKS, DEPTH, KEY_BYTES)
    sides = base_choices(difference).reshape(N_BLOCKS, DEPTH)
    path = np.zeros(N_BLOCKS, dtype=np.uint8)
    nodes = np.zeros((N_BLOCKS, 1, KEY_BYTES), dtype=np.uint8)
    for level in range(DEPTH):
        side = sides[:, level]
        if level:
            nodes = _children(context, level, nodes)
            total = _selected(corrections[level - 1], side) ^ chosen[:, level]
            missing = total ^ _selected(_sums(nodes), side)
        else:
            nodes, missing = np.zeros((N_BLOCKS, 2, KEY_BYTES), dtype=np.uint8), chosen[:, 0]
        sibling = _mask(np.arange(2 << level, dtype=np.uint8), 2 * path + side)
        nodes = nodes ^ (missing[:, None] & sibling[:, :, None])
        path = 2 * path + (1 - side)
    checks, seeds = _finished(context, nodes)
    on_path = _mask(np.arange(N_LEAVES, dtype=np.uint8), path)[:, :, None]
    checks = checks ^ ((completion ^ np.bitwise_xor.reduce(checks, axis=1))[:, None] & on_path)
    if not hmac.compare_digest(_digest(context, checks), message[-DIGEST_BYTES:]):
        life.fail("the other side's trees of seeds do not pass their check")
    return _renumbered(seeds, difference)


def _mask(numbers: Octets, wanted: Octets) -> Octets:
    """255 where a number is the wanted one of its block, else 0; shape (32, n)."""
    same: Octets = (numbers[None] == wanted[:, None]).astype(np.uint8)
    return -same


def _selected(pairs: Octets, side: Octets) -> Octets:
    """Of two rows of bytes per block, the one on a side, by masks."""
    return pairs[:, 0] ^ ((pairs[:, 0] ^ pairs[:, 1]) & -side[:, None])


def _renumbered(seeds: Octets, difference: Octets) -> Octets:
    """The seeds of each block in the order y ^ 0, y ^ 1, …: halves exchanged under masks, bit by bit."""
    bits = difference.reshape(N_BLOCKS, DEPTH)
    for m in range(DEPTH):
        halves = seeds.reshape(N_BLOCKS, -1, 2, 1 << m, KEY_BYTES)
        mask = -bits[:, m][:, None, None, None]
        swap = (halves[:, :, 0] ^ halves[:, :, 1]) & mask
        seeds = np.stack([halves[:, :, 0] ^ swap, halves[:, :, 1] ^ swap], axis=2)
        seeds = seeds.reshape(N_BLOCKS, N_LEAVES, KEY_BYTES)
    return seeds
