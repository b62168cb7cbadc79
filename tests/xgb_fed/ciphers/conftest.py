"""Fixtures of the tests of xgb_fed.ciphers."""

import pytest

from gbdt_kernels import residues
from moduli import PATHS, choose_path
from small_keys import KEYS, SCHEMES


@pytest.fixture(params=SCHEMES, ids=lambda scheme: scheme.__name__)
def key(request):
    return KEYS[request.param]


@pytest.fixture(params=PATHS)
def path(request, monkeypatch):
    choose_path(monkeypatch, request.param)
    yield request.param
    residues.arithmetic_path.cache_clear()
