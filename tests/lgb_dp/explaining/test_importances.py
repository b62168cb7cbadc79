"""Importances beside the floor of noise."""

import numpy as np
import pytest

import lgb_dp
from explained import estimator
from lgb_dp.explaining.importances import NOT_DISTINGUISHABLE, floors


def test_features_of_no_effect_are_said_to_be_noise():
    found = lgb_dp.importances(estimator(), n=8, random_state=1)
    by_name = dict(zip(found.features, found.stands_out.tolist(), strict=True))
    assert [by_name["a"], by_name["b"]] == [True, True]
    assert not by_name["no use"]
    assert found.gain.tolist() == estimator().booster_.feature_importance("gain").tolist()
    lines = {line[:22].strip(): line for line in str(found).splitlines()[1:]}
    for name, stands_out in by_name.items():
        assert (NOT_DISTINGUISHABLE in lines[name]) != stands_out
    assert (NOT_DISTINGUISHABLE in found._repr_html_()) == (not found.stands_out.all())


def test_a_seed_fixes_floors():
    one, same, other = (lgb_dp.importances(estimator(), n=8, random_state=seed).floor for seed in (1, 1, 2))
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


def test_few_refits_are_refused():
    with pytest.raises(ValueError, match="n must"):
        lgb_dp.importances(estimator(), n=7)


def test_one_more_draw_stays_below_the_floor_as_often_as_promised():
    rng = np.random.default_rng(0)
    exceeded = []
    for _ in range(300):
        draws = np.exp(rng.normal(np.arange(6)[:, None], 0.4, (6, 6)))
        exceeded += (draws[:, 0] > floors(draws[:, 1:].tolist())).tolist()
    assert np.mean(exceeded) == pytest.approx(0.05, abs=0.015)
