"""Fixtures of the tests of gbdt_kernels.residues."""

import pytest

from gbdt_kernels import residues
from moduli import PATHS, choose_path


@pytest.fixture(params=PATHS)
def path(request, monkeypatch):
    choose_path(monkeypatch, request.param)
    yield request.param
    residues.arithmetic_path.cache_clear()
