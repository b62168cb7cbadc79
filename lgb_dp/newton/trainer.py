"""NewtonBoost, the recommended trainer: many small Newton steps on trees whose splits are public.

It is Friedman's gradient boosting with second-order leaf values, in which nothing but Gaussian releases of
label counts, histograms of features and leaf sums is learned from the data (`lgb_dp.newton.core`).
"""

from __future__ import annotations

from typing import get_args

from lgb_dp.accounting.budget import Budget
from lgb_dp.boosting.params import MAX_DEPTH
from lgb_dp.boosting.trainer import PrivateTrainer
from lgb_dp.boosting.training import TrainerInput, Training
from lgb_dp.checks import (
    AUTO,
    POSITIVE_OR_INFINITE,
    SHARE,
    Auto,
    Interval,
    checked_choice,
    checked_delta,
    checked_integer,
    checked_number,
)
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.losses.loss import STEPS
from lgb_dp.newton.core import NewtonCore
from lgb_dp.newton.run_task import RunTask
from lgb_dp.newton.splits.random import StructureKind


class NewtonBoost(PrivateTrainer):
    """Callback that makes `lightgbm.train` train NewtonBoost, the recommended trainer.

    Parameters
    ----------
    epsilon, delta : float
        Total budget (ε in nats) under adding or removing one row.  δ must be far below one over the number of
        rows.  ε may be infinite: sums then get no noise, and the report says that the model is not private.
    rounds : "auto" or int
        Trees (times classes) that the budget is planned for; at least `num_boost_round`, which "auto" takes.
        After the last, "regression", "poisson", "gamma" and "tweedie" release the level of predictions.
    structure : {"auto", "random", "cyclic"}
        "random" draws a feature and a threshold for every node.  "auto" draws thresholds mostly where
        released histograms show rows (`lgb_dp.newton.splits.feature_histograms`), begins with trees of one
        feature each (`lgb_dp.newton.splits.learned`) and goes on drawing more often where splits explained
        most. "cyclic" has trees of one feature each throughout, every bin a leaf if `depth` has room for it.
    depth : "auto" or int
        Levels of splits at most, unless LightGBM's parameters give `max_depth`.  With "auto", the first trees
        may have more levels than the others.
    hessian_share : "auto" or float
        Share of every tree's budget set aside for hessians, in [0, 1).  "auto" is 0: bounded jointly with the
        gradients, hessians are free (`lgb_dp.losses.loss`).
    gradient_clip : "auto" or float
        Bound of a gradient's size over its largest possible size, in (0, 1].  For regression this makes the
        loss Huber's, with a threshold of `gradient_clip` times the width of `label_bounds`.  With a
        logarithmic link "auto" follows from the released label counts; "huber", "quantile" and
        "regression_l1" accept "auto" alone.
    subsample : float
        Share of the rows that a tree trains on, drawn anew and in secret, in (0, 1].  All rows is the most
        accurate choice: what sampling saves is less than the noise it makes room for.  It saves time.
    validation_fraction : float
        Share of the rows to hold out, in [0, 1): each row by its own secret coin, or each person.  After the
        last tree one table of them is released, which costs nothing beside what training costs, since a row
        is in one of the two: `DPBooster.evaluation`.  Needs ``subsample=1``.
    by : str or int, optional
        Name or position of a column of declared categories: the evaluation then has each one's figures, too.
        Values that were not declared count as missing, which is a group of its own.
    random_state : int, optional
        For tests: fixes the noise, which voids the guarantee.
    public_init_model : bool
        Whether a model to continue from that carries no guarantee was trained on public data.
    budget : Budget, optional
        Pays for every training run when it starts; refused where it does not suffice.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        Naming the argument that is not accepted.

    Notes
    -----
    Objectives are "binary", "multiclass" and LightGBM's for regression: "regression", "regression_l1",
    "huber", "quantile", "poisson", "gamma" and "tweedie" (`lgb_dp.losses.regression`).
    `learning_rate` and `max_depth` among LightGBM's parameters are honoured if given and chosen otherwise
    (`lgb_dp.newton.settings`).  So is `monotone_constraints`, at no cost of privacy
    (`lgb_dp.newton.monotone`).

    Examples
    --------
    >>> train = lgb_dp.Dataset(X, y, bounds=(low, high), max_bin=255, spacing="mixed")  # doctest: +SKIP
    >>> booster = lightgbm.train({"objective": "binary"}, train, 500,
    ...                          callbacks=[lgb_dp.NewtonBoost(1.0, 1e-5)])             # doctest: +SKIP
    """

    accepted_epsilon = POSITIVE_OR_INFINITE

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        rounds: int | Auto = "auto",
        structure: StructureKind = "auto",
        depth: int | Auto = "auto",
        hessian_share: float | Auto = "auto",
        gradient_clip: float | Auto = "auto",
        subsample: float = 1.0,
        validation_fraction: float = 0.0,
        by: str | int | None = None,
        random_state: int | None = None,
        public_init_model: bool = False,
        budget: Budget | None = None,
    ) -> None:
        self.delta = delta
        self.rounds = rounds
        self.structure = structure
        self.depth = depth
        self.hessian_share = hessian_share
        self.gradient_clip = gradient_clip
        self.subsample = subsample
        self.validation_fraction = validation_fraction
        self.by = by
        super().__init__(
            epsilon, random_state=random_state, public_init_model=public_init_model, budget=budget
        )

    def _check_settings(self) -> None:
        super()._check_settings()
        self.delta = checked_delta(self.delta)
        self.rounds = checked_integer("rounds", self.rounds, 1, None, AUTO)
        self.structure = checked_choice("structure", self.structure, get_args(StructureKind))
        self.depth = checked_integer("depth", self.depth, 1, MAX_DEPTH, AUTO)
        self.hessian_share = checked_number("hessian_share", self.hessian_share, Interval(0, 1, "[)"), AUTO)
        self.gradient_clip = checked_number("gradient_clip", self.gradient_clip, Interval(1 / STEPS, 1), AUTO)
        self.subsample = checked_number("subsample", self.subsample, SHARE)
        accepted = Interval(0, 1, "[)")
        self.validation_fraction = checked_number("validation_fraction", self.validation_fraction, accepted)
        if self.by is not None and self.validation_fraction == 0:
            raise InvalidArgumentError(f"by={self.by!r} needs rows that are held out by validation_fraction")

    def planned_rounds(self, n_rounds: int) -> int:
        """`rounds`, where it was given; raises a ValueError if more would be trained."""
        if self.rounds == "auto":
            return n_rounds
        if self.rounds < n_rounds:
            raise InvalidArgumentError(
                f"rounds={self.rounds} is less than num_boost_round={n_rounds}; "
                "the budget must be planned for at least as many"
            )
        return self.rounds

    def begin(self, task: TrainerInput) -> Training:
        """Start a training run; called once per booster."""
        return NewtonCore(task, self, RunTask(validation_fraction=self.validation_fraction, by=self.by))
