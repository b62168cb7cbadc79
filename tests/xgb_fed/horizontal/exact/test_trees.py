"""Numbers of rows that hessians show, so that they are not asked for."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbdt_hosts.xgboost.targets import Targets
from gbdt_kernels.trees.wide_sums import fixed_point, wide_sum
from xgb_fed import ExactTerms, FewPartiesWarning, HorizontalParty, train_exact
from xgb_fed.boosting.params import Settings
from xgb_fed.horizontal.exact import trees
from xgb_fed.horizontal.exact.training import most_hessian
from xgb_fed.horizontal.exact.trees import GrowingRules

OBJECTIVES = {"binary:logistic": {}, "multi:softprob": {"num_class": 3}, "reg:squarederror": {}}


@pytest.mark.parametrize(
    ("objective", "settings"),
    [
        ("binary:logistic", {}),
        ("binary:logistic", {"scale_pos_weight": 5.0}),
        ("multi:softprob", {"num_class": 3}),
        ("multi:softmax", {"num_class": 3}),
    ],
)
@pytest.mark.parametrize("weight", [1e-18, 0.3, 1.0, 1000.0])
def test_no_hessian_is_above_the_most(objective, settings, weight):
    rng, n_rows = np.random.default_rng(1), 500
    loss = Settings.from_params({"objective": objective, **settings}).loss
    y = rng.integers(0, settings.get("num_class", 2), n_rows).astype(np.float32)
    gradients = loss.gradients_of(Targets(y, np.full(n_rows, weight, dtype=np.float32)))
    exponent = int(np.frexp(weight * settings.get("scale_pos_weight", 1.0))[1])
    for spread in (0.0, 0.1, 1.0, 30.0):
        margin = rng.normal(0, spread, (n_rows, loss.n_classes)).astype(np.float32)
        _, h = gradients(margin, 0)
        assert h.max() <= most_hessian(objective, exponent)


@given(
    st.integers(1, 30), st.integers(20, 80), st.floats(2**-40, 2**20), st.integers(0, 2**32), st.booleans()
)
def test_fewer_rows_than_two_children_need_never_seem_enough(min_rows, scale, most, seed, at_most):
    n_rows = 2 * min_rows - 1
    h = np.full(n_rows, most) if at_most else np.random.default_rng(seed).uniform(0, most, n_rows)
    words = wide_sum(np.concatenate([fixed_point(np.zeros(n_rows), scale), fixed_point(h, scale)], axis=1))
    rules = GrowingRules(3, min_rows, None, scale, 120, most)
    assert trees.hessian_of(words) < rules.sure_hessian


def test_a_sum_that_is_not_positive_is_never_enough():
    """Of parties that lie: range checks let it pass."""
    below_zero = np.array([0, 0, 2**64 - 5, 2**64 - 1], dtype=np.uint64)
    assert trees.hessian_of(below_zero) == -5


def members(y, **settings):
    X = np.random.default_rng(4).normal(size=(len(y), 3))
    terms = ExactTerms(min_rows_per_node=7)
    return [
        HorizontalParty(X[k::2], y[k::2], f"p{k}", exact=terms, max_rounds=1000, **settings) for k in range(2)
    ]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_trees_are_those_of_numbers_that_are_all_asked_for(objective, monkeypatch):
    rng = np.random.default_rng(2)
    y = rng.integers(0, OBJECTIVES[objective].get("num_class", 2), 600).astype(float)
    how = {} if objective == "reg:squarederror" else {"categorical_labels": True}
    params = {"objective": objective, "max_depth": 3, "max_bin": 8, **OBJECTIVES[objective]}

    def trained():
        asked = []
        counts = trees.ask_counts

        def noted(what, own):
            asked.extend(own)
            return counts(what, own)

        monkeypatch.setattr(trees, "ask_counts", noted)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FewPartiesWarning)
            model = train_exact(params, members(y, **how), 2, min_rows_per_node=7, verbose_eval=False)
        monkeypatch.setattr(trees, "ask_counts", counts)
        return bytes(model.booster.save_raw("json")), len(asked)

    model, n_asked = trained()
    monkeypatch.setattr(GrowingRules, "sure_hessian", 1 << 126)
    same, n_all = trained()
    assert model == same
    if how:
        assert n_asked < n_all
