"""NewtonBoost at infinite epsilon adds no noise, and says on every path that the model is not private."""

import lightgbm as lgb
import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import lgb_dp
from lgb_dp.accounting.cost import Cost
from lgb_dp.mechanisms import noise
from newton_training import DELTA, QUIET, X, Y, boosted
from small_training import dataset

BOUNDS = (-3, 3)
REASON = "epsilon is infinite, so that the model was trained without privacy"


@pytest.fixture(scope="module")
def exact():
    with pytest.warns(lgb_dp.NotPrivateWarning, match=REASON):
        return boosted(epsilon=np.inf, n_rounds=40)


def assert_void(report):
    assert not report.private
    assert REASON in report.reasons
    assert report.epsilon == np.inf
    assert report.replace_one[0] == np.inf
    assert str(report).startswith("NOT PRIVATE: epsilon = inf")
    assert "NOT PRIVATE" in report._repr_html_()


def test_no_noise_is_drawn_and_the_rows_are_learned(monkeypatch):
    def refuse(*args):
        raise AssertionError("noise was drawn")

    monkeypatch.setattr(noise, "rounded_gaussian", refuse)
    booster = boosted(epsilon=np.inf, n_rounds=40)
    assert roc_auc_score(Y, booster.predict(X)) > 0.97


def test_leaf_values_are_those_of_the_exact_sums():
    booster = boosted(
        epsilon=np.inf,
        n_rounds=1,
        params={"learning_rate": 1.0, "lambda_l2": 0.0},
        depth=2,
        gradient_clip=1.0,
    )
    leaf, raw = booster.predict(X, pred_leaf=True).ravel(), booster.predict(X, raw_score=True)
    prior = np.log(Y.mean() / (1 - Y.mean()))
    p = Y.mean()
    for k in np.unique(leaf):
        step = (Y[leaf == k] - p).sum() / ((leaf == k).sum() * p * (1 - p))
        assert raw[leaf == k] == pytest.approx(prior + np.clip(step, -4, 4), abs=2e-3)


def test_every_report_of_the_model_is_void(exact, tmp_path):
    exact.save_model(tmp_path / "model.txt")
    loaded = lgb_dp.DPBooster(model_file=str(tmp_path / "model.txt"))
    for report in (
        exact.privacy,
        lgb_dp.privacy_of(tmp_path / "model.txt"),
        lgb_dp.privacy_of(exact.model_to_string()),
        loaded.privacy,
        lgb_dp.PrivacyReport.from_dict(exact.privacy.to_dict()),
    ):
        assert_void(report)
        (row,) = report.ledger
        assert (row["release"], row["mechanism"], row["epsilon"]) == ("everything", "none", np.inf)
    assert "NOT PRIVATE" in loaded._repr_html_()


def test_what_builds_on_the_model_is_void(exact):
    private = boosted(epsilon=1.0, n_rounds=2).privacy
    for reports in ((exact.privacy, private), (private, exact.privacy), (exact.privacy, exact.privacy)):
        assert_void(lgb_dp.compose(*reports))
        assert_void(lgb_dp.compose(*reports, delta=1e-6))
    later = lgb.train(QUIET, dataset(X, Y), 2, init_model=exact, callbacks=[lgb_dp.NewtonBoost(1.0, DELTA)])
    assert_void(later.privacy)
    assert_void(lgb_dp.privacy_of(later.model_to_string()))
    bought = dataset(X, Y, paid_for=[exact.privacy])
    assert_void(boosted(bought, epsilon=1.0, n_rounds=2).privacy)


def test_the_model_that_it_continues_does_not_make_it_private(exact):
    with pytest.warns(lgb_dp.NotPrivateWarning, match=REASON):
        later = lgb.train(
            QUIET,
            dataset(X, Y),
            2,
            init_model=boosted(epsilon=1.0, n_rounds=2),
            callbacks=[lgb_dp.NewtonBoost(np.inf, DELTA)],
        )
    assert_void(later.privacy)


def test_groups_folds_and_samples_are_void_too():
    groups = np.arange(len(Y)) // 2
    persons = dataset(X, Y, groups=groups, rows_per_group=2)
    assert_void(boosted(persons, epsilon=np.inf, n_rounds=2).privacy)
    assert_void(boosted(epsilon=np.inf, n_rounds=2, subsample=0.5).privacy)
    folds = lgb.cv(
        QUIET, dataset(X, Y), 2, nfold=2, callbacks=[lgb_dp.NewtonBoost(np.inf, DELTA)], return_cvbooster=True
    )
    for booster in folds["cvbooster"].boosters:
        assert_void(booster.privacy)


def test_a_budget_pays_for_no_infinite_epsilon(exact):
    budget = lgb_dp.Budget(1.0, 1e-5)
    for trainer in (lgb_dp.NewtonBoost, lambda *args, **kwargs: lgb_dp.MBoost(args[0], **kwargs)):
        with pytest.raises(lgb_dp.InvalidArgumentError, match=r"finite.*budget"):
            trainer(np.inf, DELTA, budget=budget)
    late = lgb_dp.NewtonBoost(1.0, DELTA, budget=budget)
    late.epsilon = np.inf
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"epsilon.*finite"):
        lgb.train(QUIET, dataset(X, Y), 2, callbacks=[late])
    assert budget.spent == Cost()
    with pytest.raises(lgb_dp.InvalidArgumentError, match="positive and finite"):
        lgb_dp.Budget(np.inf, 1e-5)
    with pytest.raises(lgb_dp.BudgetExceededError):
        budget.charge(exact.privacy.cost, "a model without privacy")
    # A private run that builds on such a model would make the budget pay for it.
    trainer = lgb_dp.NewtonBoost(0.5, 1e-6, budget=budget)
    with pytest.raises(lgb_dp.BudgetExceededError, match="epsilon = inf"):
        lgb.train(QUIET, dataset(X, Y), 2, init_model=exact, callbacks=[trainer])
    assert budget.spent == Cost()


def test_estimators_say_it_and_refuse_to_buy_bins():
    rows = {"bounds": BOUNDS}
    for model in (
        lgb_dp.DPLGBMClassifier(np.inf, n_estimators=3, n_jobs=1),
        lgb_dp.DPLGBMRegressor(np.inf, n_estimators=3, n_jobs=1),
    ):
        more = {"label_bounds": (0, 1)} if isinstance(model, lgb_dp.DPLGBMRegressor) else {"classes": [0, 1]}
        with pytest.warns(lgb_dp.NotPrivateWarning, match=REASON):
            assert_void(model.fit(X, Y, **rows, **more).privacy_)
        model.set_params(auto_bounds=0.1)
        with pytest.raises(lgb_dp.InvalidArgumentError, match="finite where auto_bounds"):
            model.fit(X, Y, **more)
        model.set_params(auto_bounds=None)
        with pytest.raises(lgb_dp.InvalidArgumentError, match=r"finite.*budget"):
            model.fit(X, Y, **rows, **more, budget=lgb_dp.Budget(1.0, 1e-5))


def test_search_audit_and_plot_refuse_it(exact):
    search = lgb_dp.DPRandomizedSearchCV(
        lgb_dp.DPLGBMClassifier(), {"max_depth": [2, 3]}, epsilon=np.inf, mean_trials=2
    )
    with pytest.raises(lgb_dp.InvalidArgumentError, match="positive and finite"):
        search.fit(X, Y, bounds=BOUNDS, classes=[0, 1])
    with pytest.raises(lgb_dp.InvalidArgumentError, match="epsilon = inf"):
        lgb_dp.audit(lgb_dp.NewtonBoost(np.inf, DELTA), X, Y, bounds=BOUNDS, params=QUIET)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="epsilon = inf"):
        lgb_dp.plot_budget(exact.privacy)


def test_a_report_of_infinite_epsilon_is_never_private():
    report = lgb_dp.PrivacyReport(np.inf, 0.0, True, (), (), ())
    assert not report.private
    assert report.reasons == ("epsilon is infinite, which bounds nothing",)
    hidden = lgb_dp.PrivacyReport(1.0, 1e-5, True, (), (), (), cost=Cost(np.inf))
    assert not hidden.private
    assert not boosted(epsilon=1e9, n_rounds=1).privacy.private


@pytest.mark.parametrize("trainer", ["DPBoost", "SequentialBoost", "ParallelBoost"])
def test_other_trainers_refuse_it_by_name(trainer):
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"^epsilon .*finite, got inf"):
        getattr(lgb_dp, trainer)(np.inf)
