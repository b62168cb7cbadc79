"""Products of one power of each of many bases against Python's integers, on every path the processor has."""

import math
import random

import numpy as np
import pytest

from gbdt_kernels import residues
from gbdt_kernels.residues import DigitProducts, Modulus
from gbdt_kernels.residues.digit_tables import table_rows
from gbdt_kernels.residues.limbs import to_rows


@pytest.mark.parametrize("bits", [5, 64, 105, 521])
@pytest.mark.parametrize(("n_bases", "window", "count"), [(1, 1, 3), (17, 3, 9), (33, 8, 5), (3, 8, 0)])
def test_products_of_powers(path, bits, n_bases, window, count):
    draw = random.Random(bits * n_bases)
    modulus = Modulus((1 << bits) - 1 if bits > 5 else 29)
    bases = [draw.randrange(1, modulus.value) for _ in range(n_bases)]
    words = -(-n_bases * window // 64)
    exponents = [draw.getrandbits(n_bases * window) for _ in range(count)]
    products = DigitProducts(residues.encode(bases, modulus), window, modulus, 2)(to_rows(exponents, words))
    digits = [[e >> window * i & (1 << window) - 1 for i in range(n_bases)] for e in exponents]
    expected = [
        math.prod(pow(z, d, modulus.value) for z, d in zip(bases, of_row, strict=True)) % modulus.value
        for of_row in digits
    ]
    assert residues.decode(products, modulus) == expected


def test_more_rows_than_are_done_at_a_time(path, monkeypatch):
    monkeypatch.setattr("gbdt_kernels.residues.digit_tables.PRODUCTS_AT_ONCE", 4)
    modulus = Modulus((1 << 89) - 1)
    made = DigitProducts(residues.encode([3, 5], modulus), 4, modulus)
    products = made(to_rows(list(range(256)), 1))
    expected = [pow(3, e & 15, modulus.value) * pow(5, e >> 4, modulus.value) for e in range(256)]
    assert residues.decode(products, modulus) == [value % modulus.value for value in expected]
    assert "89 bits" in repr(made)


def test_digits_beyond_the_words_of_an_exponent_are_0():
    order = table_rows(to_rows([(1 << 64) - 1], 1), 10, 8)
    assert (order - (np.arange(8) << 10)).tolist() == [[1023] * 6 + [15, 0]]
