"""Mix, layered and multi-output trees against references with the same columns at the same places."""

from itertools import pairwise

import numpy as np
import pytest
import xgboost

import xgb_fed
from gbdt_parties import messages
from gbdt_parties.errors import PartyUnavailableError
from kept_splits import splits_of
from native_trees import read_trees
from reference_trees import cut_columns, grow
from vertical_training import assert_same_tree, parties_of, parts, problem, stock, train
from xgb_fed.boosting.objectives import XGBoostObjective
from xgb_fed.errors import UnsupportedParameterError
from xgb_fed.vertical.protocol.messages import StartTree
from xgb_fed.vertical.training.task import TreeMode

PARAMS = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 8, "base_score": 0.5}


def test_plans():
    mix = TreeMode("mix", 4, 2, 1, 2, True)
    turns = [mix.plan(k) for k in range(7)]
    assert [bool(len(plan.active)) for plan in turns] == [True, True, False, False, False, False, True]
    assert [sorted(plan.passive) for plan in turns] == [[], [], [1], [1], [2], [2], []]
    assert [sorted(TreeMode("mix", 4, 1, 1, 2, False).plan(k).passive) for k in range(3)] == [[1], [2], [1]]
    layered = TreeMode("layered", 5, 1, 2, 2, True).plan(0)
    assert (layered.active, layered.passive) == (range(3, 5), {1: range(3), 2: range(3)})
    default = TreeMode("default", 5, 1, 2, 1, True).plan(9)
    assert (default.active, default.passive) == (range(5), {1: range(5)})


@pytest.mark.parametrize("name", ["mix", "layered", "default"])
@pytest.mark.parametrize("has_features", [True, False])
def test_turns_before_a_round(name, has_features):
    if name == "layered" and not has_features:
        return
    mode = TreeMode(name, 4, 3, 1, 2, has_features)
    for party in (1, 2):
        turns = [party in mode.plan(k).passive for k in range(25)]
        assert [mode.n_turns(party, k) for k in range(25)] == [sum(turns[:k]) for k in range(25)]


class Numbered(xgb_fed.LocalParty):
    """Keeps the numbers of the trees that it is told; is lost once in a tree, if that is given."""

    def __init__(self, *args, lost_in=None):
        super().__init__(*args)
        self.numbers, self._lost_in = [], lost_in

    def handle(self, request):
        message = messages.read(request).message
        if isinstance(message, StartTree):
            self.numbers.append(message.tree)
            if message.tree == self._lost_in:
                self._lost_in = None
                raise PartyUnavailableError("lost")
        return super().handle(request)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_attack_on_the_trees_of_others_by_the_numbers_of_own_ones(n_classes):
    """In mix mode parties count their own trees; gaps would tell how many the others have grown."""
    X, _ = problem()
    y = np.arange(len(X)) % n_classes
    parties = [Numbered(X[:, 2:4], "a"), Numbered(X[:, 4:], "b", lost_in=1)]
    objective = (
        {"objective": "binary:logistic"}
        if n_classes == 2
        else {"objective": "multi:softprob", "num_class": 3}
    )
    params = {**PARAMS, **objective, "tree_mode": "mix", "trees_per_party": 2}
    train(params, X[:, :2], y, parties, 12, patience=60)
    own_trees = list(range(4 if n_classes == 2 else 12))
    assert parties[0].numbers == own_trees
    assert parties[1].numbers == [0, 1, *own_trees[1:]]


def test_modes_that_cannot_be():
    with pytest.raises(UnsupportedParameterError, match="tree_mode"):
        TreeMode("mixed", 4, 1, 1, 1, True)
    for arguments in ((4, 1, 4, 1, True), (4, 1, 0, 1, True)):
        with pytest.raises(ValueError, match="active_depth"):
            TreeMode("layered", *arguments)
    for arguments in ((4, 1, 1, 0, True), (4, 1, 1, 1, False)):
        with pytest.raises(ValueError, match="needs features"):
            TreeMode("layered", *arguments)


@pytest.mark.parametrize(("bounds", "per_party"), [((2, 4), 1), ((3,), 2), ((0, 3), 1)], ids=str)
def test_mix_is_xgboost_on_one_party_s_columns_at_a_time(bounds, per_party):
    X, y = problem(missing=0.1)
    active, *passive = parts(X, *bounds)
    parties = parties_of(passive)
    params = {**PARAMS, "tree_mode": "mix", "trees_per_party": per_party}
    model = train(params, active if active.shape[1] else None, y, parties, 6)
    ours = read_trees(model.export_booster(parties))
    edges = [0, *bounds, X.shape[1]]
    turns = [range(a, b) for a, b in pairwise(edges) if b > a]
    margin = np.zeros(len(y), dtype=np.float32)
    for number, tree in enumerate(ours):
        columns = turns[number // per_party % len(turns)]
        booster = stock(PARAMS, X[:, columns], y, 1, base_margin=margin)
        theirs = read_trees(booster)[0]
        split = np.array(theirs["left_children"]) >= 0
        theirs["split_indices"] = np.where(split, np.array(theirs["split_indices"]) + columns[0], 0)
        assert_same_tree(tree, theirs, f"tree {number}")
        data = xgboost.DMatrix(X[:, columns])
        data.set_base_margin(margin)
        margin = booster.predict(data, output_margin=True)
    got = model.predict(active if active.shape[1] else None, parties, output_margin=True)
    np.testing.assert_allclose(got, margin, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("bounds", "active_depth"), [((3,), 1), ((2, 4), 2)], ids=str)
def test_layered_is_a_tree_with_the_columns_of_each_level(bounds, active_depth):
    X, y = problem(missing=0.1)
    active, *passive = parts(X, *bounds)
    parties = parties_of(passive)
    params = {**PARAMS, "tree_mode": "layered", "active_depth": active_depth}
    ours = read_trees(train(params, active, y, parties, 3).export_booster(parties))
    cuts, codes = cut_columns(X, PARAMS["max_bin"])
    objective, margin = XGBoostObjective("binary:logistic"), np.zeros((len(y), 1), dtype=np.float32)
    first = range(bounds[0], X.shape[1])
    levels = [first] * (3 - active_depth) + [range(bounds[0])] * active_depth
    for tree in ours:
        g, h = objective.gradients(margin, y, np.ones_like(y))
        splits, value = grow(codes, cuts, g[:, 0].astype(np.float64), h[:, 0].astype(np.float64), levels)
        inner = [k for k, left in enumerate(tree["left_children"]) if left >= 0]
        got = [
            (tree["split_indices"][k], tree["split_conditions"][k], tree["default_left"][k]) for k in inner
        ]
        lower = xgboost.QuantileDMatrix(X, max_bin=8).get_quantile_cut()
        expected = [
            (f, float(cuts[f][b] if b >= 0 else lower[1][lower[0][f]]), int(left)) for f, b, left in splits
        ]
        assert [g[::2] for g in got] == [e[::2] for e in expected]
        np.testing.assert_allclose([g[1] for g in got], [e[1] for e in expected], rtol=1e-7)
        leaves = {
            np.float32(c)
            for c, left in zip(tree["split_conditions"], tree["left_children"], strict=True)
            if left < 0
        }
        np.testing.assert_allclose(sorted(leaves), sorted(set(value)), rtol=1e-6)
        margin[:, 0] += value
    assert any(tree["split_indices"][0] >= bounds[0] for tree in ours)


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"missing": 0.2},
        {"reg_alpha": 1.0},
        {"min_child_weight": 5.0},
        {"max_delta_step": 0.3},
        {"gamma": 1.0},
    ],
    ids=str,
)
def test_multi_output_is_xgboost_s_vector_leaves(case):
    case = dict(case)
    X, y = problem("multi:softprob", missing=case.pop("missing", 0.0))
    params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3, "max_bin": 8, "base_score": 0.5}
    params |= case
    parties = parties_of([X[:, 3:]])
    model = train({**params, "multi_output": True}, X[:, :3], y, parties, 3)
    theirs = stock({**params, "multi_strategy": "multi_output_tree", "tree_method": "hist"}, X, y, 3)
    assert len(model.trees) == 3
    all_splits = [model.splits, splits_of(parties[0])[0]]
    for ours, tree in zip(model.trees, read_trees(theirs), strict=True):
        assert ours.left == list(tree["left_children"])
        for node, owner in enumerate(ours.owner):
            if owner >= 0:
                splits, split = all_splits[owner], ours.split_id[node]
                got = (
                    splits.features[split] + 3 * owner,
                    np.float32(splits.thresholds[split]),
                    splits.default_left[split],
                )
                condition = np.float32(tree["split_conditions"][node])
                assert got == (tree["split_indices"][node], condition, bool(tree["default_left"][node]))
    margin = theirs.predict(xgboost.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(
        model.predict(X[:, :3], parties, output_margin=True), margin, rtol=1e-5, atol=1e-6
    )
    exported = model.export_booster(parties).predict(xgboost.DMatrix(X), output_margin=True)
    np.testing.assert_allclose(exported, margin, rtol=1e-5, atol=1e-6)
