"""The rows and columns that XGBoost's ``hist`` draws for trees, levels and nodes, given its ``seed``.

XGBoost does not expose its draws, but they follow from the seed. Columns are drawn by a ``std::shuffle`` on a
Mersenne Twister: the first ones are kept, in ascending order; rows by a linear congruential generator, one
number per row. How the generators are seeded differs between versions; see `SeparateStreams` and `OneStream`.
The shuffle is that of GNU's C++ library before version 11, which XGBoost's wheels for Linux are built with;
other builds shuffle in other ways, so `are_reproduced` tries it out. (XGBoost, ``src/common/random.{h,cc}``,
``src/tree/hist/sampler.{h,cc}`` and ``src/tree/hist/evaluate_splits.h``, versions 2.0 to 3.4.)
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import xgboost
from numpy.typing import NDArray

from gbdt_hosts.xgboost.versions import draws_come_from_one_stream

_MAX_RANDOM = (1 << 32) - 1
_FACTOR, _MODULUS = 16807, 1 << 63
"""Of the generator for rows."""


class SeparateStreams:
    """Draws of XGBoost until 3.2: the seed's first random number seeds a stream for columns.

    Each further one seeds the generator for the rows of one tree. Earlier draws took `n_taken` random numbers
    for columns.
    """

    draws_first_columns_twice = True
    """Whether the columns of a run's first tree are drawn twice, and only the second draw counts."""

    def __init__(self, seed: int, n_taken: int = 0) -> None:
        self._seed = seed
        self._columns = _Numbers(int(_twister(seed).random_raw()), n_taken)

    @property
    def n_taken(self) -> int:
        """Random numbers for columns taken so far; draws go on from there."""
        return self._columns.n_taken

    def rows(self, tree: int, n_rows: int, subsample: float) -> NDArray[np.bool_]:
        """Draw the rows of a tree, before its columns, given the number of earlier trees of the run."""
        return _sampled_rows(int(_twister(self._seed).random_raw(tree + 2)[-1]), n_rows, subsample)

    def some_of(self, columns: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """Draw so many of the columns, ascending, no column twice."""
        return _first_shuffled(columns, count, self._columns)


class OneStream:
    """Draws of XGBoost since 3.3: after `n_taken`, each number of one stream seeds one draw's generator."""

    draws_first_columns_twice = False

    def __init__(self, seed: int, n_taken: int = 0) -> None:
        self._seeds = _Numbers(seed, n_taken)

    @property
    def n_taken(self) -> int:
        """Random numbers taken so far."""
        return self._seeds.n_taken

    def rows(self, tree: int, n_rows: int, subsample: float) -> NDArray[np.bool_]:
        """See `SeparateStreams`."""
        return _sampled_rows(self._seeds.take(), n_rows, subsample)

    def some_of(self, columns: NDArray[np.int64], count: int) -> NDArray[np.int64]:
        """See `SeparateStreams`."""
        return _first_shuffled(columns, count, _Numbers(self._seeds.take()))


XGBoostDraws: TypeAlias = SeparateStreams | OneStream
"""The draws of one training run."""


def draws_of(seed: int, n_taken: int = 0) -> XGBoostDraws:
    """The draws of the installed XGBoost, from where so many random numbers were taken."""
    return (OneStream if draws_come_from_one_stream() else SeparateStreams)(seed, n_taken)


class _Numbers:
    """The numbers of a Mersenne Twister, from where so many were taken."""

    def __init__(self, seed: int, n_taken: int = 0) -> None:
        self._twister = _twister(seed)
        self._twister.random_raw(n_taken, output=False)
        self.n_taken = n_taken

    def take(self) -> int:
        """Take the next number, from 0 to 2^32 − 1."""
        self.n_taken += 1
        return int(self._twister.random_raw())

    def up_to(self, largest: int) -> int:
        """Take a uniform number from 0 to `largest`, as ``std::uniform_int_distribution`` draws it."""
        scale = _MAX_RANDOM // (largest + 1)
        while True:
            number = self.take() // scale
            if number <= largest:
                return number


def _first_shuffled(columns: NDArray[np.int64], count: int, numbers: _Numbers) -> NDArray[np.int64]:
    """The columns that come first after a shuffle, ascending."""
    shuffled = columns.tolist()
    _shuffle(shuffled, numbers)
    return np.sort(np.array(shuffled[:count], dtype=np.int64))


def _shuffle(values: list[int], numbers: _Numbers) -> None:
    """``std::shuffle``: one random number makes two swaps where it is large enough for both."""
    n = len(values)
    if not n or _MAX_RANDOM // n < n:
        for k in range(1, n):
            _swap(values, k, numbers.up_to(k))
        return
    start = 1
    if n % 2 == 0:
        _swap(values, 1, numbers.up_to(1))
        start = 2
    for k in range(start, n, 2):
        first, second = divmod(numbers.up_to((k + 1) * (k + 2) - 1), k + 2)
        _swap(values, k, first)
        _swap(values, k + 1, second)


def _swap(values: list[int], a: int, b: int) -> None:
    values[a], values[b] = values[b], values[a]


def _twister(seed: int) -> np.random.MT19937:
    """``std::mt19937`` of a seed."""
    twister = np.random.MT19937()
    # NumPy's older interface seeds it by a whole number as the standard library of C++ does.
    state: Any = np.random.RandomState(seed & _MAX_RANDOM).get_state(legacy=False)
    twister.state = state
    return twister


def _sampled_rows(seed: int, n_rows: int, subsample: float) -> NDArray[np.bool_]:
    """Rows by the generator of a seed, whatever the number of threads."""
    states = np.empty(n_rows, dtype=np.uint64)
    states[:1], known, factor = seed * _FACTOR % _MODULUS, 1, _FACTOR
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

    It trains stumps on columns that are all alike, so that each stump tells the first of its columns; and
    trees without splits, whose sums of hessians count their rows.
    """
    return _columns_are_reproduced() and _rows_are_reproduced()


def _rows_are_reproduced() -> bool:
    n_rows, n_rounds, seed = 300, 4, 3
    data = xgboost.DMatrix(np.zeros((n_rows, 1), dtype=np.float32), label=np.arange(n_rows))
    params = {"max_depth": 1, "tree_method": "hist", "nthread": 1, "seed": seed, "verbosity": 0}
    booster = xgboost.train({**params, "base_score": 0.0, "subsample": 0.4}, data, n_rounds)
    trees = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    draws = draws_of(seed)
    expected = [np.count_nonzero(draws.rows(tree, n_rows, 0.4)) for tree in range(n_rounds)]
    return [tree["sum_hessian"][0] for tree in trees] == expected


def _columns_are_reproduced() -> bool:
    # So many columns that a newer C++ library's way from random numbers to smaller ones is told apart.
    n_columns, n_drawn, n_rounds, seed = 1500, 6, 6, 20
    X = np.repeat(np.arange(4, dtype=np.float32)[:, None], n_columns, axis=1)
    params = {"max_depth": 1, "tree_method": "hist", "nthread": 1, "seed": seed, "verbosity": 0}
    params |= {"learning_rate": 1e-3, "base_score": 0.0, "min_child_weight": 0, "max_bin": 4}
    params["colsample_bytree"] = (n_drawn + 0.5) / n_columns
    booster = xgboost.train(params, xgboost.DMatrix(X, label=X[:, 0]), n_rounds)
    trees = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]["model"]["trees"]
    draws, columns = draws_of(seed), np.arange(n_columns)
    if draws.draws_first_columns_twice:
        draws.some_of(columns, n_drawn)
    expected = [int(draws.some_of(columns, n_drawn)[0]) for _ in range(n_rounds)]
    return [tree["split_indices"][0] for tree in trees] == expected
