"""Boosters made from arrays: what XGBoost reads back is what was given."""

import json

import numpy as np
import pytest
import xgboost

import xgb_fed
from gbdt_hosts.xgboost import versions
from gbdt_hosts.xgboost.model import (
    MAX_NESTING,
    ScalarTree,
    as_json,
    booster_from_json,
    booster_from_trees,
    model_content,
)
from kept_splits import splits_of
from native_trees import read_trees
from vertical_training import assert_same_trees, parties_of, stock, train
from xgb_fed.vertical.protocol.splits import Splits

MONOTONE = {"objective": "binary:logistic", "max_depth": 3, "monotone_constraints": (0, 0, 0, 0, 1, 0)}

X, Y = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32), np.arange(200) % 3


def as_scalar(tree, group):
    names = (
        "left_children",
        "right_children",
        "parents",
        "split_indices",
        "split_conditions",
        "default_left",
    )
    names += ("base_weights", "loss_changes", "sum_hessian")
    return ScalarTree(*(tree[name] for name in names), group)


def depth_of(value):
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if parts is None else 1 + max(map(depth_of, parts), default=0)


@pytest.mark.parametrize("params", [{}, {"booster": "dart"}, {"objective": "multi:softprob", "num_class": 3}])
def test_a_text_of_a_booster_is_read_as_it_was_written(params):
    text = as_json(xgboost.train(params, xgboost.DMatrix(X, Y), 2)).decode()
    assert as_json(booster_from_json(text)).decode() == text
    assert depth_of(json.loads(text)) <= 8


@pytest.mark.parametrize(
    "text", ["", "1", "[]", "{}", '"model"', "null", '{"learner": []}', "{'learner': {}}"]
)
def test_a_text_of_no_booster_is_refused(text):
    with pytest.raises((json.JSONDecodeError, xgboost.core.XGBoostError)):
        booster_from_json(text)


@pytest.mark.parametrize(
    "nested",
    [
        lambda depth: '{"a":' * depth + "1" + "}" * depth,
        lambda depth: '{"a":[1,' + "[2," * (depth - 2) + "3" + "]" * (depth - 1) + "}",
    ],
)
def test_xgboost_is_given_no_text_of_more_brackets_than_its_models_have(nested, monkeypatch):
    """Its parser ends the process where its stack ends, which some Pythons' own parsers do not come near."""
    given = []
    monkeypatch.setattr(xgboost.Booster, "load_model", lambda self, content: given.append(bytes(content)))
    booster_from_json(nested(MAX_NESTING))
    assert given == [nested(MAX_NESTING).encode()]
    for depth in (MAX_NESTING + 1, 300):
        with pytest.raises(ValueError, match=f"nested.*{MAX_NESTING} deep"):
            booster_from_json(nested(depth))
    assert len(given) == 1


@pytest.mark.parametrize(
    ("objective", "n_classes"), [("binary:logistic", 1), ("reg:squarederror", 1), ("multi:softprob", 3)]
)
@pytest.mark.parametrize("named", [False, True])
def test_a_booster_taken_apart_and_made_anew(objective, n_classes, named):
    y = Y if n_classes > 1 else Y > 1
    names = ["a", "b", "c", "d"] if named else None
    data = xgboost.DMatrix(X, label=y, feature_names=names)
    params = {"objective": objective, "max_depth": 3, "base_score": 0.4, "nthread": 1}
    original = xgboost.train(params | ({"num_class": 3} if n_classes > 1 else {}), data, 3)
    trees = read_trees(original)
    again = booster_from_trees(
        [as_scalar(tree, k % n_classes) for k, tree in enumerate(trees)],
        objective=objective,
        n_classes=n_classes,
        n_features=4,
        base_score=[0.4],
        rounds=list(range(0, len(trees) + 1, n_classes)),
        feature_names=names,
    )
    np.testing.assert_array_equal(again.predict(data), original.predict(data))
    np.testing.assert_array_equal(
        again.predict(data, iteration_range=(0, 2)), original.predict(data, iteration_range=(0, 2))
    )
    assert again.num_boosted_rounds() == 3
    assert again.feature_names == original.feature_names
    assert [as_scalar(t, 0) for t in read_trees(again)] == [as_scalar(t, 0) for t in trees]
    assert again.get_score(importance_type="gain") == original.get_score(importance_type="gain")


NAMES = (
    "größe",
    "漢字",
    "😀",
    "e\u0301",
    'a"b',
    "a\\b",
    "a\\u00f6",
    'a\\"',
    "a/b",
    "trees, each written by itself",
)


@pytest.mark.parametrize("name", NAMES)
def test_names_of_columns_stay_as_they_are(name, tmp_path):
    names = ["first", name]
    stump = ScalarTree([-1], [-1], [2147483647], [0], [0.5], [False], [0.5], [0.0], [1.0])
    booster = booster_from_trees(
        [stump],
        objective="reg:squarederror",
        n_classes=1,
        n_features=2,
        base_score=[0.0],
        rounds=[0, 1],
        feature_names=names,
    )
    rows = xgboost.DMatrix(X[:, :2], feature_names=names)
    boosters = [booster, booster_from_json(as_json(booster).decode())]
    for ending in ("json", "ubj"):
        booster.save_model(tmp_path / f"model.{ending}")
        boosters.append(xgboost.Booster(model_file=tmp_path / f"model.{ending}"))
    for one in boosters:
        assert one.feature_names == model_content(one).feature_names == names
        assert one.predict(rows)[0] == 0.5


def test_a_tree_of_one_leaf():
    stump = ScalarTree([-1], [-1], [2147483647], [0], [0.5], [False], [0.5], [0.0], [1.0])
    booster = booster_from_trees(
        [stump], objective="reg:squarederror", n_classes=1, n_features=2, base_score=[0.1], rounds=[0, 1]
    )
    model = json.loads(booster.save_raw("json"))
    kept = float(model["learner"]["learner_model_param"]["base_score"].strip("[]"))
    assert np.float32(kept) == np.float32(0.1)
    got = booster.predict(xgboost.DMatrix(X[:, :2]))
    np.testing.assert_array_equal(got, np.full(200, np.float32(0.1) + np.float32(0.5)))


def missing_left():
    """Rows without a value are the larger ones, and a constraint forbids them to go right."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6)).astype(np.float32)
    is_missing = rng.random(300) < 0.4
    X[is_missing, 4] = np.nan
    return X, (~is_missing ^ (rng.random(300) < 0.1)).astype(np.float32)


@pytest.mark.parametrize("n_passive", [0, 3])
def test_missing_values_alone_go_left(n_passive, tmp_path):
    """Before, splits at -inf were lost: in exports as "splits that are none", and in files as damaged."""
    X, y = missing_left()
    parties = parties_of([X[:, 3:]]) if n_passive else []
    model = train(MONOTONE, X[:, :3] if n_passive else X, y, parties, 2)
    theirs = stock(MONOTONE, X, y, 2)
    assert_same_trees(model.export_booster(parties), theirs)
    thresholds = np.concatenate([tree["split_conditions"] for tree in read_trees(theirs)])
    assert np.isneginf(thresholds).any() == versions.lowest_bounds_are_infinite()
    splits = splits_of(parties[0])[0] if n_passive else model.splits
    splits.save(tmp_path / "a.splits.json")
    assert Splits.load(tmp_path / "a.splits.json").entries(0) == splits.entries(0)
    model.save(tmp_path / "model")
    again = xgb_fed.VerticalModel.load(tmp_path / "model")
    own = X[:, :3] if n_passive else X
    expected = theirs.predict(xgboost.DMatrix(X))
    np.testing.assert_allclose(again.predict(own, parties), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("threshold", "default_left"), [(np.inf, True), (np.nan, True), (-np.inf, False), (np.inf, False)]
)
def test_other_infinite_thresholds_are_no_splits(threshold, default_left, tmp_path):
    splits = Splits(["a"])
    splits.add(0, -np.inf, True)
    splits.save(tmp_path / "a.json")
    assert Splits.load(tmp_path / "a.json").rule(0).threshold == -np.inf
    splits.add(0, float(threshold), default_left)
    splits.save(tmp_path / "a.json")
    with pytest.raises(xgb_fed.CorruptDataError):
        Splits.load(tmp_path / "a.json")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tree_param", {"num_nodes": "3", "size_leaf_vector": "2"}),
        ("tree_param", {"num_nodes": "9", "size_leaf_vector": "1"}),
        ("left_children", [7, -1, -1]),
        ("split_indices", [0]),
        ("parents", None),
    ],
)
def test_a_tree_whose_lists_are_of_other_lengths_is_refused_before_xgboost_reads_it(name, value):
    """XGBoost itself would read behind their ends, which ends the process."""
    rows = np.arange(20.0)[:, None]
    booster = xgboost.train({"max_depth": 1}, xgboost.DMatrix(rows, rows[:, 0] > 9), 1)
    content = json.loads(as_json(booster))
    tree = content["learner"]["gradient_booster"]["model"]["trees"][0]
    assert len(tree["left_children"]) == 3
    tree[name] = value
    with pytest.raises(ValueError, match="tree"):
        booster_from_json(json.dumps(content))
    tree.update(json.loads(as_json(booster))["learner"]["gradient_booster"]["model"]["trees"][0])
    assert booster_from_json(json.dumps(content)).num_boosted_rounds() == 1
