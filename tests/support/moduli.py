"""Moduli and residues of all sizes, and the paths of arithmetic."""

import secrets

import pytest

from gbdt_kernels import residues
from gbdt_kernels.residues.lanes import has_ifma
from gbdt_kernels.residues.paths import PORTABLE_VARIABLE

PATHS = ["portable", pytest.param("ifma", marks=pytest.mark.skipif(not has_ifma(), reason="no AVX-512 IFMA"))]


def choose_path(monkeypatch, path):
    monkeypatch.setenv(PORTABLE_VARIABLE, "1" if path == "portable" else "0")
    residues.arithmetic_path.cache_clear()
    assert residues.arithmetic_path() == path


def edge_values(n, count):
    """0, 1, n − 1 and their like, then random ones."""
    edges = [0, 1, n - 1, n // 2, max(0, n - 2), 1 << (n.bit_length() - 1)]
    values = [x % n for x in edges] + [secrets.randbelow(n) for _ in range(count)]
    return values[:count]


def moduli(bits):
    """The least and the largest odd modulus of a size, and a random one."""
    return {(1 << (bits - 1)) | 1, (1 << bits) - 1, secrets.randbits(bits) | 1 | 1 << (bits - 1)}
