"""Private bounds and quantile edges."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import lgb_dp
from drawn_noise import gaussians_drawn
from lgb_dp.accounting.gaussian import gaussian_mu
from lgb_dp.data import private_metadata as metadata
from small_training import binary_data, train

DELTA = 1e-5


def columns(n=20_000):
    rng = np.random.default_rng(0)
    return np.column_stack([rng.normal(50, 5, n), -rng.exponential(1000, n), rng.normal(0, 1e-3, n)])


def test_bounds_are_powers_of_two_around_the_bulk():
    data = columns()
    (low, high), report = lgb_dp.private_bounds(data, 1.0, DELTA)
    assert (low <= np.quantile(data, 0.02, axis=0)).all()
    assert (high >= np.quantile(data, 0.98, axis=0)).all()
    assert high[0] == 128.0 or high[0] == 64.0
    assert high[1] <= 1.0
    assert -(2.0**15) <= low[1] <= -(2.0**11)
    assert np.abs([low[2], high[2]]).max() < 0.05
    assert report.private
    assert report.epsilon <= 1.0
    assert report.delta == DELTA


def test_constant_missing_and_infinite_columns_get_bounds():
    data = np.column_stack([np.zeros(5000), np.full(5000, np.nan), np.full(5000, np.inf), np.full(5000, 7.0)])
    (low, high), _ = lgb_dp.private_bounds(pd.DataFrame(data), 1.0, DELTA)
    assert (low[0], high[0]) == (0.0, 0.0)
    assert (low[1], high[1]) == (0.0, 1.0)
    assert high[2] == 2.0**64
    assert (low[3], high[3]) == (4.0, 8.0)


def seen_counts(monkeypatch, call):
    seen = []
    monkeypatch.setattr(
        metadata, "released_counts", lambda counts, mu: seen.append(counts) or (counts * 1.0, 1e-9)
    )
    call()
    return seen[0]


values = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, -0.0, 5e-324, 1e308, -1e308])
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(values, min_size=3, max_size=3), min_size=1, max_size=6))
def test_a_row_is_in_at_most_one_cell_of_every_column(rows):
    with pytest.MonkeyPatch.context() as patch:
        for call in (
            lambda data: lgb_dp.private_bounds(data, 1.0, DELTA),
            lambda data: lgb_dp.private_quantile_edges(data, (-5, 5), 1.0, DELTA),
        ):
            data = np.array([*rows, [1.0, 2.0, 3.0]])
            more = seen_counts(patch, lambda data=data, call=call: call(data))
            less = seen_counts(patch, lambda data=data, call=call: call(data[1:]))
            change = more - less
            assert np.sqrt((change**2).sum()) <= np.sqrt(3)
            assert (np.abs(change).sum(axis=0) <= 1).all()


def test_noise_is_what_the_budget_says(monkeypatch):
    drawn = gaussians_drawn(monkeypatch)
    lgb_dp.private_bounds(columns(50), 0.7, DELTA)
    lgb_dp.private_quantile_edges(columns(50), (-5, 5), 0.7, DELTA)
    for _, scale in drawn:
        assert scale == pytest.approx(np.sqrt(3) / gaussian_mu(0.7, DELTA))


def test_edges_divide_the_rows_about_equally():
    data = columns()
    bounds = (np.array([0.0, -(2.0**15), -1.0]), np.array([128.0, 0.0, 1.0]))
    edges, report = lgb_dp.private_quantile_edges(data[:, :2], (bounds[0][:2], bounds[1][:2]), 2.0, DELTA)
    assert report.epsilon <= 2.0
    for f in range(2):
        share = np.bincount(np.searchsorted(edges[f], data[:, f]), minlength=len(edges[f]) + 1) / len(data)
        assert share.max() < 0.3
        assert len(edges[f]) > 8


def test_a_constant_column_has_an_edge():
    edges, _ = lgb_dp.private_quantile_edges(np.full((50, 1), 2.0), (2.0, 2.0), 1.0, DELTA)
    assert edges[0].tolist() == [2.0]


def test_what_was_paid_for_is_charged_to_every_model():
    X, Y = binary_data(400)
    bounds, first = lgb_dp.private_bounds(scipy.sparse.csr_matrix(X), 1.0, DELTA)
    edges, second = lgb_dp.private_quantile_edges(X, bounds, 1.0, DELTA)
    data = lgb_dp.Dataset(X, Y, bounds=bounds, bin_edges=edges, paid_for=[first, second])
    report = train(data, lgb_dp.NewtonBoost(1.0, DELTA), n_rounds=4).privacy
    own = train(lgb_dp.Dataset(X, Y, bounds=(-3, 3)), lgb_dp.NewtonBoost(1.0, DELTA), n_rounds=4).privacy
    together = lgb_dp.compose(first, second, own)
    assert report.epsilon == pytest.approx(together.epsilon, rel=1e-6)
    assert 1.0 < report.epsilon < 2.0
    assert report.private


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, DELTA), (1.0, 0.0), (1.0, 1.0), (np.inf, DELTA)])
def test_budgets_are_checked(epsilon, delta):
    with pytest.raises(ValueError, match=r"epsilon|delta"):
        lgb_dp.private_bounds(np.ones((5, 1)), epsilon, delta)


def test_shapes_and_bins_are_checked():
    with pytest.raises(ValueError, match="shape"):
        lgb_dp.private_bounds(np.ones(5), 1.0, DELTA)
    with pytest.raises(ValueError, match="max_bin"):
        lgb_dp.private_quantile_edges(np.ones((5, 1)), (0, 2), 1.0, DELTA, max_bin=256)
