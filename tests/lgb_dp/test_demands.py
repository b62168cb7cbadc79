"""The ten demands of private training; each test fails when its demand is broken."""

import os
import pickle
import random
import re
import warnings

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from gbdt_hosts.lightgbm import default_parameters, guarantee_in
from gbdt_kernels.trees import candidate_gains
from small_training import binary_data, dataset, field, leaf_values, train

import lgb_dp
from lgb_dp.boosting.labels import LabelScale
from lgb_dp.boosting.levels import grow_structure
from lgb_dp.boosting.params import training_parameters
from lgb_dp.data.weights import WEIGHT_STEPS
from lgb_dp.dpboost import square_loss
from lgb_dp.dpboost.square_loss import GRADIENT_STEPS, VALUE_STEPS, leaf_value_sensitivity, quantise_gradients
from lgb_dp.dpboost.trainer import draw_tree_of_row
from lgb_dp.mechanisms.noise import select, selection_scale
from lgb_dp.mechanisms.rng import SecureRandom

X, Y = binary_data()


# 1. Bins, label scaling, initial score and categories come from public inputs only.


def test_1_bins_and_header_do_not_depend_on_the_rows():
    other = lgb_dp.Dataset(X[:50] * 0.01, label=1 - Y[:50], bounds=(-3, 3), max_bin=8).construct()
    mine = dataset(X, Y).construct()
    for a, b in zip(mine.bins.values, other.bins.values, strict=True):
        np.testing.assert_array_equal(a, b)
    assert mine.bins.feature_infos == other.bins.feature_infos == ["[-3.0:3.0]"] * 4


def test_1_the_first_gradients_start_from_zero_whatever_the_labels(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "lgb_dp.dpboost.square_loss.quantise_gradients",
        lambda g, w: seen.append(g.copy()) or quantise_gradients(g, w),
    )
    train(dataset(X, np.ones(len(X))), lgb_dp.DPBoost(1.0), n_rounds=1)
    assert (seen[0] == -1.0).all()


def test_1_the_centre_of_a_regression_is_that_of_the_public_bounds():
    data = lgb_dp.Dataset(X, label=np.full(len(X), 7.0), bounds=(-3, 3), label_bounds=(0, 20))
    booster = train(
        data, lgb_dp.DPBoost(1e-4, glc=False), n_rounds=1, objective="regression", learning_rate=1e-9
    )
    np.testing.assert_allclose(booster.predict(X), 10.0, atol=1e-6)


def test_1_bounds_and_label_bounds_read_from_data_warn_and_void_the_report():
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="bounds"):
        booster = train(lgb_dp.Dataset(X, label=Y), lgb_dp.DPBoost(1.0))
    assert not booster.privacy.private
    data = lgb_dp.Dataset(X, label=X[:, 0], bounds=(-3, 3))
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="label_bounds"):
        booster = train(data, lgb_dp.DPBoost(1.0), objective="regression")
    assert "label_bounds" in booster.privacy.reasons[0]


# 2. Every public candidate is scored; trees are complete.


def test_2_every_candidate_can_be_chosen_even_with_a_single_row():
    data = lgb_dp.Dataset(np.full((1, 2), -2.9), label=[1.0], bounds=(-3, 3), max_bin=4)
    seen = set()
    for _ in range(150):
        booster = train(data, lgb_dp.DPBoost(0.01), n_rounds=1, max_depth=1)
        seen.add(
            (
                field(booster, "split_feature")[0],
                field(booster, "threshold")[0],
                field(booster, "decision_type")[0],
            )
        )
    assert len(seen) == 2 * 3 * 2


@pytest.mark.parametrize("trainer", [lgb_dp.DPBoost, lgb_dp.SequentialBoost, lgb_dp.ParallelBoost])
def test_2_trees_are_complete_on_pure_and_tiny_data(trainer):
    data = dataset(X[:3], np.ones(3))
    booster = train(data, trainer(1.0), n_rounds=4, max_depth=3, learning_rate=0.1)
    assert booster.num_trees() == 4
    assert all(tree["num_leaves"] == 8 for tree in booster.dump_model()["tree_info"])


# 3. Rows draw their tree on their own; a filtered row stays spent.


def test_3_adding_a_row_changes_no_other_rows_tree():
    before = draw_tree_of_row(1000, 20, 0.1, SecureRandom(5))
    after = draw_tree_of_row(1001, 20, 0.1, SecureRandom(5))
    np.testing.assert_array_equal(before, after[:1000])


def test_3_sizes_are_the_papers_in_expectation():
    n, t, rate = 200_000, 10, 0.3
    sizes = np.bincount(draw_tree_of_row(n, t, rate, SecureRandom(5)), minlength=t)
    expected = n * rate * (1 - rate) ** np.arange(t) / (1 - (1 - rate) ** t)
    assert (np.abs(sizes - expected) < 6 * np.sqrt(expected)).all()


def rows_of_every_tree(monkeypatch, data, trainer, n_rounds):
    plans = []
    grow = square_loss.SquareLossTraining._grow_tree
    with monkeypatch.context() as patch:
        patch.setattr(
            square_loss.SquareLossTraining,
            "_grow_tree",
            lambda self, plan, *args: plans.append(plan) or grow(self, plan, *args),
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lgb_dp.PrivacyLeakWarning)
            train(data, trainer, n_rounds=n_rounds)
    return plans


@pytest.mark.parametrize("trainer", [lgb_dp.DPBoost(1.0, trees_per_ensemble=4), lgb_dp.ParallelBoost(1.0)])
def test_3_trees_whose_costs_are_parallel_read_disjoint_rows(monkeypatch, trainer):
    plans = rows_of_every_tree(monkeypatch, dataset(X, Y), trainer, 8)
    for group in {plan.group for plan in plans}:
        rows = np.concatenate([plan.rows for plan in plans if plan.group == group])
        assert len(np.unique(rows)) == len(rows)
    assert len({(plan.group, plan.part) for plan in plans}) == 8


def test_3_filtered_rows_are_not_handed_to_a_later_tree(monkeypatch):
    monkeypatch.setattr("lgb_dp.dpboost.square_loss.G_STAR", 0.5)
    plans = rows_of_every_tree(monkeypatch, dataset(X, Y), lgb_dp.DPBoost(1.0), 3)
    assert sum(len(plan.rows) for plan in plans) == len(X)


# 4. Noise comes from the operating system.


def test_4_seeding_every_common_generator_changes_nothing():
    models = []
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        models.append(leaf_values(train(dataset(X, Y), lgb_dp.DPBoost(1.0))))
    assert (models[0] != models[1]).any()


def test_4_random_state_repeats_but_warns_and_is_reported():
    models = []
    for _ in range(2):
        with pytest.warns(lgb_dp.PrivacyLeakWarning, match="random_state"):
            booster = train(dataset(X, Y), lgb_dp.DPBoost(1.0, random_state=3))
        assert not booster.privacy.private
        models.append(booster.model_to_string())
    assert models[0] == models[1]


# 5. No floating-point noise on floating-point sums.


def test_5_gradients_are_integers_rounded_toward_zero():
    q = quantise_gradients(np.array([0.9999999, -0.9999999, 1 / 3]), np.ones(3, np.int32))
    assert q.dtype == np.int32
    assert q.tolist() == [GRADIENT_STEPS - 1, 1 - GRADIENT_STEPS, GRADIENT_STEPS // 3]


def test_5_leaf_noise_is_integer_and_added_to_integers(monkeypatch):
    from lgb_dp.dpboost import square_loss as module

    drawn = []
    original = module.discrete_laplace

    def spy(n, sensitivity, epsilon, random):
        assert isinstance(sensitivity, int)
        drawn.append(original(n, sensitivity, epsilon, random))
        return drawn[-1]

    monkeypatch.setattr(module, "discrete_laplace", spy)
    for variant in ("tight", "paper"):
        train(dataset(X, Y), lgb_dp.DPBoost(1.0, variant=variant), n_rounds=1)
    assert all(noise.dtype == np.int64 for noise in drawn)


def test_5_the_papers_leaf_values_lie_on_their_public_grid():
    booster = train(
        dataset(X, Y), lgb_dp.DPBoost(1.0, variant="paper"), n_rounds=1, lambda_l2=0.1, learning_rate=0.5
    )
    steps = leaf_values(booster) / 0.5 / (1 / 1.1 / 2**20)
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-4)


# 6. Empty leaves are noised like any other.


@pytest.mark.parametrize("variant", ["tight", "paper"])
def test_6_every_leaf_of_a_tree_on_one_row_has_a_random_value(variant):
    data = dataset(X[:1], Y[:1])
    values = [
        leaf_values(train(data, lgb_dp.DPBoost(0.5, variant=variant), n_rounds=1, max_depth=3, lambda_l2=1.0))
        for _ in range(8)
    ]
    assert (np.std(values, axis=0) > 0).all()


# 7. Model file, logs and pickles hold nothing exact.


def test_7_counts_in_the_model_are_noisy_or_constant():
    tight = train(dataset(X, Y), lgb_dp.DPBoost(0.5), n_rounds=1)
    again = train(dataset(X, Y), lgb_dp.DPBoost(0.5), n_rounds=1)
    assert (field(tight, "leaf_count") != field(again, "leaf_count")).any()
    assert (field(tight, "leaf_count") >= 1).all()
    paper = train(dataset(X, Y), lgb_dp.DPBoost(0.5, variant="paper"), n_rounds=1)
    assert (field(paper, "leaf_count") == 1).all()
    assert field(paper, "internal_count").tolist() == [4, 2, 2]


def test_7_everything_in_a_tree_block_follows_from_splits_and_released_leaves():
    booster = train(dataset(X, Y), lgb_dp.DPBoost(1.0), n_rounds=1, learning_rate=0.5)
    value, count = leaf_values(booster), field(booster, "leaf_count")
    pairs = [(count[2 * i : 2 * i + 2], value[2 * i : 2 * i + 2]) for i in range(2)]
    inner = [np.average(v, weights=c) for c, v in pairs]
    np.testing.assert_allclose(field(booster, "internal_value")[1:], inner, rtol=1e-4)
    np.testing.assert_array_equal(
        field(booster, "internal_count"), [count.sum(), *(c.sum() for c, _ in pairs)]
    )
    gains = [(c * v**2).sum() - (c * v).sum() ** 2 / c.sum() for c, v in pairs]
    np.testing.assert_allclose(field(booster, "split_gain")[1:], np.array(gains) / 0.25, rtol=1e-4, atol=1e-9)


def test_7_native_logs_hold_no_counts(capfd):
    data = dataset(X, Y)
    lgb.train({"objective": "binary", "verbosity": 2}, data, 2, callbacks=[lgb_dp.DPBoost(1.0)])
    out, err = capfd.readouterr()
    numbers = set(re.findall(r"\d+", out + err))
    assert not numbers & {str(len(X)), str(int(Y.sum())), str(int((1 - Y).sum()))}


def test_7_pickles_and_finished_boosters_hold_no_rows():
    marker = 0.123456789
    data = X.copy()
    data[:, 0] = marker
    booster = train(dataset(data, Y), lgb_dp.DPBoost(1.0), n_rounds=2)
    assert not [name for name in vars(booster) if isinstance(vars(booster)[name], (np.ndarray, lgb.Dataset))]
    assert booster._grower is None
    in_training = lgb.train(
        {"objective": "binary", "verbosity": -1},
        dataset(data, Y),
        2,
        callbacks=[lgb_dp.DPBoost(1.0)],
        keep_training_booster=True,
    )
    for candidate in (booster, in_training):
        dump = pickle.dumps(candidate)
        assert np.float64(marker).tobytes() not in dump
        assert b"SecureRandom" not in dump
        assert len(dump) < 50_000


# 8. Parameters that cannot be honoured raise.


@pytest.mark.parametrize(
    "parameter",
    [
        {"boosting": "dart"},
        {"boosting_type": "rf"},
        {"data_sample_strategy": "goss"},
        {"linear_tree": True},
        {"bagging_fraction": 0.5},
        {"subsample": 0.5},
        {"bagging_freq": 1},
        {"feature_fraction": 0.5},
        {"min_data_in_leaf": 1},
        {"min_child_samples": 5},
        {"min_gain_to_split": 0.1},
        {"monotone_constraints": [1, 0, 0, 0]},
        {"is_unbalance": True},
        {"scale_pos_weight": 2.0},
        {"lambda_l1": 1.0},
        {"max_delta_step": 0.5},
        {"seed": 7},
        {"random_state": 7},
        {"extra_trees": True},
        {"path_smooth": 1.0},
        {"interaction_constraints": "[0,1],[2,3]"},
        {"boost_from_average": False},
        {"sigmoid": 2.0},
        {"use_quantized_grad": True},
        {"device_type": "gpu"},
        {"zero_as_missing": True},
        {"max_bin": 99},
        {"num_leaves": 10},
        {"no_such_parameter": 1},
        {"objective": "poisson"},
        {"objective": lambda preds, data: (preds, preds)},
    ],
    ids=lambda p: next(iter(p)),
)
def test_8_unsupported_parameters_raise_and_are_named(parameter):
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=next(iter(parameter))):
        train(dataset(X, Y), lgb_dp.DPBoost(1.0), **parameter)


def test_8_values_equal_to_lightgbms_defaults_pass():
    defaults = {
        "min_child_samples": 20,
        "subsample": 1.0,
        "reg_alpha": 0.0,
        "boosting_type": "gbdt",
        "num_leaves": 31,
    }
    defaults |= {
        "min_split_gain": 0.0,
        "min_child_weight": 1e-3,
        "colsample_bytree": 1.0,
        "subsample_freq": 0,
    }
    assert train(dataset(X, Y), lgb_dp.DPBoost(1.0), **defaults).num_trees() == 3


# 9. Weights need a public bound; private evaluation warns.


def test_9_weights_without_a_public_bound_raise():
    with pytest.raises(ValueError, match="weight_bound"):
        dataset(X, Y, weight=np.ones(len(X))).construct()
    with pytest.raises(ValueError, match=r"weight must lie in \[0, weight_bound"):
        dataset(X, Y, weight=np.full(len(X), 2.0), weight_bound=1.0).construct()


def test_9_a_weighted_tree_uses_the_weighted_sensitivity(monkeypatch):
    from lgb_dp.dpboost import square_loss as module

    asked = []
    original = module.discrete_laplace
    monkeypatch.setattr(
        module, "discrete_laplace", lambda n, s, e, r: asked.append(s) or original(n, s, e, r)
    )
    train(dataset(X, Y, weight=np.ones(len(X)), weight_bound=5.0), lgb_dp.DPBoost(1.0), n_rounds=1)
    assert asked == [2 * GRADIENT_STEPS * WEIGHT_STEPS]


def test_9_evaluation_on_rows_not_public_warns_once_and_is_noted():
    data = dataset(X, Y)
    with pytest.warns(lgb_dp.NotPrivateWarning) as caught:
        booster = train(data, lgb_dp.DPBoost(1.0), valid_sets=[data, dataset(X, Y, reference=data)])
    assert len([w for w in caught if w.category is lgb_dp.NotPrivateWarning]) == 1
    assert "not covered by epsilon" in booster.privacy.notes[0]


def test_9_public_evaluation_rows_do_not_warn():
    data = dataset(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        booster = train(data, lgb_dp.DPBoost(1.0), valid_sets=[data.create_valid(X, Y, public=True)])
    assert booster.privacy.notes == ()


# 10. Cross-validation: folds drawn per row compose, others are not private.


def cv(data, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lgb_dp.NotPrivateWarning)
        return lgb.cv(
            {"objective": "binary", "verbosity": -1, "max_depth": 2},
            data,
            2,
            callbacks=[lgb_dp.DPBoost(0.5)],
            return_cvbooster=True,
            **kwargs,
        )["cvbooster"].boosters


def test_10_private_folds_compose():
    data = dataset(X, Y)
    boosters = cv(data, folds=lgb_dp.folds(4, data))
    assert len(boosters) == 4
    for booster in boosters:
        assert booster.privacy.private
        assert booster.privacy.epsilon == 3 * 0.5


def test_10_other_folds_are_reported_as_not_private():
    assert not any(booster.privacy.private for booster in cv(dataset(X, Y), nfold=3))
    data = dataset(X, Y)
    lgb_dp.folds(4, data)
    assert not any(booster.privacy.private for booster in cv(data, nfold=4))


def test_10_folds_with_repeated_rows_or_taken_twice_are_not_private():
    data = dataset(X, Y)
    folds = lgb_dp.folds(4, data)
    repeated = [(np.r_[a, np.repeat(a[:3], 5)], b) for a, b in folds.split()]
    assert not any(booster.privacy.private for booster in cv(data, folds=repeated))
    twice = [next(iter(folds.split()))] * 2
    assert sorted(booster.privacy.private for booster in cv(data, folds=twice)) == [False, True]


def test_10_empty_folds_still_count():
    data = dataset(X[:3], Y[:3])
    folds = lgb_dp.folds(40, data)
    assert {data.subset(rows).folds_of_a_row for rows, _ in folds.split()} == {39}


def test_10_row_numbers_must_be_row_numbers():
    data = dataset(X, Y)
    for rows in ([-1, 0], [len(X)], np.ones(len(X), bool), [0.5]):
        with pytest.raises(ValueError, match="used_indices"):
            data.subset(rows)


def test_10_a_rows_fold_does_not_depend_on_other_rows():
    from lgb_dp.data.folds import PrivateFolds

    before = PrivateFolds(dataset(X, Y), 5, SecureRandom(1)).fold_of_row
    after = PrivateFolds(dataset(np.r_[X, X[:1]], np.r_[Y, 0]), 5, SecureRandom(1)).fold_of_row
    np.testing.assert_array_equal(before, after[:-1])
    assert set(before) == set(range(5))


def test_label_scale_needs_no_labels():
    assert LabelScale("regression", 1, 0.0, 10.0).centre == 5.0
    assert LabelScale("binary", 1, 0.0, 1.0).centre == 0.0


# What attacks on the guarantee found.


def test_leaks_are_inherited_from_the_reference():
    with pytest.warns(lgb_dp.PrivacyLeakWarning):
        leaky = lgb_dp.Dataset(X, Y).construct()
    for other in (lgb_dp.Dataset(X, Y, reference=leaky), leaky.create_valid(X, Y)):
        assert not train(other, lgb_dp.DPBoost(1.0)).privacy.private
    with pytest.raises(ValueError, match="differ from those of the reference"):
        lgb_dp.Dataset(X, Y, bounds=(0, 1), reference=leaky).construct()


def test_weights_of_an_evaluation_set_need_no_bound_until_it_is_trained_on():
    data = dataset(X, Y)
    valid = data.create_valid(X, Y, weight=np.arange(len(X)), public=True)
    train(data, lgb_dp.DPBoost(1.0), valid_sets=[valid])
    with pytest.raises(ValueError, match="weight_bound"):
        train(valid, lgb_dp.DPBoost(1.0))


def test_an_altered_initial_model_voids_the_guarantee():
    first = train(dataset(X, Y), lgb_dp.DPBoost(1.0))
    altered = lgb.Booster(model_str=first.model_to_string()).set_leaf_output(0, 0, 123.0)
    params = {"objective": "binary", "verbosity": -1}
    second = lgb.train(params, dataset(X, Y), 2, init_model=altered, callbacks=[lgb_dp.DPBoost(1.0)])
    assert not second.privacy.private
    assert "init_model" in second.privacy.reasons[0]


def test_early_stopping_on_private_rows_voids_the_guarantee():
    for public in (True, False):
        data = dataset(X, Y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lgb_dp.NotPrivateWarning)
            booster = train(
                data,
                lgb_dp.DPBoost(1.0),
                n_rounds=10,
                valid_sets=[data.create_valid(X, Y, public=public)],
                callbacks=[lgb.early_stopping(2, verbose=False)],
            )
        assert booster.privacy.private == public


def test_categories_of_a_dtype_are_noted_unless_declared():
    frame = pd.DataFrame({"a": pd.Categorical(list("xy") * 200)})
    noted = train(lgb_dp.Dataset(frame, Y), lgb_dp.DPBoost(1.0)).privacy
    declared = train(lgb_dp.Dataset(frame, Y, categories={"a": ["x", "y"]}), lgb_dp.DPBoost(1.0)).privacy
    assert "dtype" in noted.notes[0]
    assert declared.notes == ()


def test_not_a_number_never_counts_for_more_than_a_row():
    q = quantise_gradients(np.array([np.nan, np.inf, -np.inf, np.nan]), np.array([1, 1, 1, 0], np.int32))
    assert q.tolist() == [0, GRADIENT_STEPS, -GRADIENT_STEPS, 0]


def test_scores_that_an_initial_model_gives_need_not_be_finite():
    data = dataset(X, Y).construct()
    data.start_scores = np.full((len(X), 1), np.nan)
    values = leaf_values(train(data, lgb_dp.DPBoost(1.0, gdf=False), n_rounds=1, learning_rate=0.1))
    assert np.abs(values).max() <= 0.1


@pytest.mark.parametrize("bounds", [(-1.7e308, 1.7e308), (0, 5e-324)])
def test_label_bounds_that_overflow_or_vanish_raise(bounds):
    with pytest.raises(ValueError, match="label_bounds"):
        dataset(X, Y, label_bounds=bounds)


def test_a_weight_bound_that_vanishes_raises():
    with pytest.raises(ValueError, match="weight_bound"):
        dataset(X, Y, weight=np.zeros(len(X)), weight_bound=1e-310).construct()


def test_huge_weights_leave_counts_that_lightgbm_can_add_up():
    data = dataset(X, Y, weight=np.full(len(X), 1e9), weight_bound=1e9)
    booster = train(data, lgb_dp.DPBoost(1e-4), n_rounds=1, max_depth=6)
    assert booster.privacy.private
    assert field(booster, "internal_count").min() > 0
    assert np.isfinite(booster.predict(X, pred_contrib=True)).all()


def test_labels_other_than_zero_and_one_are_evaluated_right():
    from sklearn.metrics import roc_auc_score

    history, data = {}, dataset(X, Y - 2, label_bounds=(-2, -1))
    booster = train(
        data,
        lgb_dp.DPBoost(1.0),
        valid_sets=[data.create_valid(X, Y - 2, public=True)],
        callbacks=[lgb.record_evaluation(history)],
        metric="auc",
    )
    assert history["valid_0"]["auc"][-1] == pytest.approx(roc_auc_score(Y, booster.predict(X)))


def test_parameters_of_the_dataset_are_judged_too():
    for params in ({"max_bin": 4}, {"linear_tree": True}, {"ignore_column": "0"}):
        with pytest.raises(lgb_dp.UnsupportedParameterError, match=next(iter(params))):
            train(dataset(X, Y, params=params), lgb_dp.DPBoost(1.0))
    with pytest.raises(ValueError, match="categories"):
        dataset(X, Y).set_categorical_feature([0])


def test_two_private_trainers_are_refused():
    with pytest.raises(ValueError, match="two private trainers"):
        train(dataset(X, Y), lgb_dp.DPBoost(5.0), callbacks=[lgb_dp.DPBoost(0.1)])


def test_a_refused_setter_changes_nothing():
    data = dataset(X, Y).construct()
    for call in (lambda: data.set_weight(np.full(len(X), np.nan)), lambda: data.set_label(Y + 1)):
        with pytest.raises(lgb.basic.LightGBMError, match="cannot change"):
            call()
    assert data.get_weight() is None
    np.testing.assert_array_equal(data.get_label(), Y)


def test_the_random_stream_is_not_shared_with_a_forked_process(monkeypatch):
    stream = SecureRandom()
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="forked"):
        stream.words(1)


# What mutants of the code asked for.


def grower(data, callback, n_rounds=1, **params):
    """The state of a training that `keep_training_booster` leaves in the booster."""
    params = {"objective": "binary", "learning_rate": 0.3, "max_depth": 2, "verbosity": -1, **params}
    return lgb.train(params, data, n_rounds, callbacks=[callback], keep_training_booster=True)._grower


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, scipy.sparse.csr_matrix])
def test_1_bins_are_those_of_the_bounds_in_every_kind_of_matrix(kind):
    data = lgb_dp.Dataset(kind(X * [0, 0.01, 0.01, 0.01]), Y, bounds=(-3, 3), max_bin=8).construct()
    for edges in data.bins.values:
        np.testing.assert_array_equal(edges, np.linspace(-3, 3, 9)[1:-1])
    assert data.bins.feature_infos == ["[-3.0:3.0]"] * 4


def test_1_categories_that_no_row_has_are_kept():
    frame = pd.DataFrame({"a": pd.Categorical(list("xy") * 200, categories=list("wxyz")), "b": [1, 3] * 200})
    bins = lgb_dp.Dataset(frame, Y, categories={"b": range(5)}).construct().bins
    assert bins.pandas_categories == {0: list("wxyz")}
    assert bins.n_bins.tolist() == [4, 5]
    assert bins.feature_infos == ["0:1:2:3", "0:1:2:3:4"]


@pytest.mark.parametrize("n_rows", [2, 400])
def test_1_settings_left_open_do_not_depend_on_the_number_of_rows(n_rows):
    booster = train(dataset(X[:n_rows], Y[:n_rows]), lgb_dp.DPBoost(1.0), max_depth=-1)
    assert [tree["num_leaves"] for tree in booster.dump_model()["tree_info"]] == [64] * 3
    assert {row["disjoint_sets_of_rows"] for row in booster.privacy.ledger} == {3}


def test_leaks_are_inherited_by_folds():
    with pytest.warns(lgb_dp.PrivacyLeakWarning):
        data = lgb_dp.Dataset(X, Y).construct()
    folds = lgb_dp.folds(3, data)
    reasons = [data.subset(rows).leaks for rows, _ in folds.split()]
    assert reasons == [data.leaks] * 3


def test_2_empty_nodes_draw_their_split_like_any_other():
    data = lgb_dp.Dataset(np.full((1, 2), -2.9), label=[1.0], bounds=(-3, 3), max_bin=4).construct()
    one, seen = np.ones(1, dtype=np.int32), set()
    for _ in range(300):  # the row goes left at every split, so node 2 is empty
        tree = grow_structure(
            data.codes, 0 * one, one, one, data.bins.layout(), 0.0, [1e-9] * 2, SecureRandom()
        )
        seen.add((tree.feature[2], tree.goes_left[2].tobytes()))
    assert len(seen) == 2 * 3 * 2


def test_2_nodes_choose_among_the_gains_of_all_candidates(monkeypatch):
    gains, utilities = [], []
    monkeypatch.setattr(
        "lgb_dp.boosting.levels.candidate_gains",
        lambda *args: gains.append(candidate_gains(*args)) or gains[-1].copy(),
    )
    monkeypatch.setattr(
        "lgb_dp.boosting.levels.select", lambda u, *args: utilities.append(u.copy()) or select(u, *args)
    )
    training = grower(dataset(X[:9], np.ones(9)), lgb_dp.DPBoost(1.0), max_depth=4)
    for level in range(4):
        assert gains[level].shape == (2**level, 4 * 7 * 2)
        np.testing.assert_array_equal(utilities[level], gains[level] * training._selection_scale)


@pytest.mark.parametrize("trainer", [lgb_dp.DPBoost, lgb_dp.ParallelBoost])
def test_3_in_training_too_neither_labels_nor_other_rows_decide_a_rows_tree(monkeypatch, trainer):
    before = rows_of_every_tree(monkeypatch, dataset(X, Y), trainer(1.0, random_state=5), 4)
    more = dataset(np.r_[X, X[:1]], np.r_[1 - Y, 1])
    after = rows_of_every_tree(monkeypatch, more, trainer(1.0, random_state=5), 4)
    n_compared = 4 if trainer is lgb_dp.DPBoost else 1  # PARA draws again for every tree
    for a, b in zip(before[:n_compared], after[:n_compared], strict=True):
        np.testing.assert_array_equal(np.sort(a.rows), np.sort(b.rows[b.rows < len(X)]))


@pytest.mark.parametrize("trainer", [lgb_dp.DPBoost, lgb_dp.ParallelBoost])
def test_3_trees_are_disjoint_also_where_rows_are_fewer_than_trees(monkeypatch, trainer):
    plans = rows_of_every_tree(monkeypatch, dataset(X[:12], Y[:12]), trainer(0.1), 30)
    rows = np.concatenate([plan.rows for plan in plans])
    assert len(np.unique(rows)) == len(rows)


def test_4_the_stream_is_chacha20_under_a_key_of_the_operating_system(monkeypatch):
    asked = []
    monkeypatch.setattr("os.urandom", lambda n: asked.append(n) or bytes(range(n)))
    stream = SecureRandom()
    words = [stream.words(3), stream.words(2, 2)]
    cipher = Cipher(algorithms.ChaCha20(bytes(range(32)), bytes(16)), mode=None)
    assert asked == [32]
    assert b"".join(w.tobytes() for w in words) == cipher.encryptor().update(bytes(56))


def test_4_every_training_and_every_set_of_folds_has_a_key_of_its_own(monkeypatch):
    asked, urandom, data = [], os.urandom, dataset(X, Y)
    monkeypatch.setattr("os.urandom", lambda n: asked.append(n) or urandom(n))
    for _ in range(2):
        train(data, lgb_dp.DPBoost(1.0))
    lgb_dp.folds(3, data)
    assert asked.count(32) == 3


def pair_of(sums):
    n, g = sums[:, 1] * GRADIENT_STEPS, sums[:, 0]
    return np.column_stack([n + g, n - g])


def test_5_leaves_are_functions_of_the_noisy_integers_alone(monkeypatch):
    training = grower(dataset(X, Y), lgb_dp.DPBoost(1.0), lambda_l2=0.1)
    rng = np.random.default_rng(0)
    released = rng.integers(-(2**28), 2**28, size=(500, 2))
    results = []
    for n_rows in (0, 1, 999):
        n = rng.integers(0, n_rows + 1, 500)
        sums = np.column_stack([n * GRADIENT_STEPS // 3, n])
        noise = (released - pair_of(sums)).ravel()
        monkeypatch.setattr(square_loss, "discrete_laplace", lambda *_, noise=noise: noise)
        results.append(training._leaves_of_sums(sums, 1.0, 1.0))
    for value, count in results[1:]:
        np.testing.assert_array_equal(value, results[0][0])
        np.testing.assert_array_equal(count, results[0][1])


@pytest.mark.parametrize(
    ("variant", "n", "sensitivity"), [("tight", 2 * 4, 2 * GRADIENT_STEPS), ("paper", 4, VALUE_STEPS + 2)]
)
def test_5_every_released_number_has_noise_of_its_own(monkeypatch, variant, n, sensitivity):
    asked = []
    monkeypatch.setattr(
        square_loss, "discrete_laplace", lambda n, s, *_: asked.append((n, s)) or np.zeros(n, dtype=np.int64)
    )
    train(dataset(X, Y), lgb_dp.DPBoost(1.0, variant=variant), n_rounds=1)
    assert asked == [(n, sensitivity)]


@pytest.mark.parametrize(("clip", "bound"), [(1.0, 1 / 1.1), (0.25, 0.5)])
@pytest.mark.parametrize("noise", [0, 2**23])
def test_5_the_papers_leaves_are_clipped_before_the_noise(monkeypatch, clip, bound, noise):
    training = grower(dataset(X, Y), lgb_dp.DPBoost(1.0, variant="paper"), lambda_l2=0.1)
    monkeypatch.setattr(square_loss, "discrete_laplace", lambda n, *_: np.full(n, noise))
    sums = np.array([[-1000 * GRADIENT_STEPS, 1000], [1000 * GRADIENT_STEPS, 1000], [0, 0]])
    value, _ = training._leaves_of_values(sums, clip, 1.0)
    expected = np.clip([1000 / 1000.1, -1000 / 1000.1, 0], -clip, clip) + noise * bound / VALUE_STEPS
    np.testing.assert_allclose(value, expected, atol=1e-6)


@pytest.mark.parametrize("variant", ["tight", "paper"])
def test_6_trees_that_no_row_drew_are_noised_too(variant):
    booster = train(dataset(X[:1], Y[:1]), lgb_dp.DPBoost(0.5, variant=variant), n_rounds=4, lambda_l2=1.0)
    assert all((leaf_values(booster, t) != 0).all() for t in range(4))


OTHER = X[:300] * 0.5, 1 - Y[:300]


def around_the_trees(booster):
    """A model's text but for its trees, what counts their bytes and splits, and their digests."""
    text = booster.model_to_string()
    head, tail = text.partition("\nTree=0")[0], text.partition("\nparameters:")[2]
    lines = [
        line for line in (head + tail).splitlines() if not line.startswith(("tree_sizes=", "[dp_guarantee:"))
    ]
    return lines, {**guarantee_in(text), "trees": None}


@pytest.mark.parametrize("variant", ["tight", "paper"])
def test_7_around_the_trees_a_model_is_the_same_whatever_the_rows(variant):
    models = [
        train(dataset(*rows), lgb_dp.DPBoost(0.05, variant=variant), n_rounds=6) for rows in ((X, Y), OTHER)
    ]
    assert around_the_trees(models[0]) == around_the_trees(models[1])


def test_7_logs_are_the_same_whatever_the_rows(capfd):
    logs = []
    for rows in ((X, Y), (X, Y), OTHER):
        params = {"objective": "binary", "verbosity": 2, "max_depth": 2, "learning_rate": 0.3}
        lgb.train(params, dataset(*rows), 6, callbacks=[lgb_dp.DPBoost(0.05)])
        logs.append(re.sub(r"\d+\.\d+ seconds", "", "".join(capfd.readouterr())))
    assert logs[1] == logs[2]  # the first may compile


def test_7_a_finished_booster_has_the_attributes_of_a_stock_one():
    stock = lgb.train({"verbosity": -1}, lgb.Dataset(X, Y), 1)
    own = vars(train(dataset(X, Y), lgb_dp.DPBoost(1.0))).keys() - vars(stock).keys()
    assert own <= {"_is_stale"}


def test_7_lightgbm_itself_never_sees_a_row():
    native = dataset(X, Y).construct()._native
    assert native.num_data() == 2
    assert native.get_label().tolist() == [0, 1]


ACCEPTED = {
    *("objective", "num_class", "num_iterations", "learning_rate", "max_depth", "num_leaves", "lambda_l2"),
    *("num_threads", "verbosity", "metric", "early_stopping_round", "early_stopping_min_delta"),
    *("first_metric_only", "force_col_wise", "force_row_wise", "histogram_pool_size", "is_enable_sparse"),
    *("enable_bundle", "is_provide_training_metric", "metric_freq", "multi_error_top_k", "auc_mu_weights"),
}
"""All parameters that private training honours or that cannot change a model."""


@pytest.mark.parametrize("name", sorted(default_parameters().keys() - ACCEPTED))
def test_8_every_other_parameter_of_lightgbm_is_refused(name):
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=name):
        training_parameters({name: "12345.5"}, 255)


def test_8_what_update_and_create_valid_cannot_honour_raises():
    data = dataset(X, Y)
    booster = lgb.train(
        {"objective": "binary", "verbosity": -1},
        data,
        1,
        callbacks=[lgb_dp.DPBoost(1.0)],
        keep_training_booster=True,
    )
    with pytest.raises(lgb.basic.LightGBMError, match="custom objective"):
        booster.update(fobj=lambda preds, data: (preds, preds))
    with pytest.raises(lgb.basic.LightGBMError, match="cannot be replaced"):
        booster.update(train_set=dataset(X, Y))
    for argument in ("group", "position"):
        with pytest.raises(ValueError, match=argument):
            data.create_valid(X, Y, **{argument: [len(X)]})


def test_9_splits_and_lambda_are_in_units_of_the_weight_bound(monkeypatch):
    asked = []
    grow = square_loss.grow_structure
    monkeypatch.setattr(
        square_loss, "grow_structure", lambda *args: asked.append((args[3], args[5], args[6])) or grow(*args)
    )
    data = dataset(X, Y, weight=np.full(len(X), 1.0), weight_bound=5.0)
    booster = train(data, lgb_dp.DPBoost(1.0), n_rounds=1, lambda_l2=0.1)
    (weight, lambda_steps, scales), epsilon = asked[0], booster.privacy.ledger[0]["epsilon"]
    assert (weight == WEIGHT_STEPS // 5).all()
    assert lambda_steps == pytest.approx(0.1 * WEIGHT_STEPS / 5)
    assert scales == [selection_scale(epsilon, 4.0) / (GRADIENT_STEPS**2 * WEIGHT_STEPS)] * 2


@pytest.mark.parametrize("clip", [1.0, 0.01])
@pytest.mark.parametrize("bound", [0.5, 5.0])
def test_9_the_papers_weighted_leaves_use_the_weighted_sensitivity(monkeypatch, bound, clip):
    data = dataset(X, Y, weight=np.full(len(X), 0.25), weight_bound=bound)
    training = grower(data, lgb_dp.DPBoost(1.0, variant="paper"), lambda_l2=0.1)
    monkeypatch.setattr(square_loss, "discrete_laplace", lambda n, *_: np.ones(n, dtype=np.int64))
    value, _ = training._leaves_of_values(np.zeros((1, 2), dtype=np.int64), clip, 1.0)
    assert value[0] * VALUE_STEPS == pytest.approx(min(leaf_value_sensitivity(0.1, bound), 2 * clip))


def test_9_rows_are_private_unless_marked_public():
    data = dataset(X, Y)
    for valid in (data.create_valid(X, Y), dataset(X, Y, reference=data)):
        with pytest.warns(lgb_dp.NotPrivateWarning):
            train(data, lgb_dp.DPBoost(1.0), valid_sets=[valid])


def test_9_subsets_keep_the_public_weight_bound():
    data = dataset(X, Y, weight=np.ones(len(X)), weight_bound=5.0)
    assert data.subset(np.arange(10)).weight_bound == 5.0


def test_10_training_on_the_test_parts_is_not_private():
    data = dataset(X, Y)
    swapped = [(b, a) for a, b in lgb_dp.folds(3, data).split()]
    assert not any(booster.privacy.private for booster in cv(data, folds=swapped))


def test_10_folds_of_a_continued_training_compose_with_its_initial_model():
    first, data = train(dataset(X, Y), lgb_dp.DPBoost(1.0)), dataset(X, Y, free_raw_data=False)
    for booster in cv(data, folds=lgb_dp.folds(3, data), init_model=first):
        assert booster.privacy.epsilon >= 1.0 + 2 * 0.5
        assert booster.privacy.notes[0] == "epsilon covers all 3 folds together"
