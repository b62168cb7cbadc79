"""Wrong inputs that people bring from LightGBM's and scikit-learn's habits, and the messages that they read.

Each line of the table is a call and the text of its error: the argument, its value, and a way out.
"""

import inspect
import re
import warnings

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import lgb_dp
import lgb_dp.federated
import lgb_dp.vertical

RANDOM = np.random.default_rng(0)
N_ROWS = 60
X = RANDOM.random((N_ROWS, 2))
Y = (X[:, 0] > 0.5).astype(float)
CITIES = pd.DataFrame({"age": X[:, 0], "city": ["a", "b"] * (N_ROWS // 2)})
DATES = pd.DataFrame({"since": pd.to_datetime(["2020-01-01"] * N_ROWS)})
MANY = pd.DataFrame({"town": [str(k) for k in range(N_ROWS)]})
TOWNS = [str(k) for k in range(300)]
KNOWN = {"city": ["a", "b"]}
TEXTS = (
    "columns 'a', 'b' hold text: declare their public values, as in categories={'a': [...], 'b': [...]}, or "
    "leave the columns out"
)
TEXT = "column 'city' holds text: declare its public values, as in categories={'city': [...]}"


def newton(**options):
    return lgb_dp.NewtonBoost(**{"epsilon": 1.0, "delta": 1e-6, **options})


def dataset(data=X, label=Y, **options):
    return lgb_dp.Dataset(data, label, **{"bounds": (0, 1), **options})


def train(params=None, data=None, callbacks=None, **options):
    params = {"objective": "binary", "verbose": -1, "max_depth": 2, **(params or {})}
    callbacks = [newton()] if callbacks is None else callbacks
    return lgb.train(params, data or dataset(), 2, callbacks=callbacks, **options)


def classify(data=X, label=Y, *, bounds=(0, 1), fit=None, **options):
    settings = {"epsilon": 1.0, "delta": 1e-6, "n_estimators": 2, "max_depth": 2, **options}
    return lgb_dp.DPLGBMClassifier(**settings).fit(data, label, bounds=bounds, **(fit or {}))


def search(**options):
    return lgb_dp.DPRandomizedSearchCV(lgb_dp.DPLGBMClassifier(), {"max_depth": [2, 3]}, **options)


WRONG = [
    # A trainer that is missing or misplaced.
    (lambda: train(callbacks=[]), "pass one, as in callbacks=[lgb_dp.NewtonBoost(epsilon=1.0, delta=1e-6)]"),
    (
        lambda: train({"objective": lgb_dp.MLoss(0.5)}, callbacks=[]),
        "a private Dataset is trained by a private trainer only",
    ),
    (lambda: train(data=lgb.Dataset(X, Y)), "NewtonBoost needs an lgb_dp.Dataset as train_set"),
    # Columns.
    (lambda: dataset(CITIES, bounds={"age": (0, 1)}).construct(), TEXT),
    (lambda: dataset(CITIES).construct(), "as in categories={'city': [...]}"),
    (lambda: classify(CITIES, bounds={"age": (0, 1)}), TEXT),
    (lambda: classify(CITIES.assign(a="x", b="y")[["a", "age", "b"]], bounds={"age": (0, 1)}), TEXTS),
    (lambda: classify(CITIES), "as in categories={'city': [...]}"),
    (lambda: lgb_dp.federated.Party(CITIES, Y, name="p", bounds={"age": (0, 1)}), TEXT),
    (lambda: lgb_dp.check_bounds(CITIES, {"age": (0, 1)}), TEXT),
    (
        lambda: dataset(MANY, bounds={}, categories={"town": TOWNS}).construct(),
        "feature 'town' has 300 categories; at most 255 are supported: merge rare ones by a public rule",
    ),
    (
        lambda: dataset(DATES, bounds={"since": ("2019-01-01", "2021-01-01")}).construct(),
        "bounds of feature 'since' must be two numbers, or datetimes of such a column, got ('2019-01-01', ",
    ),
    (
        lambda: dataset(categorical_feature=[0]),
        "categorical_feature=[0] is not accepted; declare the public values of these",
    ),
    (
        lambda: dataset(CITIES, bounds={"age": (0, 1)}, categories=["city"]).construct(),
        "categories must be a mapping of features to their values or 'dtype', got ['city']",
    ),
    (
        lambda: dataset(CITIES, bounds={"age": (0, 1), "city": ("2019-01-01", "2021-01-01")}).construct(),
        "column 'city' holds text, which has no bounds: parse dates and numbers first, as by pd.to_",
    ),
    (
        lambda: dataset(bounds=[(0, 1), (0, 2)]).construct(),
        "bounds=[(0, 1), (0, 2)] may be a pair of each feature or the lows and the highs of all: pass a",
    ),
    (
        lambda: dataset(np.c_[X, X], bounds=[(0, 1)] * 4).construct(),
        "bounds must be (low, high) or a mapping of features to them, as in {0: (0, 9)}, got [(0, 1)",
    ),
    (lambda: dataset(group=[N_ROWS]), "group and position are for ranking"),
    (lambda: dataset(position=[0] * N_ROWS), "group and position are for ranking"),
    (lambda: dataset(label=Y[:-1]).construct(), "label"),
    # Bounds.
    (
        lambda: dataset(bounds={0: (0, 1), 1: (0, 9)}, categories={1: range(9)}).construct(),
        "feature 'Column_1' has categories and bounds: a column of categories has no bounds; pass one of the",
    ),
    (
        lambda: classify(CITIES, bounds={"age": (0, 1), "city": (0, 1)}, fit={"categories": KNOWN}),
        "feature 'city' has categories and bounds",
    ),
    (
        lambda: classify(
            CITIES, bounds={"age": (0, 1), "city": (0, 1)}, fit={"categories": KNOWN}, auto_bounds=0.1
        ),
        "feature 'city' has categories and bounds",
    ),
    (
        lambda: lgb_dp.federated.Party(
            CITIES, Y, name="p", bounds={"age": (0, 1), "city": (0, 1)}, categories=KNOWN
        ),
        "feature 'city' has categories and bounds",
    ),
    (
        lambda: lgb_dp.vertical.ColumnParty(
            CITIES, name="p", bounds={"age": (0, 1), "city": (0, 1)}, categories=KNOWN
        ),
        "feature 'city' has categories and bounds",
    ),
    (
        lambda: lgb_dp.check_bounds(CITIES, {"age": (0, 1), "city": (0, 1)}, categories=KNOWN),
        "feature 'city' has categories and bounds",
    ),
    (
        lambda: dataset(categories={1: range(9)}, bin_edges={1: [0.5]}).construct(),
        "feature 'Column_1' has categories and bin_edges",
    ),
    (
        lambda: dataset(
            CITIES.astype({"city": "category"}), bounds={"age": (0, 1), "city": (0, 1)}
        ).construct(),
        "feature 'city' has categories and bounds",
    ),
    (
        lambda: dataset(bounds=(1, 0)).construct(),
        "bounds of feature 'Column_0' are reversed: low = 1.0 > high",
    ),
    (lambda: dataset(bounds=(0, np.inf)).construct(), "bounds of feature 'Column_0' must be finite"),
    (
        lambda: dataset(bounds=([0], [1, 1, 1])).construct(),
        "bounds must be two numbers or two arrays of 2 numbers",
    ),
    (lambda: dataset(bounds=[(0, 1)] * 3).construct(), "bounds must be (low, high) or a mapping of features"),
    (lambda: dataset(bounds={"height": (0, 1)}).construct(), "bounds names an unknown feature: 'height'"),
    (lambda: dataset(bounds={0: (0, 1)}).construct(), "bounds lack the numeric features ['Column_1']"),
    (
        lambda: dataset(bounds={0: (0,), 1: (0, 1)}).construct(),
        "bounds of feature 'Column_0' must be two numbers",
    ),
    (lambda: dataset(max_bin=500).construct(), "max_bin"),
    (
        lambda: dataset(weight=np.ones(N_ROWS)).construct(),
        "weight_bound must be given as a public bound of weight",
    ),
    # Budgets.
    (lambda: newton(epsilon=0), "epsilon must be positive, got 0"),
    (lambda: newton(epsilon=-1), "epsilon must be positive, got -1"),
    (lambda: newton(epsilon="1"), "epsilon"),
    (lambda: newton(delta=0), "delta must be in (0, 0.1), got 0"),
    (lambda: newton(delta=2), "delta must be in (0, 0.1), got 2"),
    (lambda: newton(budget=1.0), "budget must be an lgb_dp.Budget, got float"),
    # LightGBM's parameters.
    (lambda: train({"boosting": "dart"}), "boosting='dart' is not supported by private training"),
    (lambda: train(valid_sets=[lgb.Dataset(X, Y)]), "valid"),
    (
        lambda: dataset(label=np.where(Y > 0, "yes", "no")).construct(),
        "label must hold numbers only, got an array of str_; classes that are text are for DPLGBMClassifier",
    ),
    # Estimators.
    (
        lambda: lgb_dp.DPLGBMRegressor().fit(X, pd.Series(["a"] * N_ROWS), bounds=(0, 1)),
        "classes that are text are for DPLGBMClassifier",
    ),
    (
        lambda: classify(budget=lgb_dp.Budget(1.0, 1e-6)),
        "budget is an argument of fit, and of trainers such as lgb_dp.NewtonBoost",
    ),
    (lambda: lgb_dp.DPLGBMRegressor(label_bounds=(0, 1)).fit(X, Y), "label_bounds is an argument of fit"),
    (lambda: lgb_dp.DPLGBMClassifier(callbacks=[]).fit(X, Y), "callbacks is an argument of fit"),
    (
        lambda: classify(fit={"sample_weight": np.ones(N_ROWS)}),
        "weight_bound must be given as a public bound",
    ),
    (lambda: classify(method="newtonboost"), "method"),
    (lambda: dataset(label=np.where(Y > 0, np.nan, 0.0)).construct(), "label"),
    (lambda: lgb_dp.DPLGBMClassifier().predict(X), "is not fitted yet"),
    (lambda: classify().predict(X[:, :1]), "X has 1 features, but DPLGBMClassifier is expecting 2 features"),
    (
        lambda: classify(CITIES, fit={"categorical_feature": ["city"]}),
        "categorical_feature is not an argument of fit: declare the public values of these columns, as in",
    ),
    (
        lambda: classify(fit={"early_stopping_rounds": 10}),
        "early_stopping_rounds is not an argument of fit: pass callbacks=[lightgbm.early_stopping(rounds)]",
    ),
    (lambda: classify(fit={"verbose": False}), "verbose is not an argument of fit: it is a setting of the"),
    (lambda: classify(fit={"base_margin": Y}), "base_margin is not an argument of fit: pass init_score"),
    (lambda: classify(fit={"xgb_model": "model.ubj"}), "xgb_model is not an argument of fit: pass init"),
    (
        lambda: classify(fit={"sample_weight_eval_set": [Y]}),
        "sample_weight_eval_set is not an argument of fit: pass eval_sample_weight",
    ),
    (
        lambda: lgb_dp.federated.FederatedDPLGBMClassifier().fit(X, Y),
        "fit takes parties by position, got 2 arguments: pass parties=[(X, y), ...]",
    ),
    (
        lambda: lgb_dp.federated.FederatedDPLGBMClassifier().fit(X=X, y=Y),
        "X is not an argument of fit: pass parties=[(X, y), ...]",
    ),
    (
        lambda: lgb_dp.vertical.VerticalDPLGBMClassifier().fit(X, Y, sample_weight=Y),
        "sample_weight is not an argument of fit: columns apart have no weights",
    ),
    # The search.
    (
        lambda: search().fit(X, Y, categorical_feature=[0]),
        "categorical_feature is not supported by DPRandomizedSearchCV: declare the public values of these",
    ),
    (lambda: search(cv=5), "cv=5 is not supported by DPRandomizedSearchCV: every row is in the training or"),
    (
        lambda: search(scoring="roc_auc"),
        "scoring='roc_auc' is not supported by DPRandomizedSearchCV: trials are compared by a noised sum",
    ),
    (lambda: search(n_iter=10), "pass its mean as mean_trials"),
    (lambda: search(folds=3), "folds=3 is not supported by DPRandomizedSearchCV"),
    (lambda: lgb_dp.privacy_of(lgb.train({"verbose": -1}, lgb.Dataset(X, Y), 1)), "no privacy guarantee"),
]


@pytest.mark.parametrize(("call", "text"), WRONG)
@pytest.mark.filterwarnings("ignore::lgb_dp.PrivacyLeakWarning")
def test_a_wrong_input_is_named_with_a_way_out(call, text):
    with pytest.raises((ValueError, TypeError, lgb.basic.LightGBMError), match=re.escape(text)) as caught:
        call()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("trainer", [lgb_dp.NewtonBoost, lgb_dp.DPBoost, lgb_dp.MBoost])
def test_the_class_of_a_trainer_can_be_looked_into(trainer):
    """LightGBM's first look at a callback is into its `__dict__`; that of a class is `inspect`'s, too."""
    assert next(iter(inspect.signature(trainer).parameters)) == "epsilon"
    assert inspect.getattr_static(trainer, "begin") is vars(trainer)["begin"]
    assert vars(trainer(1.0, 1e-6) if trainer is lgb_dp.NewtonBoost else trainer(1.0))["epsilon"] == 1.0


def test_the_table_is_long_enough():
    assert len(WRONG) >= 40


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: train({"num_leaves": 31}),
            "num_leaves=31, LightGBM's default, has no effect: private trees",
        ),
        (lambda: classify(num_leaves=31), "num_leaves=31, LightGBM's default, has no effect"),
        (lambda: train({"max_leaf": 31}), "max_leaf=31, LightGBM's default, has no effect"),
        (
            lambda: classify(min_child_samples=20),
            "min_child_samples=20, LightGBM's default, has no effect: a test on a leaf's private count",
        ),
        (lambda: train({"min_data_in_leaf": 20}), "min_data_in_leaf=20, LightGBM's default, has no effect"),
        (lambda: train({"min_child_weight": 1e-3}), "min_child_weight=0.001, LightGBM's default"),
    ],
)
def test_a_default_that_is_given_and_has_no_effect_is_named(call, text):
    with pytest.warns(lgb_dp.IgnoredParameterWarning, match=re.escape(text)):
        call()


def test_parameters_that_have_an_effect_are_not_warned_of():
    with warnings.catch_warnings():
        warnings.simplefilter("error", lgb_dp.IgnoredParameterWarning)
        train({"num_leaves": 4})
        train({"max_depth": 3})
