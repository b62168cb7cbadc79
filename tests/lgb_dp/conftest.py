"""Fixtures of the tests of lgb_dp."""

import pytest

from pinned_world import differences


@pytest.fixture
def assert_nothing_differs(monkeypatch, capfd):
    def check(call, *, fails=False):
        found, seen = differences(call, monkeypatch, capfd)
        assert found == {}
        assert ("error" in seen) == fails, seen.get("error")
        assert fails or seen["releases"]

    return check
