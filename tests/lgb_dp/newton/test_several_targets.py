"""Several targets at once: one release of all for each tree, whose neighbours are brute-forced here."""

import pickle
import warnings

import lightgbm
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV

import lgb_dp
import lgb_dp.federated
from gbdt_kernels.trees import DenseCodes, by_columns
from gbdt_parties.errors import PartyRefusedError
from lgb_dp.accounting.gaussian import gaussian_epsilon, gaussian_mu
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.loss import NewtonLoss
from lgb_dp.newton.releases.leaf_sums import LocalLeafSums
from lgb_dp.newton.releases.trees import PublicTree, ReleasedTree, Round

RNG = np.random.default_rng(0)
N, K = 2000, 3
X = RNG.uniform(-1, 1, (N, 4))
UNITS = np.array([1.0, 10.0, 1000.0])
Y = (X[:, :K] + RNG.normal(0, 0.1, (N, K))) * UNITS
BOUNDS = [(-1.5 * unit, 1.5 * unit) for unit in UNITS]
TREE = PublicTree(
    np.array([0, 1, 2], np.int32), RNG.integers(0, 2, (3, 256)).astype(np.uint8), np.full(3, -1)
)


def model(**settings):
    return lgb_dp.DPLGBMRegressor(**{"epsilon": 8.0, "n_estimators": 40, "n_jobs": 1, **settings})


def fitted(x=X, y=Y, *, settings=None, **given):
    return model(**settings or {}).fit(x, y, **{"bounds": (-1, 1), "label_bounds": BOUNDS, **given})


@pytest.fixture(scope="module")
def one():
    return fitted()


@pytest.mark.parametrize("wider", [1.0, 4.0])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_neighbouring_data_sets_differ_by_one_row_of_the_noise(share, wider):
    """Without any one row, or one person's rows, all sums of all targets move by their weights at most."""
    n = 60
    scale = LabelScale("multiregression", K, *np.transpose(BOUNDS), 1.0)
    loss = NewtonLoss("regression", 0.055, share, K)
    codes = DenseCodes(RNG.integers(0, 9, (n, 4)).astype(np.uint8))
    weight, person = RNG.integers(1, 100, n).astype(np.int32), np.arange(n) // 3
    label, value = RNG.uniform(*np.transpose(BOUNDS), (n, K)), RNG.normal(0, 0.5, (4, K))
    question = Round(2, TREE, np.zeros(K), [ReleasedTree(1, TREE, value)], wider)

    def released(kept):
        rows = by_columns(codes.take(np.flatnonzero(kept))), label[kept], weight[kept]
        sums = LocalLeafSums(*rows, loss, scale, None, 1, 1.0, lambda: None)
        in_noise = sums.sums(question) / np.array(loss.stds(1.0))
        return in_noise, sums.label_counts() / 2**14

    everything, longest = released(np.ones(n, np.bool_)), 0.0
    for without in [*np.eye(n, dtype=np.bool_), *(person == p for p in range(n // 3))]:
        for all_rows, others in zip(everything, released(~without), strict=True):
            moved = np.linalg.norm(all_rows - others) / weight[without].sum()
            assert moved <= 1 + 1e-9
            longest = max(longest, moved)
    assert longest > 0.95


def test_all_targets_are_learned_in_their_own_units(one):
    predicted = one.predict(X)
    assert predicted.shape == (N, K)
    assert (r2_score(Y, predicted, multioutput="raw_values") > 0.8).all()
    assert one.score(X, Y) == r2_score(Y, predicted)
    assert one.privacy_.epsilon == pytest.approx(8)
    releases = {row["release"]: row["count"] for row in one.privacy_.ledger}
    assert releases["leaf sums"] == 40, "one release serves all targets of a tree"
    assert releases["label counts"] == 1


def test_the_model_is_lightgbms_own(one):
    text = one.booster_.model_to_string()
    np.testing.assert_array_equal(lightgbm.Booster(model_str=text).predict(X[:50]), one.predict(X[:50]))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).predict(X[:50]), one.predict(X[:50]))
    contributions = one.predict(X[:50], pred_contrib=True).reshape(50, K, 5)
    np.testing.assert_allclose(contributions.sum(axis=2), one.predict(X[:50]))
    assert clone(one).get_params() == one.get_params()
    assert lgb_dp.statement(one.booster_)


def test_they_are_no_worse_than_models_of_their_own():
    rounds = {"n_estimators": 400}
    alone = {**rounds, "epsilon": gaussian_epsilon(gaussian_mu(8, 1e-5) / np.sqrt(K), 1e-5)}
    own = [fitted(y=Y[:, k], label_bounds=BOUNDS[k], settings=alone) for k in range(K)]
    assert (
        fitted(settings=rounds).score(X, Y)
        > r2_score(Y, np.column_stack([single.predict(X) for single in own])) - 0.01
    )


HOLES = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
GIVEN = {
    "two": (X, Y[:, :2], {"label_bounds": BOUNDS[:2]}),
    "a table": (X, pd.DataFrame(Y[:, :2], columns=["time", "event"]), {"label_bounds": BOUNDS[:2]}),
    "lists": (X, Y.tolist(), {}),
    "one pair": (X, Y / UNITS, {"label_bounds": BOUNDS[0]}),
    "sparse": (scipy.sparse.csr_matrix(X), Y, {}),
    "holes": (HOLES, Y, {}),
    "categories": (np.column_stack([X > 0, X]), Y, {"categories": {f: [0, 1] for f in range(4)}}),
    "weights": (X, Y, {"sample_weight": RNG.uniform(0, 2, N), "weight_bound": 2}),
    "persons": (X, Y, {"groups": np.arange(N) // 2, "rows_per_group": 2}),
    "bought": (X, Y, {"bounds": None}),
}


@pytest.mark.parametrize("name", GIVEN)
def test_rows_of_every_kind(name):
    x, y, given = GIVEN[name]
    settings = {"auto_bounds": 0.2} if name == "bought" else {}
    found = fitted(x, y, settings=settings, **given)
    assert found.score(x, y) > (0.5 if name == "holes" else 0.7)


def test_a_constant_target_stays_at_its_value():
    y = np.column_stack([Y[:, 0], np.full(N, 3.0)])
    predicted = fitted(y=y, label_bounds=[BOUNDS[0], (0, 10)]).predict(X)
    np.testing.assert_allclose(predicted[:, 1], 3.0, atol=0.5)
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="label_bounds"):
        assert not fitted(y=y, label_bounds=None).privacy_.private


def test_a_row_that_lacks_a_target_has_no_weight():
    y = np.where(np.arange(N)[:, None] == 5, [np.nan, 1.0, 1.0], Y)
    assert fitted(y=y).score(X, Y) > 0.8
    with pytest.raises(lgb_dp.InvalidArgumentError, match="label"):
        fitted(y=y, settings={"label_overflow": "raise"})
    with pytest.raises(lgb_dp.InvalidArgumentError, match="label_bounds"):
        fitted(y=2 * Y, settings={"label_overflow": "raise"})


def test_training_continues_with_as_many_targets(one):
    assert fitted(init_model=one).score(X, Y) > 0.8
    assert fitted(init_score=one.predict(X), public_init_score=True).predict(X).shape == (N, K)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="init_score"):
        fitted(init_model=fitted(y=Y[:, 0], label_bounds=BOUNDS[0]))


def test_monotone_constraints_hold_for_every_target():
    found = fitted(settings={"monotone_constraints": [1, 0, 0, 0]})
    steps = np.diff(found.predict(np.column_stack([np.linspace(-1, 1, 50), np.zeros((50, 3))])), axis=0)
    assert (steps >= 0).all()


def test_other_libraries_treat_it_as_a_regressor_of_several_outputs():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lgb_dp.NotPrivateWarning)
        search = GridSearchCV(model(n_estimators=10), {"reg_lambda": [0.1, 1.0]}, cv=2)
        search.fit(X, Y, bounds=(-1, 1), label_bounds=BOUNDS)
    assert search.best_estimator_.predict(X).shape == (N, K)


REFUSED = [
    ({}, {"label_bounds": BOUNDS[:2]}, "label_bounds has 2 pairs"),
    ({}, {"y": Y[:, 0]}, "label_bounds has 3 pairs"),
    ({}, {"label_bounds": [(0, 1), (0, 1), (1, 0)]}, "label_bounds"),
    ({}, {"label_bounds": [(0, 1), (0, 1), (1, 2, 3)]}, "label_bounds"),
    ({}, {"y": np.tile(Y, (1, 34))}, "num_class=102"),
    ({}, {"y": Y[:, :, None]}, "y should be a 1d array"),
    ({}, {"eval_set": [(X, Y)], "public_eval_set": True}, "valid_sets"),
    ({"method": "dpboost"}, {}, "method"),
    ({"objective": "huber"}, {}, "objective"),
    ({"validation_fraction": 0.1}, {}, "validation_fraction"),
]


@pytest.mark.parametrize(("settings", "given", "named"), REFUSED)
def test_what_several_targets_cannot_have_is_named(settings, given, named):
    budget = lgb_dp.Budget(10, 1e-3)
    with pytest.raises((lgb_dp.InvalidArgumentError, lgb_dp.UnsupportedParameterError), match=named):
        fitted(settings=settings, budget=budget, **given)
    assert budget.spent.epsilon == 0


def test_noise_bands_and_intervals_of_several_targets_are_refused_by_name(one):
    for ask in (lambda: one.predict(X, return_std=True), lambda: lgb_dp.effects(one)):
        with pytest.raises(lgb_dp.UnsupportedParameterError, match="multiregression"):
            ask()
    with pytest.raises(AttributeError, match="validation_fraction"):
        one.predict_interval(X)


def native(params=None, label=Y, trainer=None, bounds=BOUNDS, **given):
    rows = lgb_dp.Dataset(X, label, bounds=(-1, 1), label_bounds=bounds, label_overflow="clip")
    valid = [rows] if given.pop("on_itself", False) else None
    return lightgbm.train(
        {"objective": "multiregression", "num_class": K, "verbosity": -1, **(params or {})},
        rows,
        20,
        valid_sets=valid,
        callbacks=[trainer or lgb_dp.NewtonBoost(4.0, 1e-6)],
    )


def test_lightgbm_train_takes_several_targets():
    assert native().predict(X).shape == (N, K)
    assert native({"num_class": 2}, Y[:, :2], bounds=BOUNDS[:2]).predict(X).shape == (N, 2)
    with pytest.warns(lgb_dp.NotPrivateWarning, match="infinite"):
        exact = native(trainer=lgb_dp.NewtonBoost(np.inf, 1e-6))
    assert r2_score(Y, exact.predict(X)) > 0.7


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"params": {"objective": "regression", "num_class": 1}, "bounds": BOUNDS[0]}, "one number per row"),
        ({"params": {"objective": "regression"}}, "num_class=3"),
        ({"params": {"num_class": 2}, "bounds": BOUNDS[0]}, "num_class=2"),
        ({"label": Y[:, 0], "bounds": BOUNDS[0]}, "num_class=3"),
        ({"trainer": lgb_dp.DPBoost(1.0)}, "multiregression"),
        ({"on_itself": True}, "valid_sets"),
    ],
)
def test_labels_and_objective_must_fit(given, named):
    with pytest.raises((lgb_dp.InvalidArgumentError, lgb_dp.UnsupportedParameterError), match=named):
        native(**given)


def test_rows_apart_and_columns_apart_refuse_several_targets():
    params = {"objective": "multiregression", "num_class": K}
    known = {"bounds": (-1, 1), "label_bounds": BOUNDS}
    parties = [lgb_dp.federated.Party(X[k::2], Y[k::2], name=f"{k}", **known) for k in (0, 1)]
    with pytest.raises(PartyRefusedError, match="y has several columns"):
        lgb_dp.federated.train(params, parties, 4, callbacks=[lgb_dp.NewtonBoost(20.0, 1e-6)])
