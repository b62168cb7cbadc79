"""Side doors around estimators and search: what surrounds a private fit must not undo its guarantee."""

import contextlib
import functools
import io
import logging
import traceback
import warnings

import joblib
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.linear_model import RANSACRegressor
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_predict, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

import lgb_dp
from lgb_dp import search as search_module
from small_training import binary_data, dataset, train

X, Y = binary_data(60)
BOUNDS = (-3, 3)

# No error, warning or log record quotes a private cell.

TEXT_MARK = "SECRET-7301"
NUMBER_MARK = 918273645.25
MARKS = (TEXT_MARK, "918273645", "9.18273645", "9.18274e+08", "9.1827")


class Recorder(logging.Handler):
    """Keeps the text of every log record."""

    def __init__(self):
        super().__init__(level=0)
        self.texts = []

    def emit(self, record):
        self.texts.append(self.format(record))


def everything_said(call):
    """What a call prints, logs, warns and raises, with the errors behind an error."""
    recorder, printed = Recorder(), io.StringIO()
    logging.getLogger().addHandler(recorder)
    said = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                call()
    except Exception as error:
        said += traceback.format_exception(error)
        while error is not None:  # a logger may print what "from None" hides
            said += [str(error), repr(error)]
            error = error.__context__
    finally:
        logging.getLogger().removeHandler(recorder)
    return "\n".join([*said, *(str(w.message) for w in caught), *recorder.texts, printed.getvalue()])


def marked_vector(mark, values):
    """A column of `values` whose tenth cell is `mark`, as numbers if the mark is one."""
    cells = np.asarray(values).astype(object if isinstance(mark, str) else float)
    cells[10] = mark
    return cells


def marked_matrix(mark, kind):
    """The features with one cell replaced, in one of the containers that are accepted."""
    cells = X.astype(object if isinstance(mark, str) else float)
    cells[10, 1] = mark
    if kind == "list":
        return cells.tolist()
    if kind == "frame":
        return pd.DataFrame({name: cells[:, k] for k, name in enumerate("abcd")})
    if kind == "text frame":
        return pd.DataFrame({name: cells[:, k].astype(str) for k, name in enumerate("abcd")})
    if kind == "category frame":
        return pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(cells[:, 1]), "c": X[:, 2], "d": X[:, 3]})
    if kind == "many categories":
        tall = [f"{mark}{i}" for i in range(300)]
        return pd.DataFrame({"a": X[:, 0], "b": pd.Categorical([tall[i] for i in range(60)], tall)})
    if kind == "sparse" and not isinstance(mark, str):
        return scipy.sparse.csr_matrix(cells)
    if kind == "text":
        return cells.astype(str)
    return cells


PARAMS = {"objective": "binary", "verbosity": 1, "max_depth": 2, "num_threads": 1}
VECTOR_KINDS = {
    "array": lambda v: v,
    "list": lambda v: v.tolist(),
    "series": pd.Series,
    "column": lambda v: v.reshape(-1, 1),
}


def dataset_calls(part, mark, kind):
    """Calls that train with the mark in one argument of a Dataset."""
    arguments = {"label": Y, "bounds": BOUNDS}
    features = X
    if part == "X":
        features = marked_matrix(mark, kind)
    elif part == "eval_set":
        data = lgb_dp.Dataset(X, label=Y, bounds=BOUNDS)
        return lambda: lgb.train(
            PARAMS, data, 2, valid_sets=[data.create_valid(marked_matrix(mark, kind), Y)],
            callbacks=[lgb_dp.NewtonBoost(1.0, 1e-6)],
        )  # fmt: skip
    elif part == "eval_label":
        data = lgb_dp.Dataset(X, label=Y, bounds=BOUNDS)
        return lambda: lgb.train(
            PARAMS, data, 2, valid_sets=[data.create_valid(X, marked_vector(mark, Y))],
            callbacks=[lgb_dp.NewtonBoost(1.0, 1e-6)],
        )  # fmt: skip
    elif part == "weight":
        arguments |= {"weight": marked_vector(mark, np.ones(60)), "weight_bound": 2.0}
    elif part == "negative weight":
        arguments |= {"weight": -marked_vector(NUMBER_MARK, np.ones(60)), "weight_bound": 2.0}
    else:
        name = {"y": "label"}.get(part, part)
        arguments[name] = VECTOR_KINDS.get(kind, np.asarray)(marked_vector(mark, Y))
    objective = "regression" if kind == "series" else "binary"
    bounds = {"label_bounds": (0, 1)} if objective == "regression" else {}
    return lambda: lgb.train(
        {**PARAMS, "objective": objective},
        lgb_dp.Dataset(features, **{**arguments, **bounds}),
        2,
        callbacks=[lgb_dp.NewtonBoost(1.0, 1e-6)],
    )


def estimator_calls(part, mark, kind, search):
    """Calls that fit an estimator, or search, with the mark in one argument of `fit`."""
    regression = kind in ("series", "column")
    model = (lgb_dp.DPLGBMRegressor if regression else lgb_dp.DPLGBMClassifier)(n_estimators=2, verbose=1)
    arguments = {"bounds": BOUNDS} | ({"label_bounds": (0, 1)} if regression else {})
    features, labels = X, Y
    if part == "X":
        features = marked_matrix(mark, kind)
    elif part == "y":
        labels = VECTOR_KINDS.get(kind, np.asarray)(marked_vector(mark, Y))
    elif part == "eval_set":
        arguments["eval_set"] = [(marked_matrix(mark, kind), Y)]
    elif part == "eval_label":
        arguments["eval_set"] = [(X, marked_vector(mark, Y))]
    elif "weight" in part:
        arguments |= {"sample_weight": marked_vector(mark, np.ones(60)), "weight_bound": 2.0}
    else:
        labels = marked_vector(mark, Y)
    if search:
        model = lgb_dp.DPRandomizedSearchCV(model, {"max_depth": [1, 2]}, epsilon=20.0, mean_trials=2.0)
    return lambda: model.fit(features, labels, **arguments)


def prediction_calls(part, mark, kind):
    """Calls of a fitted estimator, and metadata releases, on marked rows."""
    rows = marked_matrix(mark, kind)
    if part == "X":
        return lambda: lgb_dp.private_bounds(rows, 1.0, 1e-6)
    if part == "y":
        return lambda: lgb_dp.private_quantile_edges(rows, BOUNDS, 1.0, 1e-6)
    if part == "weight":
        data = lgb_dp.Dataset(rows, label=Y, bounds=BOUNDS)
        return lambda: lgb.cv(
            PARAMS, data, 2, folds=lgb_dp.folds(2, data), callbacks=[lgb_dp.NewtonBoost(1.0, 1e-6)]
        )
    model = lgb_dp.DPLGBMClassifier(n_estimators=2).fit(X, Y.astype(int), bounds=BOUNDS)
    if part == "eval_label":
        return lambda: model.score(X, marked_vector(mark, Y))
    return lambda: model.predict(rows)


PARTS = ["X", "y", "weight", "negative weight", "init_score", "eval_set", "eval_label"]
KINDS = [
    *("array", "text", "list", "frame", "text frame", "category frame", "many categories", "sparse"),
    *("series", "column"),
]


@settings(
    max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
@given(
    st.sampled_from(["dataset", "estimator", "search", "others"]),
    st.sampled_from(PARTS),
    st.sampled_from([TEXT_MARK, NUMBER_MARK]),
    st.sampled_from(KINDS),
)
def test_side_door_nothing_said_quotes_a_private_cell(entry, part, mark, kind):
    if entry == "dataset":
        call = lambda: dataset_calls(part, mark, kind)()  # noqa: E731
    elif entry == "others":
        call = lambda: prediction_calls(part, mark, kind)()  # noqa: E731
    else:
        call = lambda: estimator_calls(part, mark, kind, entry == "search")()  # noqa: E731
    said = everything_said(call)
    assert not [mark for mark in MARKS if mark in said], said


# Searches (violations 3, 5 and 6).


def searched(settings=None, model=None, **kwargs):
    return lgb_dp.DPRandomizedSearchCV(
        lgb_dp.DPLGBMClassifier(n_estimators=5) if model is None else model,
        {"max_depth": [1, 2, 3]} if settings is None else settings,
        **{"epsilon": 20.0, "mean_trials": 6.0, **kwargs},
    )


LABELS = Y.astype(int)


def fitted_attributes(search):
    return {name for name in vars(search) if name.endswith("_")}


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("where", ["_row_scores", "with_guarantee"])
def test_side_door_an_aborted_search_leaves_nothing(monkeypatch, error, where):
    search = searched().fit(X, LABELS, bounds=BOUNDS)
    assert fitted_attributes(search) == {"best_estimator_", "best_params_", "privacy_"}
    calls, honest = [], getattr(search_module, where)

    def interrupted(*args):
        calls.append(where)
        if len(calls) >= (2 if where == "_row_scores" else 1):
            raise error("stopped")
        return honest(*args)

    monkeypatch.setattr(search_module, where, interrupted)
    monkeypatch.setattr(search_module, "draw_number_of_trials", lambda *_: 4)
    for model in (search, searched()):
        calls.clear()
        with pytest.raises(error):
            model.fit(X, LABELS, bounds=BOUNDS)
        assert fitted_attributes(model) == set()
        assert "booster_" not in vars(model.estimator)


def without_trial(original):
    @functools.wraps(original)
    def fit(*_, **__):
        pytest.fail("a trial was run")

    return fit


@pytest.mark.parametrize("name", ["method", "random_state", "epsilon", "delta", "budget", "depth"])
@pytest.mark.parametrize("as_list", [False, True])
def test_side_door_settings_that_cannot_be_searched_are_refused_before_the_first_trial(
    monkeypatch, name, as_list
):
    monkeypatch.setattr(lgb_dp.DPLGBMClassifier, "fit", without_trial(lgb_dp.DPLGBMClassifier.fit))
    settings = {"max_depth": [1, 2], name: [1, 2]}
    search = searched([{"max_depth": [2]}, settings] if as_list else settings)
    with pytest.raises(lgb_dp.InvalidArgumentError, match=repr(name)):
        search.fit(X, LABELS, bounds=BOUNDS)


@pytest.mark.parametrize(
    "settings",
    [
        {"learning_rate": [7.0]},
        {"max_depth": [99]},
        {"n_estimators": [0]},
        {"max_bin": [1000]},
        {"alpha": [0.5]},
    ],
)
def test_side_door_values_are_checked_before_the_first_trial(monkeypatch, settings):
    """The first trial must not be run when a later one's settings are wrong."""
    monkeypatch.setattr(lgb_dp.DPLGBMClassifier, "fit", without_trial(lgb_dp.DPLGBMClassifier.fit))
    with pytest.raises(
        ValueError, match={"reg_lambda": "lambda_l2"}.get(next(iter(settings)), next(iter(settings)))
    ):
        searched(settings).fit(X, LABELS, bounds=BOUNDS)


@pytest.mark.parametrize("argument", ["callbacks", "sample_weight", "eval_set", "eval_metric", "bound"])
def test_side_door_arguments_that_see_every_trial_are_refused(argument):
    with pytest.raises(lgb_dp.InvalidArgumentError, match=argument):
        searched().fit(X, LABELS, bounds=BOUNDS, **{argument: [print]})
    regressor = lgb_dp.DPLGBMRegressor(n_estimators=5)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="label_bounds"):
        searched(model=regressor).fit(X, Y, bounds=BOUNDS)


def test_side_door_a_seeded_trial_voids_the_search():
    for seeded in (
        searched(model=lgb_dp.DPLGBMClassifier(n_estimators=5, random_state=3)),
        searched(random_state=3),
    ):
        with pytest.warns(lgb_dp.PrivacyLeakWarning, match="random_state"):
            seeded.fit(X, LABELS, bounds=BOUNDS)
        assert not seeded.privacy_.private
        assert not lgb_dp.privacy_of(seeded.best_estimator_.booster_).private


def test_side_door_the_search_does_not_tell_how_many_trials_it_ran(monkeypatch, capfd):
    said = []
    for n_trials in (1, 5):
        monkeypatch.setattr(search_module, "draw_number_of_trials", lambda *_, n=n_trials: n)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = searched(model=lgb_dp.DPLGBMClassifier(n_estimators=5, verbose=1)).fit(X, LABELS)
        said.append(([str(w.message) for w in caught], capfd.readouterr()))
        assert found.best_estimator_.verbose == 1
    assert said[0] == said[1]


def paid_report(epsilon=2.0):
    return lgb_dp.private_bounds(X, epsilon, 1e-6)[1]


def test_side_door_estimators_and_search_charge_what_was_paid_for():
    paid = paid_report()
    model = lgb_dp.DPLGBMClassifier(epsilon=1.0, delta=1e-6, n_estimators=5)
    alone = model.fit(X, LABELS, bounds=BOUNDS).privacy_
    together = model.fit(X, LABELS, bounds=BOUNDS, paid_for=[paid]).privacy_
    assert together.epsilon == pytest.approx(lgb_dp.compose(alone, paid).epsilon, rel=1e-6)
    assert together.epsilon > 2.0
    regressor = lgb_dp.DPLGBMRegressor(epsilon=1.0, n_estimators=5)
    regressor.fit(X, Y, bounds=BOUNDS, label_bounds=(0, 1), paid_for=[paid])
    assert regressor.privacy_.epsilon > 2.0
    found = searched(epsilon=5.0, mean_trials=3.0).fit(X, LABELS, bounds=BOUNDS, paid_for=[paid])
    assert found.privacy_.epsilon == pytest.approx(5.0 + paid.epsilon, rel=1e-3)
    assert found.privacy_.epsilon >= found.best_estimator_.privacy_.epsilon
    assert lgb_dp.privacy_of(found.best_estimator_.booster_).epsilon == found.privacy_.epsilon
    with pytest.raises(TypeError, match="paid_for"):
        searched().fit(X, LABELS, bounds=BOUNDS, paid_for=[2.0])


METHODS = {"newton": {"n_estimators": 5}, "dpboost": {}, "mboost": {}}


@pytest.mark.parametrize("method", METHODS)
def test_side_door_estimators_pay_from_a_budget_and_are_refused_beyond(method):
    budget = lgb_dp.Budget(3.0, 1e-5, pure_epsilon=1.5)
    model = lgb_dp.DPLGBMClassifier(1.0, delta=1e-6, method=method, **METHODS[method])
    report = model.fit(X, LABELS, bounds=BOUNDS, budget=budget).privacy_
    assert report.budget == budget.id
    assert budget.spent.epsilon == report.cost.epsilon
    assert budget.spent.mu == pytest.approx(report.cost.mu, rel=1e-9)
    tight = lgb_dp.Budget(1.5, 1e-5, pure_epsilon=1.0)
    if method != "newton":
        model.fit(X, LABELS, bounds=BOUNDS, budget=tight)
    with pytest.raises(lgb_dp.BudgetExceededError):
        model.fit(X, LABELS, bounds=BOUNDS, budget=tight)
    regressor = lgb_dp.DPLGBMRegressor(9.0)
    with pytest.raises(lgb_dp.BudgetExceededError):
        regressor.fit(X, Y, bounds=BOUNDS, label_bounds=(0, 1), budget=budget)
    assert not hasattr(regressor, "booster_")


def test_side_door_a_search_pays_once_from_a_budget_before_the_first_trial(monkeypatch):
    budget = lgb_dp.Budget(6.0, 1e-5, pure_epsilon=5.0, approximate_delta=5e-6)
    paid = lgb_dp.private_bounds(X, 0.1, 1e-6, budget=budget)[1]
    search = searched(epsilon=4.0, delta=1e-6)
    search.fit(X, LABELS, bounds=BOUNDS, paid_for=[paid], budget=budget)
    assert search.privacy_.budget == budget.id
    assert search.privacy_.private
    assert budget.spent.epsilon == 4.0
    assert budget.spent.mu == pytest.approx(paid.cost.mu, rel=1e-9), "paid twice"
    assert budget.report().private
    monkeypatch.setattr(lgb_dp.DPLGBMClassifier, "fit", without_trial(lgb_dp.DPLGBMClassifier.fit))
    with pytest.raises(lgb_dp.BudgetExceededError):
        search.fit(X, LABELS, bounds=BOUNDS, budget=budget)
    assert fitted_attributes(search) == set()
    with pytest.raises(TypeError, match="budget"):
        search.fit(X, LABELS, bounds=BOUNDS, budget=4.0)


def test_side_door_an_aborted_search_stays_charged(monkeypatch):
    budget = lgb_dp.Budget(6.0, 1e-5, pure_epsilon=5.0, approximate_delta=5e-6)
    monkeypatch.setattr(search_module, "_row_scores", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        searched(epsilon=4.0, delta=1e-6).fit(X, LABELS, bounds=BOUNDS, budget=budget)
    assert budget.spent.epsilon == 4.0


def test_side_door_a_void_fit_voids_its_budget():
    for call in (
        lambda budget: lgb_dp.DPLGBMClassifier(n_estimators=5).fit(
            X, LABELS + 1, bounds=BOUNDS, budget=budget
        ),
        lambda budget: searched(random_state=1).fit(X, LABELS, bounds=BOUNDS, budget=budget),
    ):
        budget = lgb_dp.Budget(90.0, 1e-4, pure_epsilon=80.0, approximate_delta=5e-5)
        with pytest.warns(lgb_dp.PrivacyLeakWarning):
            model = call(budget)
        assert not model.privacy_.private
        assert not budget.report().private


# Labels (violation 9).


def quiet_fit(model, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*args, **kwargs)


@pytest.mark.parametrize(
    "labels", [np.where(Y > 0, "SECRET", "b"), LABELS + 1, LABELS * 918273645, (X[:, 0] > 0) * 2 + LABELS]
)
def test_side_door_inferred_classes_warn_void_and_quote_nothing(labels):
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="classes") as caught:
        model = lgb_dp.DPLGBMClassifier(n_estimators=2).fit(X, labels, bounds=BOUNDS)
    assert not model.privacy_.private
    said = f"{[str(w.message) for w in caught]} {model.privacy_}"
    assert "SECRET" not in said
    assert "918273645" not in said


def test_side_door_assumed_classes_are_noted():
    model = lgb_dp.DPLGBMClassifier(n_estimators=2).fit(X, LABELS, bounds=BOUNDS)
    assert any("assumed to be {0, 1}" in note for note in model.privacy_.notes)
    declared = lgb_dp.DPLGBMClassifier(n_estimators=2).fit(X, LABELS, bounds=BOUNDS, classes=[0, 1])
    assert not any("assumed" in note for note in declared.privacy_.notes)


TRAINERS = {
    "newton": (lambda seed: lgb_dp.NewtonBoost(1.0, 1e-6, random_state=seed), {}),
    "dpboost": (lambda seed: lgb_dp.DPBoost(1.0, random_state=seed), {}),
    "paper": (lambda seed: lgb_dp.DPBoost(1.0, variant="paper", random_state=seed), {}),
    "mboost": (lambda seed: lgb_dp.MBoost(1.0, random_state=seed), {}),
    "votes": (lambda seed: lgb_dp.RandomForestLaplace(1.0, random_state=seed), {"lambda_l2": 0}),
    "choice": (lambda seed: lgb_dp.RandomForestExponential(1.0, random_state=seed), {"lambda_l2": 0}),
}


def seeded_text(trainer, labels, weight, **params):
    make, more = TRAINERS[trainer]
    low, high = (0, 2) if params["objective"] == "multiclass" else (0, 1)
    data = dataset(
        X, labels, weight=weight, weight_bound=1.0, label_overflow="clip",
        label_bounds=None if high == 2 else (low, high),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train(data, make(5), **params, **more).model_to_string()


@pytest.mark.parametrize("wrong", [7.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("trainer", TRAINERS)
@pytest.mark.parametrize("objective", ["binary", "multiclass"])
def test_side_door_a_row_of_no_class_is_a_row_of_no_weight(trainer, objective, wrong):
    labels = Y if objective == "binary" else np.arange(60) % 3.0
    params = {"objective": objective, **({"num_class": 3} if objective == "multiclass" else {})}
    dropped = np.arange(60) % 7 == 0
    of_no_class = seeded_text(trainer, np.where(dropped, wrong, labels), np.ones(60), **params)
    of_no_weight = seeded_text(trainer, labels, np.where(dropped, 0.0, 1.0), **params)
    assert of_no_class == of_no_weight


def test_side_door_a_row_of_no_class_does_not_exist_without_weights_either():
    dropped = np.arange(60) % 7 == 0
    texts = []
    for rows, labels in ((X, np.where(dropped, 4.0, Y)), (X[~dropped], Y[~dropped])):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = dataset(rows, labels, label_overflow="clip")
            texts.append(train(data, lgb_dp.NewtonBoost(1.0, 1e-6, random_state=5)).model_to_string())
    assert texts[0] == texts[1]


@pytest.mark.parametrize("trainer", ["newton", "dpboost", "paper"])
def test_side_door_targets_beyond_their_bounds_count_as_the_bounds(trainer):
    targets = np.where(
        Y > 0, np.where(np.arange(60) % 2, 1.0, 40.0), np.where(np.arange(60) % 3, 0.0, -np.inf)
    )
    beyond = seeded_text(trainer, targets, np.ones(60), objective="regression")
    assert beyond == seeded_text(trainer, targets.clip(0, 1), np.ones(60), objective="regression")


def test_side_door_labels_that_overflow_raise_in_datasets_and_are_clipped_in_estimators():
    for labels, objective in ((Y * 3, "binary"), (Y * 3, "regression"), (np.full(60, np.nan), "binary")):
        with pytest.raises(lgb_dp.InvalidArgumentError, match="label"):
            train(dataset(X, labels, label_bounds=(0, 1)), lgb_dp.NewtonBoost(1.0, 1e-6), objective=objective)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classes = lgb_dp.DPLGBMClassifier(n_estimators=2).fit(X, LABELS * 3, bounds=BOUNDS, classes=[0, 1])
        numbers = lgb_dp.DPLGBMRegressor(n_estimators=2).fit(X, Y * 3, bounds=BOUNDS, label_bounds=(0, 1))
        fitting = lgb_dp.DPLGBMClassifier(n_estimators=2).fit(X, LABELS, bounds=BOUNDS, classes=[0, 1])
    assert classes.privacy_ == fitting.privacy_, "the report must not tell whether a label overflowed"
    for model in (classes, numbers):
        assert model.privacy_.private
        assert any("label_bounds are clipped" in note for note in model.privacy_.notes)
    for model, arguments in (
        (lgb_dp.DPLGBMClassifier(label_overflow="raise"), {"classes": [0, 1]}),
        (lgb_dp.DPLGBMRegressor(label_overflow="raise"), {"label_bounds": (0, 1)}),
    ):
        with pytest.raises(lgb_dp.InvalidArgumentError):
            model.fit(X, LABELS * 3, bounds=BOUNDS, **arguments)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="label_overflow"):
        lgb_dp.DPLGBMRegressor(label_overflow="drop").fit(X, Y, bounds=BOUNDS, label_bounds=(0, 1))
    with pytest.raises(lgb_dp.InvalidArgumentError, match="label_overflow"):
        dataset(X, Y, label_overflow="drop")


# What scikit-learn does around an estimator (violation 10).


class Bounded(lgb_dp.DPLGBMClassifier):
    """A classifier whose bounds are known without an argument, for wrappers that pass none on."""

    def fit(self, X, y, **kwargs):
        return super().fit(X, y, bounds=BOUNDS, classes=[0, 1], **kwargs)


class BoundedRegressor(lgb_dp.DPLGBMRegressor):
    def fit(self, X, y, **kwargs):
        return super().fit(X, y, bounds=BOUNDS, label_bounds=(-9, 9), **kwargs)


def small():
    return Bounded(n_estimators=2)


WRAPPERS = {
    "GridSearchCV": (lambda: GridSearchCV(small(), {"max_depth": [1, 2]}, cv=2), lambda m: m.best_estimator_),
    "RandomizedSearchCV": (
        lambda: RandomizedSearchCV(small(), {"max_depth": [1, 2]}, n_iter=2, cv=2),
        lambda m: m.best_estimator_,
    ),
    "CalibratedClassifierCV": (
        lambda: CalibratedClassifierCV(small(), cv=2),
        lambda m: m.calibrated_classifiers_[0].estimator,
    ),
    "BaggingClassifier": (lambda: BaggingClassifier(small(), n_estimators=2), lambda m: m.estimators_[0]),
    "VotingClassifier": (
        lambda: VotingClassifier([("a", small()), ("b", small())]),
        lambda m: m.estimators_[0],
    ),
    "StackingClassifier": (lambda: StackingClassifier([("a", small())], cv=2), lambda m: m.estimators_[0]),
    "OneVsRestClassifier": (lambda: OneVsRestClassifier(small()), lambda m: m.estimators_[0]),
    "RFE": (lambda: RFE(small(), n_features_to_select=2), lambda m: m.estimator_),
    "SelectFromModel": (lambda: SelectFromModel(small()), lambda m: m.estimator_),
}


@pytest.mark.filterwarnings("ignore::lgb_dp.errors.PrivacyLeakWarning")  # some set random_state
@pytest.mark.parametrize("name", WRAPPERS)
def test_side_door_wrappers_of_scikit_learn_void(name):
    make, inner = WRAPPERS[name]
    wrapper = make()
    with pytest.warns(lgb_dp.NotPrivateWarning, match="epsilon covers one fit only"):
        wrapper.fit(X, LABELS)
    report = inner(wrapper).privacy_
    assert not report.private
    assert any(reason.startswith((name, "sklearn.")) for reason in report.reasons)
    assert not lgb_dp.privacy_of(inner(wrapper).booster_).private


@pytest.mark.parametrize("backend", ["loky", "threading"])
@pytest.mark.parametrize("name", ["BaggingClassifier", "VotingClassifier", "OneVsRestClassifier"])
def test_side_door_wrappers_void_in_the_workers_of_joblib(name, backend):
    make, inner = WRAPPERS[name]
    with joblib.parallel_backend(backend, n_jobs=2):
        wrapper = quiet_fit(make().set_params(n_jobs=2), X, LABELS)
    reasons = inner(wrapper).privacy_.reasons
    assert any("epsilon covers one fit only" in reason for reason in reasons)


def test_side_door_several_outputs_and_cross_validation_void():
    several = quiet_fit(MultiOutputClassifier(small()), X, np.column_stack([LABELS, 1 - LABELS]))
    assert not several.estimators_[0].privacy_.private
    consensus = quiet_fit(RANSACRegressor(BoundedRegressor(n_estimators=2), min_samples=20), X, X[:, 0])
    assert not consensus.estimator_.privacy_.private
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folds = cross_validate(small(), X, LABELS, cv=2, return_estimator=True)
        in_workers = cross_validate(small(), X, LABELS, cv=2, return_estimator=True, n_jobs=2)
    for model in (*folds["estimator"], *in_workers["estimator"]):
        assert not model.privacy_.private
    with pytest.warns(lgb_dp.NotPrivateWarning, match="cross_val_predict"):
        cross_val_predict(small(), X, LABELS, cv=2)


def test_side_door_a_private_search_inside_a_search_is_void():
    outer = GridSearchCV(searched(), {"mean_trials": [2.0, 3.0]}, cv=2, scoring="accuracy")
    quiet_fit(outer, X, LABELS, bounds=BOUNDS)
    assert not outer.best_estimator_.privacy_.private


def test_side_door_a_private_search_behind_a_scaler_is_void():
    pipeline = make_pipeline(StandardScaler(), searched())
    quiet_fit(pipeline, X, LABELS, dprandomizedsearchcv__bounds=BOUNDS)
    assert not pipeline[-1].privacy_.private


FITTED_STEPS = {
    "StandardScaler": [StandardScaler()],
    "inside FeatureUnion": [FeatureUnion([("a", FunctionTransformer()), ("b", StandardScaler())])],
    "inside ColumnTransformer": [ColumnTransformer([("a", StandardScaler(), [0])], remainder="passthrough")],
    "as the remainder": [ColumnTransformer([("a", "passthrough", [0])], remainder=StandardScaler())],
    "inside Pipeline": [make_pipeline(FunctionTransformer(), StandardScaler())],
    "categories of the rows": [OneHotEncoder(sparse_output=False)],
    "rare categories": [
        OneHotEncoder(
            categories=[np.unique(X[:, k]) for k in range(4)], max_categories=2, handle_unknown="ignore"
        )
    ],
}
STATELESS_STEPS = {
    "FunctionTransformer": [FunctionTransformer(np.tanh)],
    "several": ["passthrough", Normalizer(), make_pipeline(FunctionTransformer())],
    "by settings alone": [
        PolynomialFeatures(2),
        OneHotEncoder(categories=[[0.0, 1.0]] * 15, handle_unknown="ignore"),
    ],
    "unions": [FeatureUnion([("a", Normalizer())]), ColumnTransformer([("a", Normalizer(), [0, 1])])],
}


@pytest.mark.parametrize("name", FITTED_STEPS)
def test_side_door_steps_that_learn_from_rows_void(name):
    pipeline = make_pipeline(*FITTED_STEPS[name], small())
    with pytest.warns(lgb_dp.NotPrivateWarning, match="learned from the private rows"):
        pipeline.fit(X, LABELS)
    report = pipeline[-1].privacy_
    assert not report.private
    assert any("Pipeline" in reason for reason in report.reasons)


@pytest.mark.parametrize("name", STATELESS_STEPS)
def test_stateless_steps_leave_the_guarantee(name):
    pipeline = make_pipeline(*STATELESS_STEPS[name], small())
    with warnings.catch_warnings():
        warnings.simplefilter("error", lgb_dp.NotPrivateWarning)
        pipeline.fit(X, LABELS)
    assert pipeline[-1].privacy_.private


def test_side_door_targets_that_a_transformer_learned_void():
    def wrapped(**kwargs):
        return TransformedTargetRegressor(BoundedRegressor(n_estimators=2), check_inverse=False, **kwargs)

    learned = quiet_fit(wrapped(transformer=StandardScaler()), X, X[:, 0])
    assert not learned.regressor_.privacy_.private
    by_rule = wrapped(func=np.arcsinh, inverse_func=np.sinh).fit(X, X[:, 0])
    assert by_rule.regressor_.privacy_.private


class Wrapper(BaseEstimator):
    """An estimator of somebody else's that fits ours."""

    def fit(self, X, y):
        self.model_ = small().fit(X, y)
        return self


def test_side_door_unknown_wrappers_are_noted():
    with pytest.warns(lgb_dp.NotPrivateWarning, match="Wrapper"):
        wrapper = Wrapper().fit(X, LABELS)
    assert any("Wrapper" in note for note in wrapper.model_.privacy_.notes)


def test_a_plain_fit_has_no_surroundings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = small().fit(X, LABELS)
    assert model.privacy_.private
