"""The state of one private training run, which the runs of all trainers share."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import tqdm

from gbdt_hosts import lightgbm as host
from gbdt_kernels.compilation import announcing_compilation
from gbdt_kernels.trees import BinLayout, Codes
from lgb_dp.accounting.budget import Budget, chargeable
from lgb_dp.accounting.cost import granted, share
from lgb_dp.accounting.ledger import Ledger, Release
from lgb_dp.accounting.report import PrivacyReport, report_of
from lgb_dp.boosting.params import OF_ALL_TRAINERS, TrainingParameters
from lgb_dp.boosting.run_rows import RunRows
from lgb_dp.boosting.scores import Scores
from lgb_dp.boosting.tree import PrivateTree, to_lightgbm
from lgb_dp.checks import checked_learning_rate
from lgb_dp.data.arguments import MAX_LABEL, checked_label_bounds
from lgb_dp.data.weights import check_weight_bound, quantise_group_means, quantise_weights
from lgb_dp.errors import (
    InvalidArgumentError,
    NotPrivateWarning,
    PrivacyLeakWarning,
    UnsupportedParameterError,
)
from lgb_dp.host_errors import BudgetSpentError
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.objective import OBJECTIVES, Objective
from lgb_dp.losses.times import as_columns
from lgb_dp.mechanisms.rng import SecureRandom

T = TypeVar("T")
Asking = Generator[Any, Any, T]
"""A computation that yields questions, is sent their answers, and returns a result."""


def answered(steps: Asking[T]) -> T:
    """The result of a computation that asks no others."""
    try:
        question = next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError(f"{question!r} is asked of others, and nobody answers it")


N_SUBSETS = 16
"""Public random subsets of each categorical feature's values, drawn anew for every tree."""

RELEASED_METADATA = "released bounds"
"""Name of the cost of bounds and bins that were paid for, in a ledger."""

CLASSES_OVERFLOW_NOTE = "rows whose label is missing or none of the classes have no weight"
LABEL_OVERFLOW_NOTE = (
    f"regression labels outside label_bounds are clipped to them, and {CLASSES_OVERFLOW_NOTE}"
)
TIMES_OVERFLOW_NOTE = (
    "times outside label_bounds are known only to be outside, and rows whose times are missing, negative or "
    "in the wrong order have no weight"
)
_BAR_DELAY = 2.0
"""Seconds of training after which a progress bar appears on a terminal."""


def _bounds_of(label: NDArray[np.float64]) -> tuple[float, float]:
    """Smallest and largest number of private labels, which leak."""
    label = label[np.isfinite(label)]
    if not len(label):
        raise InvalidArgumentError("label must hold finite numbers, or label_bounds must be given")
    low, high = float(label.min()), float(label.max())
    if max(-low, high) > MAX_LABEL:
        raise InvalidArgumentError(f"label must be within ±{MAX_LABEL:g}: give it in another unit")
    return low, high if high > low else low + max(1.0, abs(low))


def _overflow_note(objective: Objective) -> str:
    """Effect of label_overflow="clip" on labels that do not fit."""
    if objective.labels_are_times:
        return TIMES_OVERFLOW_NOTE
    return LABEL_OVERFLOW_NOTE if objective.is_regression else CLASSES_OVERFLOW_NOTE


@dataclass(frozen=True)
class TrainerInput:
    """Order for a trainer: rows, parameters and budget."""

    data: RunRows  # rows and declarations: all that is read
    params: TrainingParameters
    n_rounds: int  # iterations the budget is planned for
    random_state: int | None  # fixes the noise, for tests
    initial_model: host.InitialModel | None  # the model that training continues from
    initial: PrivacyReport | None  # its guarantee
    reasons: tuple[str, ...]  # that void the guarantee from the start
    budget: Budget | None  # that pays for the run


class Training(ABC):
    """The state of one training run: scores, ledger and random stream.

    It needs no booster; to grow the trees of a live one it is a `host.TreeGrower`. With `takes_group_means`,
    a person's k rows of weight 1/k cost no more than one row.
    """

    sigmoid = 2.0
    """Slope by which the model turns raw scores of a class into probabilities."""
    can_be_monotone = False
    """Whether trees can keep to `monotone_constraints`."""

    def __init__(self, task: TrainerInput, *, takes_group_means: bool = False) -> None:
        data, params, initial = task.data, task.params, task.initial
        if params.objective not in self.objectives:
            raise UnsupportedParameterError(
                f"objective={params.objective!r} is not supported by this trainer; accepted are "
                f"{', '.join(map(repr, self.objectives))}"
            )
        if params.monotone and not self.can_be_monotone:
            raise UnsupportedParameterError(
                f"monotone_constraints={params.monotone} is not supported by this trainer; use NewtonBoost"
            )
        if OBJECTIVES[params.objective].has_targets:
            data = replace(data, label=as_columns(data.label))
        self.data = data
        self.codes = data.codes
        self.params = params
        self.n_rounds = task.n_rounds
        self.budget = task.budget
        self._is_paid = False
        self.random = SecureRandom(task.random_state) if data.key is None else SecureRandom.public(data.key)
        provenance, part = data.start_training(), data.fold_part
        self.reasons = [*provenance.leaks, *task.reasons]
        self.notes = list(provenance.notes)
        if task.random_state is not None:
            self.void("random_state was fixed, and its value suffices to subtract the noise")
            warnings.warn(
                "random_state is for tests only; the model is not private", PrivacyLeakWarning, stacklevel=6
            )
        self.label_scale = self._label_scale()
        self.label, counts = data.label, None
        if data.label_overflow == "clip":
            self.label, counts = self.label_scale.clipped(data.label)
            self.notes.append(_overflow_note(OBJECTIVES[params.objective]))
        else:
            self.label_scale.check(data.label)
        if data.weight is not None:
            check_weight_bound(data.weight, data.weight_bound)
        n_rows = data.num_data()
        weighting = (data.weight, data.weight_bound)
        if data.group_of_row is not None and data.group_weight == "mean":
            if not takes_group_means:
                raise UnsupportedParameterError(
                    "group_weight='mean' is not supported by this trainer: its sensitivity is not "
                    "proportional to a row's weight, so that k rows of weight 1/k can cost more than one; "
                    "leave it out, or use NewtonBoost or DPBoost with variant='tight'"
                )
            self.weight, self.weight_steps = quantise_group_means(*weighting, data.group_of_row)
        else:
            self.weight, self.weight_steps = quantise_weights(*weighting, n_rows)
        if counts is not None:
            self.weight = np.where(counts, self.weight, 0).astype(np.int32)
        self.weight_bound = 1.0 if data.weight is None else float(data.weight_bound or 1.0)
        if not (data.bins.n_bins > 1).any():
            raise InvalidArgumentError(
                "no feature has two bins, so that there is nothing to split; "
                "check bounds, max_bin and categories"
            )
        self.unit = data.unit
        copies = 1 if part is None else part.models_per_row
        self.ledger = Ledger(copies, unit=self.unit, covers_others=part is not None)
        if initial is not None:
            self._charge_report(initial, "initial model")
        for report in provenance.paid_for:
            self._charge_report(report, RELEASED_METADATA)
        self.learning_rate = params.learning_rate
        self.iteration = 0
        self.trees: list[list[PrivateTree]] = []
        self.initial_model = task.initial_model
        self.continues = task.initial_model is not None or data.start_scores is not None
        self._all_scores: list[Scores] = []
        self.scores = self.followed(self.codes, data.start_scores)
        self.header = host.Header(
            objective=self.label_scale.model_objective,
            n_trees_per_iteration=params.n_outputs,
            feature_names=list(data.feature_name),
            feature_infos=data.bins.feature_infos,
            pandas_categorical=data.pandas_categorical or None,
            columns=data.bins.columns.to_dict(),
        )
        self._bar: Any = None

    def _label_scale(self) -> LabelScale:
        """The public scale of the label; where regression was given none, it is read, with a warning."""
        objective, label = self.params.objective, self.data.label
        bounds = checked_label_bounds(self.data.label_bounds)  # an attribute that a user can set
        if bounds is None and OBJECTIVES[objective].has_log_link:
            raise InvalidArgumentError(
                f"label_bounds must be given for objective={objective!r}: bounds that were read from private "
                "labels could be outside of its range, and an error would tell"
            )
        if bounds is None and OBJECTIVES[objective].is_regression:
            bounds = [_bounds_of(column) for column in label.T] if label.ndim == 2 else _bounds_of(label)
            self.void("label_bounds were read from the data, which leaks them; pass public `label_bounds`")
            warnings.warn(self.reasons[-1], PrivacyLeakWarning, stacklevel=7)
        bounds = bounds or (0.0, 1.0)
        n_outputs, has_targets = self.params.n_outputs, OBJECTIVES[objective].has_targets
        n_pairs = np.shape(bounds)[:-1]
        if n_pairs not in ((), (n_outputs,) if has_targets else ()):
            more = f", or of num_class={n_outputs}" if has_targets else ""
            raise InvalidArgumentError(
                f"label_bounds has {n_pairs[0]} pairs; objective={objective!r} needs one{more}"
            )
        low, high = np.broadcast_to(bounds, (n_outputs, 2)).T if has_targets else bounds
        return LabelScale(objective, n_outputs, low, high, self.sigmoid, self.params.of_objective)

    @property
    def objectives(self) -> tuple[str, ...]:
        """Names of the objectives that the trainer has."""
        return OF_ALL_TRAINERS

    @property
    def lambda_steps(self) -> float:
        """λ in integer weight steps."""
        return self.params.lambda_l2 * self.weight_steps / self.weight_bound

    @cached_property
    def _numeric_layout(self) -> BinLayout:
        return self.data.bins.layout(present=self.codes.present)

    def tree_layout(self) -> BinLayout:
        """All public candidate splits, with fresh random subsets of categories."""
        if not self.data.bins.is_categorical.any():
            return self._numeric_layout
        subsets = self.random.coins(N_SUBSETS, self._numeric_layout.n_total_bins)
        return self.data.bins.layout(subsets, self.codes.present)

    def _charge_report(self, report: PrivacyReport, what: str) -> None:
        """Charge what an earlier result that this training run builds on has cost."""
        if report.unit != self.ledger.unit:
            raise InvalidArgumentError(
                f"the guarantee of the {what} is under {report.neighbouring!r}, that of this training run "
                f"under {self.ledger.unit.neighbouring!r}; both must be of the same unit"
            )
        is_paid = self.budget is not None and report.budget == self.budget.id
        self.ledger.inherit(report.cost, what, report.delta - report.cost.delta, is_paid=is_paid)
        self.void(*report.reasons)
        self.notes += [f"of the {what}: {note}" for note in report.notes]

    def train_without_privacy(self) -> None:
        """Void the guarantee of a run at infinite ε, whose sums get no noise, before it reads a row."""
        reason = "epsilon is infinite, so that the model was trained without privacy"
        self.void(reason)
        warnings.warn(reason, NotPrivateWarning, stacklevel=7)
        everything = Release("everything", "none", np.inf, 0, 0)
        self.ledger.grant([everything])
        self.ledger.charge(everything)

    def epsilon_per_row(self, epsilon: float) -> float:
        """The pure ε that a row may cost for a person, or whatever the unit is, to cost `epsilon`."""
        if self.budget is not None:
            epsilon = granted(epsilon)
        return share(epsilon, self.unit.row_costs) if np.isfinite(epsilon) else epsilon

    @abstractmethod
    def grow_iteration(self) -> Asking[list[PrivateTree]]:
        """Trees of the next iteration, one per output, charged to the ledger before they are grown.

        It stops at every question whose answer needs others than the rows that are here.
        """

    def parameters(self) -> Mapping[str, str]:
        """Public settings, for the model file."""
        return {
            "boosting": "gbdt",
            "objective": self.params.objective,
            "num_iterations": str(self.n_rounds),
            "learning_rate": repr(self.params.learning_rate),
            "max_depth": str(self.params.depth),
            "lambda_l2": repr(self.params.lambda_l2),
        }

    # Interface that the booster needs (host.TreeGrower).

    def grow(self) -> None:
        """Grow the trees of the next iteration."""
        answered(self.growing())

    def growing(self) -> Asking[None]:
        """Grow the trees of the next iteration, and stop at every question for others."""
        if self.iteration >= self.n_rounds:
            raise BudgetSpentError(
                f"the budget was planned for {self.n_rounds} iterations, and all are spent; "
                "to continue with a new budget, pass the model as init_model"
            )
        self.random.refuse_fork()  # noise may have been drawn ahead
        self._announce()
        self.iteration += 1
        with announcing_compilation(self._say_compiling if self.iteration == 1 else None):
            trees = yield from self.grow_iteration()
        if not self.trees and not self.continues:
            centre = np.broadcast_to(self.label_scale.centre, len(trees))
            trees = [replace(one, leaf_value=one.leaf_value + centre[k]) for k, one in enumerate(trees)]
        self.trees.append(trees)
        self._bar.update()
        if self.iteration == self.n_rounds:
            self._bar.close()

    def trees_from(self, iteration: int) -> list[host.Tree]:
        """Trees of the iterations from the given one on, in LightGBM's terms."""
        return to_lightgbm(chain.from_iterable(self.trees[iteration:]), self.data.bins)

    def undo(self) -> None:
        """Remove the last iteration's trees; their cost stays in the ledger."""
        if not self.trees:
            return
        # The tree goes last: after an interrupt, scores that forgot it add it again.
        for scores in self._all_scores:
            scores.forget(self.trees[:-1], self.trees[-1])
        self.trees.pop()

    def reset_parameter(self, params: Mapping[str, Any]) -> None:
        """Change the learning rate of later ensembles."""
        others = {
            name: value
            for name, value in params.items()
            if name not in ("learning_rate", "shrinkage_rate", "eta")
        }
        if others:
            raise UnsupportedParameterError(
                f"only learning_rate can change during private training, got {others!r}"
            )
        for value in params.values():
            self.learning_rate = checked_learning_rate(value)

    def report(self) -> PrivacyReport:
        """The guarantee of everything granted; what was released so far stands beside it."""
        return report_of(self.ledger, self.reasons, self.notes, self.budget.id if self.budget else None)

    def void(self, *reasons: str) -> None:
        """Note why the guarantee does not hold; a budget that has paid for the run learns of it at once."""
        self.reasons += reasons
        if self._is_paid and self.budget is not None:
            self.budget.void(reasons)

    def pay(self, what: str) -> None:
        """Charge the budget with everything that this run is granted, before anything is released.

        The grant of a run on one fold covers the cross-validation, which therefore is charged once, and
        runs on other folds that are granted something else are refused.
        """
        part, delta = self.data.fold_part, self.ledger.granted_delta
        whole = chargeable(self.ledger.whole, delta)
        if part is not None and part.granted(whole) != whole:
            raise InvalidArgumentError(
                "this model is granted, or builds on, another epsilon or delta than those of the "
                "cross-validation's other folds, whose reports cover all of them; train all alike, or begin "
                "another cross-validation by the splitter's split()"
            )
        if self.budget is None:
            return
        cost = chargeable(self.ledger.granted, delta)
        once = None if part is None else (*part.payment, cost)
        objective, unit = self.params.objective, self.ledger.unit
        self.notes += self.budget.charge(cost, what, unit=unit, once=once, objective=objective)
        self._is_paid = True
        self.budget.void(self.reasons)

    def guarantee(self) -> Mapping[str, Any]:
        """The report, for the model file."""
        return self.report().to_dict()

    def followed(self, codes: Codes, start: NDArray[np.float64] | None) -> Scores:
        """Raw scores of rows, which follow the trees as they are grown and undone."""
        n_outputs = self.params.n_outputs
        if start is not None and start.size != codes.n_rows * n_outputs:
            raise InvalidArgumentError(
                f"the initial model or init_score has {start.size // codes.n_rows} outputs per row; "
                f"training has {n_outputs}"
            )
        scores = Scores(codes, start, n_outputs, self.params.n_threads)
        self._all_scores.append(scores)
        return scores

    def predictions(self, rows: NDArray[np.int32], codes: Codes) -> NDArray[np.float64]:
        """ŷ of the given rows and their codes, on the scale of [-1, 1], shape (len(rows), n_outputs)."""
        if not self.trees and not self.continues:
            return np.zeros((len(rows), self.params.n_outputs))
        scores = self.scores.of(rows, codes, self.trees)
        return (scores - self.label_scale.centre) / self.label_scale.scale

    def _announce(self) -> None:
        """Start the progress bar before the first tree."""
        if self._bar is not None:
            return
        quiet = True if self.params.verbosity < 0 else None
        self._bar = tqdm(
            total=self.n_rounds, desc="private trees", unit="it", delay=_BAR_DELAY, leave=False, disable=quiet
        )

    def _say_compiling(self) -> None:
        if self.params.verbosity > 0:
            host.log_info("Compiling kernels for this machine (once; they are cached)")
