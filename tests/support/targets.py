"""Labels of every objective, as targets."""

import numpy as np

from gbdt_hosts.xgboost.targets import Targets

RNG = np.random.default_rng(0)
N = 200
X = RNG.normal(size=(N, 3)).astype(np.float32)
TIMES = RNG.gamma(2, 1, N).astype(np.float32)
MARGIN = RNG.normal(size=(N, 1)).astype(np.float32)
WEIGHT = RNG.uniform(0.1, 1, N).astype(np.float32)
CLASSES = (RNG.random(N) < 0.3).astype(np.float32)
LABELS = {
    "reg:squarederror": TIMES,
    "reg:squaredlogerror": TIMES,
    "reg:pseudohubererror": TIMES,
    "reg:absoluteerror": TIMES,
    "reg:quantileerror": TIMES,
    "reg:gamma": TIMES,
    "reg:tweedie": np.where(CLASSES, 0, TIMES),
    "reg:logistic": (X[:, 0] > 0) * 0.9,
    "count:poisson": np.floor(TIMES),
    "binary:logistic": CLASSES,
    "binary:logitraw": CLASSES,
    "binary:hinge": CLASSES,
    "survival:cox": np.where(CLASSES, -TIMES, TIMES),
    "survival:aft": TIMES,
    "rank:pairwise": np.minimum(np.floor(TIMES), 3),
    "rank:ndcg": np.minimum(np.floor(TIMES), 3),
    "rank:map": CLASSES,
}


def targets_of(objective):
    label = LABELS[objective].astype(np.float32)
    if objective.startswith("rank"):
        return Targets(label, WEIGHT[: N // 10], query_sizes=np.full(N // 10, 10))
    bounds = (TIMES * 0.9, TIMES * 1.2) if objective == "survival:aft" else (None, None)
    return Targets(label, WEIGHT, *bounds)


def params_of(objective):
    own = {"quantile_alpha": 0.7} if objective == "reg:quantileerror" else {}
    return {"objective": objective, **own}
