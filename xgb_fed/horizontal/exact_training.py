"""One party's copy of an exact training run: from public settings and its own rows to the model of all.

All copies see the same sums, so that every party works out the same cuts, trees and end of training.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts.xgboost.model import ScalarTree, booster_from_trees
from gbdt_hosts.xgboost.targets import Targets
from gbdt_hosts.xgboost.training import intercept
from gbdt_kernels.trees.wide_sums import as_floats, fixed_point, wide_sum
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.secure_sum.rings import Words
from xgb_fed.boosting.features import BinnedFeatures, Columns, codes_of, offsets_of
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.horizontal.exact_cuts import bounds_of_bins, find_cuts
from xgb_fed.horizontal.exact_metrics import METRICS, OF_NUMBERS, metric_names, metric_of
from xgb_fed.horizontal.exact_questions import Asking, ask_counts, ask_numbers, ask_words
from xgb_fed.horizontal.exact_task import ExactTask
from xgb_fed.horizontal.exact_trees import GrowingRules, GrownTree, SplitColumns, grow_trees
from xgb_fed.horizontal.shared_model import add_round

SCALE = 80
"""Binary digits after the point of gradients: every float32 above 2^-56 is exact."""

_MAX_BITS = 126
_HEADROOM = 8
"""Powers of two that gradients without a bound may grow by while margins move away from the base score."""

_EXPONENTS = range(-64, 65)
_ROW_BYTES = 192
"""Of a row's gradient and hessian of one class: fixed-point numbers, and those they are made of."""

_XGBOOST_ROW_BYTES = 2000
"""Of a row whose gradients XGBoost computes, while it reads the tree that it computes them by."""

_BIN_BYTES = 256
"""Of a bin of one node: its sums here, of all parties, in its parent's, and as gains of candidates."""

_LOSS_BITS = 8
"""A loss is below 2^8 times what a squared gradient can be."""


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """Rows of one party as the objective has them.

    Parameters
    ----------
    columns : Columns
    y, weight : ndarray of float32, shape (n_rows,)
    """

    columns: Columns
    y: NDArray[np.float32]
    weight: NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class ExactModel:
    """What training ends in, the same at all parties.

    Parameters
    ----------
    booster : xgboost.Booster
    cuts : list of ndarray of float32
        Of every column.
    evals_result : dict
        Metrics of the parties' held-out rows, by set, metric and round.
    best_iteration, best_score : int, float or None
        None without early stopping.
    """

    booster: Any
    cuts: list[NDArray[np.float32]]
    evals_result: dict[str, dict[str, list[float]]]
    best_iteration: int | None
    best_score: float | None


@dataclass
class _Scale:
    """How numbers are written as integers.

    Attributes
    ----------
    rows : int
        Bits of the number of rows of all parties and held-out sets.
    exponent : int
        Gradients of every row are at most 2 to the power of this.
    n_rows : int
        Rows to train on, of all parties.
    """

    rows: int
    exponent: int
    n_rows: int

    @property
    def gradients(self) -> int:
        """Binary digits after the point of gradients."""
        return min(SCALE, _MAX_BITS - self.rows - max(self.exponent, 0))

    @property
    def gradient_bits(self) -> int:
        """Bits of their sums."""
        return max(64, self.gradients + self.exponent + self.rows)

    @property
    def losses(self) -> int:
        """Binary digits after the point of losses and labels."""
        return min(SCALE, _MAX_BITS - self.rows - 2 * max(self.exponent, 0) - _LOSS_BITS)


@dataclass(eq=False)
class ExactTraining:
    """A run at one party.

    Parameters
    ----------
    task : ExactTask
    rows : LabelledRows
    held_out : list of LabelledRows or None
        Of each set this party's rows, if it has any.
    public_seed : bytes
        Of the stream that columns are drawn from.
    own_seed : bytes
        Of the stream that this party's rows are drawn from.
    max_rows : int
        Rows of all parties together that this party takes part with.
    """

    task: ExactTask
    rows: LabelledRows
    held_out: list[LabelledRows | None]
    public_seed: bytes
    own_seed: bytes = field(repr=False)
    max_rows: int = sys.maxsize

    def run(self) -> Asking[ExactModel]:
        """Train, asking for sums over all parties."""
        settings = self.task.settings
        self._objective = settings.loss
        self._gradients = self._objective.gradients_of(Targets(self.rows.y, self.rows.weight))
        self._scale = yield from self._common_scale()
        base_score = yield from self._base_score()
        cuts = self.task.given_cuts
        if cuts is None:
            cuts = yield from find_cuts(self.rows.columns, settings.max_bin, self.task.cuts)
        bins, lower = bounds_of_bins(cuts)
        codes = codes_of(self.rows.columns, bins)
        features = BinnedFeatures(bins, lower, codes, offsets_of(bins))
        self._columns = SplitColumns(features, np.arange(self.task.n_columns))
        self._rules = GrowingRules(
            settings.max_depth,
            self.task.min_rows_per_node,
            settings.split_gain,
            self._scale.gradients,
            self._scale.gradient_bits,
        )
        margin = self._start(base_score, self.rows)
        held_out = [None if rows is None else self._start(base_score, rows) for rows in self.held_out]
        history = _History(settings.objective, settings.eval_metric, self.task)
        trees: list[ScalarTree] = []
        for number in range(self.task.n_rounds):
            grown = yield from self._round(number, margin)
            for group, one in enumerate(grown):
                margin[:, group] += one.values
            trees += [one.tree for one in grown]
            for rows, own in zip(self.held_out, held_out, strict=True):
                if rows is not None and own is not None:
                    add_round(own, _row_major(rows.columns), [one.tree for one in grown])
            if history.n_sets:
                losses = yield from self._losses(number, history.names, held_out)
                history.add(losses)
                if history.is_over:
                    break
        return self._model(trees, base_score, cuts, history)

    # What precedes the first round.

    def _common_scale(self) -> Asking[_Scale]:
        """Numbers of rows, and a bound of gradients: how many parties need which power of two."""
        sizes = [_counted(self.rows), *(0 if rows is None else _counted(rows) for rows in self.held_out)]
        weight = max([self.rows.weight.max(), *(r.weight.max() for r in self.held_out if r is not None)])
        labels = 1.0
        if self._objective.name in OF_NUMBERS:
            base = self.task.settings.base_score
            known = [self.rows.y, *(rows.y for rows in self.held_out if rows is not None)]
            labels = max(1.0, abs(base or 0.0), *(float(np.abs(y).max()) for y in known))
        largest = float(weight) * labels * max(1.0, self._objective.scale_pos_weight)
        exponent = min(max(math.frexp(largest)[1], _EXPONENTS[0]), _EXPONENTS[-1])
        own = np.concatenate([sizes, [exponent == one for one in _EXPONENTS]]).astype(np.int64)
        pooled = yield from ask_counts("rows, and powers of two of labels and weights", own)
        n_rows, n_parties = pooled[: len(sizes)], pooled[len(sizes) :]
        if n_rows[0] > self.max_rows:
            raise InvalidDataError(
                f"{n_rows[0]} rows of all parties; this party takes part with at most {self.max_rows}"
            )
        least = self.task.min_rows_per_node
        if n_rows[0] * self.task.settings.subsample < least:
            raise InvalidDataError(
                f"{n_rows[0]} rows of weights above 0 at all parties together, times "
                f"subsample={self.task.settings.subsample:g}, are fewer than min_rows_per_node={least}"
            )
        for k, size in enumerate(n_rows[1:].tolist()):
            if size < least:
                raise InvalidDataError(
                    f"held-out set {k} has {size} rows of weights above 0 at all parties together, which is "
                    f"fewer than min_rows_per_node={least}"
                )
        needed = _EXPONENTS[int(np.flatnonzero(n_parties)[-1])] + self._headroom()
        scale = _Scale(int(n_rows.max()).bit_length(), needed, int(n_rows[0]))
        if scale.losses < 20:
            raise InvalidDataError(
                f"labels and weights up to 2^{needed} are too large for exact sums of {n_rows[0]} rows"
            )
        return scale

    def _headroom(self) -> int:
        """Powers of two between the largest label and weight and what gradients may become."""
        if self._objective.name not in OF_NUMBERS:
            return 0
        if self._objective.name != "count:poisson":
            return _HEADROOM
        # Hessians are e^max_delta_step times the mean.
        return _HEADROOM + math.ceil(self.task.settings.max_delta_step / math.log(2))

    def _base_score(self) -> Asking[list[float]]:
        """XGBoost's estimate: the mean label, or what it makes of the classes' weights."""
        settings, rows, scale = self.task.settings, self.rows, self._scale.losses
        if settings.base_score is not None:
            return [float(settings.base_score)]
        weight, y = rows.weight.astype(np.float64), rows.y.astype(np.float64)
        if self._objective.name in OF_NUMBERS:
            parts = [weight, weight * y]
        else:
            parts = [weight[y == k] for k in range(max(2, settings.n_classes))]
        own = np.stack([_exact_sum(part, scale) for part in parts])
        sums = as_floats((yield from ask_words("weights and labels", own, _MAX_BITS)), scale)
        if self._objective.name in OF_NUMBERS:
            if sums[0] <= 0:
                raise InvalidDataError("no row of any party has a weight above 0")
            mean = np.float32(sums[1] / sums[0])
            if self._objective.name == "reg:squarederror":
                return [float(mean)]
            if mean <= 0:
                raise InvalidDataError("all labels are 0 at all parties")
            # XGBoost's estimate depends on the labels through their mean alone.
            return self._estimate([mean], [1.0])
        if not (sums > 0).all():
            raise InvalidDataError("a class has no rows of weights above 0 at any party")
        if settings.n_classes == 1 and settings.scale_pos_weight == 1 and _begins_with_mean():
            return [float(np.float32(sums[1] / sums.sum()))]
        return self._estimate(range(len(sums)), sums)

    def _estimate(self, labels: Any, weights: Any) -> list[float]:
        """The base score that XGBoost estimates from a few rows that stand for all."""
        estimate = intercept(self._objective.of_xgboost, _targets(labels, weights))
        return [float(value) for value in estimate]

    def _start(self, base_score: list[float], rows: LabelledRows) -> NDArray[np.float32]:
        """Margins before the first tree, shape (n_rows, n_classes)."""
        margin = self._objective.to_margin(np.array(base_score, dtype=np.float32))
        wide = np.broadcast_to(margin, (self._objective.n_classes,))
        return np.tile(wide, (len(rows.y), 1)).astype(np.float32)

    # Rounds.

    def _round(self, number: int, margin: NDArray[np.float32]) -> Asking[list[GrownTree]]:
        settings, rows = self.task.settings, self.rows
        g, h = self._gradients(margin, number)
        limit = math.ldexp(1.0, self._scale.exponent)
        if not (np.abs(g).max() <= limit and h.max() <= limit):
            raise InvalidDataError(
                "gradients have grown beyond the bound that was agreed on; lower learning_rate, or give "
                "max_delta_step"
            )
        words, sampled = [], []
        for group in range(self._objective.n_classes):
            scale = self._scale.gradients
            words.append(
                np.concatenate([fixed_point(g[:, group], scale), fixed_point(h[:, group], scale)], axis=1)
            )
            random = _stream(self.own_seed, number, group)
            # Rows of weight 0 add nothing to sums: counted, they would make small nodes seem larger.
            sampled.append(settings.sampling.draw_rows(g, random).rows & (rows.weight > 0))
        columns = self._columns
        if settings.colsample_bytree < 1:
            random = _stream(self.public_seed, number, 0)
            drawn = settings.sampling.draw_columns(np.arange(self.task.n_columns), random)
            columns = SplitColumns(columns.features, drawn.of_tree)
        # All rows of weights above 0 were counted before; of samples each has a number of its own.
        known = self._scale.n_rows if settings.subsample >= 1 else None
        grown = yield from grow_trees(columns, words, sampled, self._rules, f"round {number}", known)
        return grown

    def _predicted(self, margin: NDArray[np.float32]) -> NDArray[np.float32]:
        """What metrics are computed of: means, or probabilities."""
        objective = self._objective
        if objective.name == "multi:softmax":
            objective = replace(objective, name="multi:softprob")
        return objective.to_prediction(margin)

    def _losses(
        self, number: int, names: list[str], margins: list[NDArray[np.float32] | None]
    ) -> Asking[NDArray[np.float64]]:
        """Means over all parties' held-out rows, shape (n_sets, n_metrics)."""
        own = []
        for rows, margin in zip(self.held_out, margins, strict=True):
            losses = np.zeros((0, 1 + len(names)))
            if rows is not None and margin is not None:
                prediction = self._predicted(margin)
                functions = [METRICS[self._objective.name][name] for name in names]
                columns = [np.ones(len(rows.y)), *(one(prediction, rows.y) for one in functions)]
                losses = np.stack(columns, axis=1) * rows.weight.astype(np.float64)[:, None]
            own.append(losses.sum(axis=0))
        total = yield from ask_numbers(
            f"round {number}: losses", np.concatenate(own), self._scale.losses, _MAX_BITS
        )
        weight, sums = np.split(total.reshape(len(own), -1), [1], axis=1)
        return np.asarray(sums / np.maximum(weight, np.finfo(np.float64).tiny))

    def _model(
        self,
        trees: list[ScalarTree],
        base_score: list[float],
        cuts: list[NDArray[np.float32]],
        history: _History,
    ) -> ExactModel:
        n_classes = self._objective.n_classes
        booster = booster_from_trees(
            trees,
            objective={"objective": self._objective.name, **self._objective.parameters},
            n_classes=n_classes,
            n_features=self.task.n_columns,
            base_score=base_score,
            rounds=range(0, len(trees) + 1, n_classes),
            feature_names=self.task.names,
        )
        best = history.best if self.task.early_stopping_rounds is not None else (None, None)
        if best[0] is not None:
            booster.set_attr(best_iteration=str(best[0]), best_score=str(best[1]))
        return ExactModel(booster, cuts, history.results, *best)


def needed_bytes(task: ExactTask, n_rows: Sequence[int]) -> int:
    """How much memory a run takes at a party, beside its rows: an upper bound of what its arrays hold.

    Parameters
    ----------
    task : ExactTask
    n_rows : sequence of int
        Rows to train on, and of each held-out set.
    """
    settings = task.settings
    n_classes, n_bins = max(1, settings.n_classes), task.n_columns * (task.max_bin + 1)
    # Bins; gradients and hessians as words, twice while they are made; floats, margins, nodes.
    of_rows = n_rows[0] * (2 * task.n_columns + n_classes * (_ROW_BYTES + 16)) + sum(n_rows) * 64 * n_classes
    of_rows += 0 if settings.loss.is_closed_form else n_rows[0] * _XGBOOST_ROW_BYTES
    n_nodes = 1 << (settings.max_depth - 1)
    return of_rows + n_nodes * n_bins * n_classes * _BIN_BYTES


class _History:
    """Metrics of all rounds, and whether they say that training is over.

    As XGBoost's early stopping, the last metric of the last set decides; all metrics here are losses.
    """

    def __init__(self, objective: str, eval_metric: Any, task: ExactTask) -> None:
        self.names, self.n_sets = metric_names(objective, eval_metric), task.n_sets
        self._patience = task.early_stopping_rounds
        self.results: dict[str, dict[str, list[float]]] = {
            f"validation_{k}": {name: [] for name in self.names} for k in range(task.n_sets)
        }

    def add(self, losses: NDArray[np.float64]) -> None:
        """Take up a round's mean losses."""
        for of_set, row in zip(self.results.values(), losses.tolist(), strict=True):
            for name, mean in zip(self.names, row, strict=True):
                of_set[name].append(metric_of(name, mean))

    @property
    def _deciding(self) -> list[float]:
        return self.results[f"validation_{self.n_sets - 1}"][self.names[-1]]

    @property
    def best(self) -> tuple[int, float]:
        """Round and metric."""
        scores = self._deciding
        return int(np.argmin(scores)), min(scores)

    @property
    def is_over(self) -> bool:
        """Whether the metric has not improved for long enough."""
        return self._patience is not None and len(self._deciding) - 1 - self.best[0] >= self._patience


def _counted(rows: LabelledRows) -> int:
    """Rows of weights above 0."""
    return int((rows.weight > 0).sum())


def _targets(labels: Any, weights: Any) -> Targets:
    return Targets(np.asarray(labels, dtype=np.float32), np.asarray(weights, dtype=np.float32))


@lru_cache(maxsize=1)
def _begins_with_mean() -> bool:
    """Whether the installed XGBoost estimates a probability as the mean label: 2.0 takes a Newton step."""
    (estimate,) = intercept({"objective": "binary:logistic"}, _targets([0, 1], [9, 1]))
    return bool(np.isclose(estimate, 0.1, atol=1e-4))


def _row_major(columns: Columns) -> Any:
    """Rows as predictions take them."""
    return columns.data.tocsr() if hasattr(columns.data, "tocsr") else columns.data


def _exact_sum(values: NDArray[np.float64], scale: int) -> Words:
    """The sum of numbers, exact to `scale` binary digits, as words of shape (2,)."""
    words = fixed_point(values, scale)
    return wide_sum(np.concatenate([words, np.zeros_like(words)], axis=1))[:2]


def _stream(seed: bytes, number: int, group: int) -> SecretStream:
    """Randomness of one tree's draws, the same whenever the tree is grown again."""
    return SecretStream(hashlib.sha256(seed + f" round {number}, class {group}".encode()).digest())
