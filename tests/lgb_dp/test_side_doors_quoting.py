"""No error, warning or log record quotes a private cell."""

import contextlib
import io
import logging
import traceback
import warnings

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lgb_dp
from lgb_dp.data import dataset as dataset_module
from lgb_dp.data import groups, private_metadata
from lgb_dp.estimators import search as search_module
from small_training import binary_data

X, Y = binary_data(60)
BOUNDS = (-3, 3)

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


def marked_groups(mark, kind, part):
    """Persons, one of whom is named by the mark; some containers, and a mixture of kinds, are refused."""
    names = np.arange(60) // 3
    if part == "mixed groups":
        names = [*names.tolist()[:-1], None if kind == "array" else mark]
    else:
        names = marked_vector(mark, names.astype(str) if isinstance(mark, str) else names)
        names = names.astype(str) if kind == "text" else VECTOR_KINDS.get(kind, np.asarray)(names)
    return {"groups": names, "rows_per_group": 2}


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
    elif "groups" in part:
        arguments |= marked_groups(mark, kind, part)
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
    elif "groups" in part:
        arguments |= marked_groups(mark, kind, part)
    else:
        labels = marked_vector(mark, Y)
    if search:
        model = lgb_dp.DPRandomizedSearchCV(model, {"max_depth": [1, 2]}, epsilon=20.0, mean_trials=2.0)
    return lambda: model.fit(features, labels, **arguments)


def prediction_calls(part, mark, kind):
    """Calls of a fitted estimator, and metadata releases, on marked rows."""
    if "groups" in part:
        persons = marked_groups(mark, kind, part)
        if kind in ("frame", "sparse"):
            return lambda: lgb_dp.private_quantile_edges(X, BOUNDS, 1.0, 1e-6, **persons)
        return lambda: lgb_dp.private_bounds(X, 1.0, 1e-6, **persons)
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


def marked_call(entry, part, mark, kind):
    """A call of an entry point with the mark in one of its arguments; made while it is listened to."""
    if entry == "dataset":
        return lambda: dataset_calls(part, mark, kind)()
    if entry == "others":
        return lambda: prediction_calls(part, mark, kind)()
    return lambda: estimator_calls(part, mark, kind, entry == "search")()


PARTS = [
    *("X", "y", "weight", "negative weight", "init_score", "eval_set", "eval_label"),
    *("groups", "mixed groups"),
]
KINDS = [
    *("array", "text", "list", "frame", "text frame", "category frame", "many categories", "sparse"),
    *("series", "column"),
]


@settings(
    max_examples=160, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
@given(
    st.sampled_from(["dataset", "estimator", "search", "others"]),
    st.sampled_from(PARTS),
    st.sampled_from([TEXT_MARK, NUMBER_MARK]),
    st.sampled_from(KINDS),
)
def test_side_door_nothing_said_quotes_a_private_cell(entry, part, mark, kind):
    said = everything_said(marked_call(entry, part, mark, kind))
    assert not [mark for mark in MARKS if mark in said], said


def with_an_error_that_quotes(patch):
    honest = groups.group_numbers

    def group_numbers(given, n_rows):
        try:
            return honest(given, n_rows)
        except lgb_dp.PrivateTrainingError as error:
            raise lgb_dp.ArgumentTypeError(f"{error}: {given[-1]!r}") from None

    patch.setattr(groups, "group_numbers", group_numbers)


def with_a_log_of_persons(patch):
    honest = groups.draw_kept_rows

    def draw_kept_rows(given, *args):
        logging.getLogger("veilboost").warning("persons: %s", list(given))
        return honest(given, *args)

    for module in (dataset_module, private_metadata, search_module):
        patch.setattr(module, "draw_kept_rows", draw_kept_rows)


@pytest.mark.parametrize("entry", ["dataset", "estimator", "search", "others"])
@pytest.mark.parametrize(
    ("part", "leak"), [("groups", with_a_log_of_persons), ("mixed groups", with_an_error_that_quotes)]
)
def test_a_quoted_person_is_found(monkeypatch, entry, part, leak):
    """What the test above looks for is found where it is planted, so that its groups do arrive."""
    leak(monkeypatch)
    said = everything_said(marked_call(entry, part, TEXT_MARK, "list"))
    assert TEXT_MARK in said, said
