"""Effects with bands: right by hand, centred, reproducible, and named in words."""

import numpy as np
import pytest

import lgb_dp
from explained import NAMES, estimator


def test_effects_are_those_of_the_model_with_bands():
    model = estimator()
    found = lgb_dp.effects(model, n=6, random_state=1)
    assert list(found) == NAMES
    assert list(lgb_dp.effects(model, ["no use", 0], n=2)) == ["no use", "a"]
    assert all(np.allclose(one.effect.mean(axis=0), 0, atol=1e-12) for one in found.values())
    rising = found["a"].effect[:, 0]
    assert rising[-1] - rising[0] > 1
    assert np.ptp(found["nothing"].effect) < 0.5
    assert found["kind"].labels == ("0", "1", "2")
    assert found["kind"].effect[:, 0].argmax() == 2
    assert found["a"].std.shape == (len(found["a"].values), 1)
    assert (found["a"].std > 0).all()
    assert np.ptp(rising) > 3 * found["a"].std.max()
    assert "±" in str(found)
    assert "nothing" in found._repr_html_()


def test_a_seed_fixes_bands_and_never_effects():
    model = estimator()
    one, same, other = (lgb_dp.effects(model, ["a"], n=2, random_state=seed)["a"] for seed in (1, 1, 2))
    assert np.array_equal(one.std, same.std)
    assert not np.array_equal(one.std, other.std)
    assert np.array_equal(one.effect, other.effect)


def test_classes_have_effects_of_their_own():
    found = lgb_dp.effects(estimator("multiclass"), [0], n=2)
    assert found["a"].effect.shape[1] == 3
    assert found["a"].effect[-1, 2] > found["a"].effect[-1, 0]


@pytest.mark.parametrize(
    ("argument", "value"),
    [("features", [9]), ("features", ["unknown"]), ("n", 1), ("n_points", 1), ("random_state", -1)],
)
def test_wrong_arguments_are_named(argument, value):
    with pytest.raises(ValueError, match=argument):
        lgb_dp.effects(estimator(), **{argument: value})
