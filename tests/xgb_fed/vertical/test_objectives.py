"""Every objective: the trees are those of stock XGBoost on the pooled columns."""

import pickle
import warnings

import numpy as np
import pytest
import xgboost

import xgb_fed
from gbdt_hosts.xgboost import versions
from gbdt_parties.errors import InvalidDataError
from vertical_training import assert_same_trees, parties_of, parts
from xgb_fed.boosting.objectives import OBJECTIVES
from xgb_fed.errors import InvalidArgumentError, UnsupportedParameterError

BASE = {"max_depth": 4, "max_bin": 16, "nthread": 1}
N_ROWS = 300
INFO = ("label_lower_bound", "label_upper_bound", "qid", "base_margin")
PARAMETERS = {
    "reg:pseudohubererror": {"huber_slope": 2.0},
    "reg:quantileerror": {"quantile_alpha": 0.8},
    "reg:tweedie": {"tweedie_variance_power": 1.3},
    "multi:softprob": {"num_class": 3},
    "multi:softmax": {"num_class": 3},
    "survival:aft": {"aft_loss_distribution": "logistic", "aft_loss_distribution_scale": 1.2},
    "rank:ndcg": {"lambdarank_num_pair_per_sample": 6},
    "rank:map": {"lambdarank_pair_method": "mean"},
}


def problem(objective, missing=0.1, seed=0):
    """Columns, and what `ActiveData` takes besides, of rows that suit an objective."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, 6)).astype(np.float32)
    score = X @ rng.uniform(0.5, 1, 6) / 2 + X[:, 0] * X[:, -1] + rng.normal(size=N_ROWS)
    X[rng.random(X.shape) < missing] = np.nan
    times = np.exp(score / 2) * rng.gamma(3, 1 / 3, N_ROWS)
    censored = rng.random(N_ROWS) < 0.3
    given = {
        "reg:logistic": 1 / (1 + np.exp(-score)),
        "count:poisson": rng.poisson(np.exp(score / 2)),
        "reg:tweedie": np.where(censored, 0, times),
        "reg:gamma": times,
        "reg:pseudohubererror": score,
        "reg:squaredlogerror": times,
        "survival:cox": np.where(censored, -times, times),
        "rank:map": score > 0.5,
    }
    kind = objective.split(":")[0]
    if objective in given:
        label = given[objective]
    elif kind in ("binary", "reg", "survival"):
        label = score > 0.3 if kind == "binary" else 10 + 3 * score
    else:
        label = np.digitize(score, [-0.4, 0.4])
    info = {"label": np.asarray(label, dtype=np.float32)}
    if objective == "survival:aft":
        info |= {"label": None, "label_lower_bound": times}
        info["label_upper_bound"] = np.where(censored, np.inf, times * 1.1)
    if kind == "rank":
        info["qid"] = np.sort(rng.integers(0, 20, N_ROWS))
    return X, info


def params_of(objective, **others):
    return {"objective": objective, **BASE, **PARAMETERS.get(objective, {}), **others}


def federated(params, X, info, rounds=2, parties=None, **kwargs):
    active, *passive = parts(X, 3)
    parties = parties_of(passive) if parties is None else parties
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xgb_fed.NotEncryptedWarning)
        data = xgb_fed.ActiveData(active, **info)
        options = {"cipher": xgb_fed.Plain(), "verbose_eval": False, **kwargs}
        return xgb_fed.train(params, data, parties, rounds, **options), parties


def pooled_matrix(params, X, info):
    """Cuts of unweighted rows, as parties make them: everything else comes after."""
    matrix = xgboost.QuantileDMatrix(X, max_bin=params["max_bin"])
    matrix.set_info(**{name: value for name, value in info.items() if value is not None})
    return matrix


def pooled(params, X, info, rounds=2, obj=None):
    # XGBoost 2.0.0's own evaluation fails for some objectives, which `xgboost.train` calls.
    matrix = pooled_matrix(params, X, info)
    booster = xgboost.Booster(params, cache=[matrix])
    for number in range(rounds):
        booster.update(matrix, number, obj)
    return booster


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize(
    "weighted", [pytest.param(False, marks=pytest.mark.slow), True], ids=["plain", "weighted"]
)
@pytest.mark.parametrize("rounds", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_trees_are_those_of_xgboost(objective, weighted, rounds):
    params = params_of(objective)
    X, info = problem(objective)
    if weighted:
        n_weights = len(np.unique(info["qid"])) if "qid" in info else N_ROWS
        info["weight"] = np.random.default_rng(1).exponential(size=n_weights).astype(np.float32)
    model, parties = federated(params, X, info, rounds)
    theirs = pooled(params, X, info, rounds)
    ours = model.export_booster(parties)
    assert_same_trees(ours, theirs)
    expected = theirs.predict(xgboost.DMatrix(X))
    np.testing.assert_allclose(model.predict(X[:, :3], parties), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours.predict(xgboost.DMatrix(X)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("objective", ["survival:cox", "rank:ndcg", "reg:absoluteerror"])
def test_encryption_changes_nothing(objective):
    """Gradients of any size, rows without hessian, and leaves that are quantiles."""
    params, (X, info) = params_of(objective, max_depth=2), problem(objective)
    clear, _ = federated(params, X, info, 2)
    encrypted, _ = federated(params, X, info, 2, cipher=xgb_fed.OkamotoUchiyama(512, allow_weak_key=True))
    assert encrypted.trees == clear.trees


def mean_absolute(prediction, data):
    return "own", float(np.abs(prediction - data.get_label()).mean())


def poisson(margin, data):
    """XGBoost's own Poisson loss, written by a user."""
    label, weight = data.get_label(), data.get_weight()
    weight = weight if weight.size else np.ones_like(label)
    mean = np.exp(margin)
    return (mean - label) * weight, mean * weight


@pytest.mark.parametrize(
    "objective", ["binary:logistic", "count:poisson", "multi:softprob", "reg:absoluteerror"]
)
def test_base_margins(objective):
    params, (X, info) = params_of(objective), problem(objective)
    n_classes = params.get("num_class", 1)
    info["base_margin"] = np.random.default_rng(2).normal(0, 0.3, (N_ROWS, n_classes)).astype(np.float32)
    if n_classes == 1:
        info["base_margin"] = info["base_margin"][:, 0]
    evals = [(xgb_fed.ActiveData(X[:, :3], **info), "same")]
    history = {}
    active, passive = parts(X, 3)
    party = xgb_fed.LocalParty(passive, "p", allow_export=True, eval_sets=[passive])
    with pytest.warns(xgb_fed.NotEncryptedWarning):
        model = xgb_fed.train(
            params,
            xgb_fed.ActiveData(active, **info),
            [party],
            3,
            cipher=xgb_fed.Plain(),
            evals=evals,
            evals_result=history,
            verbose_eval=False,
        )
    theirs = pooled(params, X, info, 3)
    assert_same_trees(model.export_booster([party]), theirs)
    matrix = pooled_matrix(params, X, info)
    expected = theirs.predict(matrix)
    got = model.predict(active, [party], base_margin=info["base_margin"])
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
    line = theirs.eval(matrix, "same", 2)
    last = float(line.split(":")[-1])
    assert next(iter(history["same"].values()))[-1] == pytest.approx(last, rel=1e-4)


def test_hessians_that_xgboost_itself_makes_negative():
    """Of one margin so far above all others that its sums over the rows at risk cancel."""
    X, info = problem("survival:cox")
    info["base_margin"] = np.zeros(N_ROWS)
    info["base_margin"][np.argsort(np.abs(info["label"]))[N_ROWS // 2]] = 20
    data = xgb_fed.ActiveData(X[:, :3], **info)
    with pytest.raises(InvalidDataError, match="negative hessians for survival:cox"):
        xgb_fed.train(params_of("survival:cox"), data, [Untouched()], 2)


def test_margins_beyond_the_logarithm():
    X, info = problem("reg:squaredlogerror")
    info["base_margin"] = np.linspace(-1.1, 0, N_ROWS)
    data = xgb_fed.ActiveData(X[:, :3], **info)
    with pytest.raises(InvalidDataError, match=r"squaredlogerror: a margin.*-1"):
        xgb_fed.train(params_of("reg:squaredlogerror"), data, [Untouched()], 2)


def test_rows_in_another_order_keep_what_belongs_to_them():
    """Rows of a ranking that are given in another order than the parties have them, within queries."""
    params, (X, info) = params_of("rank:ndcg"), problem("rank:ndcg")
    weight = np.random.default_rng(1).exponential(size=len(np.unique(info["qid"]))).astype(np.float32)
    expected = pooled(params, X, {**info, "weight": weight})
    rng = np.random.default_rng(3)
    order = np.concatenate(
        [rng.permutation(np.flatnonzero(info["qid"] == q)) for q in np.unique(info["qid"])]
    )
    shuffled = {name: values[order] for name, values in info.items()}
    party = xgb_fed.LocalParty(X[:, 3:], "p", allow_export=True)
    data = xgb_fed.ActiveData(X[order, :3], **shuffled, weight=weight, rows=order)
    with pytest.warns(xgb_fed.NotEncryptedWarning):
        model = xgb_fed.train(params, data, [party], 2, cipher=xgb_fed.Plain(), verbose_eval=False)
    assert_same_trees(model.export_booster([party]), expected)


@pytest.mark.parametrize("objective", ["reg:squarederror", "count:poisson"])
def test_an_objective_and_a_metric_of_the_user(objective):
    params, (X, info) = params_of(objective), problem("count:poisson")
    active, passive = parts(X, 3)
    party = xgb_fed.LocalParty(passive, "p", allow_export=True, eval_sets=[passive])
    history = {}
    with pytest.warns(xgb_fed.NotEncryptedWarning):
        model = xgb_fed.train(
            params,
            xgb_fed.ActiveData(active, **info),
            [party],
            3,
            cipher=xgb_fed.Plain(),
            obj=poisson,
            custom_metric=mean_absolute,
            evals=[(xgb_fed.ActiveData(active, **info), "same")],
            evals_result=history,
            verbose_eval=False,
        )
    theirs = pooled(params, X, info, 3, poisson)
    assert_same_trees(model.export_booster([party]), theirs)
    matrix = pooled_matrix(params, X, info)
    expected = mean_absolute(theirs.predict(matrix, output_margin=True), matrix)[1]
    assert history["same"]["own"][-1] == pytest.approx(expected, rel=1e-5)


def test_a_multi_class_objective_of_the_user():
    def softmax(margin, data):
        e = np.exp(margin - margin.max(axis=1, keepdims=True))
        p = e / e.sum(axis=1, keepdims=True)
        return p - (data.get_label()[:, None] == np.arange(3)), 2 * p * (1 - p)

    params, (X, info) = params_of("multi:softprob", base_score=0.5), problem("multi:softprob")

    def shaped(margin, data):
        # Before 2.1 XGBoost takes the gradients of all classes one row after the other.
        return [x if versions.installed() >= (2, 1) else x.ravel() for x in softmax(margin, data)]

    model, parties = federated(params, X, info, 2, obj=softmax)
    assert_same_trees(model.export_booster(parties), pooled(params, X, info, 2, shaped), 6)


def test_a_metric_of_the_user_is_given_predictions_of_xgboost_s_objectives():
    params, (X, info) = params_of("count:poisson"), problem("count:poisson")
    history = {}
    party = xgb_fed.LocalParty(X[:, 3:], "p", eval_sets=[X[:, 3:]])
    with pytest.warns(xgb_fed.NotEncryptedWarning):
        model = xgb_fed.train(
            params,
            xgb_fed.ActiveData(X[:, :3], **info),
            [party],
            2,
            cipher=xgb_fed.Plain(),
            custom_metric=mean_absolute,
            evals=[(xgb_fed.ActiveData(X[:, :3], **info), "same")],
            evals_result=history,
            verbose_eval=False,
        )
    means = model.predict(X[:, :3], [party])
    assert history["same"]["own"][-1] == pytest.approx(float(np.abs(means - info["label"]).mean()), rel=1e-5)


@pytest.mark.parametrize("objective", ["rank:map", "reg:quantileerror"])
def test_an_interrupted_run_ends_in_the_same_model(objective, tmp_path):
    params, (X, info) = params_of(objective, random_state=5), problem(objective)
    whole, _ = federated(params, X, info)

    class StopError(Exception):
        pass

    class Stop(xgboost.callback.TrainingCallback):
        def after_iteration(self, model, epoch, evals_log):
            if epoch == 1:
                raise StopError
            return False

    parties = parties_of([X[:, 3:]])
    with pytest.raises(StopError):
        federated(params, X, info, parties=parties, checkpoint=tmp_path, callbacks=[Stop()])
    resumed, _ = federated(params, X, info, parties=parties, checkpoint=tmp_path)
    assert resumed.trees == whole.trees


@pytest.mark.parametrize("objective", ["reg:tweedie", "survival:aft"])
def test_saved_and_pickled_models_predict_the_same(objective, tmp_path):
    params, (X, info) = params_of(objective), problem(objective)
    model, parties = federated(params, X, info, 2)
    expected = model.predict(X[:, :3], parties)
    model.save(tmp_path)
    for again in (xgb_fed.VerticalModel.load(tmp_path), pickle.loads(pickle.dumps(model))):
        assert again.objective == model.objective
        np.testing.assert_array_equal(again.predict(X[:, :3], parties), expected)


class Untouched:
    """A party that must not be asked for anything."""

    name = "untouched"

    def handle(self, request):
        raise AssertionError("asked")


@pytest.mark.parametrize(
    ("objective", "change", "error", "text"),
    [
        ("count:poisson", {"label": -np.ones(N_ROWS)}, InvalidDataError, "label of active_data"),
        ("reg:tweedie", {"label": -np.ones(N_ROWS)}, InvalidDataError, "label of active_data"),
        ("reg:gamma", {"label": np.full(N_ROWS, np.nan)}, InvalidDataError, "label of active_data"),
        ("binary:hinge", {"label": np.full(N_ROWS, 0.5)}, InvalidDataError, "label of active_data"),
        ("reg:logistic", {"label": np.full(N_ROWS, 1.5)}, InvalidDataError, "label of active_data"),
        ("rank:map", {"label": np.arange(N_ROWS)}, InvalidDataError, "label of active_data"),
        ("rank:ndcg", {"qid": None}, InvalidArgumentError, "qid of active_data"),
        ("rank:ndcg", {"qid": np.arange(N_ROWS)[::-1]}, InvalidDataError, "qid of active_data"),
        ("rank:ndcg", {"qid": np.zeros(N_ROWS)}, InvalidDataError, "qid of active_data"),
        ("rank:ndcg", {"weight": np.ones(N_ROWS)}, InvalidDataError, "weight of active_data"),
        ("reg:gamma", {"qid": np.zeros(N_ROWS, dtype=int)}, InvalidArgumentError, "qid of active_data"),
        ("survival:aft", {"label_upper_bound": None}, InvalidArgumentError, "label_upper_bound"),
        ("survival:aft", {"label_lower_bound": np.full(N_ROWS, np.inf)}, InvalidDataError, "label_lower"),
        ("survival:aft", {"label_upper_bound": np.zeros(N_ROWS)}, InvalidDataError, "label_upper"),
        ("survival:cox", {"label_lower_bound": np.ones(N_ROWS)}, InvalidArgumentError, "label_lower"),
        ("reg:gamma", {"base_margin": np.ones((N_ROWS, 2))}, InvalidDataError, "base_margin"),
        ("reg:gamma", {"base_margin": np.full(N_ROWS, np.nan)}, InvalidDataError, "base_margin"),
    ],
)
def test_rows_that_an_objective_cannot_be_trained_on(objective, change, error, text):
    X, info = problem(objective)
    data = xgb_fed.ActiveData(X[:, :3], **{**info, **change})
    with pytest.raises(error, match=text):
        xgb_fed.train(params_of(objective), data, [Untouched()], 2)


@pytest.mark.parametrize(
    ("params", "error", "text"),
    [
        ({"objective": "rank:ndcg", "lambdarank_unbiased": True}, UnsupportedParameterError, "unbiased"),
        ({"objective": "reg:quantileerror"}, UnsupportedParameterError, "quantile_alpha"),
        (
            {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9]},
            UnsupportedParameterError,
            "quantile_alpha",
        ),
        ({"objective": "reg:quantileerror", "quantile_alpha": 1.5}, InvalidArgumentError, "quantile_alpha"),
        (
            {"objective": "reg:tweedie", "tweedie_variance_power": 2.5},
            InvalidArgumentError,
            "tweedie_variance_power",
        ),
        ({"objective": "reg:gamma", "huber_slope": 2.0}, UnsupportedParameterError, "huber_slope"),
        ({"objective": "survival:aft", "aft_loss_distribution": "t"}, InvalidArgumentError, "aft_loss"),
        ({"objective": "count:poisson", "base_score": 0.0}, InvalidArgumentError, "base_score"),
        ({"objective": "multi:softmax"}, InvalidArgumentError, "num_class"),
        ({"objective": "reg:gamma", "scale_pos_weight": 2.0}, UnsupportedParameterError, "scale_pos_weight"),
    ],
)
def test_parameters_of_objectives_that_are_refused(params, error, text):
    X, info = problem(params["objective"])
    with pytest.raises(error, match=text):
        xgb_fed.train(params, xgb_fed.ActiveData(X[:, :3], **info), [Untouched()], 2)


@pytest.mark.parametrize(
    ("obj", "text"),
    [
        (lambda margin, data: (margin, -np.ones_like(margin)), "negative hessians"),
        (lambda margin, data: (margin * np.nan, np.ones_like(margin)), "infinite"),
        (lambda margin, data: margin, "gradients and hessians"),
    ],
)
def test_objectives_of_the_user_that_are_refused(obj, text):
    X, info = problem("reg:squarederror")
    data = xgb_fed.ActiveData(X[:, :3], **info)
    with pytest.raises(InvalidDataError, match=f"obj.*{text}"):
        xgb_fed.train(params_of("reg:squarederror", base_score=0.5), data, [Untouched()], 2, obj=obj)
