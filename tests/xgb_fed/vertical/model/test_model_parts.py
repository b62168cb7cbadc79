"""Models whose parts do not fit together are refused, whatever wrote them."""

import pytest

from vertical_training import parties_of, parts, problem, train
from xgb_fed.vertical.model.model import check_parts

X, Y = problem(n=80)
PARAMS = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 6}


def checked(model):
    check_parts(model.trees, model.rounds, model.splits, model.parties, model.party_features)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda m: m.rounds.append(9), "rounds"),
        (lambda m: m.splits.features.append(3), "features"),
        (lambda m: m.parties.append("other"), "parties"),
        (lambda m: m.trees[0].weight.append([0.0]), "nodes"),
        (lambda m: m.trees[0].left.__setitem__(0, 0), "children"),
        (lambda m: m.trees[0].right.__setitem__(0, 99), "children"),
        (lambda m: m.trees[0].parent.__setitem__(1, 2), "children"),
        (lambda m: m.trees[0].parent.__setitem__(0, 0), "root"),
        (lambda m: m.trees[0].owner.__setitem__(0, 2), "splits"),
    ],
)
def test_parts_that_do_not_fit(change, word):
    active, *passive = parts(X, 3)
    model = train(PARAMS, active, Y, parties_of(passive), 1)
    checked(model)
    change(model)
    with pytest.raises(ValueError, match=word):
        checked(model)
