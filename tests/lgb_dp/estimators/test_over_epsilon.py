"""Utility against ε: what it costs, what it measures, and its picture."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import lgb_dp
from small_training import binary_data

X, Y = binary_data(1500)
MODEL = lgb_dp.DPLGBMClassifier(delta=1e-6, n_estimators=10, max_bin=16, n_jobs=1)
HOW = {"bounds": (-3, 3), "epsilons": (2.0, 0.5)}


class _Private:
    """Rows that must not be read."""

    def __getattribute__(self, name):
        raise AssertionError("a row was read")


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.mark.parametrize("draw", [lgb_dp.utility, lgb_dp.plot_utility])
@pytest.mark.parametrize(
    ("named", "how"),
    {
        "2 fits at each": {"n": 2},
        "budget": {"public": True, "budget": lgb_dp.Budget(9.0, 1e-5)},
        "public must be": {"public": "no"},
        "Budget, got float": {"budget": 9.0},
        "public_eval_set": {"budget": lgb_dp.Budget(9.0, 1e-5), "eval_set": [(X, Y)]},
        "public_eval_set must": {"budget": lgb_dp.Budget(9.0, 1e-5), "eval_X": X, "eval_y": Y},
        "epsilons": {"public": True, "epsilons": (1.0, -1.0)},
    }.items(),
)
def test_no_row_is_read_before_its_cost_is_settled(draw, named, how):
    with pytest.raises((ValueError, TypeError), match=named):
        draw(MODEL, _Private(), _Private(), **{**HOW, **how})
    assert not getattr(how.get("budget"), "charges", [])


@pytest.mark.parametrize(("metric", "classes"), [("RMSE", None), ("AUC", [0, 1, 2])])
def test_a_metric_that_is_not_measured_is_refused_before_anything_is_paid(metric, classes):
    budget = lgb_dp.Budget(9.0, 1e-5)
    with pytest.raises(ValueError, match="metric"):
        lgb_dp.plot_utility(
            MODEL, _Private(), _Private(), metric=metric, budget=budget, classes=classes, **HOW
        )
    with pytest.raises(TypeError, match="LogisticRegression"):
        lgb_dp.utility(LogisticRegression(), _Private(), _Private(), budget=budget, **HOW)
    assert not budget.charges


def test_a_budget_pays_for_every_fit_as_if_made_by_hand():
    budget, by_hand = lgb_dp.Budget(9.0, 1e-5), lgb_dp.Budget(9.0, 1e-5)
    found = lgb_dp.utility(MODEL, X, Y, n=2, budget=budget, **HOW)
    for epsilon in (0.5, 0.5, 2.0, 2.0):
        model = lgb_dp.DPLGBMClassifier(epsilon, validation_fraction=0.1, **_settings())
        model.fit(X, Y, bounds=(-3, 3), budget=by_hand)
    costs = [[(row["epsilon"], row["mu"]) for row in one.charges] for one in (budget, by_hand)]
    assert len(costs[0]) == 4
    assert costs[0] == costs[1]
    assert list(found) == [0.5, 2.0]
    assert all(0 <= one["AUC"].low <= one["AUC"].high <= 1 for fits in found.values() for one in fits)
    assert found[2.0][0]["held-out rows"].value == pytest.approx(150, abs=60)
    assert not hasattr(MODEL, "booster_")


def _settings():
    return {
        name: value
        for name, value in MODEL.get_params().items()
        if name not in ("epsilon", "validation_fraction")
    }


def test_what_a_budget_has_paid_for_is_kept_when_it_ends():
    budget = lgb_dp.Budget(1.0, 1e-6)
    with pytest.warns(UserWarning, match="epsilon=2"):
        found = lgb_dp.utility(MODEL, X, Y, budget=budget, **HOW)
    assert list(found) == [0.5]
    assert len(budget.charges) == 1
    with pytest.raises(lgb_dp.BudgetExceededError, match="is left"):
        lgb_dp.utility(MODEL, X, Y, budget=budget, bounds=(-3, 3), epsilons=(4.0,))


@pytest.mark.parametrize("who", ["public", "budget"])
def test_rows_that_are_public_are_measured_exactly(who):
    """Models paid for, or public themselves."""
    paid = {
        "public": {"public": True},
        "budget": {"budget": lgb_dp.Budget(9.0, 1e-5), "public_eval_set": True},
    }
    seen = []
    metric = lambda label, chance: seen.append(roc_auc_score(label, chance)) or ("area", seen[-1], True)  # noqa: E731
    how = {**HOW, **paid[who], "eval_set": [(X[:90], Y[:90])]}
    found = lgb_dp.utility(MODEL, X, Y, eval_metric=[metric, "binary_logloss"], **how)
    assert [set(one) for (one,) in found.values()] == [{"area", "binary_logloss"}] * 2
    assert [one["area"] for (one,) in found.values()] == seen[9::10]
    drawn = lgb_dp.plot_utility(MODEL, X, Y, metric="auc", **{**how, "epsilons": [0.1]})
    assert drawn.get_ylabel() == "auc"
    charged = getattr(how.get("budget"), "charges", [])
    assert len(charged) == (3 if who == "budget" else 0)


def test_targets_and_several_classes_have_figures_of_their_own():
    regressor, several = (
        lgb_dp.DPLGBMRegressor(delta=1e-6, n_estimators=10),
        np.digitize(X[:, 0], [-0.5, 0.5]),
    )
    how = {"public": True, "bounds": (-3, 3), "epsilons": [4.0]}
    for metric in (None, "R²"):
        ax = lgb_dp.plot_utility(regressor, X, X[:, 0], metric=metric, label_bounds=(-3, 3), **how)
        assert ax.get_ylabel() == (metric or "RMSE")
    assert lgb_dp.plot_utility(MODEL, X, several, classes=[0, 1, 2], **how).get_ylabel() == "accuracy"


def test_the_picture_shows_every_method_with_its_band():
    ax = lgb_dp.plot_utility({"a": {0.1: [0.7, 0.8], 1.0: [0.9]}, "b": {1.0: [0.5]}}, metric="share")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    assert ax.get_ylabel() == "share"
    assert ax.lines[0].get_ydata().tolist() == [0.75, 0.9]
    assert ax.collections[0].get_paths()[0].vertices[:, 1].max() == pytest.approx(0.9)
    found = lgb_dp.utility(MODEL, X, Y, public=True, **HOW)
    for metric in ("AUC", "log-loss"):
        drawn = lgb_dp.plot_utility({"a": found}, metric=metric, ax=plt.subplots()[1])
        band = drawn.collections[0].get_paths()[0].vertices
        assert drawn.get_ylabel() == metric
        assert band[:, 1].max() == max(one[0][metric].high for one in found.values())
    with pytest.raises(ValueError, match="metric"):
        lgb_dp.plot_utility({"a": found}, metric="profit")
    with pytest.raises(ValueError, match="results"):
        lgb_dp.plot_utility({})


def test_times_have_figures_of_their_own_and_no_others_are_paid_for():
    budget, how = lgb_dp.Budget(9.0, 1e-4), {**HOW, "label_bounds": (0.01, 100)}
    model, times = lgb_dp.DPLGBMSurvival(n_estimators=2), np.exp(np.column_stack([X[:, 0]] * 2))
    with pytest.raises(ValueError, match="metric"):
        lgb_dp.plot_utility(model, X, times, metric="RMSE", budget=budget, **how)
    assert not budget.charges
    for metric in (None, "concordance"):
        ax = lgb_dp.plot_utility(model, X, times, metric=metric, public=True, **how)
        assert ax.get_ylabel() == "concordance"
