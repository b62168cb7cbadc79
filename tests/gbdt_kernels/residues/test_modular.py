"""Every operation against Python's integers, on every path the processor has."""

import os
import platform
import secrets
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels import residues
from gbdt_kernels.residues import Modulus, Reduction
from gbdt_kernels.residues.lanes import has_ifma
from gbdt_kernels.residues.limbs import from_rows, to_rows
from gbdt_kernels.residues.paths import PORTABLE_VARIABLE

PATHS = ["portable", pytest.param("ifma", marks=pytest.mark.skipif(not has_ifma(), reason="no AVX-512 IFMA"))]
BITS = [2, 17, 51, 52, 53, 63, 64, 65, 104, 127, 128, 129, 416, 832, 1366, 2048, 4096]


def choose_path(monkeypatch, path):
    monkeypatch.setenv(PORTABLE_VARIABLE, "1" if path == "portable" else "0")
    residues.arithmetic_path.cache_clear()
    assert residues.arithmetic_path() == path


@pytest.fixture(params=PATHS)
def path(request, monkeypatch):
    choose_path(monkeypatch, request.param)
    yield request.param
    residues.arithmetic_path.cache_clear()


def edge_values(n, count):
    """0, 1, n − 1 and their like, then random ones."""
    edges = [0, 1, n - 1, n // 2, max(0, n - 2), 1 << (n.bit_length() - 1)]
    values = [x % n for x in edges] + [secrets.randbelow(n) for _ in range(count)]
    return values[:count]


def moduli(bits):
    """The least and the largest odd modulus of a size, and a random one."""
    return {(1 << (bits - 1)) | 1, (1 << bits) - 1, secrets.randbits(bits) | 1 | 1 << (bits - 1)}


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


def test_one_operand_may_be_anything_below_radix(path):
    for bits in (53, 64, 100, 2040, 2048):
        modulus = Modulus((1 << (bits - 1)) | 1)
        largest = min(modulus.radix, 1 << (64 * modulus.width)) - 1
        values = [largest, largest - 1, modulus.value, modulus.value + 1]
        assert residues.decode(residues.encode(values, modulus), modulus) == [
            v % modulus.value for v in values
        ]


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_both_paths_give_the_same_bytes(data):
    """The central promise; the bytes are also those of Python's integers where only one path exists."""
    bits = data.draw(st.integers(2, 700))
    n = data.draw(st.integers(1 << (bits - 1), (1 << bits) - 1)) | 1
    if n < 3:
        n = 3
    modulus = Modulus(n)
    values = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=20))
    order = np.array(data.draw(st.lists(st.integers(0, len(values) - 1), max_size=40)), dtype=np.int64)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=5)))
    starts = np.array([0, *cuts, len(order)])
    exponent = data.draw(st.integers(0, 1 << 40))
    results = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        for path in ["portable", "ifma"] if has_ifma() else ["portable"]:
            choose_path(monkeypatch, path)
            rows = residues.encode(values, modulus)
            results.append(
                b"".join(
                    part.tobytes()
                    for part in (
                        rows,
                        residues.multiply(rows, rows[::-1], modulus),
                        residues.power(rows, exponent, modulus),
                        residues.chain_products(rows, order, starts, modulus),
                    )
                )
            )
            chains = residues.decode(residues.chain_products(rows, order, starts, modulus), modulus)
    residues.arithmetic_path.cache_clear()
    assert len(set(results)) == 1
    for got, first, last in zip(chains, starts[:-1], starts[1:], strict=True):
        expected = 1
        for row in order[first:last]:
            expected = expected * values[row] % n
        assert got == expected


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_chains_of_uneven_lengths(path, n_threads):
    """One chain longer than all spans, short ones, empty ones; targets in another order."""
    modulus = Modulus((1 << 512) + 75)
    values = edge_values(modulus.value, 50)[3:]
    rows = residues.encode(values, modulus)
    lengths = [0, 4000, 1, 0, 2, 700, 0]
    order = np.random.default_rng(1).integers(0, len(values), sum(lengths))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    targets = np.array([6, 0, 2, 1, 5, 3, 4])
    out = np.zeros((7, modulus.width), dtype=np.uint64)
    residues.chain_products(rows, order, starts, modulus, out, targets, n_threads)
    got = residues.decode(out, modulus)
    for c, target in enumerate(targets):
        expected = 1
        for row in order[starts[c] : starts[c + 1]]:
            expected = expected * values[row] % modulus.value
        assert got[target] == expected


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


@pytest.mark.parametrize("bits", [5, 53, 64, 65, 100, 1366])
def test_reduction_of_wide_rows(path, bits):
    modulus = Modulus((1 << (bits - 1)) | 7)
    values = [0, (1 << 1600) - 1, *(secrets.randbits(1600) for _ in range(9))]
    got = residues.decode(Reduction(25, modulus, 12345)(to_rows(values, 25)), modulus)
    assert got == [value * 12345 % modulus.value for value in values]


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


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="names an x86 processor")
def test_a_processor_without_ifma_gets_none():
    """numba compiles for another processor, beside this one's code in the disk cache: the same bytes."""
    code = (
        "import numpy as np, sys; import gbdt_kernels.residues as m;"
        "n = m.Modulus((1 << 521) - 1);"
        "assert m.arithmetic_path() == 'portable';"
        "a = m.encode(range(2, 20), n); sys.stdout.write(m.multiply(a, a, n).tobytes().hex())"
    )
    environment = {**os.environ, "NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ""}
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    modulus = Modulus((1 << 521) - 1)
    rows = residues.encode(range(2, 20), modulus)
    assert result.stdout == residues.multiply(rows, rows, modulus).tobytes().hex()
