"""The trees of native boosters."""

from gbdt_hosts.xgboost.model import model_content


def read_trees(booster):
    """The trees as XGBoost's JSON has them."""
    return model_content(booster).trees
