"""Metrics of given scores are scikit-learn's numbers in LightGBM's own result type."""

import lightgbm
import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn.metrics import log_loss, mean_absolute_error, mean_squared_error, roc_auc_score

from gbdt_hosts.lightgbm.metrics import Evaluator

N = 200
native = lightgbm.Booster
DATA = lightgbm.Dataset(np.zeros((N, 1)), params={"verbosity": -1}).construct()


def case(seed, n_classes=1):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, max(2, n_classes), N)
    score = rng.normal(size=(N, n_classes) if n_classes > 1 else N)
    return label, rng.uniform(0.5, 2, N), score


def evaluate(params, data, label, weight, score, name, feval=None):
    return Evaluator(params, data, label, weight).evaluate(score, name, feval)


def values(results):
    return {result[1]: result[2] for result in results}


@pytest.mark.parametrize("is_weighted", [True, False])
@pytest.mark.parametrize("sigmoid", [1.0, 2.0])
def test_binary_metrics(is_weighted, sigmoid):
    label, weight, score = case(0)
    weight = weight if is_weighted else None
    params = {"objective": "binary", "sigmoid": sigmoid, "metric": ["binary_logloss", "auc", "binary_error"]}
    found = values(evaluate(params, DATA, label, weight, score, "v"))
    assert list(found) == ["binary_logloss", "auc", "binary_error"]
    assert found["binary_logloss"] == pytest.approx(
        log_loss(label, expit(sigmoid * score), sample_weight=weight)
    )
    assert found["auc"] == pytest.approx(roc_auc_score(label, score, sample_weight=weight))
    assert found["binary_error"] == pytest.approx(np.average((score > 0) != label, weights=weight))


def test_the_sigmoid_is_a_parameter_of_its_own():
    label, weight, score = case(1)
    found = values(evaluate({"objective": "binary", "sigmoid": 2.0}, DATA, label, weight, score, "v"))
    assert found == {"binary_logloss": pytest.approx(log_loss(label, expit(2 * score), sample_weight=weight))}


@pytest.mark.parametrize("is_weighted", [True, False])
def test_regression_metrics(is_weighted):
    _, weight, score = case(2)
    weight = weight if is_weighted else None
    label = np.random.default_rng(3).normal(10, 5, N)
    params = {"objective": "regression", "metric": ["rmse", "l2", "l1"]}
    found = values(evaluate(params, DATA, label, weight, score, "v"))
    square = mean_squared_error(label, score, sample_weight=weight)
    absolute = mean_absolute_error(label, score, sample_weight=weight)
    assert found == pytest.approx({"rmse": square**0.5, "l2": square, "l1": absolute})


@pytest.mark.parametrize("is_weighted", [True, False])
def test_multiclass_metrics(is_weighted):
    label, weight, score = case(4, n_classes=3)
    weight = weight if is_weighted else None
    params = {"objective": "multiclass", "num_class": 3, "metric": ["multi_logloss", "multi_error"]}
    found = values(evaluate(params, DATA, label, weight, score, "v"))
    loss = log_loss(label, softmax(score, axis=1), sample_weight=weight)
    error = np.average(score.argmax(axis=1) != label, weights=weight)
    assert found == pytest.approx({"multi_logloss": loss, "multi_error": error})


def gini(prediction, data):
    return "gini", float(np.mean(prediction)), True


def spread(prediction, data):
    return [("spread", float(np.std(prediction)), False), ("rows", float(len(prediction)), True)]


@pytest.mark.parametrize("n_classes", [1, 3])
def test_results_are_those_of_a_native_booster(n_classes):
    label, weight, _ = case(5, n_classes)
    X = np.random.default_rng(5).normal(size=(N, 3))
    objective = {"objective": "multiclass", "num_class": 3} if n_classes > 1 else {"objective": "binary"}
    params = {
        **objective,
        "metric": ["auc_mu", "multi_logloss"] if n_classes > 1 else ["auc", "binary_logloss"],
    }
    native_params = {**params, "verbosity": -1, "num_threads": 1}
    train = lightgbm.Dataset(X, label=label, weight=weight, params={"verbosity": -1})
    valid = lightgbm.Dataset(X[:50], label=label[:50], weight=weight[:50], reference=train)
    booster = lightgbm.Booster(native_params, train).add_valid(valid, "v")
    for _ in range(5):
        booster.update()
    native = booster.eval_valid([gini, spread])
    raw = booster.predict(X[:50], raw_score=True)
    ours = evaluate(params, valid, label[:50], weight[:50], raw, "v", [gini, spread])
    assert [type(r) for r in ours] == [type(r) for r in native]
    assert [tuple(r)[:2] + tuple(r)[3:] for r in ours] == [tuple(r)[:2] + tuple(r)[3:] for r in native]
    assert [r[2] for r in ours] == pytest.approx([r[2] for r in native], rel=1e-12)


def test_a_custom_metric_gets_the_data_set_and_the_name():
    label, weight, score = case(6)
    seen = []

    def spy(prediction, data):
        seen.append((prediction, data))
        return "spy", 0.5, False

    results = evaluate({"objective": "binary", "metric": "None"}, DATA, label, weight, score, "holdout", spy)
    assert [tuple(r)[:4] for r in results] == [("holdout", "spy", 0.5, False)]
    [(prediction, data)] = seen
    assert data is DATA
    np.testing.assert_allclose(prediction, expit(score))


def test_custom_metrics_follow_the_built_in_ones():
    label, weight, score = case(7)
    results = evaluate(
        {"objective": "binary", "metric": "auc"}, DATA, label, weight, score, "v", [gini, spread]
    )
    assert [r[1] for r in results] == ["auc", "gini", "spread", "rows"]


def test_nothing_is_printed(capfd):
    label, weight, score = case(8)
    evaluate({"objective": "binary", "metric": "auc", "verbosity": 2}, DATA, label, weight, score, "v")
    assert "".join(capfd.readouterr()) == ""


def test_arguments_are_left_alone():
    label, weight, score = case(9, n_classes=3)
    params = {"objective": "multiclass", "num_class": 3}
    before = label.copy(), weight.copy(), score.copy(), dict(params)
    evaluate(params, DATA, label, weight, score, "v")
    for now, then in zip((label, weight, score), before, strict=False):
        np.testing.assert_array_equal(now, then)
    assert params == before[3]


@pytest.mark.parametrize("n_classes", [1, 3])
def test_one_evaluator_serves_many_scores(n_classes):
    label, weight, _ = case(10, n_classes)
    params = {"objective": "multiclass", "num_class": 3} if n_classes > 1 else {"objective": "binary"}
    evaluator = Evaluator(params, DATA, label, weight)
    for seed in range(150):  # more than one booster serves
        score = case(seed, n_classes)[2]
        assert evaluator.evaluate(score, "v", gini) == evaluate(params, DATA, label, weight, score, "v", gini)


def test_a_booster_serves_many_evaluations(monkeypatch):
    made = []
    monkeypatch.setattr(lightgbm, "Booster", lambda *args: made.append(native(*args)) or made[-1])
    label, weight, score = case(11)
    evaluator = Evaluator({"objective": "binary"}, DATA, label, weight)
    for _ in range(100):
        evaluator.evaluate(score, "v")
    assert len(made) == 2
