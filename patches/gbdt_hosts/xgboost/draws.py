"""The rows and columns that XGBoost's ``hist`` draws for trees, levels and nodes, given its ``seed``.

XGBoost does not expose its draws, but they follow from the seed.  The first random number seeds a Mersenne
Twister for columns: each draw is a ``std::shuffle``, of which the first columns are kept, in ascending order.
Each further one seeds a linear congruential generator for the rows of one tree.  The shuffle is that of GNU's
C++ library before version 11, which XGBoost's wheels for Linux are built with; other builds shuffle in other
ways, so `are_reproduced` tries it out.  (XGBoost, ``src/common/random.{h,cc}``, ``src/tree/hist/sampler.h``
and ``src/tree/hist/evaluate_splits.h``, versions 2.0 to 3.2.)
"""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import xgboost
from numpy.typing import NDArray

_MAX_RANDOM = (1 << 32) - 1
_FACTOR, _MODULUS = 16807, 1 << 63
"""Of the generator for rows."""


class ColumnDraws:
    """The stream of draws of one training run.

    Parameters
    ----------
    seed : int
        XGBoost's ``seed``.
    n_taken : int
        Random numbers taken by the draws before.

    Attributes
    ----------
    n_taken : int
        Random numbers taken so far.
    """

    def __init__(self, seed: int, n_taken: int = 0) -> None:
        self._twister = _twister(int(_twister(seed).random_raw()))
        self._twister.random_raw(n_taken, output=False)
        self.n_taken = n_taken

    def some_of(self, columns: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Draw so many of the columns, ascending, no column twice."""
        shuffled = columns.tolist()
        self._shuffle(shuffled)
        return np.sort(np.array(shuffled[:count], dtype=np.int64))

    def _up_to(self, largest: int) -> int:
        """A uniform number from 0 to `largest`, as ``std::uniform_int_distribution`` draws it."""
        scale = _MAX_RANDOM // (largest + 1)
        while True:
            self.n_taken += 1
            number = int(self._twister.random_raw()) // scale
            if number <= largest:
                return number

    def _shuffle(self, values: list[int]) -> None:
        """``std::shuffle``: one random number makes two swaps where it is large enough for both."""
        n = len(values)
        if not n or _MAX_RANDOM // n < n:
            for k in range(1, n):
                _swap(values, k, self._up_to(k))
            return
        start = 1
        if n % 2 == 0:
            _swap(values, 1, self._up_to(1))
            start = 2
        for k in range(start, n, 2):
            first, second = divmod(self._up_to((k + 1) * (k + 2) - 1), k + 2)
            _swap(values, k, first)
            _swap(values, k + 1, second)


def _swap(values: list[int], a: int, b: int) -> None:
    values[a], values[b] = values[b], values[a]


def _twister(seed: int) -> np.random.MT19937:
    """``std::mt19937`` of a seed."""
    twister = np.random.MT19937()
    words = np.empty(624, dtype=np.uint32)
    words[0] = last = seed & _MAX_RANDOM
    for k in range(1, 624):
        words[k] = last = (1812433253 * (last ^ (last >> 30)) + k) & _MAX_RANDOM
    twister.state = {"bit_generator": "MT19937", "state": {"key": words, "pos": 624}}
    return twister


def sampled_rows(seed: int, tree: int, n_rows: int, subsample: float) -> NDArray[np.bool_]:
    """The rows of a tree, whatever the number of threads.

    Parameters
    ----------
    seed : int
        XGBoost's ``seed``.
    tree : int
        How many trees of the training run come before.
    n_rows : int
    subsample : float
    """
    start = int(_twister(seed).random_raw(tree + 2)[-1])
    states = np.empty(n_rows, dtype=np.uint64)
    states[:1], known, factor = start * _FACTOR % _MODULUS, 1, _FACTOR
    while known < n_rows:
        # Products wrap modulo 2^64, which leaves them right modulo 2^63.
        further = states[: n_rows - known][:known] * np.uint64(factor) & np.uint64(_MODULUS - 1)
        states[known : known + len(further)] = further
        known, factor = 2 * known, factor * factor % _MODULUS
    uniform = (states - np.uint64(1)).astype(np.float64) / float(_MODULUS)
    return np.asarray(uniform < np.float64(np.float32(subsample)))


@cache
def are_reproduced() -> bool:
    """Whether the installed XGBoost draws rows and columns as this module does.

    It trains stumps on columns each of which is a worse copy of the labels than the one before, so that each
    stump tells the first of its columns; and trees without splits, whose sums of hessians count their rows.
    """
    return _columns_are_reproduced() and _rows_are_reproduced()


def _rows_are_reproduced() -> bool:
    n_rows, n_rounds, seed = 300, 4, 3
    data = xgboost.DMatrix(np.zeros((n_rows, 1), dtype=np.float32), label=np.arange(n_rows))
    params = {"max_depth": 1, "tree_method": "hist", "nthread": 1, "seed": seed, "verbosity": 0}
    booster = xgboost.train({**params, "base_score": 0.0, "subsample": 0.4}, data, n_rounds)
    trees = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    expected = [np.count_nonzero(sampled_rows(seed, tree, n_rows, 0.4)) for tree in range(n_rounds)]
    return [tree["sum_hessian"][0] for tree in trees] == expected


def _columns_are_reproduced() -> bool:
    n_columns, n_rounds, seed = 12, 8, 20
    y = np.arange(40, dtype=np.float32)
    X = np.stack([np.where(y < k, -y, y) for k in range(n_columns)], axis=1)
    params = {"max_depth": 1, "tree_method": "hist", "nthread": 1, "seed": seed, "verbosity": 0}
    params |= {"learning_rate": 1e-3, "base_score": 0.0, "colsample_bytree": 0.25, "min_child_weight": 0}
    booster = xgboost.train(params, xgboost.DMatrix(X, label=y), n_rounds)
    trees = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    draws, columns = ColumnDraws(seed), np.arange(n_columns)
    expected = [int(draws.some_of(columns, 3)[0]) for _ in range(n_rounds + 1)]
    return [tree["split_indices"][0] for tree in trees] == expected[1:]
