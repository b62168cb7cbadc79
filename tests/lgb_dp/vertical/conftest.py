"""Fixtures of the tests of lgb_dp.vertical."""

import pytest

from quick_group import quick_group


@pytest.fixture(scope="module", autouse=True)
def group():
    """Base transfers in a group that costs nothing; gbdt_parties tests them on the curve."""
    with quick_group():
        yield
