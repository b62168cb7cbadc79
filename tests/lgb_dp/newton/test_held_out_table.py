"""Held-out rows: which they are, what their table holds, what it costs, and where it is refused."""

import pickle

import lightgbm
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.metrics import confusion_matrix, log_loss, r2_score, roc_auc_score

import lgb_dp
from gbdt_kernels.concordance import concordance
from lgb_dp.accounting.gaussian import gaussian_mu
from lgb_dp.evaluation.several_classes import MAX_CELLS
from lgb_dp.losses.labels import LabelScale
from lgb_dp.mechanisms.noise import observed
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.held_out_table import likely_scores, release_shares, score_bins, score_grid
from lgb_dp.statements import QUALITY

X, Y = make_classification(3000, 5, n_informative=4, n_redundant=1, random_state=0)
BOUNDS = (X.min(axis=0), X.max(axis=0))
PARAMS = {"objective": "binary", "verbosity": -1, "num_threads": 1}


def train(n_rounds=30, epsilon=1.0, *, share=0.2, params=PARAMS, label=Y, trainer=None, **given):
    data = lgb_dp.Dataset(X, label, bounds=BOUNDS, **given)
    trainer = trainer or lgb_dp.NewtonBoost(epsilon, 1e-5, validation_fraction=share)
    return lightgbm.train(params, data, n_rounds, callbacks=[trainer])


def test_the_table_costs_nothing_beside_training():
    with_table, without = train().privacy, train(share=0.0).privacy
    assert (with_table.epsilon, with_table.delta) == (without.epsilon, without.delta)
    assert with_table.spent[0] <= with_table.epsilon
    held_out = [row for row in with_table.ledger if row["release"] == "held-out rows"]
    assert [row["count"] for row in held_out] == [1, 1]
    assert sum(row["mu"] ** 2 for row in held_out) == pytest.approx(with_table.cost.mu**2)
    assert with_table.private


def test_rows_add_up_to_those_held_out_and_figures_are_those_of_the_rows():
    booster = train(60, 50.0, share=0.4)
    evaluation = booster.evaluation
    assert evaluation.n_rows.low <= 0.4 * len(Y) * 1.15
    assert evaluation.n_rows.high >= 0.4 * len(Y) * 0.85
    assert evaluation.positives.low <= Y.mean() <= evaluation.positives.high
    assert evaluation.auc.value == pytest.approx(roc_auc_score(Y, booster.predict(X)), abs=0.04)
    probability = booster.predict(X)
    assert evaluation.brier.value == pytest.approx(((probability - Y) ** 2).mean(), abs=0.03)
    assert evaluation.accuracy.value == pytest.approx(((probability > 0.5) == Y).mean(), abs=0.04)


def test_a_run_without_noise_counts_its_rows_exactly():
    with pytest.warns(lgb_dp.NotPrivateWarning):
        evaluation = train(5, np.inf, share=0.5).evaluation
    assert evaluation.std == 0
    assert (evaluation.counts == np.rint(evaluation.counts)).all()
    assert evaluation.counts.min() >= 0


def test_the_evaluation_travels_in_the_model(tmp_path):
    booster = train()
    booster.save_model(tmp_path / "model.txt")
    read = lgb_dp.DPBooster(model_file=tmp_path / "model.txt").evaluation
    assert read.to_dict() == booster.evaluation.to_dict()
    for report in (booster.privacy, lgb_dp.privacy_of(tmp_path / "model.txt")):
        assert report.evaluation.to_dict() == read.to_dict()
        assert pickle.loads(pickle.dumps(report)) == booster.privacy
    assert train(share=0.0).evaluation is None


@pytest.mark.parametrize(
    "change",
    [
        ("[", "[[", 1),
        ("[", f"[{10**400}, ", 1),
        ('"std":', '"std": -', 1),
        ('"counts"', '"count"', 1),
        ('"alike": 1', '"alike": 0', 1),
        ("{", '{"by": "a", "groups": [[1, 2]], ', 1),
        ("{", '{"by": "a", "groups": {}, ', 1),
        ("{", '{"groups": {}, ', 1),
    ],
)
def test_a_damaged_evaluation_is_refused(change):
    text = train(3).model_to_string()
    before, told, after = text.partition('"evaluation"')
    with pytest.raises((lgb_dp.AlteredModelError, lgb_dp.NoGuaranteeError)):
        _ = lgb_dp.DPBooster(model_str=before + told + after.replace(*change)).evaluation


def test_a_run_that_ended_early_or_lost_a_tree_has_no_evaluation():
    data = lgb_dp.Dataset(X, Y, bounds=BOUNDS)
    trainer = lgb_dp.NewtonBoost(1.0, 1e-5, rounds=12, validation_fraction=0.2)
    booster = lightgbm.train(PARAMS, data, 10, callbacks=[trainer], keep_training_booster=True)
    assert booster.evaluation is None
    booster.update()
    booster.update()
    assert booster.evaluation is not None
    assert booster.privacy.evaluation is not None
    booster.rollback_one_iter()
    assert booster.evaluation is None


def test_an_evaluation_is_of_all_trees_alone(tmp_path):
    booster = train(12, 50.0)
    for n_trees, is_there in {12: True, 5: False}.items():
        short = lgb_dp.DPBooster(model_str=booster.model_to_string(num_iteration=n_trees))
        for model in (short, lgb_dp.fold(short)):
            assert (model.evaluation is not None) == is_there
    assert lgb_dp.fold(booster, 0.1).evaluation is None
    booster.best_iteration = 5
    assert booster.evaluation is None
    data = lgb_dp.Dataset(X, Y, bounds=BOUNDS)
    wrong = lgb_dp.Dataset(X[:50], 1 - Y[:50], reference=data, public=True)
    callbacks = [lgb_dp.NewtonBoost(50.0, 1e-5, validation_fraction=0.2)]
    callbacks.append(lightgbm.early_stopping(50, verbose=False))
    for is_kept in (False, True):
        stopped = lightgbm.train(
            PARAMS, data, 12, valid_sets=[wrong], callbacks=callbacks, keep_training_booster=is_kept
        )
        assert stopped.best_iteration < 12
        assert stopped.evaluation is None
        assert QUALITY not in lgb_dp.statement(stopped).tables
    stopped.best_iteration = 12
    assert stopped.evaluation is not None


def test_a_model_of_several_classes_that_uses_all_iterations_is_evaluated():
    booster = train(4, params={**PARAMS, "objective": "multiclass", "num_class": 3})
    booster.best_iteration = 4
    assert booster.evaluation is not None
    booster.best_iteration = 3
    assert booster.evaluation is None


@pytest.mark.parametrize("bounds", [(-1e100, 1e100), (0, 1e-300)])
def test_labels_of_any_unit_have_figures(bounds):
    label, params = np.linspace(*bounds, len(Y)), {**PARAMS, "objective": "regression"}
    for one in train(3, label=label, params=params, label_bounds=bounds).evaluation.figures().values():
        assert one.low <= one.value <= one.high
        assert np.isfinite(one.high)


def test_a_refused_fit_has_bought_no_bounds():
    budget, start = lgb_dp.Budget(5.0, 1e-4), np.zeros(len(Y))
    model = lgb_dp.DPLGBMClassifier(3, validation_fraction=0.2, auto_bounds=0.2)
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="validation_fraction"):
        model.fit(X, Y, init_score=start, budget=budget)
    assert budget.spent == lgb_dp.Budget(5.0, 1e-4).spent


@pytest.mark.parametrize("objective", ["regression", "huber", "poisson"])
def test_numbers_are_evaluated_by_their_residuals(objective):
    label = np.clip(2 + X[:, 0] + 0.3 * X[:, 1], 0.1, 6)
    booster = train(60, 50.0, params={**PARAMS, "objective": objective}, label=label, label_bounds=(0.1, 6))
    evaluation, residual = booster.evaluation, label - booster.predict(X)
    assert evaluation.rmse.low <= np.sqrt((residual**2).mean()) * 1.1
    assert evaluation.rmse.high >= np.sqrt((residual**2).mean()) * 0.9
    assert evaluation.mae.value == pytest.approx(np.abs(residual).mean(), rel=0.2)
    assert evaluation.bias.value == pytest.approx(residual.mean(), abs=0.1)
    read = lgb_dp.DPBooster(model_str=booster.model_to_string()).evaluation
    assert read.to_dict() == evaluation.to_dict()
    assert "RMSE" in str(read)


def test_rows_of_a_person_are_on_one_side():
    person = np.repeat(np.arange(len(Y) // 3), 3)
    booster = train(5, 20.0, share=0.3, groups=person, rows_per_group=3)
    assert booster.privacy.private
    assert booster.evaluation.std == pytest.approx(3 * train(5, 20.0, share=0.3).evaluation.std, rel=1e-6)
    assert booster.evaluation.alike == 3
    means = train(5, 20.0, share=0.3, groups=person, rows_per_group=3, group_weight="mean")
    assert means.evaluation.alike == 1


TIME, LEFT = np.exp(X[:, 0].clip(-3, 3) + Y), np.exp(X[:, 1].clip(-3, 2) + 2)
TIMES = np.rec.fromarrays([TIME <= LEFT, np.minimum(TIME, LEFT)], names=["event", "time"])
KINDS = {
    "binary": (PARAMS, Y, {}),
    "multiclass": ({**PARAMS, "objective": "multiclass", "num_class": 3}, np.digitize(X[:, 0], [-1, 1]), {}),
    "regression": ({**PARAMS, "objective": "regression"}, X[:, 0], {"label_bounds": (-9, 9)}),
    "aft_logistic": ({**PARAMS, "objective": lgb_dp.AFT()}, TIMES, {"label_bounds": (0.01, 200)}),
}


@pytest.fixture
def pinned(monkeypatch):
    """The coins of rows, in order, and the same public draws for all runs."""

    def pin(coins):
        words = np.where(coins, np.uint64(0), np.uint64(2**64 - 1))
        monkeypatch.setattr("lgb_dp.boosting.run_rows.RunRows.draw_words", lambda self, _: words)

    stream = SecureRandom
    monkeypatch.setattr("lgb_dp.boosting.training.SecureRandom", lambda _: stream(7))
    return pin


@pytest.mark.parametrize("objective", KINDS)
def test_tables_without_noise_are_counts_of_the_held_out_rows(objective, pinned):
    params, label, declared = KINDS[objective]
    is_held = np.arange(len(Y)) % 3 == 0
    pinned(is_held)
    with pytest.warns(lgb_dp.NotPrivateWarning):
        booster = train(20, np.inf, params=params, label=label, **declared)
    found, label, predicted = booster.evaluation, label[is_held], booster.predict(X[is_held])
    assert found.n_rows.value == is_held.sum()
    if objective == "aft_logistic":
        assert found.events.value == pytest.approx(label["event"].mean(), abs=1e-12)
        upper = np.where(label["event"], label["time"], np.inf)
        pairs, in_order = concordance(label["time"], upper, predicted)
        assert found.concordance.value == pytest.approx(in_order / pairs, abs=0.02)
        return
    if objective == "regression":
        assert found.mae.value == pytest.approx(np.abs(label - predicted).mean(), rel=0.1)
        assert found.r2.value == pytest.approx(r2_score(label, predicted), abs=0.05)
        return
    probability = np.column_stack([1 - predicted, predicted]) if objective == "binary" else predicted
    assert found.accuracy.value == pytest.approx((probability.argmax(axis=1) == label).mean(), abs=1e-12)
    assert found.log_loss.value == pytest.approx(log_loss(label, probability), rel=0.05)
    pairs = confusion_matrix(label, probability.argmax(axis=1)).ravel()
    assert [row["rows"] for row in found.confusion()] == pairs.tolist()


CITY = np.where(X[:, 1] > 1.5, 7, np.where(X[:, 1] > 0, 1, 2))
GROUPS = {"bounds": {k: (-9, 9) for k in range(5)}, "categories": {5: [1, 2]}}
"""Of a column of two declared values and one that is not."""


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("objective", KINDS)
def test_public_groups_have_tables_of_their_own(objective, is_sparse, pinned):
    params, label, declared = KINDS[objective]
    is_held = np.arange(len(Y)) % 3 == 0
    pinned(is_held)
    rows = np.column_stack([X, CITY])
    data = lgb_dp.Dataset(scipy.sparse.csr_matrix(rows) if is_sparse else rows, label, **GROUPS, **declared)
    trainer = lgb_dp.NewtonBoost(np.inf, 1e-5, validation_fraction=0.3, by=5)
    with pytest.warns(lgb_dp.NotPrivateWarning):
        booster = lightgbm.train(params, data, 3, callbacks=[trainer])
    found = booster.evaluation
    n_rows = {name: one.n_rows.value for name, one in found.groups.items()}
    names = {"1": 1, "2": 2, "missing or undeclared": 7}
    assert n_rows == {name: (CITY[is_held] == city).sum() for name, city in names.items()}
    assert found.n_rows.value == is_held.sum()
    assert booster.predict(rows).shape[0] == len(rows)
    name = {"regression": "RMSE", "aft_logistic": "concordance"}.get(objective, "accuracy")
    assert f"{name}, Column_5=2" in str(found)
    read = pickle.loads(pickle.dumps(booster)).evaluation
    assert read.to_dict() == found.to_dict()
    assert read.figures() == found.figures()


def test_groups_cost_nothing_more():
    data = lgb_dp.Dataset(np.column_stack([X, CITY]), Y, **GROUPS)
    trainer = lgb_dp.NewtonBoost(1.0, 1e-5, validation_fraction=0.2, by="Column_5")
    found = lightgbm.train(PARAMS, data, 5, callbacks=[trainer])
    plain = train(5)
    assert found.privacy.cost == plain.privacy.cost
    one = found.evaluation.groups["1"]
    assert one.std == pytest.approx(plain.evaluation.std)
    assert found.evaluation.std == pytest.approx(np.sqrt(3) * one.std)


def test_a_value_named_as_the_undeclared_ones_is_a_group_of_its_own():
    values = ["missing or undeclared", "x"]
    frame = pd.DataFrame({"a": X[:, 0], "city": np.where(X[:, 1] > 0, *values)})
    data = lgb_dp.Dataset(frame, Y, bounds={"a": (-9, 9)}, categories={"city": values})
    trainer = lgb_dp.NewtonBoost(50.0, 1e-5, validation_fraction=0.2, by="city")
    groups = lightgbm.train(PARAMS, data, 3, callbacks=[trainer]).evaluation.groups
    assert sorted(one.n_rows.value > 100 for one in groups.values()) == [False, True, True]


@pytest.mark.parametrize("by", ["Column_0", "sex", 9, -1, True, 0.5, []])
def test_columns_without_declared_values_are_refused_by_name(by):
    trainer = lgb_dp.NewtonBoost(1.0, 1e-5, validation_fraction=0.2, by=by)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="by="):
        train(3, trainer=trainer)


def test_groups_read_from_the_data_or_without_held_out_rows_are_refused():
    frame = pd.DataFrame({"a": X[:, 0], "city": pd.Categorical(CITY)})
    data = lgb_dp.Dataset(frame, Y, bounds={"a": (-9, 9)})
    trainer = lgb_dp.NewtonBoost(1.0, 1e-5, validation_fraction=0.2, by="city")
    with (
        pytest.warns(lgb_dp.PrivacyLeakWarning),
        pytest.raises(lgb_dp.InvalidArgumentError, match="column of declared values"),
    ):
        lightgbm.train(PARAMS, data, 3, callbacks=[trainer])
    with pytest.raises(lgb_dp.InvalidArgumentError, match="validation_fraction"):
        lgb_dp.NewtonBoost(1.0, 1e-5, by="city")
    with pytest.raises(lgb_dp.InvalidArgumentError, match="by='city'"):
        lgb_dp.DPLGBMClassifier(method="dpboost", by="city").fit(X, Y, bounds=BOUNDS)


def test_intervals_of_a_regressor_follow_from_its_table():
    label, new = X[:, 0] + 0.1 * X[:, 1], X[:500]
    model = lgb_dp.DPLGBMRegressor(20.0, n_estimators=60, validation_fraction=0.3)
    model = clone(model).fit(X, label, bounds=BOUNDS, label_bounds=(-9, 9))
    for alpha in (0.05, 0.5):
        low, high = model.predict_interval(new, alpha).T
        assert np.mean((low <= label[:500]) & (label[:500] <= high)) >= 1 - alpha
        assert (high - low).max() < 9
    with pytest.raises(lgb_dp.InvalidArgumentError, match="alpha must be in"):
        model.predict_interval(new, 1)
    with pytest.raises(AttributeError, match="validation_fraction"):
        lgb_dp.DPLGBMRegressor(20.0, n_estimators=2).fit(
            X, label, bounds=BOUNDS, label_bounds=(-9, 9)
        ).predict_interval(new)


@pytest.mark.parametrize("by", [None, 5])
@pytest.mark.parametrize("objective", KINDS)
@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("n_rows", [1, 3])
def test_a_neighbours_losses_add_up_to_what_was_granted(objective, is_held, n_rows, by, pinned):
    """Of neighbours with equal coins, who are told the same releases, one of the two sides differs alone."""
    params, label, declared = KINDS[objective]
    person = np.append(np.arange(300), np.full(n_rows, 300))
    told, losses = [], []

    def observe(private, release):
        told.append((private.values, release()))
        return told[-1][1]

    def compare(private, release):
        release()  # so that later public draws are the same
        before, released = told[len(losses)]
        losses.append((((private.values - before) / private.scale) ** 2).sum())
        return released

    for n, watch in ((300 + n_rows, observe), (300, compare)):
        pinned(np.append(np.arange(300) % 2 == 0, np.full(n_rows, is_held))[:n])
        known = {**declared, **GROUPS, "groups": person[:n], "rows_per_group": 3}
        held = {"validation_fraction": 0.5, "by": by}
        trainer = lgb_dp.NewtonBoost(1.0, 1e-5, structure="random", depth=2, **held)
        with observed(watch):
            data = lgb_dp.Dataset(np.column_stack([X, CITY])[:n], label[:n], **known)
            lightgbm.train(params, data, 3, callbacks=[trainer])
    of_table = len(release_shares(LabelScale(objective, 3 if objective == "multiclass" else 1, 0.1, 1.0)))
    trees, table = sum(losses[:-of_table]), sum(losses[-of_table:])
    assert (trees == 0, table == 0) == (is_held, not is_held)
    assert np.sqrt(trees + table) <= gaussian_mu(1.0, 1e-5) * n_rows / 3 * (1 + 1e-6)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"params": {**PARAMS, "objective": "multiclass", "num_class": 91}}, "num_class=91"),
        ({"init_score": np.zeros(len(Y)), "public_init_score": True}, "continue"),
        ({"trainer": lgb_dp.NewtonBoost(1.0, 1e-5, validation_fraction=0.1, subsample=0.5)}, "subsample"),
    ],
)
def test_runs_that_cannot_be_evaluated_are_refused_by_name(given, name):
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=f"validation_fraction=0.*{name}"):
        train(3, **given)


@pytest.mark.parametrize("share", [-0.1, 1.0, "much", None, np.nan])
def test_shares_that_are_none_are_refused(share):
    with pytest.raises((lgb_dp.InvalidArgumentError, lgb_dp.ArgumentTypeError), match="validation_fraction"):
        lgb_dp.NewtonBoost(1.0, 1e-5, validation_fraction=share)


def test_bins_are_laid_out_where_scores_are_whatever_made_up_rows_say():
    made_up, true = np.linspace(-1, 1, 1000), np.linspace(-6, -4, 8000)
    grid = score_grid(made_up)
    counts = np.bincount(np.searchsorted(grid, true), minlength=len(grid) + 1) + 50.0
    edges, _ = score_bins(likely_scores(grid, counts, 60.0, made_up), 8)
    inside = np.bincount(np.searchsorted(edges, true), minlength=len(edges) + 1)
    assert inside.max() < 0.3 * len(true)
    hidden = likely_scores(grid, np.full(len(grid) + 1, 50.0), 60.0, made_up)
    np.testing.assert_array_equal(hidden, made_up)


@pytest.mark.parametrize("n_bins", [8, 64])
@pytest.mark.parametrize("scores", [np.zeros(100), np.linspace(-3, 2, 1000), np.full(50, 7.0)])
def test_bins_of_scores_are_apart_at_zero(n_bins, scores):
    edges, points = score_bins(scores, n_bins)
    assert 0.0 in edges
    assert (np.diff(edges) > 0).all()
    assert points.shape == (len(edges) + 1, 5)
    cells = np.searchsorted(edges, points)
    assert (np.diff(points, axis=1) >= 0).all()
    assert cells.min() >= 0


def test_times_of_many_groups_have_no_more_cells_than_parties_reserve():
    rows = np.column_stack([np.arange(3000.0) % 250, X[:, 0]])
    given = {"bounds": (-5, 5), "categories": {0: list(range(250))}, "label_bounds": (0.1, 10)}
    model = lgb_dp.DPLGBMSurvival(np.inf, n_estimators=2, max_depth=1, validation_fraction=0.5, by=0)
    with pytest.warns(lgb_dp.NotPrivateWarning):
        model.fit(rows, np.column_stack([1.0 + Y, 1.0 + Y]), **given)
    assert sum(one.counts.size for one in model.evaluation_.groups.values()) <= MAX_CELLS
