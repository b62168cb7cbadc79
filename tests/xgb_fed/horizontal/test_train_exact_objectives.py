"""Exact training by every objective whose gradients depend on the row alone: the model is XGBoost's own."""

import numpy as np
import pandas as pd
import pytest
import xgboost

from gbdt_parties.errors import InvalidDataError, PartyRefusedError, ProtocolError
from xgb_fed import ExactTerms, HorizontalParty, InvalidArgumentError, train_exact
from xgb_fed.boosting.objectives import ROWS_ALONE
from xgb_fed.horizontal.exact.cuts import rows_of_cuts

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.FewPartiesWarning")

N = 450
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).astype(np.float32)
X[RNG.random(X.shape) < 0.1] = np.nan
MARGIN = np.nan_to_num(X[:, 0]) + np.nan_to_num(X[:, 1]) * np.nan_to_num(X[:, 2])
WEIGHT = RNG.uniform(0.5, 3, N).astype(np.float32)
THREE = np.array_split(RNG.permutation(N), 3)
CLASSES, BOTH = np.digitize(MARGIN, [-0.5, 0.5]), (MARGIN + RNG.normal(size=N) > 0).astype(int)
TIMES = 1000 * np.exp(MARGIN / 2 + 0.5 * RNG.normal(size=N))
DRAWN = RNG.random(N)
BOUNDS = np.stack(
    [
        np.where((DRAWN > 0.5) & (DRAWN < 0.6), 0, TIMES),
        np.select([DRAWN < 0.3, DRAWN < 0.5], [np.inf, 1.5 * TIMES], TIMES),
    ],
    axis=1,
).astype(np.float32)
COUNTS = RNG.poisson(np.exp(MARGIN / 2))
LABELS = {
    "reg:squarederror": 100 * MARGIN,
    "reg:squaredlogerror": np.exp(MARGIN / 2) - 0.1,
    "reg:pseudohubererror": 3 * MARGIN,
    "reg:gamma": TIMES,
    "reg:tweedie": 1.5 * COUNTS,
    "reg:logistic": 1 / (1 + np.exp(-MARGIN)),
    "count:poisson": COUNTS,
    **dict.fromkeys(("binary:logistic", "binary:logitraw", "binary:hinge"), BOTH),
    **dict.fromkeys(("multi:softprob", "multi:softmax"), CLASSES),
    "survival:aft": BOUNDS,
}
OWN = {
    "reg:pseudohubererror": {"huber_slope": 2.0},
    "reg:tweedie": {"tweedie_variance_power": 1.3},
    "survival:aft": {"aft_loss_distribution": "logistic", "aft_loss_distribution_scale": 1.2},
}
METRICS = {
    "reg:squaredlogerror": ["rmsle", "mae"],
    "reg:pseudohubererror": ["mphe"],
    "reg:gamma": ["gamma-deviance", "gamma-nloglik"],
    "reg:tweedie": ["rmse"],
    "reg:logistic": ["logloss", "rmse"],
    "binary:logitraw": ["error", "logloss"],
    "binary:hinge": ["error"],
    "survival:aft": ["aft-nloglik", "interval-regression-accuracy"],
}


def labelled(kind, y, rows=slice(None), weight=None, **how):
    """XGBoost's data set of some rows, by their labels or bounds."""
    y = np.asarray(y, dtype=np.float32)[rows]
    labels = {"label": y} if y.ndim == 1 else {"label_lower_bound": y[:, 0], "label_upper_bound": y[:, 1]}
    return kind(X[rows], weight=None if weight is None else weight[rows], **labels, **how)


def parties(y, weight=None):
    return [(X[rows], y[rows], None if weight is None else weight[rows]) for rows in THREE]


@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize("objective", LABELS)
def test_a_model_is_that_of_pooled_rows_byte_for_byte(objective, is_weighted):
    assert LABELS.keys() == set(ROWS_ALONE)
    y, weight = LABELS[objective], WEIGHT if is_weighted else None
    params = {"objective": objective, "max_depth": 4, "max_bin": 24, **OWN.get(objective, {})}
    if is_weighted:  # whose estimates XGBoost rounds by the order of rows
        params["base_score"] = 0.5
    model = train_exact(params, parties(y, weight), 3, cuts="exact", min_rows_per_node=1)
    rows = rows_of_cuts(model.cuts)
    params |= {"tree_method": "hist", "max_bin": len(rows) + 1, "nthread": 1}
    params |= {"num_class": 3} if y is CLASSES else {}
    how = {"ref": xgboost.QuantileDMatrix(rows, max_bin=len(rows) + 1), "max_bin": len(rows) + 1}
    theirs = xgboost.train(params, labelled(xgboost.QuantileDMatrix, y, weight=weight, **how), 3)
    assert model.as_json() == bytes(theirs.save_raw("json"))


@pytest.mark.parametrize("objective", METRICS)
def test_metrics_of_an_objective_are_those_of_xgboost(objective):
    y, held_out = LABELS[objective], [slice(0, 90), slice(90, 150)]
    params = {
        "objective": objective,
        "max_depth": 3,
        "eval_metric": METRICS[objective],
        **OWN.get(objective, {}),
    }
    members = [
        HorizontalParty(
            *rows[:2],
            f"p{k}",
            categorical_labels=objective.startswith("binary"),
            exact=ExactTerms(
                held_out=[(X[held_out[k]], y[held_out[k]], WEIGHT[held_out[k]])] if k < 2 else ()
            ),
        )
        for k, rows in enumerate(parties(y))
    ]
    model = train_exact(params, members, 2, verbose_eval=False)
    model.booster.set_param(
        [*OWN.get(objective, {}).items(), *(("eval_metric", one) for one in METRICS[objective])]
    )
    parts = model.booster.eval(labelled(xgboost.DMatrix, y, slice(0, 150), WEIGHT)).split()[1:]
    for metric, part in zip(METRICS[objective], parts, strict=True):
        ours = model.evals_result["validation_0"][metric][-1]
        assert ours == pytest.approx(float(part.rpartition(":")[2]), rel=1e-5), metric


def test_the_metric_of_an_objective_has_the_name_that_xgboost_gives_it():
    params = {"objective": "reg:tweedie", "tweedie_variance_power": 1.25, "max_depth": 2}
    model = train_exact(params, parties(COUNTS), 2, evals=[((X[:99], COUNTS[:99]), "v")], verbose_eval=False)
    assert list(model.evals_result["validation_0"]) == ["tweedie-nloglik@1.25"]


@pytest.mark.parametrize(
    ("objective", "y", "match"),
    [
        ("reg:squaredlogerror", np.where(DRAWN < 0.01, -1.0, 1.0), "reg:squaredlogerror"),
        ("reg:gamma", np.where(DRAWN < 0.01, 0.0, 1.0), "reg:gamma"),
        ("reg:tweedie", np.where(DRAWN < 0.01, -0.1, 1.0), "reg:tweedie"),
        ("count:poisson", np.where(DRAWN < 0.01, -1.0, 1.0), "count:poisson"),
        ("reg:logistic", 2 * DRAWN, "reg:logistic"),
        ("survival:aft", TIMES, "survival:aft"),
        ("survival:aft", BOUNDS[:, ::-1], "label_lower_bound"),
        ("survival:aft", np.stack([TIMES, TIMES - 1], axis=1), "label_upper_bound"),
        ("reg:gamma", BOUNDS, r"2 column.*reg:gamma"),
    ],
)
def test_labels_that_an_objective_does_not_take_are_refused_before_any_sum(objective, y, match, monkeypatch):
    monkeypatch.delattr("xgb_fed.horizontal.exact.run.ExactSubject.vector")
    with pytest.raises(PartyRefusedError, match=match):
        train_exact({"objective": objective, "max_depth": 2}, parties(y), 1)
    if y.ndim == 2:
        with pytest.raises(InvalidArgumentError, match="categorical_labels"):
            HorizontalParty(X, y, categorical_labels=True)


@pytest.mark.parametrize("objective", ["binary:logistic", "binary:logitraw", "binary:hinge"])
def test_three_labels_are_no_binary_objective_s_to_a_coordinator_and_to_parties(objective, monkeypatch):
    members = [
        HorizontalParty(*rows[:2], f"p{k}", categorical_labels=True)
        for k, rows in enumerate(parties(CLASSES))
    ]
    with pytest.raises(InvalidDataError, match=f"3 classes.*{objective}"):
        train_exact({"objective": objective}, members, 1)
    unchecked = "xgb_fed.horizontal.train_exact.common_classes"
    monkeypatch.setattr(unchecked, lambda *_: (np.arange(3), objective))
    with pytest.raises((PartyRefusedError, ProtocolError), match=f"3 classes.*{objective}"):
        train_exact({"objective": objective}, members, 1)


def test_bounds_of_times_may_be_a_table_and_a_change_of_one_is_told(tmp_path):
    table = pd.DataFrame(BOUNDS, columns=["lower", "upper"])
    params = {"objective": "survival:aft", "max_depth": 2}
    text = train_exact(params, parties(BOUNDS), 2).as_json()
    members = [
        HorizontalParty(X[rows], table.iloc[rows], f"p{k}", directory=tmp_path / str(k))
        for k, rows in enumerate(THREE)
    ]
    assert train_exact(params, members, 2).as_json() == text
    for one in members:
        one.close()
    changed = table.iloc[THREE[0]].copy()
    changed.iloc[0, 1] = np.inf if np.isfinite(changed.iloc[0, 1]) else 1e9
    with pytest.raises(InvalidDataError, match="accept_rows"):
        HorizontalParty(X[THREE[0]], changed, "p0", directory=tmp_path / "0")
