"""The text we write is a LightGBM model: it predicts, saves, pickles and explains like any other."""

import copy
import pickle
from dataclasses import replace

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_hosts.lightgbm.text import (
    COLUMNS,
    GUARANTEE,
    Tree,
    columns_in,
    guarantee_in,
    guarantee_line,
    model_text,
    parameter_lines,
    tree_block,
    tree_blocks,
    tree_digest,
)
from host_trees import THRESHOLDS, header, random_rows, random_tree, random_trees, text_of

SEEDS = st.integers(0, 2**32 - 1)


def booster_of(trees, n_classes=1):
    return lightgbm.Booster(model_str=text_of(trees, n_classes))


def walk(tree, x):
    node = 0
    while node >= 0:
        value, categories = x[tree.feature[node]], tree.left_categories[node]
        if categories is not None:
            left = value in categories.tolist()
        else:
            left = tree.missing_left[node] if np.isnan(value) else value <= tree.threshold[node]
        node = int(tree.left_child[node] if left else tree.right_child[node])
    return tree.leaf_value[~node]


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, n_iterations=st.integers(1, 3), n_classes=st.sampled_from([1, 3]))
def test_predictions_are_those_of_a_walk(seed, n_iterations, n_classes):
    trees = random_trees(seed, n_iterations * n_classes)
    rows = random_rows(trees, seed)
    expected = np.zeros((len(rows), n_classes))
    for i, tree in enumerate(trees):
        expected[:, i % n_classes] += [walk(tree, x) for x in rows]
    raw = booster_of(trees, n_classes).predict(rows, raw_score=True)
    np.testing.assert_array_equal(raw.reshape(expected.shape), expected)


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("missing_left", [True, False])
def test_values_on_a_threshold_go_left(threshold, missing_left):
    tree = replace(
        random_tree(np.random.default_rng(0), 2),
        feature=np.array([0]),
        threshold=np.array([threshold]),
        left_categories=(None,),
        missing_left=np.array([missing_left]),
    )
    with np.errstate(over="ignore"):
        x = np.array(
            [threshold, np.nextafter(threshold, np.inf), np.nextafter(threshold, -np.inf), np.nan, 0.0]
        )
    x = x[~((np.abs(x) <= 1e-35) & (x != 0))]
    rows = np.zeros((len(x), 4))
    rows[:, 0] = x
    expected = [walk(tree, row) for row in rows]
    assert booster_of([tree]).predict(rows).tolist() == expected


@pytest.mark.parametrize("objective", ["binary sigmoid:2", "multiclassova num_class:3 sigmoid:2"])
def test_raw_scores_go_through_the_objective(objective):
    n_classes = 3 if "num_class" in objective else 1
    trees = random_trees(3, n_classes)
    rows = random_rows(trees, 3)
    text = model_text(header(n_classes, objective), [tree_block(t) for t in trees], {})
    booster = lightgbm.Booster(model_str=text)
    raw = booster.predict(rows, raw_score=True)
    np.testing.assert_allclose(booster.predict(rows), 1 / (1 + np.exp(-2 * raw)), rtol=1e-12)


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, n_classes=st.sampled_from([1, 3]))
def test_contributions_are_finite_and_sum_to_the_raw_score(seed, n_classes):
    trees = random_trees(seed, 2 * n_classes)
    rows = random_rows(trees, seed, 20)
    booster = booster_of(trees, n_classes)
    contributions = booster.predict(rows, pred_contrib=True).reshape(len(rows), n_classes, 5)
    assert np.isfinite(contributions).all()
    raw = booster.predict(rows, raw_score=True).reshape(len(rows), n_classes)
    np.testing.assert_allclose(contributions.sum(axis=2), raw, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_dumps_tell_the_splits(seed):
    trees = random_trees(seed, 2)
    booster = booster_of(trees)
    dumped = booster.dump_model()
    assert dumped["feature_names"] == ["a", "b", "c", "d"]
    for tree, structure in zip(trees, dumped["tree_info"], strict=True):
        pending = [(0, structure["tree_structure"])]
        while pending:
            node, told = pending.pop()
            if node < 0:
                assert told["leaf_value"] == tree.leaf_value[~node]
                assert told["leaf_count"] == tree.leaf_count[~node]
                continue
            assert told["split_feature"] == tree.feature[node]
            assert told["internal_count"] == tree.internal_count[node]
            categories = tree.left_categories[node]
            if categories is None:
                assert (told["decision_type"], told["missing_type"]) == ("<=", "NaN")
                assert told["default_left"] == tree.missing_left[node]
            else:
                assert told["decision_type"] == "=="
                assert [c for c in told["threshold"].split("||") if c] == [str(c) for c in categories]
            pending += [
                (tree.left_child[node], told["left_child"]),
                (tree.right_child[node], told["right_child"]),
            ]


def test_trees_to_dataframe_has_every_node():
    pytest.importorskip("pandas")
    trees = random_trees(5, 3)
    frame = booster_of(trees).trees_to_dataframe()
    assert len(frame) == sum(2 * len(t.leaf_value) - 1 for t in trees)
    leaves = frame[frame.left_child.isna()]
    assert sorted(leaves.value) == sorted(np.concatenate([t.leaf_value for t in trees]))
    assert sorted(leaves["count"]) == sorted(np.concatenate([t.leaf_count for t in trees]))


def digests_of(text):
    return [tree_digest(block) for block in tree_blocks(text)]


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, n_classes=st.sampled_from([1, 3]))
def test_digests_survive_loading_and_saving(seed, n_classes):
    trees = random_trees(seed, 2 * n_classes)
    digests = [tree_digest(tree_block(t)) for t in trees]
    booster = booster_of(trees, n_classes)
    for _ in range(2):
        assert digests_of(booster.model_to_string()) == digests
        booster = lightgbm.Booster(model_str=booster.model_to_string())


@settings(max_examples=60, deadline=None)
@given(
    threshold=st.floats(allow_nan=False, allow_infinity=False),
    leaf_values=st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 2),
)
def test_digests_survive_for_any_number(threshold, leaf_values):
    tree = replace(
        random_tree(np.random.default_rng(0), 2),
        feature=np.array([0]),
        threshold=np.array([threshold]),
        left_categories=(None,),
        leaf_value=np.array(leaf_values),
    )
    assert digests_of(booster_of([tree]).model_to_string()) == [tree_digest(tree_block(tree))]


def edits(tree):
    """The tree with one number changed, for every number that the digest answers for."""
    for name in (
        "leaf_value",
        "leaf_count",
        "threshold",
        "feature",
        "left_child",
        "right_child",
        "missing_left",
        "internal_value",
        "internal_count",
        "gain",
    ):
        values = getattr(tree, name)
        for i in range(len(values)):
            is_categorical = i < len(tree.feature) and tree.left_categories[i] is not None
            if is_categorical and name in ("threshold", "missing_left"):
                continue
            edited = values.copy()
            if name in ("internal_value", "gain"):  # of which six digits are kept
                edited[i] = values[i] * 1.0001 + 1e-5
            elif values.dtype == float:
                edited[i] = np.nextafter(values[i], np.inf)
            else:
                edited[i] = not values[i] if values.dtype == bool else values[i] + 1
            yield name, replace(tree, **{name: edited})
    for i, categories in enumerate(tree.left_categories):
        others = list(tree.left_categories)
        others[i] = np.array([1]) if categories is None else np.append(categories, 100)
        yield "left_categories", replace(tree, left_categories=tuple(others))
    yield "shrinkage", replace(tree, shrinkage=tree.shrinkage * 1.0001)


@pytest.mark.parametrize("seed", range(4))
def test_any_edit_changes_the_digest(seed):
    tree = random_tree(np.random.default_rng(seed), 8)
    digest = tree_digest(tree_block(tree))
    digests = [tree_digest(tree_block(edited)) for _, edited in edits(tree)]
    assert digest not in digests
    assert len(set(digests)) == len(digests)


@settings(max_examples=60, deadline=None)
@given(
    gain=st.floats(min_value=0, allow_nan=False, allow_infinity=False),
    internal_value=st.floats(-1e300, 1e300),
    internal_count=st.integers(0, 2**31 - 1),
    shrinkage=st.floats(1e-12, 1),
)
def test_digests_survive_what_lightgbm_prints_with_six_digits(
    gain, internal_value, internal_count, shrinkage
):
    tree = replace(
        random_tree(np.random.default_rng(0), 2),
        gain=np.array([gain]),
        internal_value=np.array([internal_value]),
        internal_count=np.array([internal_count]),
        shrinkage=shrinkage,
    )
    text = booster_of([tree]).model_to_string()
    assert digests_of(text) == [tree_digest(tree_block(tree))]
    assert digests_of(lightgbm.Booster(model_str=text).model_to_string()) == digests_of(text)


def test_setting_a_leaf_changes_only_its_digest():
    trees = random_trees(12, 3)
    booster = booster_of(trees)
    before = digests_of(booster.model_to_string())
    booster.set_leaf_output(1, 0, booster.get_leaf_output(1, 0) + 1e-9)
    after = digests_of(booster.model_to_string())
    assert [a == b for a, b in zip(before, after, strict=True)] == [True, False, True]


def test_digests_of_native_models_survive_too():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    X[:, 2] = rng.integers(0, 6, 300)
    X[rng.random(X.shape) < 0.1] = np.nan
    data = lightgbm.Dataset(X, label=X[:, 0] > 0, categorical_feature=[2], params={"verbosity": -1})
    booster = lightgbm.train({"objective": "binary", "verbosity": -1, "min_data_in_leaf": 5}, data, 4)
    text = booster.model_to_string()
    again = lightgbm.Booster(model_str=text).model_to_string()
    assert digests_of(again) == digests_of(text)
    assert len(set(digests_of(text))) == 4


def test_a_tree_of_one_leaf_is_a_constant():
    none = np.empty(0)
    tree = Tree(
        *(none.astype(int), none, (), none.astype(bool), none.astype(int), none.astype(int)),
        *(np.array([0.25]), np.array([7]), none, none.astype(int), none, 1.0),
    )
    assert booster_of([tree]).predict(np.zeros((2, 4))).tolist() == [0.25, 0.25]


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, n_trees=st.integers(0, 4))
def test_tree_blocks_invert_model_text(seed, n_trees):
    blocks = [tree_block(t) for t in random_trees(seed, n_trees)]
    assert tree_blocks(model_text(header(), blocks, {"a": "Tree=1"})) == blocks


def test_blocks_of_a_native_model_make_the_same_model_again():
    trees = random_trees(13, 6)
    text = booster_of(trees, 3).model_to_string()
    again = lightgbm.Booster(model_str=model_text(header(3), tree_blocks(text), {}))
    rows = random_rows(trees, 13)
    np.testing.assert_array_equal(again.predict(rows), lightgbm.Booster(model_str=text).predict(rows))
    assert tree_blocks(again.model_to_string()) == tree_blocks(text)


def test_a_model_of_no_trees_predicts_zero():
    assert booster_of([]).predict(np.zeros((2, 4)), raw_score=True).tolist() == [0.0, 0.0]


VALUES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Zl", "Zp"]), min_size=1, max_size=30
).map(str.strip)


@settings(max_examples=30, deadline=None)
@given(values=st.lists(VALUES.filter(bool), min_size=1, max_size=4))
def test_the_guarantee_survives_loading_saving_and_pickling(values):
    guarantee = {f"key{i}": value for i, value in enumerate(values)}
    parameters = {"objective": "regression", "learning_rate": "0.1", **guarantee_line(guarantee)}
    text = text_of(random_trees(0, 1), parameters=parameters)
    assert guarantee_in(text) == guarantee
    assert parameter_lines(text) == parameters
    booster = lightgbm.Booster(model_str=text)
    again = lightgbm.Booster(model_str=booster.model_to_string())
    for survivor in (booster, again, pickle.loads(pickle.dumps(again)), copy.deepcopy(again)):
        assert guarantee_in(survivor.model_to_string()) == guarantee


LEDGER = [{"released": "split", "tree": 0, "epsilon": 0.5}, {"at": [1, 2], "parallel": True}]


def test_the_guarantee_survives_files_truncation_and_edits(tmp_path):
    guarantee = {"epsilon": 1.0, "ledger": LEDGER, "trees": ["0123abcd"], "note": "ε = 1: a [b] = c\u2028\n"}
    booster = lightgbm.Booster(model_str=text_of(random_trees(0, 3), parameters=guarantee_line(guarantee)))
    booster.save_model(tmp_path / "model.txt", num_iteration=2)
    booster = lightgbm.Booster(model_file=tmp_path / "model.txt")
    booster.set_leaf_output(0, 0, 1.0)
    booster.save_model(tmp_path / "model.txt")
    assert guarantee_in((tmp_path / "model.txt").read_text(encoding="utf-8")) == guarantee


def test_a_guarantee_may_have_the_words_that_end_its_block():
    """A category may be called so; before, the guarantee was cut off there."""
    guarantee = {"note": "end of parameters", "other": "parameters:"}
    text = text_of(random_trees(0, 1), parameters={**guarantee_line(guarantee), "lambda_l2": "2.5"})
    for survivor in (text, lightgbm.Booster(model_str=text).model_to_string()):
        assert guarantee_in(survivor) == guarantee
        assert parameter_lines(survivor)["lambda_l2"] == "2.5"


def test_a_guarantee_that_is_not_json_raises():
    with pytest.raises(ValueError, match="Expecting"):
        guarantee_in(text_of(random_trees(0, 1), parameters={GUARANTEE: "{"}))


def test_a_native_model_has_parameters_and_no_guarantee():
    data = lightgbm.Dataset(np.zeros((2, 1)), label=np.array([0, 1]), params={"verbosity": -1})
    text = lightgbm.Booster({"verbosity": -1, "lambda_l2": 2.5}, data).model_to_string()
    assert guarantee_in(text) is None
    assert parameter_lines(text)["lambda_l2"] == "2.5"
    assert parameter_lines("tree\nversion=v4\n") == {}


def test_pandas_categories_are_carried():
    pandas = pytest.importorskip("pandas")
    trees = random_trees(14, 4)
    names = [["x", "y", "z"], np.arange(10, 110).tolist()]
    numpy_names = [np.array(names[0], dtype=object).tolist(), list(np.arange(10, 110))]
    text = model_text(replace(header(), pandas_categorical=numpy_names), [tree_block(t) for t in trees], {})
    booster = lightgbm.Booster(model_str=text)
    assert booster.pandas_categorical == names
    rows = random_rows(trees, 14)
    rows[:, 1] = np.where(rows[:, 1] < 3, rows[:, 1], np.nan)
    rows[:, 3] = np.where(rows[:, 3] < 100, rows[:, 3], np.nan)
    rows[:, [1, 3]] = np.where(rows[:, [1, 3]] < 0, np.nan, rows[:, [1, 3]])
    frame = pandas.DataFrame(rows, columns=list("abcd"))
    for column, categories in zip("bd", names, strict=True):
        codes = frame[column].fillna(-1).astype(int)
        frame[column] = pandas.Categorical.from_codes(codes, categories=categories)
    np.testing.assert_array_equal(booster.predict(frame), booster.predict(rows))


@pytest.mark.parametrize("name", ["with.dot", "größe", "x-1", "Column_0"])
def test_feature_names_are_carried(name):
    blocks = [tree_block(t) for t in random_trees(0, 2)]
    text = model_text(replace(header(), feature_names=[name, "b", "c", "d"]), blocks, {})
    assert lightgbm.Booster(model_str=text).feature_name() == [name, "b", "c", "d"]


def test_nested_json_in_a_model_text_is_a_value_error():
    """Texts come from other parties, too."""
    for name, read in ((GUARANTEE, guarantee_in), (COLUMNS, columns_in)):
        with pytest.raises(ValueError, match="too many brackets"):
            read(f"tree\n\nparameters:\n[{name}: {'[' * 100_000}]\nend of parameters\n")
