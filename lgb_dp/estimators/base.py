"""The base of the scikit-learn estimators: settings, how a fit becomes a call of `lightgbm.train`."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import lightgbm
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils.validation import check_is_fitted

from gbdt_commons.tables.frames import is_table
from gbdt_hosts.lightgbm import main_names, resolve_aliases
from gbdt_hosts.lightgbm.estimators import FittedAttribute
from gbdt_hosts.lightgbm.text import parameter_lines
from gbdt_hosts.scikit_learn import KeywordParameters
from lgb_dp.accounting.budget import Budget
from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.boosting.params import check_known, checked_objective, training_parameters
from lgb_dp.boosting.trainer import PrivateTrainer
from lgb_dp.checks import AUTO, Auto, checked_choice, checked_integer, checked_max_bin
from lgb_dp.data.automatic_bounds import SharedBudget, automatic_bins
from lgb_dp.data.bins import Spacing
from lgb_dp.data.dataset import Dataset, LabelOverflow
from lgb_dp.data.provenance import Provenance
from lgb_dp.data.tables import as_frame
from lgb_dp.dpboost.trainer import DPBoost
from lgb_dp.errors import InvalidArgumentError, NotPrivateWarning, UnsupportedParameterError
from lgb_dp.estimators.enclosing_fits import surroundings
from lgb_dp.estimators.evaluation import FitEvaluation
from lgb_dp.estimators.habits import WAYS_OUT
from lgb_dp.estimators.rows import as_matrix
from lgb_dp.evaluation.model import ModelEvaluation
from lgb_dp.explaining.bootstrap import spread
from lgb_dp.losses.objective import OBJECTIVES
from lgb_dp.mboost.trainer import MBoost
from lgb_dp.newton.held_out_table import check_held_out
from lgb_dp.newton.settings import AUTOMATIC_ROUNDS
from lgb_dp.newton.trainer import NewtonBoost

_OWN = {
    "num_iterations": "n_estimators",
    "learning_rate": "learning_rate",
    "max_depth": "max_depth",
    "lambda_l2": "reg_lambda",
    "max_bin": "max_bin",
    "num_threads": "n_jobs",
    "seed": "random_state",
    "verbosity": "verbose",
}
"""LightGBM's parameters that the estimators have under scikit-learn's names."""

_WHY = {
    "class_weight": WAYS_OUT["class_weight"],
    "categorical_feature": "pass categories to fit",
    "max_bin_by_feature": "pass a Dataset's max_bin by feature to lightgbm.train",
}


def with_keywords(
    own: Mapping[str, Any], defaults: Mapping[str, Any], keywords: Mapping[str, Any], of_fit: Container[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """An estimator's own settings, whatever their names, and LightGBM's other parameters.

    `own` settings and the constructor's `defaults` are by name; of the other `keywords` None means not given,
    as for LightGBM; `of_fit` are arguments that only `fit` takes. Raises `InvalidArgumentError` if one
    setting is given twice with different values, and `UnsupportedParameterError` if a keyword is no parameter
    of LightGBM, or one that cannot be honoured.
    """
    settings, others, named = dict(own), {}, dict[str, str]()
    for name, value in keywords.items():
        if name in _WHY and value is not None:
            raise UnsupportedParameterError(
                f"{name}={value!r} is not supported by private training: {_WHY[name]}"
            )
        if name in _WHY:
            continue
        if name in of_fit:
            trainers = ", and of trainers such as lgb_dp.NewtonBoost" if name == "budget" else ""
            raise UnsupportedParameterError(f"{name} is an argument of fit{trainers}, not of the constructor")
        check_known(name, value, own)
        (main,) = resolve_aliases({name: value})
        if main not in _OWN:
            others[name] = value
            continue
        setting = _OWN[main]
        other = named.get(setting) or (setting if own[setting] != defaults[setting] else None)
        if value is None:
            continue
        if other is not None and settings[setting] != value:
            raise InvalidArgumentError(
                f"{other}={settings[setting]!r} and {name}={value!r} are the same setting; give one of them"
            )
        settings[setting], named[setting] = value, name
    return settings, others


def chooses_depth(params: Mapping[str, Any]) -> bool:
    """Whether LightGBM's parameters say by num_leaves how deep trees are."""
    return int(resolve_aliases(params).get("num_leaves") or 31) != 31


_NO_WEIGHT_BOUND = "row weights need a public weight_bound, which the check does not give"
_ROWS_AND_WEIGHTS = "repeating a row and doubling its weight are different releases; " + _NO_WEIGHT_BOUND

EXPECTED_FAILED_CHECKS: Mapping[str, str] = {
    "check_sample_weights_pandas_series": _NO_WEIGHT_BOUND,
    "check_sample_weights_not_an_array": _NO_WEIGHT_BOUND,
    "check_sample_weights_list": _NO_WEIGHT_BOUND,
    "check_sample_weights_shape": _NO_WEIGHT_BOUND,
    "check_sample_weights_not_overwritten": _NO_WEIGHT_BOUND,
    "check_all_zero_sample_weights_error": _NO_WEIGHT_BOUND,
    "check_sample_weights_invariance": _ROWS_AND_WEIGHTS,
    "check_sample_weight_equivalence_on_dense_data": _ROWS_AND_WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": _ROWS_AND_WEIGHTS,
    "check_classifiers_one_label_sample_weights": _NO_WEIGHT_BOUND,
}
"""Checks of scikit-learn's suite that fail on purpose, each with its reason."""


_DPBOOST_SETTINGS: Mapping[str, Any] = {"n_estimators": 20, "learning_rate": 0.2, "max_depth": 4}
"""Meaning of "auto" for DPBoost.

Chosen by ε between 0.5 and 4 on eight public data sets of 4,000 to 120,000 rows, where it beats 50
trees of the paper's depth 6 at rate 0.1.  Gradients are clipped rather than filtered: with labels of ±1 a
gradient beyond g* is a misclassified row, the one to learn from.
"""

_MBOOST_SETTINGS: Mapping[str, Any] = {"n_estimators": 1, "learning_rate": 0.5, "max_depth": 3}
"""Meaning of "auto" for MBoost: at ε up to 1, one tree beats boosted ones on most sets
(docs/experiments/mloss.md)."""

_BINS: Mapping[str, tuple[int, Spacing]] = {
    "newton": (255, "mixed"),
    "dpboost": (32, "linear"),
    "mboost": (10, "linear"),
}
"""Meaning of max_bin="auto": NewtonBoost does not pay for candidates, the others do."""


@dataclass(frozen=True)
class _FitSettings:
    """Settings of a fit.

    `params` are for `lightgbm.train`, without the objective, whose name in LightGBM is `objective`;
    `n_rounds` are boosting iterations.
    """

    trainer: PrivateTrainer
    n_rounds: int
    params: Mapping[str, Any]
    max_bin: int
    objective: str | None


def _chosen(settings: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Number of rounds, learning rate and depth; what is left out, the trainer chooses."""
    asked = {name: settings[name] for name in ("n_estimators", "learning_rate", "max_depth")}
    chosen = {name: value for name, value in asked.items() if not isinstance(value, str)}
    unknown = {name: value for name, value in asked.items() if name not in chosen and value != "auto"}
    if unknown:
        raise InvalidArgumentError(f"{next(iter(unknown))} must be 'auto' or a number, got {unknown}")
    if settings["method"] == "newton":
        return {"n_estimators": AUTOMATIC_ROUNDS, **chosen}
    automatic = dict(_MBOOST_SETTINGS if settings["method"] == "mboost" else _DPBOOST_SETTINGS)
    if chooses_depth(others):
        automatic.pop("max_depth")
    return {**automatic, **chosen}


class DPLGBMModel(KeywordParameters, BaseEstimator):
    """Base class of the private classifier and regressor.

    Parameters
    ----------
    epsilon : float
        Total privacy budget in nats, under adding or removing one row.
    delta : float
        δ of the guarantee; far below one over the number of rows.  For "newton": the others have none.
    method : {"newton", "dpboost", "mboost"}
        Private trainer: `lgb_dp.NewtonBoost`, the recommended one, `lgb_dp.DPBoost`, or for classes
        `lgb_dp.MBoost`, whose models should be small (one to three trees).
    n_estimators : "auto" or int
        Boosting iterations.
    learning_rate : "auto" or float
        In (0, 1].
    max_depth : "auto" or int
        Levels of splits; trees are complete.
    reg_lambda : float
        L2 regularisation of leaf values.
    max_bin : "auto" or int
        Bins of a numeric feature.
    auto_bounds : float, optional
        Share of the budget, in (0, 1), that buys bins privately: bounds of the numeric columns for which
        `fit` is given none, and edges between which every column has about equally many rows.  For "newton"
        it is a share of μ², for the others of ε, whose guarantee then has the δ, too.  About 0.1 is enough
        for many rows; few rows or a small ε need more.
    trees_per_ensemble : int
        For "dpboost": trees that share one ensemble's rows.
    leaf_share : float
        For "dpboost": share of a tree's budget that goes to its leaves.
    gdf : bool
        For "dpboost": leave rows with large gradients out of a tree, as the paper does, instead of clipping.
    label_overflow : {"clip", "raise"}
        Treatment of a label that does not fit, as for `lgb_dp.Dataset`.  "clip" moves targets to the
        nearer of the label's bounds and gives rows whose label is missing or none of the classes no weight;
        "raise" raises an error, whose occurrence is a function of the private labels.
    validation_fraction : float
        For "newton": share of the rows to hold out of training, as for
        `lgb_dp.NewtonBoost`.  `evaluation_` then tells, within the same ε, how good the model is on them.
    by : str or int, optional
        A column of declared categories: `evaluation_` has figures for each, too.
    n_jobs : int
        Threads; 0 means all available processors.
    random_state : int, optional
        For tests: fixes the noise, which voids the guarantee.
    verbose : int
        LightGBM's verbosity.
    importance_type : {"split", "gain"}
        Kind of `feature_importances_`: how often a feature is split on, or the gains of its splits, which
        are computed from released values.
    **keywords : object
        LightGBM's other parameters, and other names of these.  `fit` refuses those that private training
        cannot honour, and says why.

    Notes
    -----
    The choices of "auto" follow from public facts and from releases: no setting reads the data.
    """

    _objectives: ClassVar[tuple[str, ...]]
    """LightGBM's names of the objectives that the estimator has; the first is the default."""

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        delta: float = 1e-5,
        method: Literal["newton", "dpboost", "mboost"] = "newton",
        n_estimators: int | Auto = "auto",
        learning_rate: float | Auto = "auto",
        max_depth: int | Auto = "auto",
        reg_lambda: float = 0.1,
        max_bin: int | Auto = "auto",
        auto_bounds: float | None = None,
        trees_per_ensemble: int = 50,
        leaf_share: float = 0.3,
        gdf: bool = False,
        label_overflow: LabelOverflow = "clip",
        validation_fraction: float = 0.0,
        by: str | int | None = None,
        n_jobs: int = 0,
        random_state: int | None = None,
        verbose: int = -1,
        importance_type: Literal["split", "gain"] = "split",
        **keywords: Any,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.max_depth = max_depth
        self.reg_lambda = reg_lambda
        self.max_bin = max_bin
        self.auto_bounds = auto_bounds
        self.trees_per_ensemble = trees_per_ensemble
        self.leaf_share = leaf_share
        self.gdf = gdf
        self.label_overflow = label_overflow
        self.validation_fraction = validation_fraction
        self.by = by
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.importance_type = importance_type
        self._keep_keywords(keywords)

    booster_: lightgbm.Booster = FittedAttribute()  # type: ignore[assignment]
    evals_result_: dict[str, Any] = FittedAttribute()  # type: ignore[assignment]
    n_features_in_: int = FittedAttribute()  # type: ignore[assignment]
    feature_names_in_: NDArray[Any] = FittedAttribute()  # type: ignore[assignment]

    def __sklearn_is_fitted__(self) -> bool:
        """Whether a fit was completed."""
        return "booster_" in vars(self)

    @property
    def objective(self) -> str | None:
        """LightGBM's name of the objective that the constructor was given; `objective_` is the model's."""
        return self._keywords.get("objective")

    def __sklearn_tags__(self) -> Any:
        """Tags, as scikit-learn 1.6 and later ask for them."""
        tags: Any = super().__sklearn_tags__()
        tags.non_deterministic = self.random_state is None
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        return tags

    def _more_tags(self) -> dict[str, Any]:
        """Tags, as scikit-learn before 1.6 asks for them."""
        return {
            "non_deterministic": self.random_state is None,
            "allow_nan": True,
            "X_types": ["2darray", "sparse", "1dlabels"],
            "poor_score": True,  # the noise of a small data set's model
            "_xfail_checks": dict(EXPECTED_FAILED_CHECKS),
        }

    def _trainer(self, settings: Mapping[str, Any], budget: Budget | None) -> PrivateTrainer:
        method, seed = settings["method"], settings["random_state"]
        shared = self._shared_budget()
        epsilon = self.epsilon if shared is None else shared.of_trees
        if method != "dpboost" and (settings["gdf"] or settings["trees_per_ensemble"] != 50):
            raise InvalidArgumentError(
                f"gdf and trees_per_ensemble are settings of method='dpboost', got method={method!r}"
            )
        alpha = settings.get("alpha", "calibrated")
        if method != "mboost" and alpha != "calibrated":
            raise InvalidArgumentError(
                f"alpha is a setting of method='mboost', got alpha={alpha!r} and method={method!r}"
            )
        if method == "newton":
            held = self.validation_fraction
            return NewtonBoost(
                epsilon, self.delta, validation_fraction=held, by=self.by, random_state=seed, budget=budget
            )
        for name, default in (("validation_fraction", 0), ("by", None)):
            if (given := getattr(self, name)) != default:
                raise InvalidArgumentError(f"{name}={given!r} needs method='newton', got {method!r}")
        if method == "mboost":
            return MBoost(epsilon, alpha=alpha, leaf_share=self.leaf_share, random_state=seed, budget=budget)
        return DPBoost(
            epsilon,
            trees_per_ensemble=self.trees_per_ensemble,
            leaf_share=self.leaf_share,
            gdf=self.gdf,
            random_state=seed,
            budget=budget,
        )

    def _shared_budget(self) -> SharedBudget | None:
        if self.auto_bounds is None:
            return None
        return SharedBudget(self.epsilon, self.delta, self.auto_bounds, self.method == "newton")

    def check_settings(self) -> None:
        """Raise the error of the first setting that `fit` would not accept; no data is needed."""
        self._read_settings()

    def _read_settings(self, budget: Budget | None = None) -> _FitSettings:
        """Settings of the fit, read from the constructor's parameters; errors name the first that is not
        accepted.
        """
        checked_choice("method", self.method, tuple(_BINS))
        checked_choice("label_overflow", self.label_overflow, get_args(LabelOverflow))
        checked_choice("importance_type", self.importance_type, ("split", "gain"))
        signature = inspect.signature(type(self)).parameters
        defaults = {name: signature[name].default for name in self._get_param_names()}
        own = {name: getattr(self, name) for name in defaults}
        of_fit = inspect.signature(self.fit).parameters
        settings, others = with_keywords(own, defaults, self._keywords, of_fit)
        trainer, chosen = self._trainer(settings, budget), _chosen(settings, others)
        n_rounds = checked_integer("n_estimators", chosen.pop("n_estimators"), 1)
        asked = next((others.pop(name) for name in list(others) if main_names()[name] == "objective"), None)
        objective = None if asked is None else checked_objective(asked)
        if objective not in (None, *self._objectives):
            raise UnsupportedParameterError(
                f"objective={asked!r} is not supported by {type(self).__name__}; accepted are "
                f"{', '.join(map(repr, self._objectives))}"
            )
        params = {
            **others,
            **chosen,
            "lambda_l2": settings["reg_lambda"],
            "num_threads": settings["n_jobs"],
            "verbosity": settings["verbose"],
        }
        max_bin = _BINS[self.method][0]
        if not (isinstance(settings["max_bin"], str) and settings["max_bin"] == AUTO):
            max_bin = checked_max_bin(settings["max_bin"])
        alone = objective if objective and OBJECTIVES[objective].is_regression else "binary"
        training_parameters({"objective": alone, **params}, max_bin)
        return _FitSettings(trainer, n_rounds, params, max_bin, objective)

    def _objective_params(self, asked: str | None, n_classes: int) -> dict[str, Any]:
        """LightGBM's parameters of the objective, which the user may have asked for."""
        return {"objective": asked or self._objectives[0]}

    def _fit(
        self,
        X: Any,
        target: NDArray[np.float64],
        n_classes: int,
        eval_target: Callable[[Any], NDArray[np.float64]],
        of_rows: dict[str, Any],
        *,
        provenance: Provenance | None = None,
        fitted: Mapping[str, Any] | None = None,
    ) -> None:
        """Train on a Dataset; `of_rows` are all arguments that users gave beside its rows and labels.

        Fitted attributes, including those in `fitted`, which are known before, are removed first and set at
        the end, all at once: a fit that is aborted leaves none, neither of itself nor of the fit before.
        """
        evaluation = FitEvaluation.taken_from(of_rows)
        budget, callbacks, init_model = (of_rows.pop(name) for name in ("budget", "callbacks", "init_model"))
        of_rows["weight"], label_bounds = of_rows.pop("sample_weight"), of_rows.pop("label_bounds", None)
        init_model = getattr(init_model, "booster_", init_model)  # perhaps this estimator's own
        for name in [name for name in vars(self) if name.endswith("_") and not name.startswith("_")]:
            self.__dict__.pop(name, None)  # another thread may fit it, too
        settings = self._read_settings(budget)
        params = {**settings.params, **self._objective_params(settings.objective, n_classes)}
        continues = init_model is not None or of_rows.get("init_score") is not None
        check_held_out(self.validation_fraction, params.get("num_class", 1), continues)
        around = surroundings(self)
        for text in (*around.leaks, *around.notes):
            warnings.warn(text, NotPrivateWarning, stacklevel=4)
        X = as_matrix(X)
        shared = self._shared_budget()
        if shared is not None:
            if is_regressor(self) and label_bounds is None:
                raise InvalidArgumentError("label_bounds must be given: auto_bounds does not find them")
            bought = automatic_bins(X, shared, settings.max_bin, budget=budget, **of_rows)
            bought["paid_for"] = [*of_rows["paid_for"], *bought.get("paid_for", ())]
            of_rows.update(bought)
        if of_rows.get("bounds") is None and of_rows.get("categories") is None and X.shape[0] == 1:
            raise InvalidArgumentError("bounds must be given: none can be read from 1 sample")
        train_set = Dataset(
            X,
            target,
            label_bounds=label_bounds,
            label_overflow=self.label_overflow,
            max_bin=settings.max_bin,
            spacing=_BINS[self.method][1],
            **of_rows,
        )
        train_set.disclose(around).disclose(provenance or Provenance())
        valid_sets = self._valid_sets(evaluation, train_set, eval_target)
        if evaluation.metric_names() is not None:
            params["metric"] = evaluation.metric_names()
        evals_result: dict[str, Any] = {}
        booster = lightgbm.train(
            params,
            train_set,
            settings.n_rounds,
            valid_sets=valid_sets,
            valid_names=None if evaluation.names is None else list(evaluation.names),
            feval=evaluation.feval() or None,
            init_model=init_model,
            callbacks=[settings.trainer, *(callbacks or []), lightgbm.record_evaluation(evals_result)],
        )
        names = {"feature_names_in_": np.asarray(as_frame(X).columns, dtype=object)} if is_table(X) else {}
        self.__dict__.update(
            fitted or {},
            booster_=self._finished(booster),
            evals_result_=evals_result,
            n_features_in_=X.shape[1],
            **names,
        )

    def _valid_sets(
        self, evaluation: FitEvaluation, train_set: Dataset, target: Callable[[Any], NDArray[np.float64]]
    ) -> list[lightgbm.Dataset]:
        """Evaluation sets that are in this process, in the bins of the training set."""
        known: dict[str, Any] = {
            "label_overflow": self.label_overflow,
            "reference": train_set,
            "public": evaluation.is_public,
        }
        return [
            Dataset(as_matrix(rows), target(labels), weight=weight, init_score=score, **known)
            for rows, labels, weight, score in evaluation.sets()
        ]

    def _finished(self, booster: lightgbm.Booster) -> lightgbm.Booster:
        """Changes of a booster when its run has ended."""
        return booster

    @property
    def privacy_(self) -> PrivacyReport:
        """The guarantee of the fitted model."""
        booster = self._fitted_booster
        assert isinstance(booster, DPBooster)
        return booster.privacy

    @property
    def evaluation_(self) -> ModelEvaluation:
        """Quality of the fitted model on the rows that `validation_fraction` held out.

        Raises
        ------
        AttributeError
            If none were held out.
        """
        booster = self._fitted_booster
        found = booster.evaluation if isinstance(booster, DPBooster) else None
        if found is None:
            raise AttributeError(
                f"evaluation_: no rows were held out; fit {type(self).__name__} with validation_fraction=0.1"
            )
        return found

    @property
    def feature_importances_(self) -> NDArray[Any]:
        """Importance of each feature by `importance_type`, shape (n_features,), as LightGBM computes it.

        It follows from the model alone: numbers of splits, and gains of released leaf values.
        """
        return np.asarray(self._fitted_booster.feature_importance(importance_type=self.importance_type))

    @property
    def _fitted_booster(self) -> lightgbm.Booster:
        check_is_fitted(self, "booster_")
        return self.booster_

    @property
    def feature_name_(self) -> list[str]:
        """Names of the features in the model."""
        return self._fitted_booster.feature_name()

    @property
    def best_iteration_(self) -> int:
        """Number of iterations that early stopping chose; not positive without early stopping."""
        return int(self._fitted_booster.best_iteration)

    @property
    def best_score_(self) -> dict[str, Any]:
        """Metrics of the best iteration, by evaluation set and metric."""
        return self._fitted_booster.best_score

    @property
    def n_estimators_(self) -> int:
        """Number of iterations that were trained; early stopping may leave fewer than `n_estimators`."""
        return int(self._fitted_booster.current_iteration())

    @property
    def n_iter_(self) -> int:
        """The same as `n_estimators_`."""
        return self.n_estimators_

    @property
    def objective_(self) -> str:
        """LightGBM's name of the objective."""
        booster = self._fitted_booster
        # LightGBM before 4.3 does not read the parameters of a model that it loads: a search's best one.
        params = booster.params or parameter_lines(booster.model_to_string(num_iteration=1))
        return str(params["objective"])

    @property
    def n_features_(self) -> int:
        """The same as `n_features_in_`."""
        check_is_fitted(self, "booster_")
        return int(self.n_features_in_)

    def _predict_native(self, X: Any, *, return_std: bool = False, **how: Any) -> Any:
        """Predictions of LightGBM, for SHAP values perhaps sparse; or a pair, with their `spread`."""
        check_is_fitted(self, "booster_")
        X = as_matrix(X)
        if X.shape[1] != self.n_features_in_ and not is_table(X):  # of which the booster names the columns
            raise InvalidArgumentError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input"
            )
        predicted = self.booster_.predict(X, **how)
        return (predicted, spread(self, X, how)) if return_std else predicted
