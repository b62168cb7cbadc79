"""Fixtures of the tests of gbdt_parties.run.flights."""

import pytest

from quick_group import quick_group


@pytest.fixture(scope="module", autouse=True)
def group():
    """Base transfers in a group that costs nothing; tests of these transfers themselves use the curve."""
    with quick_group():
        yield
