"""Residues of a modulus: what it takes, and how rows are reduced."""

import secrets

import numpy as np
import pytest

from gbdt_kernels import residues
from gbdt_kernels.residues import Modulus, Reduction
from gbdt_kernels.residues.limbs import to_rows


def test_one_operand_may_be_anything_below_radix(path):
    for bits in (53, 64, 100, 2040, 2048):
        modulus = Modulus((1 << (bits - 1)) | 1)
        largest = min(modulus.radix, 1 << (64 * modulus.width)) - 1
        values = [largest, largest - 1, modulus.value, modulus.value + 1]
        assert residues.decode(residues.encode(values, modulus), modulus) == [
            v % modulus.value for v in values
        ]


@pytest.mark.parametrize("bits", [5, 53, 64, 65, 100, 1366])
def test_reduction_of_wide_rows(path, bits):
    modulus = Modulus((1 << (bits - 1)) | 7)
    values = [0, (1 << 1600) - 1, *(secrets.randbits(1600) for _ in range(9))]
    got = residues.decode(Reduction(25, modulus, 12345)(to_rows(values, 25)), modulus)
    assert got == [value * 12345 % modulus.value for value in values]


def test_bad_arguments():
    with pytest.raises(ValueError, match="odd"):
        Modulus(10)
    with pytest.raises(ValueError, match="at most"):
        Modulus((1 << 60_000) | 1)
    modulus = Modulus((1 << 100) | 1)
    for starts in ([], [0, 2], [-1, 1], [1, 0]):
        with pytest.raises(ValueError, match="starts"):
            residues.chain_products(modulus.one, np.array([0]), np.array(starts, dtype=np.int64), modulus)
    with pytest.raises(ValueError, match="shape"):
        residues.multiply(np.zeros((2, 3), dtype=np.uint64), modulus.one, modulus)
    with pytest.raises(ValueError, match="cannot multiply"):
        residues.multiply(np.zeros((2, 2), dtype=np.uint64), np.zeros((3, 2), dtype=np.uint64), modulus)
    with pytest.raises(ValueError, match="negative"):
        residues.power(modulus.one, -1, modulus)
    with pytest.raises(IndexError):
        residues.chain_products(modulus.one, np.array([1]), np.array([0, 1]), modulus)
    assert str(modulus.value) not in repr(modulus)
