"""Runs repeated on made-up rows: their settings, their noise, and what they must not touch."""

import json
import re
import warnings

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from explained import SCORE, X, estimator
from lgb_dp.explaining.bootstrap import Bootstrap, spread
from lgb_dp.mechanisms import rng
from lgb_dp.newton.core import NewtonCore
from lgb_dp.newton.run_task import RunTask
from small_training import binary_data, dataset, train

DESCRIPTION = re.compile(r'"made_up_rows": (\{.*\}), "header"')


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_refits_have_the_run_s_settings_and_follow_its_predictions(kind):
    model = estimator(kind)
    bootstrap = Bootstrap(model)
    assert bootstrap.run.n_rows == pytest.approx(len(X), rel=0.1)
    (refit,) = bootstrap.refits(1, "1")
    assert refit.num_trees() == model.booster_.num_trees()
    assert (refit.privacy.epsilon, refit.privacy.delta) == (model.privacy_.epsilon, model.privacy_.delta)
    own, other = (np.ravel(one.predict(X, raw_score=True)) for one in (model.booster_, refit))
    assert np.corrcoef(own, other)[0, 1] > 0.9


class _InRounds(lgb_dp.NewtonBoost):
    """As on Spark, whose trees of a round share gradients."""

    def begin(self, task):
        return NewtonCore(task, self, RunTask(trees_per_round=10, largest_rate=0.15))


def test_refits_of_trees_in_rounds_take_steps_as_short_as_theirs():
    data = dataset(*binary_data())
    booster = lgb.train({"objective": "binary", "verbosity": -1}, data, 20, callbacks=[_InRounds(9.0, 1e-5)])
    (refit,) = Bootstrap(booster).refits(1, "1")
    lines = [re.findall("leaf_value=(.*)", one.model_to_string())[1:] for one in (booster, refit)]
    own, other = (np.array(" ".join(some).split(), dtype=float).std() for some in lines)
    assert other < 1.4 * own


def test_refits_are_reproducible_and_differ_from_each_other_and_from_the_run():
    bootstrap = Bootstrap(estimator())
    first, second = (one.model_to_string() for one in bootstrap.refits(2, "5"))
    assert [one.model_to_string() for one in bootstrap.refits(2, "5")] == [first, second]
    assert len({first, second, *(one.model_to_string() for one in bootstrap.refits(2, "6"))}) == 4


def test_only_the_text_of_the_model_is_read(tmp_path):
    model = estimator()
    path = tmp_path / "model.txt"
    model.booster_.save_model(path)
    loaded = lgb.Booster(model_file=str(path))
    texts = [
        [refit.model_to_string() for refit in Bootstrap(one).refits(1, "5")] for one in (model, path, loaded)
    ]
    assert texts[0] == texts[1] == texts[2]


def test_refits_warn_of_nothing_and_charge_nothing():
    """Also where the run itself warns, of its δ and of bounds that are far too wide."""
    features, label = binary_data(400)
    budget = lgb_dp.Budget(9.0, 0.05)
    data = lgb_dp.Dataset(features, label, bounds=(-1e6, 1e6), max_bin=64)
    with pytest.warns(lgb_dp.NotPrivateWarning):
        booster = train(data, lgb_dp.NewtonBoost(8.0, 0.04, budget=budget), 80, max_depth=4)
    charges = list(budget.charges)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(Bootstrap(booster).refits(2, "1"))
    assert budget.charges == charges


def test_noise_of_refits_has_keys_of_its_own(monkeypatch):
    """No key comes from a run's stream, and none of a run's from a seed."""
    keys = []
    public = rng.SecureRandom.public.__func__

    def watched(cls, key):
        keys.append(key)
        return public(cls, key)

    monkeypatch.setattr(rng.SecureRandom, "public", classmethod(watched))
    list(Bootstrap(estimator()).refits(2, "1"))
    assert len(keys) == len(set(keys)) == 4
    keys.clear()
    train(dataset(*binary_data()), lgb_dp.NewtonBoost(1.0, 1e-5))
    assert not keys


def test_labels_have_the_spread_that_hessians_released():
    """The model's residuals follow from the released hessians: their size is that of the private rows'."""
    model = estimator("regression")
    bootstrap, seen = Bootstrap(model), []
    begin = lgb_dp.NewtonBoost.task
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            lgb_dp.NewtonBoost, "task", lambda own, rows, *rest: seen.append(rows) or begin(own, rows, *rest)
        )
        list(bootstrap.refits(1, "1"))
    made_up = seen[0]
    assert np.std(made_up.label) == pytest.approx(np.std(SCORE), rel=0.15)
    assert np.abs(made_up.label).max() <= 9


def test_refits_of_a_calibrated_model_are_moved_as_it_is():
    plain = estimator(validation_fraction=0.2).booster_
    moved = lgb_dp.calibrate(plain)
    factor, shift = plain.evaluation.platt()
    raw, of_moved = (next(Bootstrap(one).refits(1, "1")).predict(X, raw_score=True) for one in (plain, moved))
    assert np.corrcoef(raw, of_moved)[0, 1] > 0.9
    told = json.loads(DESCRIPTION.search(moved.model_to_string())[1])
    assert told["moved"] == [factor, shift]
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="calibration"):
        Bootstrap(lgb_dp.calibrate(moved))


def test_persons_cost_their_rows():
    """Noise of a run that hides persons is as much larger in its refits."""
    features, label = binary_data(600)
    groups = np.arange(600) // 3
    runs = [
        train(dataset(features, label, **how), lgb_dp.NewtonBoost(5.0, 1e-6), 10)
        for how in ({}, {"groups": groups, "rows_per_group": 3})
    ]
    alone, persons = (next(iter(Bootstrap(one).refits(1, "1"))) for one in runs)
    mu = [sum(row["mu"] ** 2 * row["count"] for row in one.privacy.ledger) for one in (alone, persons)]
    assert Bootstrap(runs[1]).run.row_costs == 3
    assert mu[1] == pytest.approx(mu[0] / 9, rel=0.05)


REFUSED = {
    "another trainer": lambda data: train(data, lgb_dp.DPBoost(1.0)),
    "poisson": lambda data: train(
        lgb_dp.Dataset(*binary_data(), bounds=(-3, 3), label_bounds=(0, 1)),
        lgb_dp.NewtonBoost(1.0, 1e-5),
        objective="poisson",
    ),
    "learning rate": lambda data: train(
        data, lgb_dp.NewtonBoost(1.0, 1e-5), callbacks=[lgb.reset_parameter(learning_rate=[0.3, 0.2, 0.1])]
    ),
    "epsilon=inf": lambda data: train(data, lgb_dp.NewtonBoost(np.inf, 1e-5)),
}


@pytest.mark.parametrize("reason", REFUSED)
@pytest.mark.filterwarnings("ignore")
def test_a_run_that_cannot_be_repeated_is_refused_by_its_reason(reason):
    booster = REFUSED[reason](dataset(*binary_data()))
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=reason):
        lgb_dp.effects(booster, n=2)


def change(told, name, value):
    told[name] = value


DAMAGES = {
    "rows": lambda told: change(told, "n_rows", -1.0),
    "rounds": lambda told: change(told, "n_rounds", 10**9),
    "epsilon": lambda told: change(told["settings"], "epsilon", "much"),
    "label bounds": lambda told: change(told, "label_bounds", 3),
    "counts": lambda told: change(told["features"][0], "counts", [1.0, 2.0]),
    "thresholds": lambda told: change(told["features"][0], "values", [2.0, 1.0]),
    "one feature": lambda told: told["features"].pop(),
    "settings": lambda told: told.pop("settings"),
    "threads": lambda told: change(told["params"], "nthread", 60_000),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_description_is_named(damage):
    text = estimator().booster_.model_to_string()
    told = json.loads(DESCRIPTION.search(text)[1])
    DAMAGES[damage](told)
    with pytest.raises(lgb_dp.AlteredModelError, match="description"):
        Bootstrap(DESCRIPTION.sub(lambda _: f'"made_up_rows": {json.dumps(told)}, "header"', text))


def test_so_many_rows_are_refused():
    text = re.sub('"n_rows": [0-9.]+', '"n_rows": 1e12', estimator().booster_.model_to_string())
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="rows"):
        Bootstrap(text)


def test_predictions_have_a_standard_deviation():
    regressor, classifier = estimator("regression"), estimator()
    mean, std = regressor.predict(X[:50], return_std=True)
    assert np.array_equal(mean, regressor.predict(X[:50]))
    assert std.shape == (50,)
    assert (std > 0).all()
    chance, std = classifier.predict_proba(X[:50], return_std=True)
    assert np.array_equal(chance, classifier.predict_proba(X[:50]))
    assert np.array_equal(std[:, 0], std[:, 1])
    kept = spread(classifier, X[:50], {})
    assert np.array_equal(std[:, 1], kept)
    real = [estimator(verbose=-1 - k).predict_proba(X[:50])[:, 1] for k in range(12)]
    assert np.median(kept / np.std(real, axis=0, ddof=1)) == pytest.approx(1.0, abs=0.5)
    several = estimator("multiclass").predict_proba(X[:5], return_std=True)
    assert several[0].shape == several[1].shape == (5, 3)
    with pytest.raises(ValueError, match="return_std"):
        classifier.predict(X, return_std=True)
    with pytest.raises(ValueError, match="return_std"):
        classifier.predict_proba(X, return_std=True, pred_leaf=True)
