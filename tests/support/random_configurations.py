"""Random training runs over all parameters of vertical training, and the same runs of stock XGBoost.

Values are rounded to a few decimals, so that a configuration does not depend on the last bits of a machine's
own `exp`; equal values also make many candidates tie.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse
import xgboost

import xgb_fed
from native_trees import read_trees
from vertical_training import assert_same_tree, train_on
from xgb_fed.boosting.objectives import ADAPTIVE, OBJECTIVES, RANKING

REFUSALS = {
    "lambdarank_unbiased": "lambdarank_unbiased=True is not supported",
    "several quantile_alpha": "quantile_alpha=.* must be one number",
    "rows without weight": "min_child_weight=0 is not supported for multi",
    "no penalty": "reg_lambda=0 with min_child_weight=0 is not supported",
    "in distribution": None,
}
"""What is refused before training, and by which words; the last one is trained, with draws of its own.

The list is that of docs/vertical.md.
"""


@dataclass
class Configuration:
    """One training run.

    Attributes
    ----------
    X : ndarray of float32, shape (n_rows, n_columns)
    types : list of str
        ``"c"`` or ``"q"`` for every column.
    bounds : list of int
        Where each party's columns begin, the active party's first, and where the last one's end.
    storage : list of str
        ``"dense"`` or ``"sparse"`` for every party.
    params : dict
    info : dict
        Labels and what else `ActiveData` and DMatrix take besides columns.
    n_rounds : int
    rates : list of float or None
        Learning rates that a callback sets.
    custom : bool
        Whether a function gives gradients in place of the objective.
    earlier : dict or None
        Parameters of a round before, by which a model was trained that this run continues.
    """

    X: np.ndarray
    types: list
    bounds: list
    storage: list
    params: dict
    info: dict
    n_rounds: int
    rates: list | None = None
    custom: bool = False
    earlier: dict | None = None

    def part(self, k):
        """Columns of a party, and their types."""
        span = slice(self.bounds[k], self.bounds[k + 1])
        return (sparse(self.X[:, span]) if self.storage[k] == "sparse" else self.X[:, span]), self.types[span]


def sparse(X):
    """Missing values are those that are not stored."""
    rows, columns = np.nonzero(~np.isnan(X))
    return scipy.sparse.csr_matrix((X[rows, columns], (rows, columns)), shape=X.shape)


def refusal(configuration):
    """Why a run is not compared: a name of `REFUSALS`; None if it is."""
    c, params = configuration, configuration.params
    objective = params["objective"]
    penalty, least = (
        next((params[name] for name in names if name in params), 1.0)
        for names in (("reg_lambda", "lambda"), ("min_child_weight",))
    )
    weight = c.info.get("weight")
    if params.get("lambdarank_unbiased"):
        return "lambdarank_unbiased"
    if isinstance(params.get("quantile_alpha"), list):
        return "several quantile_alpha"
    if params.get("num_class", 1) > 1 and least == 0 and weight is not None and weight.min() == 0:
        return "rows without weight"
    if penalty == least == 0 and objective not in ("reg:squarederror", *ADAPTIVE):
        return "no penalty"
    if params.get("colsample_bynode", 1) < 1 and params.get("grow_policy") == "lossguide":
        return "in distribution"
    return None


def draw(seed):
    """Draw a configuration; the same one on every machine and for every version of XGBoost."""
    rng = np.random.default_rng([20, seed])
    n, d = int(rng.integers(60, 201)), int(rng.integers(2, 9))
    X, types, score = _columns(rng, n, d)
    names = list(OBJECTIVES)
    objective = names[int(rng.integers(len(names)))]
    params = {"objective": objective, **_parameters(rng, objective, d)}
    info = _targets(rng, objective, params, score)
    if rng.random() < 0.5:
        params["base_score"] = float(rng.choice([0.1, 0.5, 0.9]))
    if rng.random() < 0.15:
        n_classes = params.get("num_class", 1)
        margin = rng.normal(0, 0.3, (n, n_classes)).round(2).astype(np.float32)
        info["base_margin"] = margin[:, 0] if n_classes == 1 else margin
    n_parties = int(rng.integers(2, 5))
    bounds = sorted(rng.integers(0 if rng.random() < 0.1 else 1, d, n_parties - 1).tolist())
    bounds = [0, *([bounds[0]] if bounds[0] == 0 else []), *(b for b in sorted(set(bounds)) if b), d]
    if "c" in types:
        params["enable_categorical"] = True
        params["feature_types"] = types[: bounds[1]]
        if not bounds[1]:
            del params["feature_types"]
    has_sparse = "c" not in types and rng.random() < 0.2
    storage = [("sparse" if has_sparse and rng.random() < 0.7 else "dense") for _ in bounds[1:]]
    n_rounds = int(rng.integers(1, 4))
    rates = None
    if rng.random() < 0.06:
        rates = rng.choice([0.1, 0.3, 0.5, 1.0], n_rounds).tolist()
    custom = objective in ("reg:squarederror", "count:poisson") and bool(rng.random() < 0.2)
    earlier = None
    if rng.random() < 0.08:
        earlier = {**params, "max_depth": 3}
    return Configuration(X, types, bounds, storage, params, info, n_rounds, rates, custom, earlier)


MADE_SEED = 23


def made(objective, *, kinds=("real",) * 5, **params):
    """A configuration that is not random: three parties, columns of some kinds, and some parameters."""
    rng, n = np.random.default_rng(MADE_SEED), 160
    X, types, score = _columns(rng, n, len(kinds), kinds)
    params = {"objective": objective, "max_depth": 3, "max_bin": 16, "min_child_weight": 0.1, **params}
    info = _targets(rng, objective, params, score)
    info.pop("weight", None)
    return Configuration(X, types, [0, 2, 3, len(kinds)], ["dense"] * 3, params, info, 2)


def _kinds(rng, d):
    names = rng.choice(["real", "whole", "few", "constant"], d, p=[0.5, 0.3, 0.15, 0.05])
    has_categories = rng.random() < 0.4
    return ["category" if has_categories and rng.random() < 0.6 else str(name) for name in names]


def _columns(rng, n, d, kinds=None):
    """Columns of several kinds, their types, and a score that depends on them."""
    X, score = np.empty((n, d), dtype=np.float32), rng.normal(size=n) * 0.5
    kinds = _kinds(rng, d) if kinds is None else list(kinds)
    for k, kind in enumerate(kinds):
        effect = None
        if kind == "category":
            codes = rng.integers(0, rng.integers(1, rng.choice([4, 12, 60])), n) * rng.integers(1, 3)
            X[:, k], effect = codes, rng.normal(size=120)[codes]
        elif kind == "real":
            X[:, k] = rng.normal(size=n).round(3)
        elif kind == "constant":
            X[:, k] = 2
        else:
            X[:, k] = rng.integers(-1, 12 if kind == "whole" else 2, n)
        effect = X[:, k] / 3 if effect is None else effect
        score = score + float(rng.choice([0, 0.5, 1])) * effect
    if d > 1 and rng.random() < 0.15:  # equal gains
        X[:, -1], kinds[-1] = X[:, 0], kinds[0]
    if rng.random() < 0.6:
        X[rng.random((n, d)) < rng.choice([0.02, 0.2, 0.6])] = np.nan
    return X, ["c" if kind == "category" else "q" for kind in kinds], score.round(3)


def _parameters(rng, objective, d):
    """Some of all parameters, with XGBoost's names or its other ones."""
    choices = {
        "max_depth": [1, 2, 3, 4, 6, 0],
        "max_bin": [2, 4, 16, 64, 256],
        ("learning_rate", "eta"): [0.1, 0.5, 1.0],
        ("reg_lambda", "lambda"): [0.0, 0.1, 0.5, 1.0, 10.0],
        ("reg_alpha", "alpha"): [0.0, 0.1, 2.0],
        ("gamma", "min_split_loss"): [0.0, 0.01, 0.5],
        "min_child_weight": [0.0, 0.01, 0.1, 1.0, 5.0],
        "max_delta_step": [0.0, 0.3, 2.0],
        "grow_policy": ["depthwise", "lossguide"],
        "max_leaves": [0, 2, 5, 12],
        "num_parallel_tree": [1, 2, 3],
        "subsample": [0.3, 0.7, 1.0],
        "colsample_bytree": [0.4, 0.8, 1.0],
        "colsample_bylevel": [0.4, 0.8, 1.0],
        "colsample_bynode": [0.4, 0.8, 1.0],
        "max_cat_to_onehot": [1, 2, 4, 10, 100],
        "max_cat_threshold": [1, 2, 3, 8, 64],
    }
    rare = {"num_parallel_tree": 0.15, "subsample": 0.2, "colsample_bytree": 0.2, "grow_policy": 0.4}
    rare |= {"colsample_bylevel": 0.15, "colsample_bynode": 0.08, "max_delta_step": 0.2, "max_leaves": 0.3}
    params = {}
    for names, values in choices.items():
        name = names if isinstance(names, str) else str(rng.choice(names))
        value = values[int(rng.integers(len(values)))]
        if rng.random() < rare.get(name, 0.6):
            params[name] = value
    if params.get("max_depth") == 0 and not params.get("max_leaves"):
        params["max_leaves"] = 10
    if min(params.get(name, 1) for name in ("subsample", "colsample_bytree", "colsample_bylevel")) < 1:
        params["seed"] = int(rng.integers(1000))
    if params.get("colsample_bynode", 1) < 1:
        params.setdefault("seed", int(rng.integers(1000)))
    if rng.random() < 0.2:
        params["monotone_constraints"] = tuple(int(sign) for sign in rng.choice([-1, 0, 1], d))
    if rng.random() < 0.2:
        groups = [rng.choice(d, int(rng.integers(1, d + 1)), replace=False).tolist() for _ in range(3)]
        params["interaction_constraints"] = str(groups[: int(rng.integers(0, 4))]).replace(" ", "")
    own = {
        "huber_slope": [0.5, 1.0, 2.0],
        "quantile_alpha": [0.1, 0.5, 0.8],
        "tweedie_variance_power": [1.1, 1.5, 1.9],
        "aft_loss_distribution": ["normal", "logistic", "extreme"],
        "aft_loss_distribution_scale": [0.5, 1.0, 1.5],
        "lambdarank_pair_method": ["mean", "topk"],
        "lambdarank_num_pair_per_sample": [1, 4],
    }
    for name, values in own.items():
        if name in OBJECTIVES[objective] and (name == "quantile_alpha" or rng.random() < 0.6):
            params[name] = values[int(rng.integers(len(values)))]
    if objective in ("binary:logistic", "binary:logitraw", "reg:logistic") and rng.random() < 0.2:
        params["scale_pos_weight"] = 3.0
    if objective in ("multi:softprob", "multi:softmax"):
        params["num_class"] = int(rng.integers(2, 5))
    if objective in RANKING and rng.random() < 0.05:
        params["lambdarank_unbiased"] = True
    if objective == "reg:quantileerror" and rng.random() < 0.1:
        params["quantile_alpha"] = [0.2, 0.7]
    return params


def _targets(rng, objective, params, score):
    """Labels that suit an objective, bounds, queries and weights."""
    n, kind = len(score), objective.split(":")[0]
    centred = (score - np.median(score)) / max(1.0, float(np.std(score)))
    times = (np.exp(centred / 2) * rng.gamma(3, 1 / 3, n)).round(3) + 0.01
    censored = rng.random(n) < 0.3
    given = {
        "reg:logistic": np.clip(0.5 + centred / 4, 0, 1).round(2),
        "count:poisson": rng.poisson(np.exp(centred / 2).round(3)),
        "reg:tweedie": np.where(censored, 0, times),
        "reg:gamma": times,
        "reg:squaredlogerror": times,
        "survival:cox": np.where(censored, -times, times),
        "rank:map": centred > 0.3,
    }
    if objective in given:
        label = given[objective]
    elif kind in ("binary", "reg", "survival"):
        label = centred > 0.3 if kind == "binary" else (10 + 3 * centred).round(int(rng.integers(0, 3)))
    else:
        n_classes = params.get("num_class", 3)
        label = np.searchsorted(np.quantile(centred, np.arange(1, n_classes) / n_classes), centred)
    info, n_weights = {"label": np.asarray(label, dtype=np.float32)}, n
    if objective == "survival:aft":
        info = {"label": None, "label_lower_bound": times.astype(np.float32)}
        upper = np.where(censored, np.inf, times * rng.choice([1.0, 1.2]))
        info["label_upper_bound"] = upper.astype(np.float32)
    if kind == "rank":
        info["qid"] = np.sort(rng.integers(0, rng.choice([2, 10, 20]), n))
        n_weights = len(np.unique(info["qid"]))
    if rng.random() < 0.35:
        weight = rng.exponential(size=n_weights).round(2) + 0.01
        if rng.random() < 0.2:
            weight[rng.random(n_weights) < 0.1] = 0
        info["weight"] = weight.astype(np.float32)
    return info


def squared_error(margin, data):
    """An objective of the user: squared errors, weighted, of a scaled margin."""
    label, weight = data.get_label(), data.get_weight()
    weight = weight if weight.size else np.ones_like(label)
    return (margin - label) * weight * np.float32(0.5), weight * np.float32(0.5)


class SetRates(xgboost.callback.TrainingCallback):
    """Sets the learning rate of each round."""

    def __init__(self, rates):
        self.rates = rates

    def before_iteration(self, model, epoch, evals_log):
        model.set_param("learning_rate", self.rates[epoch])
        return False


def federated(configuration):
    """The exported booster of the run with `Plain`."""
    c = configuration
    own, _ = c.part(0)
    parties = [
        xgb_fed.LocalParty(
            data, f"party {k}", allow_export=True, feature_types=types if "c" in types else None
        )
        for k, (data, types) in enumerate(c.part(k) for k in range(1, len(c.storage)))
    ]
    data = xgb_fed.ActiveData(own if own.shape[1] else None, **c.info)
    options = {"obj": squared_error if c.custom else None}
    if c.earlier is not None:
        options["xgb_model"] = train_on(data, c.earlier, parties, 1, **options)
    callbacks = [] if c.rates is None else [SetRates(c.rates)]
    return train_on(data, c.params, parties, c.n_rounds, callbacks=callbacks, **options).export_booster(
        parties
    )


def pooled(configuration):
    """Stock XGBoost, round by round: the evaluation of 2.0.0, for which `xgboost.train` asks, fails for some.

    Cuts are those of unweighted rows, as parties make them: weights come after.
    """
    c = configuration
    X = sparse(c.X) if "sparse" in c.storage else c.X
    matrix = xgboost.QuantileDMatrix(
        X, max_bin=c.params.get("max_bin", 256), feature_types=c.types, enable_categorical=True
    )
    matrix.set_info(**{name: value for name, value in c.info.items() if value is not None})
    booster = None
    for params, n_rounds, rates in ((c.earlier, 1, None), (c.params, c.n_rounds, c.rates)):
        if params is None:
            continue
        ours = ("enable_categorical", "feature_types")
        theirs = {name: value for name, value in params.items() if name not in ours}
        # A Booster would hand on its parameters; a model has none.
        earlier = None if booster is None else booster.save_raw("ubj")
        booster = xgboost.Booster({"nthread": 1, **theirs}, cache=[matrix], model_file=earlier)
        for number in range(n_rounds):
            if rates is not None:
                booster.set_param("learning_rate", rates[number])
            booster.update(matrix, number, squared_error if c.custom else None)
    return booster


def assert_same(ours, theirs):
    """Every node the same, and the categories of splits, whose threshold is arbitrary."""
    for number, (a, b) in enumerate(zip(read_trees(ours), read_trees(theirs), strict=True)):
        for key in ("split_type", *(key for key in b if key.startswith("categories"))):
            assert list(a[key]) == list(b[key]), (number, key)
        by_category = np.array(b["split_type"]) == 1
        for tree in (a, b):
            tree["split_conditions"] = np.where(by_category, 0, tree["split_conditions"])
        assert_same_tree(a, b, f"tree {number}")
