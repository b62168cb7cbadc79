"""Fixtures of the tests of xgb_fed.ciphers."""

import pytest

from small_keys import KEYS, SCHEMES


@pytest.fixture(params=SCHEMES, ids=lambda scheme: scheme.__name__)
def key(request):
    return KEYS[request.param]
