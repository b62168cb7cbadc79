"""Every operation against Python's integers, on every path the processor has."""

import secrets
import threading

import pytest

from gbdt_kernels import residues
from gbdt_kernels.residues import Modulus
from gbdt_kernels.residues.limbs import from_rows, to_rows
from moduli import edge_values, moduli


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 16, 17])
def test_any_number_of_rows(path, count):
    modulus = Modulus((1 << 190) + 27)
    values = edge_values(modulus.value, count)
    rows = residues.encode(values, modulus)
    assert rows.shape == (count, modulus.width)
    squares = residues.multiply(rows, rows, modulus)
    assert residues.decode(squares, modulus) == [value * value % modulus.value for value in values]
    assert residues.decode(residues.power(rows, 5, modulus), modulus) == [
        pow(v, 5, modulus.value) for v in values
    ]


@pytest.mark.parametrize("bits", [53, 104, 105, 190, 832, 1366])
def test_products_by_short_rows(path, bits):
    """Every number of limbs, up to their largest values; short rows may have fewer words."""
    for n in moduli(bits):
        modulus = Modulus(n)
        a = edge_values(n, 11)
        rows = to_rows(a, modulus.width)
        for limbs in range(1, modulus.n_limbs + 1):
            above = min(1 << (52 * limbs), 1 << (64 * modulus.width))
            b = [above - 1, 0, 1, above - 2, *(secrets.randbelow(above) for _ in range(7))]
            short = to_rows(b, min(modulus.width, -(-52 * limbs // 64)))
            inverse = pow(1 << (52 * limbs), -1, n)
            expected = [x * y * inverse % n for x, y in zip(a, b, strict=True)]
            assert from_rows(residues.multiply(rows, short, modulus, b_limbs=limbs)) == expected
            expected = [a[2] * y * inverse % n for y in b]
            assert from_rows(residues.multiply(rows[2:3], short, modulus, b_limbs=limbs)) == expected
        for limbs in (0, modulus.n_limbs + 1):
            with pytest.raises(ValueError, match="too long"):
                residues.multiply(rows, rows, modulus, b_limbs=limbs)


def test_inverses(path):
    modulus = Modulus((1 << 521) - 1)
    for count in (0, 1, 2, 3, 8, 31):
        values = [1 + secrets.randbelow(modulus.value - 1) for _ in range(count)]
        inverses = residues.invert(residues.encode(values, modulus), modulus)
        assert residues.decode(inverses, modulus) == [pow(v, -1, modulus.value) for v in values]


def test_inverting_no_unit_names_the_row(path):
    modulus = Modulus(3 * ((1 << 127) - 1))
    rows = residues.encode([1, 2, 6, 5, 0], modulus)
    with pytest.raises(ZeroDivisionError, match="row 2"):
        residues.invert(rows, modulus)


def test_operands_are_left_alone_and_threads_do_not_share_scratch(path):
    modulus = Modulus(secrets.randbits(1024) | 1 | 1 << 1023)
    values = [secrets.randbelow(modulus.value) for _ in range(64)]
    rows = residues.encode(values, modulus)
    before = rows.copy()
    expected = [pow(v, 65537, modulus.value) for v in values]
    results = []

    def work():
        results.append(residues.decode(residues.power(rows, 65537, modulus, n_threads=2), modulus))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [expected] * 6
    assert (rows == before).all()


def test_blocks_of_threads_meet_without_overlap(path):
    """Rows are written past their end by the vectorised path, but never past a thread's own rows."""
    modulus = Modulus(secrets.randbits(2048) | 1 | 1 << 2047)
    values = [secrets.randbelow(modulus.value) for _ in range(1003)]
    rows = residues.encode(values, modulus)
    for n_threads in (1, 2, 3):
        products = residues.multiply(rows, rows, modulus, n_threads)
        assert residues.decode(products, modulus) == [v * v % modulus.value for v in values]


def test_products_written_in_place(path):
    modulus = Modulus((1 << 416) - 1)
    values = edge_values(modulus.value, 17)
    rows = residues.encode(values, modulus)
    assert residues.multiply(rows, rows, modulus, out=rows) is rows
    assert residues.decode(rows, modulus) == [v * v % modulus.value for v in values]
    with pytest.raises(ValueError, match="out must be"):
        residues.multiply(rows, rows, modulus, out=rows[:3])


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
