"""Fixtures of the tests of lgb_dp."""

import lightgbm as lgb
import pytest

from lgb_dp.accounting import gaussian
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


@pytest.fixture(scope="module")
def coarse_accounting():
    """Privacy losses of secret samples in steps of 1e-3: upper bounds still, and found five times sooner."""
    cached = gaussian.composed_epsilon, gaussian.sampled_mu
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaussian, "DISCRETISATION", 1e-3)
        for function in cached:
            function.cache_clear()
        yield
    for function in cached:
        function.cache_clear()
