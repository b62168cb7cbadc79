"""Powers of one base modulo p² against Python's integers, on every path the processor has."""

import math
import secrets

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels import residues
from gbdt_kernels.residues import FixedBase
from gbdt_kernels.residues.lanes import has_ifma
from gbdt_kernels.residues.limbs import to_rows
from moduli import choose_path


def width_of(bits):
    return -(-bits // 64)


@pytest.mark.parametrize("bits", [2, 5, 26, 31, 32, 33, 52, 53, 64, 65, 104, 105, 683, 1024])
def test_powers(path, bits):
    """Roots at the edges of their size, so that p + 2 may be longer than p; exponents at theirs."""
    for root in {(1 << (bits - 1)) | 1, (1 << bits) - 1}:
        base = next(b for b in (root * root - 1, secrets.randbelow(root * root), 2) if math.gcd(b, root) == 1)
        table = FixedBase(base, 130, root)
        exponents = [
            0,
            1,
            2,
            1023,
            1024,
            (1 << 130) - 1,
            1 << 129,
            *(secrets.randbits(130) for _ in range(4)),
        ]
        powers = table.powers(to_rows(exponents, 3))
        assert residues.decode(powers, table.modulus) == [pow(base, e, root * root) for e in exponents]


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_both_paths_give_the_same_bytes(data):
    root = data.draw(st.integers(1, (1 << 200) - 1)) * 2 + 1
    square = root * root
    base = data.draw(
        st.one_of(st.sampled_from([1, root + 1, square - 1]), st.integers(1, square - 1)).filter(
            lambda number: math.gcd(number, root) == 1
        )
    )
    bits = data.draw(st.integers(1, 70))
    exponents = data.draw(st.lists(st.integers(0, (1 << bits) - 1), max_size=20))
    results = []
    with pytest.MonkeyPatch.context() as monkeypatch:
        for path in ["portable", "ifma"] if has_ifma() else ["portable"]:
            choose_path(monkeypatch, path)
            table = FixedBase(base, bits, root)
            powers = table.powers(to_rows(exponents, width_of(bits)))
            assert residues.decode(powers, table.modulus) == [pow(base, e, square) for e in exponents]
            results.append(powers.tobytes())
    residues.arithmetic_path.cache_clear()
    assert len(set(results)) == 1


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 4097])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_any_number_of_exponents(path, count, n_threads):
    root = (1 << 127) - 1
    table = FixedBase(987654321, 20, root, n_threads)
    exponents = [secrets.randbits(20) for _ in range(count)]
    powers = table.powers(to_rows(exponents, 1), n_threads)
    assert powers.shape == (count, table.modulus.width)
    assert residues.decode(powers, table.modulus) == [pow(987654321, e, root * root) for e in exponents]


def test_exponents_of_other_widths(path):
    root = (1 << 89) - 1
    table = FixedBase(987654321, 130, root)
    assert residues.decode(table.powers(to_rows([9], 1)), table.modulus) == [987654321**9 % root**2]
    assert residues.decode(table.powers(to_rows([9], 7)), table.modulus) == [987654321**9 % root**2]
    with pytest.raises(ValueError, match="at most"):
        table.powers(to_rows([1 << 140], 3))


def test_a_base_that_is_not_a_unit():
    with pytest.raises(ZeroDivisionError):
        FixedBase(15, 10, 21)


def test_neither_base_nor_root_is_shown():
    shown = repr(FixedBase(987654321, 130, (1 << 89) - 1))
    assert "987654321" not in shown
    assert str((1 << 89) - 1) not in shown
