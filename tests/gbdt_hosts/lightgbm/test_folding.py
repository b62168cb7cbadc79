"""A folded model text is a smaller model, and no raw score leaves the tolerance."""

from dataclasses import replace

import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_hosts.lightgbm import folding
from gbdt_hosts.lightgbm.folding import folded_text
from gbdt_hosts.lightgbm.text import tree_fields
from host_trees import random_rows, random_trees, text_of

SEEDS = st.integers(0, 2**32 - 1)


def models(seed, n_iterations, n_classes, n_values=None):
    """A text, and rows on its edges; with few values, many leaves are equal."""
    trees = random_trees(seed, n_iterations * n_classes)
    if n_values is not None:
        rng = np.random.default_rng(seed)
        trees = [replace(t, leaf_value=rng.integers(0, n_values, len(t.leaf_value)) / 3) for t in trees]
    return text_of(trees, n_classes), random_rows(trees, seed, 200)


def predicted(text, rows, **how):
    return lightgbm.Booster(model_str=text).predict(rows, num_threads=1, **how)


@settings(max_examples=40, deadline=None)
@given(
    seed=SEEDS,
    n_iterations=st.integers(1, 5),
    n_classes=st.sampled_from([1, 3]),
    tolerance=st.sampled_from([0.0, 1e-15, 1e-9, 1e-3, 0.3, 3.0, 100.0]),
)
def test_raw_scores_stay_within_the_tolerance(seed, n_iterations, n_classes, tolerance):
    text, rows = models(seed, n_iterations, n_classes)
    folded = folded_text(text, tolerance)
    for first, n in ((0, -1), (1, 2)):
        how = {"raw_score": True, "start_iteration": first, "num_iteration": n}
        difference = predicted(folded, rows, **how) - predicted(text, rows, **how)
        assert np.abs(difference).max() <= tolerance


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, n_classes=st.sampled_from([1, 3]), n_values=st.sampled_from([1, 2, 3]))
def test_without_a_tolerance_equal_leaves_are_folded_and_nothing_changes(seed, n_classes, n_values):
    text, rows = models(seed, 4, n_classes, n_values)
    folded = folded_text(text, 0.0)
    np.testing.assert_array_equal(predicted(folded, rows), predicted(text, rows))
    np.testing.assert_allclose(
        predicted(folded, rows, pred_contrib=True), predicted(text, rows, pred_contrib=True), atol=1e-12
    )
    booster = lightgbm.Booster(model_str=folded)
    assert (
        lightgbm.Booster(model_str=booster.model_to_string()).model_to_string() == booster.model_to_string()
    )
    for block in folding.tree_blocks(folded):
        fields = tree_fields(block)
        pairs = [
            (left, right)
            for left, right in zip(fields.left_child[1:], fields.right_child[1:], strict=True)
            if left < 0 and right < 0
        ]
        assert all(fields.leaf_value[~left] != fields.leaf_value[~right] for left, right in pairs)


def test_a_large_tolerance_leaves_the_roots():
    text, _ = models(3, 6, 1)
    folded = folded_text(text, 1e6)
    assert {len(tree_fields(block).leaf_value) for block in folding.tree_blocks(folded)} == {2}
    assert len(folded) < 0.6 * len(text)


def test_no_digits_are_written_that_the_tolerance_does_not_need():
    text, _ = models(5, 20, 1)
    folded = lightgbm.Booster(model_str=folded_text(text, 1e-3)).model_to_string()
    values = [line for line in folded.splitlines() if line.startswith("leaf_value=")]
    digits = [len(number) for line in values for number in line.partition("=")[2].split()]
    assert np.mean(digits) < 13


@settings(max_examples=100, deadline=None)
@given(value=st.floats(-10, 10), distance=st.floats(0, 1e-4), within=st.floats(1e-9, 1e-3))
def test_rounding_keeps_the_order(value, distance, within):
    low, high = (folding.short_number(v, within) for v in (value, value + distance))
    assert low <= high
    assert abs(low - value) <= within


def test_linear_trees_are_refused():
    X = np.random.default_rng(0).normal(size=(100, 2))
    params = {"linear_tree": True, "verbosity": -1, "num_threads": 1}
    booster = lightgbm.train(params, lightgbm.Dataset(X, X[:, 0]), 2)
    with pytest.raises(ValueError, match="linear"):
        folded_text(booster.model_to_string(), 0.1)


def test_trees_of_one_leaf_are_kept():
    rows = np.zeros((3, 4))
    one = "num_leaves=1\nnum_cat=0\nsplit_feature=\nsplit_gain=\nthreshold=\ndecision_type=\nleft_child=\n"
    one += "right_child=\nleaf_value=0.7\nleaf_weight=\nleaf_count=\ninternal_value=\ninternal_weight=\n"
    one += "internal_count=\nis_linear=0\nshrinkage=1\n"
    text, _ = models(1, 1, 1)
    text = folding.with_blocks(text, [one, *folding.tree_blocks(text)])
    np.testing.assert_array_equal(predicted(folded_text(text, 0.0), rows), predicted(text, rows))
