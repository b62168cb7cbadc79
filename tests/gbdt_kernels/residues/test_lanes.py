"""Vectorised and portable arithmetic give the same bytes."""

import os
import platform
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels import residues
from gbdt_kernels.residues import Modulus
from gbdt_kernels.residues.lanes import has_ifma
from moduli import choose_path


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
