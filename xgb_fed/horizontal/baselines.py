"""Baselines that SimFL is compared with (section 6 of the paper): TFL, one party alone, and stock XGBoost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xgb_fed.boosting.loop import LoopOptions
from xgb_fed.horizontal.common.model import HorizontalModel
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

    Parameters
    ----------
    params, parties, num_boost_round, evals, early_stopping_rounds, verbose_eval, callbacks
        As for `train_simfl`.
    rounds_per_turn : int
        Rounds that a party grows before the next one's turn.

    Returns
    -------
    HorizontalModel
    """
    settings, is_auto = horizontal_settings(params)
    options = LoopOptions(num_boost_round, early_stopping_rounds, verbose_eval, callbacks, bool(evals))
    members = as_parties(parties, categorical_labels=settings.objective != "reg:squarederror")
    training = TurnTaking(
        settings, members, evals, rounds_per_turn, max_rounds=num_boost_round, is_auto=is_auto
    )
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
    """
    settings, is_auto = horizontal_settings(params)
    members = as_parties([(X, y)], categorical_labels=settings.objective != "reg:squarederror", at_least=1)
    training = TurnTaking(settings, members, evals, max_rounds=options.num_boost_round, is_auto=is_auto)
    return training.run(options)
