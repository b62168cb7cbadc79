"""NewtonBoost on columns of two parties: rounds of several trees, whose sums both parties noise and open.

Everything that the trainer learns and decides is `lgb_dp.newton`'s; here are the rounds, whose sums come from
`lgb_dp.vertical.sums`, and the releases that each party makes on its own (label counts by the party with the
labels, histograms by the owner of each feature).

*A tree's release is μ-GDP towards all*: `lgb_dp.vertical.noise` has the theorem for the noise of one party
alone, whatever the other party's data, noise and dither are; the second noise is post-processing.
*Trees of one round compose as others do*: each is charged for before the round; all are opened at once.
*Of K classes, each has a run of μ/√K against all others; together they are μ-GDP* for a row that is added
or removed, or whose values are left out: in each run it is one bounded contribution, whatever its label and
the other runs are, and releases that may depend on those before them add up as squares.
*A row that is replaced costs at most 2μ*: in each run it is one that is left out and one that is added.  With
its label unchanged the sign of its gradient is kept in each run, √2·μ.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.curve_group import length_prefixed
from lgb_dp.accounting.gaussian import composed_mu
from lgb_dp.accounting.ledger import Ledger
from lgb_dp.accounting.report import PrivacyReport, report_of
from lgb_dp.accounting.shares import closeness_cost
from lgb_dp.boosting.training import Asking, TrainerInput, Training
from lgb_dp.boosting.tree import PrivateTree
from lgb_dp.data.provenance import Provenance
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.loss import Loss, Start
from lgb_dp.losses.objective import OBJECTIVES, SEVERAL_TARGETS
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.budget_plan import BudgetPlan
from lgb_dp.newton.core import OPENED, Beginning, NewtonCore, NewtonSettings
from lgb_dp.newton.releases.trees import LeafRelease, PublicTree
from lgb_dp.newton.run_task import LONGEST_ROUND, Answer, RunTask, SumsQuestion
from lgb_dp.newton.settings import automatic_depth, nu_of_depth
from lgb_dp.newton.splits.feature_histograms import released_cells
from lgb_dp.newton.splits.learned import OPENING_DEPTH, LearnedSplits
from lgb_dp.newton.splits.random import PublicSplits
from lgb_dp.newton.steps import Steps
from lgb_dp.vertical.columns import bins_of_owner
from lgb_dp.vertical.numbers import PublicNumbers
from lgb_dp.vertical.report import Guarantees
from lgb_dp.vertical.sums import (
    POINTS_PLACE,
    TABLES_PLACE,
    Holder,
    MakeHolder,
    OneAgainstRest,
    OpenedSums,
    Refresh,
    ReleasedCounts,
)
from lgb_dp.vertical.tables import loss_bounds, round_points
from lgb_dp.vertical.task import AUTOMATIC_LEVELS, MAX_LEVELS


def _objectives(_: Training) -> tuple[str, ...]:
    """Of several classes, each has a run against all others: the score of a row is that of one class."""
    return tuple(
        name
        for name, one in OBJECTIVES.items()
        if name not in ("multiclass", SEVERAL_TARGETS) and not one.labels_are_times
    )


_ROWS_OVER_NOISE = 1.5
"""Rows of an average leaf, over the noise in units of the clip, from which trees of the square loss are deep.

The pooled trainer's rule is for a thousand trees.  Fewer of them each have less noise and must say more: on
abalone's folds at ε = 1, where this is 2.1, and 1.6 with 400 trees, depth 4 takes two percent off the RMSE;
at ε = 0.1, where it is 0.2, it adds two (docs/experiments/newton.md).
"""

_OPENING_SHARE = 0.25
"""Share of an owner's trees that may open its part of the model, one tree for each feature."""

_STREAM_OF_CLASS = b"veilboost structures of a class 1"


def automatic_levels(objective: str, n_rows: float, mu: float, tree_mu: float) -> int:
    """Levels of random trees, by the released number of rows, and μ of the run and of the noise in a tree."""
    if OBJECTIVES[objective].is_deep_apart and n_rows * tree_mu >= _ROWS_OVER_NOISE * 2**AUTOMATIC_LEVELS:
        return AUTOMATIC_LEVELS
    return min(automatic_depth(nu_of_depth(n_rows, mu)), AUTOMATIC_LEVELS)


class OwnedSplits:
    """Splits of every owner; each owner's learn from the releases about its own trees."""

    def __init__(self, parts: Sequence[PublicSplits]) -> None:
        self._parts, self._n_drawn = parts, 0
        self.depth = max(part.depth for part in parts)
        self._waiting: list[PublicSplits] = []

    @property
    def rate_factor(self) -> float:
        """By which an automatic learning rate is multiplied for the next tree that is learned from."""
        return self._waiting[0].rate_factor

    @property
    def crowded(self) -> Sequence[int]:
        """As for `PublicSplits`."""
        return tuple(f for part in self._parts for f in part.crowded)

    def draw(self, random: SecureRandom, ahead: int = 0) -> PublicTree:
        """The next tree; owners take turns."""
        part = self._parts[self._n_drawn % len(self._parts)]
        tree = part.draw(random, self._waiting.count(part))
        self._n_drawn += 1
        self._waiting.append(part)
        return tree

    def learn(self, tree: PublicTree, release: LeafRelease, value: NDArray[np.float64]) -> None:
        """Take note of what a tree's leaves released; trees come in the order in which they were drawn."""
        self._waiting.pop(0).learn(tree, release, value)


@dataclass(frozen=True)
class RunOfParties:
    """Settings that a run with columns apart has beside those of `NewtonBoost`.

    Noise in integers takes its share of the ε and δ that are asked for.  `rounds` of the trainer is more than
    `n_trees`: it has the trees of all attempts that noise is planned for.  Structures are drawn from a stream
    with the public key of 32 bytes.  The features of the party with the labels, `n_own`, come first.
    `make_holder` makes this party's rows, once per run; `numbers` are those of the rounds, in the order in
    which they are asked for; and the turn is the class, in a run of several that share the budget.
    """

    asked: tuple[float, float]
    trees_per_round: int
    n_trees: int
    public_seed: bytes
    n_own: int
    make_holder: MakeHolder
    numbers: Iterator[int]
    turn: OneAgainstRest | None = None

    def of_class(self, turn: OneAgainstRest) -> RunOfParties:
        """The run of one of several classes, with a part of the share and a stream of its own."""
        seed = hashlib.sha256(length_prefixed([_STREAM_OF_CLASS, self.public_seed, b"%d" % turn.number]))
        epsilon, delta = (value / turn.n_classes for value in self.asked)
        return replace(self, asked=(epsilon, delta), public_seed=seed.digest(), turn=turn)

    def task(self) -> RunTask:
        """The task of the trainer; noise and rounds of each party are the exchange's."""
        return RunTask(
            n_trees=self.n_trees,
            trees_per_round=self.trees_per_round,
            largest_rate=LONGEST_ROUND / self.trees_per_round,
            n_runs=1 if self.turn is None else self.turn.n_classes,
            noise_factor=math.sqrt(2.0),
            set_aside={"noise in integers": closeness_cost(*self.asked)},
            may_distil=False,
            # Sums of a wider clip would need other steps and another ring (`PublicNumbers`).
            may_set_level=False,
            public_seed=self.public_seed,
        )


def begun(task: TrainerInput, settings: NewtonSettings, run: RunOfParties) -> VerticalCore | SeveralClasses:
    """Begin a run: of one score for each row, or of several classes in turns."""
    kind = SeveralClasses if task.params.n_outputs > 1 else VerticalCore
    return kind(task, settings, run)


class VerticalCore(NewtonCore):
    """A run whose leaf sums two parties noise and open, several trees at a time.

    The rows of its task have the bins of both parties, and no codes.  It asks `ReleasedCounts` and
    `OpenedSums`.
    """

    objectives = property(_objectives)

    def __init__(self, task: TrainerInput, settings: NewtonSettings, run: RunOfParties) -> None:
        def make_sums(loss: Loss, scale: LabelScale, subsample: float, hold_out: None) -> Holder:
            return run.make_holder(loss, scale, run.turn)

        rows = replace(task.data, make_sums=make_sums)
        super().__init__(replace(task, data=rows), settings, run.task())
        n_features = len(self.data.bins.names)
        self._parties, self._owned = run, (range(run.n_own), range(run.n_own, n_features))
        self._n_reached, self._reach = 0, [0.0, 0.0]
        self._numbers: PublicNumbers | None = None
        if self.reasons:
            raise InvalidArgumentError(f"training with columns apart must be private: {self.reasons[0]}")
        if self._depth is not None and self._depth > MAX_LEVELS:
            raise InvalidArgumentError(
                f"max_depth={self._depth} must be at most {MAX_LEVELS} with columns apart"
            )
        self._check_numbers()

    @property
    def _plan(self) -> BudgetPlan:
        assert self.releases.plan is not None
        return self.releases.plan

    def _asked(self, question: SumsQuestion) -> Asking[Answer]:
        """Counts with noise of the party that has the rows' values, which no other party knows."""
        release, answers = question.release, []
        for sums, scale, _ in question.parts:
            sizes = sums.size, 0
            if release == self._plan.histograms:
                n_own = int(released_cells(self._counted, self.data.bins)[: self._first_cell].sum())
                sizes = n_own, sums.size - n_own
            answers.append((yield ReleasedCounts(release, sums, scale, sizes)))
        return Answer(answers)

    @property
    def _first_cell(self) -> int:
        """Bins of the features before those of the party with columns alone."""
        return int(self.data.bins.layout().bin_offsets[self._owned[POINTS_PLACE].start])

    def _first_splits(
        self,
        start: Start,
        prior: NDArray[np.float64],
        rows: float,
        distilled: tuple[int, bool] | None,
        steps: Steps,
    ) -> Asking[PublicSplits]:
        """Learned splits of either owner, on its own columns."""
        bins, depth, opening = self.data.bins, self._depth, OPENING_DEPTH
        if depth is None:
            mu, tree_mu = (one / self.run.noise_factor for one in (self.mu, self._plan.tree.mu))
            depth = automatic_levels(self.params.objective, start.n_rows, mu, tree_mu)
        else:
            opening = min(opening, depth)
        histograms = yield from self._feature_histograms(is_for_all=False)
        weights = None if histograms is None else histograms.threshold_weights()
        self._numbers = self._public_numbers(start)
        n_trees = -(-self._n_trees // 2)
        return OwnedSplits(
            [
                LearnedSplits(bins_of_owner(bins, owned), depth, n_trees, opening, weights, _OPENING_SHARE)
                for owned in self._owned
            ]
        )

    def _public_numbers(self, start: Start) -> PublicNumbers:
        """Steps and ring, from the released number of rows and its noise."""
        return PublicNumbers.of(start.n_rows, self._rows_std, loss_bounds(self.loss), self._plan.tree.mu)

    @property
    def _rows_std(self) -> float:
        """Standard deviation of the noise in the released number of rows."""
        return math.sqrt(self.loss.n_counts(1)) / self._plan.counts.mu

    def _check_numbers(self) -> None:
        """Refuse, before releases, a clip or budget that no ring has room for: trees have most noise."""
        mu = math.sqrt(self._plan.tree.mu**2 - self._plan.histograms.mu**2 / self.n_rounds)
        PublicNumbers.of(1.0, self._rows_std, loss_bounds(self.loss), mu)

    def _round(self, begun: Beginning, n_trees: int) -> Asking[list[OPENED]]:
        """Trees of a new round, charged for and opened together."""
        assert self._numbers is not None
        numbers = self._numbers
        trees = tuple(begun.splits.draw(self.random) for _ in range(n_trees))
        first = self._owned[POINTS_PLACE].start
        owners = tuple(POINTS_PLACE if tree.feature[0] >= first else TABLES_PLACE for tree in trees)
        refresh = Refresh(
            next(self._parties.numbers),
            trees,
            owners,
            float(begun.prior[0]),
            tuple(self.released),
            begun.start.clip,
            round_points(self.label_scale.entry.reach, *self._other_score_range(first)),
            numbers,
        )
        self.releases.charge_trees(n_trees)
        # Of the rows, `Releases` has the counts; leaf sums are those of whole rounds.
        opened = yield OpenedSums(refresh, cast(Holder, self.releases.rows))
        releases: list[OPENED] = []
        for tree, words in zip(trees, opened, strict=True):
            gradient, hessian = (sums[:, None] / numbers.steps for sums in numbers.decoded(words))
            releases.append((tree, LeafRelease(gradient, hessian, numbers.stds[0]), None))
        return releases

    def _other_score_range(self, first: int) -> tuple[float, float]:
        """Bounds of F_B, which follow from the released values of B's trees."""
        for one in self.released[self._n_reached :]:
            if one.tree.feature[0] >= first:
                self._reach = [self._reach[0] + one.value.min(), self._reach[1] + one.value.max()]
        self._n_reached = len(self.released)
        return self._reach[0], self._reach[1]

    def report(self) -> PrivacyReport:
        """The guarantee towards the world, with those towards the other party beside it."""
        is_binary = self.label_scale.is_binary
        guarantees = Guarantees.of(*self.released_mu(), self.ledger.granted_delta, is_binary=is_binary)
        whole = super().report()
        return replace(whole, notes=(*guarantees.notes(), *whole.notes))

    def released_mu(self) -> tuple[float, float, float]:
        """μ of all trees together, of the label counts, and of the histograms; 0 of those not released."""
        histograms = self._plan.histograms
        is_released = histograms.what in {release.what for release in self.ledger.releases}
        trees = self._plan.tree.mu * math.sqrt(self.n_rounds)
        return trees, self._plan.counts.mu, histograms.mu if is_released else 0.0


class SeveralClasses(Training):
    """A run for each of several classes, whose trees are one model; ε and δ are those of all together."""

    sigmoid = VerticalCore.sigmoid
    can_be_monotone = True
    objectives = property(_objectives)

    def __init__(self, task: TrainerInput, settings: NewtonSettings, run: RunOfParties) -> None:
        super().__init__(task)
        n_classes = task.params.n_outputs
        params = replace(task.params, objective="binary", n_outputs=1, verbosity=-1, metric={})
        # This run has paid for the declarations, and notes what is to be said of them.
        data = replace(task.data, label_bounds=None, provenance=Provenance())
        of_class = replace(task, data=data, params=params)
        self._runs = [
            VerticalCore(of_class, settings, run.of_class(OneAgainstRest(number, n_classes)))
            for number in range(n_classes)
        ]

    def grow_iteration(self) -> Asking[list[PrivateTree]]:
        """A tree of each class; each run charges for its own."""
        for one in self._runs:
            yield from one.growing()
        return [one.trees[-1][0] for one in self._runs]

    def report(self) -> PrivacyReport:
        """The guarantee of all runs together, towards the world; beside it those towards the other party."""
        ledger = Ledger.joined([self.ledger, *(one.ledger for one in self._runs)])
        kinds = zip(*(one.released_mu() for one in self._runs), strict=True)
        trees, counts, histograms = map(composed_mu, kinds)
        guarantees = Guarantees.of(trees, counts, histograms, ledger.granted_delta, is_binary=True)
        of_classes = [
            f"class {number} against the others: {note}"
            for number, one in enumerate(self._runs)
            for note in one.notes
            if note not in self.notes
        ]
        return report_of(ledger, self.reasons, [*guarantees.notes(), *self.notes, *of_classes])

    def parameters(self) -> Mapping[str, str]:
        """Public settings, for the model file: those that all runs have alike."""
        first, *others = (one.parameters() for one in self._runs)
        common = {key: value for key, value in first.items() if all(one.get(key) == value for one in others)}
        return {**common, "objective": self.params.objective, "num_class": str(self.params.n_outputs)}
