"""Products and powers of residues are those of Python's integers."""

import secrets

import pytest

from gbdt_kernels import residues
from gbdt_kernels.residues import Modulus
from gbdt_kernels.residues.limbs import from_rows
from moduli import edge_values, moduli

BITS = [2, 17, 51, 52, 53, 63, 64, 65, 104, 127, 128, 129, 416, 832, 1366, 2048, 4096]


@pytest.mark.parametrize("bits", BITS)
def test_products_and_powers(path, bits):
    for n in moduli(bits):
        modulus = Modulus(n)
        a, b = edge_values(n, 19), edge_values(n, 19)[::-1]
        x, y = residues.encode(a, modulus), residues.encode(b, modulus)
        assert from_rows(x) == [value * modulus.radix % n for value in a]
        assert residues.decode(residues.multiply(x, y, modulus), modulus) == [
            u * v % n for u, v in zip(a, b, strict=True)
        ]
        assert residues.decode(residues.multiply(x[2:3], y, modulus), modulus) == [a[2] * v % n for v in b]
        for exponent in (0, 1, 2, 3, 64, 1_000_003, secrets.randbits(90)):
            assert residues.decode(residues.power(x, exponent, modulus), modulus) == [
                pow(u, exponent, n) for u in a
            ]
        assert residues.decode(residues.shift(x, 11, modulus), modulus) == [pow(u, 2048, n) for u in a]
