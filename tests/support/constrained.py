"""Training runs under constraints."""

from vertical_training import assert_same_trees, parties_of, parts, problem, stock, train

BASE = {"objective": "binary:logistic", "max_depth": 5, "max_bin": 16}
SIGNS = (1, -1, 0, 1, 0, -1)
GROUPS = [[0, 3], [1, 2, 4], [2, 5]]


def compare(params, ours=None, objective="binary:logistic", missing=0.1, rounds=2, bounds=(3,), seed=0):
    """Train on split columns with `ours` in place of some of XGBoost's own parameters, and compare."""
    X, y = problem(objective, missing=missing, seed=seed)
    params = {**BASE, "objective": objective, **params}
    active, *passive = parts(X, *bounds)
    parties = parties_of(passive)
    model = train({**params, **(ours or {})}, active, y, parties, rounds)
    assert_same_trees(model.export_booster(parties), stock(params, X, y, rounds))
    return model


def text(value):
    return str(value).replace(" ", "")
