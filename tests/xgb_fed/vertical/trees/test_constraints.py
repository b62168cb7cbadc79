"""Monotone and interaction constraints: the trees are those of stock XGBoost on the pooled columns."""

import numpy as np
import pandas as pd
import pytest

import xgb_fed
from constrained import BASE, GROUPS, SIGNS, compare, text
from vertical_training import Recorder, assert_same_trees, parties_of, problem, stock, train
from xgb_fed.boosting.params import Settings
from xgb_fed.errors import InvalidArgumentError, UnsupportedParameterError
from xgb_fed.vertical.trees.constraints import Constraints, PooledColumns

MONOTONE = {
    "binary": {},
    "regression": {"objective": "reg:squarederror"},
    "softprob": {"objective": "multi:softprob", "num_class": 3},
    "alpha": {"reg_alpha": 3.0},
    "delta step": {"max_delta_step": 0.2},
    "gamma and child weight": {"gamma": 0.5, "min_child_weight": 4.0},
    "lambda 0": {"reg_lambda": 0.0, "gamma": 1e-3},
    "deep": {"max_depth": 8, "min_child_weight": 0.1},
    "interactions too": {"interaction_constraints": text(GROUPS)},
}


@pytest.mark.parametrize("case", MONOTONE.values(), ids=MONOTONE)
def test_monotone_constraints(case):
    compare({**case, "monotone_constraints": SIGNS}, objective=case.get("objective", "binary:logistic"))


def test_monotone_constraints_against_the_data():
    """Every column constrained the wrong way: most candidates are forbidden, weights meet their bounds."""
    compare({"monotone_constraints": (-1,) * 6, "max_depth": 7, "min_child_weight": 0}, missing=0.3)


def test_constraints_of_zero_still_change_how_xgboost_rounds_gains():
    compare({"monotone_constraints": (0,) * 6})


def test_predictions_are_monotone_in_a_passive_party_s_column():
    X, y = problem(n=300)
    party = xgb_fed.LocalParty(X[:, 3:], "bank")
    model = train({**BASE, "monotone_constraints": {"bank:1": 1}}, X[:, :3], y, [party])
    rising = np.repeat(X[:1], 50, axis=0)
    rising[:, 4] = np.linspace(-3, 3, 50)
    margin = model.predict(rising[:, :3], [party.with_rows(rising[:, 3:])], output_margin=True)
    assert (np.diff(margin) >= 0).all()
    assert np.ptp(margin) > 0


@pytest.mark.parametrize("groups", [GROUPS, [[0, 1]], [[0, 1, 2, 3, 4, 5]], [], [[2, 3], [3, 4]]], ids=str)
def test_interaction_constraints(groups):
    compare({"interaction_constraints": text(groups)}, {"interaction_constraints": groups})


def test_several_parties_and_none():
    params = {"monotone_constraints": SIGNS, "interaction_constraints": text(GROUPS)}
    for bounds in ((2, 4), (0,), (0, 3), ()):
        compare(params, rounds=1, bounds=bounds)


def test_named_columns():
    X, y = problem()
    frame = pd.DataFrame(X[:, :3], columns=["age", "income", "rate"])
    parties = parties_of([X[:, 3:]])
    params = {**BASE, "monotone_constraints": {"income": -1, "party 0:1": 1}}
    model = train(params, frame, y, parties)
    expected = stock({**BASE, "monotone_constraints": (0, -1, 0, 0, 1)}, X, y)
    assert_same_trees(model.export_booster(parties), expected)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"monotone_constraints": {"age": 1}}, "monotone_constraints names column 'age'"),
        ({"monotone_constraints": {"shop:0": 1}}, "names column 'shop:0'.*bank:0"),
        ({"monotone_constraints": {-1: 1}}, "monotone_constraints names column -1"),
        ({"interaction_constraints": [["f0", "f3"]]}, "interaction_constraints names column 'f3'"),
    ],
    ids=str,
)
def test_unknown_columns_are_named_before_anything_leaves(params, words):
    X, y = problem(n=60)
    party = Recorder(xgb_fed.LocalParty(X[:, 3:], "bank"))
    with pytest.raises(InvalidArgumentError, match=words):
        train({**BASE, **params}, X[:, :3], y, [party])
    assert not party.requests


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"monotone_constraints": (1,) * 7}, "names column 6.*6 columns"),
        ({"monotone_constraints": {"bank:3": 1}}, "'bank:3'; party 'bank' has 3 columns, bank:0 to bank:2"),
        ({"interaction_constraints": "[[0,9]]"}, "names column 9.*6 columns"),
    ],
    ids=str,
)
def test_columns_beyond_a_party_s_number_are_named_before_training(params, words):
    X, y = problem(n=60)
    party = Recorder(xgb_fed.LocalParty(X[:, 3:], "bank"))
    with pytest.raises(InvalidArgumentError, match=words):
        train({**BASE, **params}, X[:, :3], y, [party])
    names = [type(message).__name__ for message in party.messages()]
    assert names == ["OpenTraining", "Abort", "TrainingOpened", "Done"]


def test_values_without_constraints():
    for value in ((), "()", {}, []):
        assert Settings.from_params({"monotone_constraints": value}) == Settings()
    assert Settings.from_params({"interaction_constraints": ""}) == Settings()


def test_monotone_constraints_need_leaves_of_one_value():
    params = {"objective": "multi:softprob", "num_class": 3, "multi_output": True}
    with pytest.raises(UnsupportedParameterError, match=r"monotone_constraints.*multi_output"):
        Settings.from_params({**params, "monotone_constraints": (1,)})


def test_columns_are_found_among_all_parties():
    columns = PooledColumns(["a", "b"], ["bank", "x:y"], [2, 3])
    names = ["b", "bank:1", "x:y:2", 3]
    assert [columns.number(name, "p") for name in names] == [1, 3, 6, 3]
    settings = Settings.from_params({"interaction_constraints": [names]})
    constraints = Constraints.of(settings, columns)
    assert constraints.permitted(frozenset()) is None
    assert set(constraints.permitted(frozenset({1, 6}))) == {1, 3, 6}
    assert set(constraints.permitted(frozenset({0, 6}))) == {0, 6}
