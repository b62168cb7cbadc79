"""Bad arguments of NewtonBoost are named."""

import numpy as np
import pytest

import lgb_dp
from newton_training import DELTA, X, Y, boosted


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"rounds": 0}, "rounds"),
        ({"structure": "best"}, "structure"),
        ({"depth": 0}, "depth"),
        ({"depth": 17}, "depth"),
        ({"hessian_share": 1.0}, "hessian_share"),
        ({"gradient_clip": 0.0}, "gradient_clip"),
        ({"gradient_clip": 1.5}, "gradient_clip"),
        ({"subsample": 0.0}, "subsample"),
        ({"subsample": 1.1}, "subsample"),
    ],
)
def test_bad_arguments_are_named(kwargs, match):
    with pytest.raises(ValueError, match=match):
        lgb_dp.NewtonBoost(**{"epsilon": 1.0, "delta": DELTA, **kwargs})


def test_delta_must_be_a_number_and_one_against_all_is_refused():
    with pytest.raises(TypeError, match="delta"):
        lgb_dp.NewtonBoost(1.0, "small")
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="multiclassova"):
        boosted(params={"objective": "multiclassova", "num_class": 3})


def test_spacing_is_public_and_checked():
    data = lgb_dp.Dataset(X[:5] * 0, Y[:5], bounds=(0, 1e6), max_bin=64, spacing="mixed").construct()
    edges = data.bins.values[0]
    assert len(edges) <= 63
    assert (np.diff(edges) > 0).all()
    assert edges[0] == 0.0
    assert edges[1] == pytest.approx(1.0)
    both = lgb_dp.Dataset(X[:5] * 0, Y[:5], bounds=(-10, 10), max_bin=64, spacing="mixed").construct()
    np.testing.assert_allclose(both.bins.values[0], -both.bins.values[0][::-1], atol=1e-9)
    with pytest.raises(ValueError, match="spacing"):
        lgb_dp.Dataset(X, Y, bounds=(0, 1), spacing="odd")
