"""Packed sums taken apart: one field after another in Python integers, and as the active party reads them."""

import numpy as np

from gbdt_kernels.residues.limbs import from_rows
from xgb_fed.vertical.protocol.packing import MultiClassPacking, joined, sums_from_plaintexts


def fields_of(plaintext, bits, count):
    """The fields of a compressed plaintext, the first one from its highest bits."""
    assert plaintext >> (bits * count) == 0
    return [plaintext >> (bits * (count - 1 - k)) & ((1 << bits) - 1) for k in range(count)]


def decoded(packing, plaintexts, counts, per_ciphertext=1):
    """Sums of g and of h, each of shape (n_sums, n_classes)."""
    sums = sums_from_plaintexts(packing, plaintexts, per_ciphertext, np.asarray(counts, dtype=np.int64))
    g, h = (np.ldexp(joined(part), -packing.gh.precision).T for part in sums)
    return g, h


def decoded_pairs(gh, plaintexts, counts, per_ciphertext=1):
    """Sums of the g and of the h of one class, vectors."""
    packing = MultiClassPacking(gh, 1, 1 << gh.bits)
    return [part[:, 0] for part in decoded(packing, [plaintexts], counts, per_ciphertext)]


def encoded_pairs(gh, g, h):
    """Plaintexts of rows of one class, as integers."""
    return from_rows(MultiClassPacking(gh, 1, 1 << gh.bits).encode(np.c_[g], np.c_[h])[0])
