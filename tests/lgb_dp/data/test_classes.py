"""Side doors of labels: inferred classes, and labels that do not fit what was declared."""

import warnings

import numpy as np
import pandas as pd
import pytest

import lgb_dp
from lgb_dp.data.classes import as_labels, class_numbers
from lgb_dp.newton.core import FEW_ROWS_NOTE
from small_training import binary_data, dataset, train

X, Y = binary_data(60)
ODD_LABELS = ["x", None, 1.5, 10**30, [1, 2], (1, 2), {1: 2}, b"x", 2**63, float("nan"), 1 + 1j, object()]
BOUNDS = (-3, 3)
LABELS = Y.astype(int)


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
    for model, told in ((classes, False), (numbers, True)):
        assert model.privacy_.private
        assert any("none of the classes have no weight" in note for note in model.privacy_.notes)
        assert any("regression labels" in note for note in model.privacy_.notes) == told
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


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("odd", ODD_LABELS, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("classes", [[0, 1], ["a", "b"]])
@pytest.mark.parametrize("kind", [list, tuple, lambda labels: pd.Series(labels, dtype=object)])
def test_side_door_one_label_moves_no_other_to_another_class(odd, classes, kind):
    labels = [classes[k] for k in LABELS.tolist()]
    codes = class_numbers(as_labels(kind([*labels, odd])), np.array(classes))
    assert codes[:-1].tolist() == LABELS.tolist()
    assert np.isnan(codes[-1])


def test_side_door_a_list_of_labels_is_trained_on_whatever_one_of_them_is():
    labels = [*LABELS.tolist()[:-1], "x"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = lgb_dp.DPLGBMClassifier(n_estimators=2).fit(X, labels, bounds=BOUNDS, classes=[0, 1])
    assert model.privacy_.private


@pytest.mark.parametrize("missing", [None, float("nan"), pd.NA])
@pytest.mark.parametrize("to_labels", [list, lambda labels: pd.Series(labels, dtype=object), pd.Series])
@pytest.mark.parametrize("are_booleans", [False, True])
def test_side_door_a_missing_label_changes_neither_classes_nor_notes(missing, to_labels, are_booleans):
    labels = (Y > 0 if are_booleans else LABELS).tolist()
    found = []
    for y in (labels, [*labels[:-1], missing]):
        model = lgb_dp.DPLGBMClassifier(n_estimators=2).fit(X, to_labels(y), bounds=BOUNDS)
        report = model.privacy_
        # Of few rows, noise decides whether the released number of them stands out of it.
        notes = [note for note in report.notes if note != FEW_ROWS_NOTE]
        found.append((model.classes_.tolist(), model.classes_.dtype, report.private, notes))
    assert found[0] == found[1]
    assert found[0][:3] == ([False, True] if are_booleans else [0, 1], np.array(labels).dtype, True)
    assert any(note.startswith("the classes were assumed to be {") for note in found[0][3])


def test_columns_of_labels_as_nested_lists_are_flattened():
    assert as_labels([[0], [1], (0,)]).tolist() == [0, 1, 0]


def test_classes_that_one_missing_label_would_merge_are_refused():
    with pytest.raises(ValueError, match="distinct as float64"):
        lgb_dp.DPLGBMClassifier().fit(X, LABELS, bounds=BOUNDS, classes=[2**53, 2**53 + 1])


@pytest.mark.parametrize("bounds", [(5.0, 5.0), (1.0, 0.0), (0.0, np.inf)])
def test_side_door_label_bounds_that_were_set_later_are_checked(bounds):
    """Before, bounds of no width made NaN of each label, and of that a huge integer per row."""
    data = dataset(X, Y.astype(float), label_bounds=(0, 1), label_overflow="clip")
    data.construct()
    data.label_bounds = bounds
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"label_bounds.*ascending"):
        train(data, lgb_dp.NewtonBoost(1.0, 1e-6), objective="regression")


def test_any_two_texts_are_taken_for_the_numbers_of_a_mapping():
    rows, numbers = binary_data(2000)
    spelled = np.where(numbers == 1, "ja", "nein")
    model = lgb_dp.DPLGBMClassifier(20.0, n_estimators=20)
    mapping = {"ja": 1, "nein": 0, "NEIN": 0}
    given = {"bounds": BOUNDS, "classes": mapping, "eval_set": [(rows, spelled)], "public_eval_set": True}
    model.fit(rows, [*spelled[:-1], "other"], **given)
    assert model.privacy_.private
    assert model.classes_.tolist() == [0, 1]
    assert (model.predict(rows) == numbers).mean() > 0.8
    search = lgb_dp.DPRandomizedSearchCV(model, {"max_depth": [3]})
    search.fit(rows, spelled, bounds=BOUNDS, classes=mapping)
    assert (search.predict(rows) == numbers).mean() > 0.8
    with pytest.raises(lgb_dp.InvalidArgumentError, match="classes must map labels"):
        model.fit(rows, spelled, bounds=BOUNDS, classes={"ja": "yes", "nein": "no"})
    with pytest.raises(lgb_dp.InvalidArgumentError, match="at least two labels"):
        model.fit(rows, spelled, bounds=BOUNDS, classes={"ja": 1, "nein": 1})
