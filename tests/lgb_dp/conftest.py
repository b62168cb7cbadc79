"""Fixtures of the tests of lgb_dp."""

import lightgbm as lgb
import pytest

from pinned_world import differences
from threads_at_once import QUIET, X, Y


@pytest.fixture
def assert_nothing_differs(monkeypatch, capfd):
    def check(call, *, fails=False):
        found, seen = differences(call, monkeypatch, capfd)
        assert found == {}
        assert ("error" in seen) == fails, seen.get("error")
        assert fails or seen["releases"]

    return check


@pytest.fixture(scope="module")
def stock():
    return lgb.train(
        {**QUIET, "max_depth": -1, "num_leaves": 60, "min_data_in_leaf": 1}, lgb.Dataset(X, Y), 3
    )
