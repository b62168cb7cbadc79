"""Estimators with other objectives than their own: predictions are those of XGBoost's estimators."""

import numpy as np
import pytest
import xgboost
from sklearn.metrics import mean_absolute_error

import xgb_fed
from estimator_objectives import QID, RELEVANCE, RNG, SCORE, SMALL, N, X, party
from xgb_fed import Plain, VerticalXGBClassifier, VerticalXGBRanker, VerticalXGBRegressor
from xgb_fed.boosting.objectives import REGRESSIONS
from xgb_fed.errors import CorruptDataError, InvalidArgumentError, UnsupportedParameterError

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.errors.NotEncryptedWarning")

WORDS = np.where(SCORE > 0, "yes", "no")
REFUSED = UnsupportedParameterError
ALPHA = {"reg:quantileerror": {"quantile_alpha": 0.3}}


def stock(cls, **params):
    return cls(**SMALL, tree_method="hist", n_jobs=1, **params)


@pytest.mark.parametrize("objective", ["binary:logitraw", "binary:hinge", "multi:softmax", "multi:softprob"])
def test_classifier(objective):
    y = np.array(["low", "middle", "high"])[RELEVANCE] if "multi" in objective else WORDS
    bank = party()
    model = VerticalXGBClassifier(**SMALL, objective=objective, cipher=Plain()).fit(
        X[:, :3], y, parties=[bank]
    )
    classes, codes = np.unique(y, return_inverse=True)
    theirs = stock(xgboost.XGBClassifier, objective=objective).fit(X, codes)
    np.testing.assert_array_equal(model.predict(X[:, :3]), classes[theirs.predict(X)])
    if objective == "multi:softprob":
        np.testing.assert_allclose(model.predict_proba(X[:, :3]), theirs.predict_proba(X), rtol=1e-5)
    else:
        with pytest.raises(UnsupportedParameterError, match="no probabilities"):
            model.predict_proba(X[:, :3])


@pytest.mark.parametrize("objective", [name for name in REGRESSIONS if name != "survival:cox"])
def test_regressor(objective, tmp_path):
    y = 1 / (1 + np.exp(-SCORE)) if objective == "reg:logistic" else np.round(np.exp(SCORE / 2), 1) + 0.5
    bank, own = party(), ALPHA.get(objective, {})
    model = VerticalXGBRegressor(**SMALL, objective=objective, cipher=Plain(), **own)
    model.fit(X[:, :3], y, parties=[bank])
    theirs = stock(xgboost.XGBRegressor, objective=objective, **own).fit(X, y)
    np.testing.assert_allclose(model.predict(X[:, :3]), theirs.predict(X), rtol=1e-4)
    model.save_model(tmp_path)
    again = VerticalXGBRegressor()
    again.load_model(tmp_path, [bank])
    np.testing.assert_array_equal(again.predict(X[:, :3]), model.predict(X[:, :3]))
    with pytest.raises(CorruptDataError, match="ranker"):
        VerticalXGBRanker().load_model(tmp_path)


@pytest.mark.parametrize(
    ("cls", "y", "params", "how", "error", "text"),
    [
        (
            VerticalXGBRanker,
            RELEVANCE,
            {"objective": "reg:gamma"},
            {},
            UnsupportedParameterError,
            "objective",
        ),
        (VerticalXGBRanker, RELEVANCE, {}, {}, InvalidArgumentError, "qid"),
        (
            VerticalXGBRanker,
            RELEVANCE,
            {},
            {"qid": QID, "eval_set": [(X[:, :3], RELEVANCE)]},
            InvalidArgumentError,
            "eval_qid",
        ),
        (VerticalXGBRegressor, SCORE, {"objective": "rank:ndcg"}, {}, REFUSED, "objective"),
        (
            VerticalXGBRegressor,
            SCORE,
            {"objective": "survival:aft"},
            {},
            UnsupportedParameterError,
            "objective",
        ),
        (
            VerticalXGBClassifier,
            WORDS,
            {"objective": "reg:gamma"},
            {},
            UnsupportedParameterError,
            "objective",
        ),
        (
            VerticalXGBClassifier,
            WORDS,
            {},
            {"base_margin_eval_set": [np.zeros(N)]},
            InvalidArgumentError,
            "base_margin_eval_set",
        ),
    ],
)
def test_arguments_that_are_refused(cls, y, params, how, error, text):
    with pytest.raises(error, match=text):
        cls(**params, cipher=Plain()).fit(X[:, :3], y, parties=[party()], **how)


def square(label, prediction, sample_weight=None):
    weight = np.ones_like(label) if sample_weight is None else sample_weight
    return (prediction - label) * weight, weight


@pytest.mark.parametrize("weight", [None, RNG.exponential(size=N)], ids=["plain", "weighted"])
def test_objective_and_metric_as_functions(weight):
    bank = party(eval_sets=[X[:, 3:]])
    model = VerticalXGBRegressor(
        **SMALL, objective=square, eval_metric=mean_absolute_error, cipher=Plain(), base_score=0.5
    )
    sets = {"eval_set": [(X[:, :3], SCORE)]}
    model.fit(X[:, :3], SCORE, parties=[bank], sample_weight=weight, **sets)
    builtin = VerticalXGBRegressor(**SMALL, eval_metric="mae", cipher=Plain(), base_score=0.5)
    builtin.fit(X[:, :3], SCORE, parties=[bank], sample_weight=weight, **sets)
    assert model.model_.trees == builtin.model_.trees
    history = model.evals_result()["validation_0"]
    np.testing.assert_allclose(
        history["mean_absolute_error"], builtin.evals_result()["validation_0"]["mae"], rtol=1e-5
    )


def test_base_margins_of_estimators():
    margin = RNG.normal(size=N).astype(np.float32)
    bank = party()
    model = VerticalXGBClassifier(**SMALL, cipher=Plain())
    model.fit(X[:, :3], WORDS, parties=[bank], base_margin=margin)
    theirs = stock(xgboost.XGBClassifier).fit(X, WORDS == "yes", base_margin=margin)
    np.testing.assert_allclose(
        model.predict_proba(X[:, :3], base_margin=margin),
        theirs.predict_proba(X, base_margin=margin),
        rtol=1e-5,
    )
    with pytest.raises(xgb_fed.InvalidDataError, match="base_margin"):
        model.predict(X[:, :3], base_margin=margin[1:])
