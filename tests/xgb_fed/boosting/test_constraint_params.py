"""Constraints in all forms that XGBoost takes."""

import numpy as np
import pytest

from constrained import GROUPS, SIGNS, compare, text
from xgb_fed.boosting.params import Settings
from xgb_fed.errors import InvalidArgumentError


@pytest.mark.parametrize(
    "value",
    [
        "(1,-1,0,1,0,-1)",
        list(SIGNS),
        np.array(SIGNS),
        {"f0": 1, "f1": -1, "party 0:0": 1, "party 0: column 2": -1},
        {0: 1, 1: -1, 3: 1, 5: -1},
    ],
    ids=["text", "list", "array", "names", "numbers"],
)
def test_forms_of_monotone_constraints(value):
    compare({"monotone_constraints": SIGNS}, {"monotone_constraints": value}, rounds=1)


@pytest.mark.parametrize(
    "value",
    [
        "[[0,3],[1,2,4],[2,5]]",
        [("f0", "party 0:0"), ("f1", "f2", "party 0:1"), ("f2", "party 0:2")],
        [["f0", 3], ["f1", 2, "party 0:1"], [2, "party 0:2"]],
    ],
    ids=["text", "names", "names and numbers"],
)
def test_forms_of_interaction_constraints(value):
    compare({"interaction_constraints": text(GROUPS)}, {"interaction_constraints": value}, rounds=1)


@pytest.mark.parametrize(
    "params",
    [
        {"monotone_constraints": value}
        for value in ("1,0", "(1,x)", (2, 0), (0.5,), {"f0": "up"}, 1, (True,), {1.5: 1}, "1", "")
    ]
    + [
        {"interaction_constraints": value}
        for value in ("()", "[[0", "[0,1]", [0, 1], ["ab"], [[0.5]], 3, {"f0": 1}, "[[true]]")
    ],
    ids=str,
)
def test_what_is_not_a_constraint_is_refused(params):
    (name,) = params
    with pytest.raises(InvalidArgumentError, match=f"^{name}="):
        Settings.from_params(params)
