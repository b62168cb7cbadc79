"""One party's copy of an exact training run: from public settings and its own rows to the model of all.

All copies see the same sums, so that every party works out the same cuts, trees and end of training.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts.xgboost.evaluation import intercept
from gbdt_hosts.xgboost.model import ScalarTree, booster_from_trees
from gbdt_hosts.xgboost.targets import Targets
from gbdt_hosts.xgboost.versions import least_hessian_of_base_scores
from gbdt_kernels.trees.wide_sums import as_floats, fixed_points, wide_sum
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.secure_sum.rings import Words
from xgb_fed.boosting.features import BinnedFeatures, Columns, codes_of, offsets_of
from xgb_fed.boosting.objectives import CLASS_OBJECTIVES, LOGISTIC, Gradients, XGBoostObjective
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.horizontal.common.model import add_round
from xgb_fed.horizontal.exact.cuts import bounds_of_bins, find_cuts
from xgb_fed.horizontal.exact.metrics import History, metrics_of, sums_of_losses
from xgb_fed.horizontal.exact.questions import Asking, ask_numbers, ask_words, together
from xgb_fed.horizontal.exact.rows.samples import RowDraws, check_own_sample
from xgb_fed.horizontal.exact.sizes import MAX_BITS, LabelledRows, Sizes, ask_sizes
from xgb_fed.horizontal.exact.task import ExactTask
from xgb_fed.horizontal.exact.trees import GrowingRules, GrownTree, SplitColumns, grow_trees

_FIRST_STEPS = ("reg:squaredlogerror", "reg:pseudohubererror")
"""Objectives whose estimated base score is a Newton step that labels' mean does not tell."""

_WEIGHT_BITS = 28
"""Binary digits that weights have on average, at least, if their sum is below 1."""


@dataclass(frozen=True, eq=False)
class ExactModel:
    """Result of training, the same at all parties.

    `cuts` are of every column; `evals_result` has metrics of the parties' held-out rows, by set, metric and
    round; `best_iteration` and `best_score` are None without early stopping.
    """

    booster: Any
    cuts: list[NDArray[np.float32]]
    evals_result: dict[str, dict[str, list[float]]]
    best_iteration: int | None
    best_score: float | None


class RoundsDone(NamedTuple):
    """Rounds that a run has had; results, by set, metric and round, may be of more."""

    n: int = 0
    results: Mapping[str, Mapping[str, Sequence[float]]] = {}


class _Agreed(NamedTuple):
    """A party's facts before the first round: all but the seed of its samples are those of all parties."""

    scale: Sizes
    columns: SplitColumns
    rules: GrowingRules
    own_seed: bytes


@dataclass(eq=False)
class ExactTraining:
    """A run at one party, with its held-out rows of each set, if it has any.

    Columns are drawn from the stream of the public seed, and this party's rows by `draws`; it takes part with
    at most `max_rows` of all parties together.
    """

    task: ExactTask
    rows: LabelledRows
    held_out: list[LabelledRows | None]
    public_seed: bytes
    draws: RowDraws
    max_rows: int = sys.maxsize
    done: RoundsDone = field(default=RoundsDone(), init=False)

    @cached_property
    def _objective(self) -> XGBoostObjective:
        return self.task.settings.loss

    @cached_property
    def _gradients(self) -> Gradients:
        return self._objective.gradients_of(self.rows.targets)

    def run(self) -> Asking[ExactModel]:
        """Train, asking for sums over all parties."""
        settings = self.task.settings
        scale, own_seed = yield from self._sizes()
        base_score = yield from self._base_score(scale)
        cuts = self.task.given_cuts
        if cuts is None:
            cuts = yield from find_cuts(self.rows.columns, settings.max_bin, self.task.cuts)
        bins, lower = bounds_of_bins(cuts)
        codes = codes_of(self.rows.columns, bins)
        features = BinnedFeatures(bins, lower, codes, offsets_of(bins))
        columns = SplitColumns(features, np.arange(self.task.n_columns))
        rules = GrowingRules(
            settings.max_depth,
            self.task.min_rows_per_node,
            settings.split_gain,
            scale.gradients,
            scale.gradient_bits,
            most_hessian(settings.objective, scale.exponent),
        )
        agreed = _Agreed(scale, columns, rules, own_seed)
        margin = self._start(base_score, self.rows)
        held_out = [None if rows is None else self._start(base_score, rows) for rows in self.held_out]
        history = History(metrics_of(settings), self.task.n_sets, self.task.early_stopping_rounds)
        trees: list[ScalarTree] = []
        grown = yield from self._round(agreed, 0, margin)
        for n_done in range(1, self.task.n_rounds + 1):
            for group, one in enumerate(grown):
                margin[:, group] += one.values
            trees += [one.tree for one in grown]
            for rows, own in zip(self.held_out, held_out, strict=True):
                if rows is not None and own is not None:
                    add_round(own, _row_major(rows.columns), [one.tree for one in grown])
            evaluated = self._evaluated(scale, n_done, history, held_out)
            if n_done < self.task.n_rounds and not history.may_end_next:
                # The next round follows whatever the losses are: they travel with its first sums.
                _, grown = yield from together(evaluated, self._round(agreed, n_done, margin))
                continue
            yield from evaluated
            if n_done == self.task.n_rounds or history.is_over:
                break
            grown = yield from self._round(agreed, n_done, margin)
        return self._model(trees, base_score, cuts, history)

    # Steps before the first round.

    @property
    def _is_sampled(self) -> bool:
        return self.task.settings.subsample < 1

    def _sizes(self) -> Asking[tuple[Sizes, bytes]]:
        """Numbers of rows, a bound of gradients, and the seed of samples, which are counted first."""
        mark = self.draws.mark() if self._is_sampled else np.empty(0, dtype=np.int64)
        sizes = yield from ask_sizes(self.task, self.rows, self.held_out, mark, self.max_rows)
        if not self._is_sampled:
            return sizes, b""
        subsample, n_classes = self.task.settings.subsample, self._objective.n_classes
        return sizes, self.draws.seed(sizes.marks, subsample, self.task.n_rounds, n_classes)

    def _base_score(self, sizes: Sizes) -> Asking[list[float]]:
        """XGBoost's estimate: the mean label, or what it makes of the classes' weights."""
        settings, rows, scale = self.task.settings, self.rows, sizes.losses
        if settings.base_score is not None:
            return [float(settings.base_score)]
        if self._objective.name == "survival:aft":
            return self._estimate([1.0], [1.0])  # a constant
        is_step = self._objective.name in ("reg:gamma", "reg:tweedie") and not _begins_with_mean()
        if is_step or self._objective.name in _FIRST_STEPS:
            return (yield from self._first_step(sizes))
        weight, y = rows.weight.astype(np.float64), rows.y.astype(np.float64)
        has_classes = self._objective.name in CLASS_OBJECTIVES
        if not has_classes:
            parts = [weight, weight * y]
        else:
            parts = [weight[y == k] for k in range(max(2, settings.n_classes))]
        own = np.stack([_exact_sum(part, scale) for part in parts])
        sums = as_floats((yield from ask_words("weights and labels", own, MAX_BITS)), scale)
        if not has_classes:
            mean = np.float32(_mean(sizes, sums[1], sums[0]))
            if self._objective.name == "reg:squarederror":
                return [float(np.float32(sums[1] / max(sums[0], least_hessian_of_base_scores())))]
            if mean <= 0 and self._objective.name != "reg:logistic":
                raise InvalidDataError("all labels are 0 at all parties")
            # XGBoost's estimate depends on the labels through their mean alone.
            return self._estimate([mean], [1.0])
        if not (sums > 0).all():
            raise InvalidDataError("a class has no rows of weights above 0 at any party")
        is_logistic = settings.objective == "binary:logistic"
        if is_logistic and settings.scale_pos_weight == 1 and _begins_with_mean():
            return [float(np.float32(sums[1] / sums.sum()))]
        return self._estimate(range(len(sums)), sums)

    def _estimate(self, labels: Any, weights: Any) -> list[float]:
        """The base score that XGBoost estimates from a few rows that stand for all."""
        estimate = intercept(self._objective.of_xgboost, _targets(labels, weights))
        return [float(value) for value in estimate]

    def _first_step(self, sizes: Sizes) -> Asking[list[float]]:
        """XGBoost's estimate from one Newton step, by all rows' gradients at margin 0."""
        g, h = self._gradients(np.zeros((len(self.rows.y), 1), dtype=np.float32), 0)
        own = wide_sum(fixed_points([g[:, 0], h[:, 0]], sizes.gradients)).reshape(2, 2)
        words = yield from ask_words("first gradients", own, sizes.gradient_bits)
        total_g, total_h = as_floats(words, sizes.gradients)
        step = np.full((1, 1), -total_g / max(total_h, 1e-6), dtype=np.float32)
        return [float(self._objective.to_prediction(step)[0])]

    def _start(self, base_score: list[float], rows: LabelledRows) -> NDArray[np.float32]:
        """Margins before the first tree, shape (n_rows, n_classes)."""
        margin = self._objective.to_margin(np.array(base_score, dtype=np.float32))
        wide = np.broadcast_to(margin, (self._objective.n_classes,))
        return np.tile(wide, (len(rows.y), 1)).astype(np.float32)

    # Rounds.

    def _words(self, scale: Sizes, number: int, margin: NDArray[np.float32]) -> list[Words]:
        """Gradients and hessians of this party's rows, of each class in shape (n_rows, 4)."""
        g, h = self._gradients(margin, number)
        limit = math.ldexp(1.0, scale.exponent)
        if not (np.abs(g).max() <= limit and h.max() <= limit):
            raise InvalidDataError(
                "gradients have grown beyond the bound that was agreed on; lower learning_rate, or give "
                "max_delta_step"
            )
        return [fixed_points([g[:, k], h[:, k]], scale.gradients) for k in range(self._objective.n_classes)]

    def _round(self, agreed: _Agreed, number: int, margin: NDArray[np.float32]) -> Asking[list[GrownTree]]:
        settings, rows = self.task.settings, self.rows
        words, sampled = self._words(agreed.scale, number, margin), []
        for group in range(self._objective.n_classes):
            # Rows of weight 0 add nothing to sums: counted, they would make small nodes seem larger.
            sampled.append(self.drawn(agreed.own_seed, number, group) & (rows.weight > 0))
            if self._is_sampled:
                check_own_sample(int(sampled[-1].sum()), rows.n_counted, self.task.min_rows_per_node)
        columns = agreed.columns
        if settings.colsample_bytree < 1:
            random = _stream(self.public_seed, number, 0)
            drawn = settings.sampling.draw_columns(np.arange(self.task.n_columns), random)
            columns = SplitColumns(columns.features, drawn.of_tree)
        name, n_rows = f"round {number}", agreed.scale.n_rows
        grown = yield from grow_trees(columns, words, sampled, agreed.rules, name, n_rows, self._is_sampled)
        return grown

    def drawn(self, seed: bytes, number: int, group: int) -> NDArray[np.bool_]:
        """The rows of this party that a tree is grown on."""
        n_rows = len(self.rows.y)
        if not self._is_sampled:
            return np.ones(n_rows, dtype=np.bool_)
        return self.task.settings.sampling.uniform_rows(n_rows, _stream(seed, number, group))

    def _predicted(self, margin: NDArray[np.float32]) -> NDArray[np.float32]:
        """Predictions that metrics are computed from: means, or probabilities."""
        objective = self._objective
        if objective.name == "multi:softmax":
            objective = replace(objective, name="multi:softprob")
        return objective.to_prediction(margin)

    def _evaluated(
        self, sizes: Sizes, n_done: int, history: History, margins: list[NDArray[np.float32] | None]
    ) -> Asking[None]:
        """Evaluate the last of some rounds, and note that they are done."""
        if history.n_sets:
            losses = yield from self._losses(sizes, n_done - 1, history.names, margins)
            history.add(losses)
        self.done = RoundsDone(n_done, history.results)

    def _losses(
        self, sizes: Sizes, number: int, names: list[str], margins: list[NDArray[np.float32] | None]
    ) -> Asking[NDArray[np.float64]]:
        """Means over all parties' held-out rows, shape (n_sets, n_metrics)."""
        own = []
        for rows, margin in zip(self.held_out, margins, strict=True):
            losses = np.zeros(1 + len(names))
            if rows is not None and margin is not None:
                prediction = self._predicted(margin)
                losses = sums_of_losses(names, self._objective, rows.targets, margin, prediction)
            own.append(losses)
        scale, values = sizes.losses, np.concatenate(own)
        # So the sum over all parties is below 2^MAX_BITS in fixed point.
        most = math.ldexp(1.0, MAX_BITS - scale) / max(1, len(self.draws.members))
        if not (np.abs(values) < most).all():
            raise InvalidDataError(
                "losses of this party's rows are larger than exact sums hold; bring labels, and predictions "
                "of held-out rows, closer to 0"
            )
        total = yield from ask_numbers(f"round {number}: losses", values, scale, MAX_BITS)
        weight, sums = np.split(total.reshape(len(own), -1), [1], axis=1)
        return _mean(sizes, sums, weight)

    def _model(
        self,
        trees: list[ScalarTree],
        base_score: list[float],
        cuts: list[NDArray[np.float32]],
        history: History,
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
            is_estimated=self.task.settings.base_score is None,
        )
        best = history.best if self.task.early_stopping_rounds is not None else (None, None)
        if best[0] is not None:
            booster.set_attr(best_iteration=str(best[0]), best_score=str(best[1]))
        return ExactModel(booster, cuts, history.results, *best)


def _mean(sizes: Sizes, sums: Any, weight: Any) -> NDArray[np.float64]:
    """Means, by sums over rows and sums of weights, which have lost their last digits if tiny."""
    least = math.ldexp(1.0, _WEIGHT_BITS + sizes.row_bits - sizes.losses)
    if not (weight >= min(1.0, least)).all():
        raise InvalidDataError(
            "weights are so small beside labels that exact sums of both have too few digits; multiply "
            "all weights, and divide all labels, by a number"
        )
    return np.asarray(sums / weight)


def most_hessian(objective: str, exponent: int) -> float:
    """Most that a row's hessian can be, where gradients are at most 2 to the power of an exponent.

    That is p(1 - p) for binary:logistic, at most 1/4, and 2p(1 - p) for several classes, times what bounds
    gradients; XGBoost's own least hessians, up to 1e-16, are below 2^-50.
    """
    share = {**dict.fromkeys(LOGISTIC, 0.25), "multi:softprob": 0.5, "multi:softmax": 0.5}.get(objective, 1.0)
    return max(math.ldexp(share, exponent), math.ldexp(1.0, -50))


def _targets(labels: Any, weights: Any) -> Targets:
    y = np.asarray(labels, dtype=np.float32)
    return Targets(y, np.asarray(weights, dtype=np.float32), y, y)


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
    return wide_sum(fixed_points([values, np.zeros_like(values)], scale))[:2]


def _stream(seed: bytes, number: int, group: int) -> SecretStream:
    """Randomness of one tree's draws, the same whenever the tree is grown again."""
    return SecretStream(hashlib.sha256(seed + f" round {number}, class {group}".encode()).digest())
