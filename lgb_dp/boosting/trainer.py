"""The base class of every private trainer: a LightGBM callback that takes over the live booster."""

from __future__ import annotations

import inspect
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import lightgbm
from lightgbm.callback import CallbackEnv

from gbdt_commons.arithmetic import silent_arithmetic
from gbdt_hosts import lightgbm as host
from lgb_dp.accounting.budget import Budget, checked_budget
from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.boosting.booster import DPBooster, report_in
from lgb_dp.boosting.evaluated_sets import EvaluatedSets
from lgb_dp.boosting.params import ignored_defaults, training_parameters
from lgb_dp.boosting.run_rows import RunRows, rows_of_run
from lgb_dp.boosting.training import TrainerInput, Training
from lgb_dp.checks import POSITIVE, checked_epsilon, checked_flag
from lgb_dp.data.dataset import Dataset
from lgb_dp.errors import (
    AlteredModelError,
    ArgumentTypeError,
    IgnoredParameterWarning,
    InvalidArgumentError,
    NoGuaranteeError,
)

T = TypeVar("T", bound="PrivateTrainer")
RowsOf = Callable[[Dataset, "host.InitialModel | None"], RunRows]


class PrivateTrainer(ABC):
    """A LightGBM callback that turns the live booster into a private one.

    A trainer can be reused: the state of a training run lives with its booster.  A run keeps the settings
    that the trainer had when it started, which are checked then.

    Parameters
    ----------
    epsilon : float
        Total budget in nats under adding or removing one row, positive and finite.
    random_state : int, optional
        For tests: fixes the noise, which voids the guarantee.
    public_init_model : bool
        Whether a model to continue from that carries no guarantee was trained on public data.
    budget : Budget, optional
        Pays for every training run when it starts; refused where it does not suffice.

    Attributes
    ----------
    booster_ : lightgbm.Booster
        The booster that was taken over last, from which an interrupted training run can be recovered.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        Naming the argument that is not accepted.
    """

    before_iteration = True
    booster_: lightgbm.Booster
    accepted_epsilon = POSITIVE
    """Budgets that the trainer accepts; some train without privacy at epsilon = inf."""

    def __init__(
        self,
        epsilon: float,
        *,
        random_state: int | None = None,
        public_init_model: bool = False,
        budget: Budget | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.random_state = random_state
        self.public_init_model = public_init_model
        self.budget = budget
        self._check_settings()

    def _check_settings(self) -> None:
        """Raise unless every setting is accepted, and bring each to its final type.

        Called by the constructor, also that of every run's own copy: what a guarantee is computed from are
        attributes, which may have been changed since.
        """
        self.epsilon = checked_epsilon(self.epsilon, self.accepted_epsilon)
        self.public_init_model = checked_flag("public_init_model", self.public_init_model)
        self.budget = checked_budget(self.budget)
        if self.budget is not None and math.isinf(self.epsilon):
            raise InvalidArgumentError("epsilon must be finite where a budget pays for it, got inf")

    def with_settings(self: T, **changes: Any) -> T:
        """A trainer of its own class with the settings of this moment, some of them changed.

        Raises ArgumentTypeError or InvalidArgumentError if an attribute has been set to a value that is not
        accepted.
        """
        names = inspect.signature(type(self)).parameters
        return type(self)(**{name: getattr(self, name) for name in names} | changes)

    @abstractmethod
    def begin(self, task: TrainerInput) -> Training:
        """Start a training run; called once per booster."""

    def planned_rounds(self, n_rounds: int) -> int:
        """Iterations to plan the budget for; at most `n_rounds` of them will be trained."""
        return n_rounds

    def __call__(self, env: CallbackEnv, rows_of: RowsOf | None = None) -> None:
        """Take the booster over before its first iteration; called by LightGBM.

        Where rows are elsewhere, `rows_of` gives those of a run from its training set and initial model.
        """
        boosters = env.model.boosters if isinstance(env.model, lightgbm.CVBooster) else [env.model]
        for booster in boosters:
            if not isinstance(booster, DPBooster):
                with host.claimed(booster), silent_arithmetic():
                    self._take_over(booster, env, rows_of or rows_of_run)
            elif getattr(getattr(booster, "_evaluation", None), "trainer", None) is not self:
                raise InvalidArgumentError(
                    "callbacks contain two private trainers; one per booster is accepted"
                )

    def _take_over(self, booster: lightgbm.Booster, env: CallbackEnv, rows_of: RowsOf) -> None:
        name = type(self).__name__
        train_set = booster.train_set
        if not isinstance(train_set, Dataset):
            raise ArgumentTypeError(
                f"{name} needs an lgb_dp.Dataset as train_set, got {type(train_set).__module__}."
                f"{type(train_set).__name__}, whose bins come from private data"
            )
        model = host.InitialModel.of(booster)
        rows = rows_of(train_set, model)
        settings = self.with_settings()  # the plan and its accounting hold for these alone
        training = settings.begin(
            settings.task(rows, env.params, env.end_iteration - env.begin_iteration, model)
        )
        evaluation = EvaluatedSets(training, train_set, self)
        for valid in booster.valid_sets:
            evaluation.add_valid(valid)
        training.pay(name)
        host.take_over(booster, training, evaluation, env.params, model, DPBooster)
        self.booster_ = booster

    def task(
        self, rows: RunRows, params: Mapping[str, Any], n_rounds: int, model: host.InitialModel | None = None
    ) -> TrainerInput:
        """The input of a run of `n_rounds` iterations, with LightGBM's `params` and the present settings."""
        for text in ignored_defaults(params):
            warnings.warn(text, IgnoredParameterWarning, stacklevel=3)
        initial, reasons = self._initial_guarantee(model)
        return TrainerInput(
            data=rows,
            params=training_parameters({**(rows.params or {}), **params}, rows.max_bin),
            n_rounds=self.planned_rounds(n_rounds),
            random_state=self.random_state,
            initial_model=model,
            initial=initial,
            reasons=reasons,
            budget=self.budget,
        )

    def _initial_guarantee(
        self, model: host.InitialModel | None
    ) -> tuple[PrivacyReport | None, tuple[str, ...]]:
        """Guarantee of the model that training continues from, and what its lack voids."""
        if model is None:
            return None, ()
        try:
            return report_in(model.text), ()
        except AlteredModelError:
            return None, ("the header or the trees of init_model are not those that its guarantee describes",)
        except NoGuaranteeError:
            if self.public_init_model:
                return None, ()
            reason = (
                "init_model carries no guarantee; "
                "if it was trained on public data, pass public_init_model=True"
            )
            return None, (reason,)
