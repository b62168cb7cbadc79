"""Trees that are compared with XGBoost's."""

from vertical_training import assert_same_trees, parties_of, parts, problem, stock, train

BASE = {"max_depth": 4, "max_bin": 16}


def xgb_params(case):
    return {"objective": "binary:logistic", **BASE, **case}


def compare(params, X, y, bounds, weight=None, rounds=2):
    active, *passive = parts(X, *bounds)
    parties = parties_of(passive)
    model = train(params, active if active.shape[1] else None, y, parties, rounds, weight)
    ours, theirs = model.export_booster(parties), stock(params, X, y, rounds, weight)
    assert_same_trees(ours, theirs)
    return model, parties, theirs


X, Y = problem(n=50)
