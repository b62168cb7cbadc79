"""A model that was changed after training no longer carries its guarantee."""

import copy
import pickle
import re

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import lgb_dp
from small_training import binary_data, train

X, Y = binary_data(120)
OF_TREES = [
    *("split_feature", "split_gain", "threshold", "decision_type", "left_child", "right_child"),
    *("leaf_value", "leaf_weight", "leaf_count", "internal_value", "internal_weight", "internal_count"),
    *("is_linear", "shrinkage", "cat_boundaries", "cat_threshold"),
]
OF_THE_HEADER = [
    *("num_class", "num_tree_per_iteration", "label_index", "max_feature_idx", "objective"),
    *("feature_names", "feature_infos"),
]


@pytest.fixture(scope="module")
def booster():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(d=np.arange(120) % 3)
    data = lgb_dp.Dataset(frame, Y, bounds=(-3, 3), categories={"d": [0, 1, 2]})
    return train(data, lgb_dp.NewtonBoost(1.0, 1e-6), 12, max_depth=3)


def edited(text, field):
    """The text with the first number, or the first character, of a field's first line changed."""

    def other(match):
        value = match[2]
        return match[1] + (str(float(value) * 1.01 + 1) if re.fullmatch(r"[-+.\de]+", value) else f"x{value}")

    return re.sub(rf"(?m)^({field}=)(\S+)", other, text, count=1)


@pytest.mark.parametrize("field", [*OF_TREES, *OF_THE_HEADER])
def test_side_door_an_edited_field_ends_the_guarantee(booster, field):
    text = edited(booster.model_to_string(), field)
    assert text != booster.model_to_string()
    with pytest.raises(lgb_dp.AlteredModelError):
        lgb_dp.privacy_of(text)


@pytest.mark.parametrize(
    ("line", "other"),
    [
        ("objective=", "average_output\nobjective="),
        ("feature_infos=", "monotone_constraints=1 0 0 0\nfeature_infos="),
        ('"names": ["a", "b"', '"names": ["b", "a"'),
    ],
)
def test_side_door_other_meanings_of_the_trees_end_the_guarantee(booster, line, other):
    text = booster.model_to_string()
    assert line in text
    with pytest.raises(lgb_dp.AlteredModelError):
        lgb_dp.privacy_of(text.replace(line, other, 1))


def test_side_door_a_guarantee_without_digests_is_none(booster):
    for name in ("header", "trees"):
        text = re.sub(rf'"{name}": ("[^"]*"|\[[^]]*\])', '"other": 0', booster.model_to_string())
        assert text != booster.model_to_string()
        with pytest.raises(lgb_dp.NoGuaranteeError):
            lgb_dp.privacy_of(text)


def test_the_guarantee_survives_loading_saving_truncation_and_pickling(booster, tmp_path):
    text = booster.model_to_string()
    booster.save_model(tmp_path / "model.txt", num_iteration=3)
    again = lgb.Booster(model_str=text)
    for same in (
        *(booster, text, tmp_path / "model.txt", again, lgb_dp.DPBooster(model_file=tmp_path / "model.txt")),
        *(booster.model_to_string(num_iteration=2), again.model_to_string(num_iteration=2)),
        *(pickle.loads(pickle.dumps(booster)), pickle.loads(pickle.dumps(again)), copy.deepcopy(again)),
    ):
        assert lgb_dp.privacy_of(same) == booster.privacy
    assert again.model_to_string() == text


@pytest.mark.parametrize("objective", ["regression", "multiclass", "multiclassova"])
def test_the_guarantee_survives_under_every_objective(objective):
    classes = {} if objective == "regression" else {"num_class": 3}
    label = np.arange(120) % 3
    data = lgb_dp.Dataset(X, label, bounds=(-3, 3), label_bounds=(0, 2), feature_name=["ä", "b", "c", "d"])
    booster = train(data, lgb_dp.DPBoost(1.0), 2, objective=objective, **classes)
    text = booster.model_to_string()
    assert lgb_dp.privacy_of(lgb.Booster(model_str=text)) == lgb_dp.privacy_of(text) == booster.privacy
    first = lgb.Booster(model_str=text)
    more = lgb_dp.Dataset(X, label, bounds=(-3, 3), label_bounds=(0, 2), feature_name=["ä", "b", "c", "d"])
    second = lgb.train(
        {"objective": objective, "verbosity": -1, **classes},
        more,
        1,
        init_model=first,
        callbacks=[lgb_dp.DPBoost(1.0)],
    )
    assert lgb_dp.privacy_of(lgb.Booster(model_str=second.model_to_string())).private
