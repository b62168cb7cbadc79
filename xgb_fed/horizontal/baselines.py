"""Baselines that SimFL is compared with (section 6 of the paper): TFL, one party alone, and stock XGBoost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xgboost

from xgb_fed.boosting.features import check_weight
from xgb_fed.boosting.loop import LoopOptions
from xgb_fed.boosting.params import Settings, without_vertical_only
from xgb_fed.horizontal.common.model import TREE_PARAMETERS, HorizontalModel, read_rows
from xgb_fed.horizontal.common.settings import horizontal_settings
from xgb_fed.horizontal.parties import as_parties
from xgb_fed.horizontal.simfl.turn_taking import TurnTaking


def train_tfl(
    params: Mapping[str, Any],
    parties: Sequence[Any],
    num_boost_round: int = 10,
    *,
    rounds_per_turn: int = 1,
    evals: Sequence[tuple[tuple[Any, ...], str]] = (),
    early_stopping_rounds: int | None = None,
    verbose_eval: bool | int = True,
    callbacks: Sequence[Any] = (),
) -> HorizontalModel:
    """Train by TFL: parties take turns on their own rows and gradients (Zhao et al., 2018, without noise).

    Parameters and result as `train_simfl`'s, and `rounds_per_turn`: rounds that a party grows before the next
    one's turn.
    """
    settings = horizontal_settings(params)
    options = LoopOptions(num_boost_round, early_stopping_rounds, verbose_eval, callbacks, bool(evals))
    members = as_parties(parties, categorical_labels=settings.objective != "reg:squarederror")
    training = TurnTaking(settings, members, evals, rounds_per_turn, max_rounds=num_boost_round)
    return training.run(options)


def train_alone(
    params: Mapping[str, Any],
    X: Any,
    y: Any,
    options: LoopOptions,
    evals: Sequence[tuple[tuple[Any, ...], str]],
) -> HorizontalModel:
    """Train on the rows of one party alone, as in SimFL without others.

    Parameters
    ----------
    params : mapping
    X : matrix of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
    options : LoopOptions
    evals : sequence of ((X, y) or (X, y, weight), str)

    Returns
    -------
    HorizontalModel
    """
    settings = horizontal_settings(params)
    members = as_parties([(X, y)], categorical_labels=settings.objective != "reg:squarederror", at_least=1)
    return TurnTaking(settings, members, evals, max_rounds=options.num_boost_round).run(options)


def train_stock(
    params: Mapping[str, Any],
    X: Any,
    y: Any,
    num_boost_round: int = 10,
    *,
    sample_weight: Any = None,
    n_jobs: int = 0,
) -> xgboost.Booster:
    """Train stock XGBoost on one matrix, with the settings that `train_simfl` trains by.

    Parameters
    ----------
    params : mapping
    X : matrix of shape (n_rows, n_features)
    y : array-like of shape (n_rows,)
        As XGBoost's objective has it: 0 and 1, or classes from 0.
    num_boost_round : int
    sample_weight : array-like of shape (n_rows,), optional
    n_jobs : int
        Threads; 0 means all.

    Returns
    -------
    xgboost.Booster
    """
    settings = without_vertical_only(Settings.from_params(params))
    rows, names = read_rows(X, "X")
    weight = check_weight(sample_weight, rows.shape[0], "sample_weight")
    data = xgboost.QuantileDMatrix(rows, max_bin=settings.max_bin, nthread=n_jobs or None)
    # After binning: cuts stay unweighted, as the federated parties' are.
    data.set_info(label=np.asarray(y, dtype=np.float32), weight=weight, feature_names=names or None)
    stock = {name: getattr(settings, name) for name in TREE_PARAMETERS} | settings.of_xgboost
    stock |= {"tree_method": "hist", "seed": settings.random_state or 0, "nthread": n_jobs, "verbosity": 0}
    if settings.base_score is not None:
        stock["base_score"] = settings.base_score
    return xgboost.train(stock, data, num_boost_round)
