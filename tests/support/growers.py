"""The growers and evaluations of live boosters, noted where they take boosters over."""

from weakref import WeakValueDictionary

import gbdt_hosts.lightgbm as host

_GROWERS, _EVALUATIONS = WeakValueDictionary(), WeakValueDictionary()
_take_over = host.take_over


def _noted(booster, grower, evaluation, *args):
    _GROWERS[id(booster)], _EVALUATIONS[id(booster)] = grower, evaluation
    _take_over(booster, grower, evaluation, *args)


host.take_over = _noted


def grower_of(booster):
    """The grower of a booster that is in training."""
    return _GROWERS[id(booster)]


def evaluation_of(booster):
    """The evaluation of a booster that is in training."""
    return _EVALUATIONS[id(booster)]


def kept_scores(booster, data):
    """Where the rows of a data set stand, by the account of a booster in training."""
    return evaluation_of(booster).raw_score(data)
