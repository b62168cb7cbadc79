"""The ten demands of private training; each test fails when its demand is broken."""

import pickle
import random
import re
import warnings

import lightgbm as lgb
import numpy as np
import pytest
from small_training import binary_data, dataset, field, leaf_values, train

import lgb_dp
from lgb_dp.dpboost import draw_tree_of_row
from lgb_dp.loss import GRADIENT_STEPS, LabelScale, quantise_gradients
from lgb_dp.rng import SecureRandom

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
        "lgb_dp.square_loss.quantise_gradients",
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


def rows_of_every_tree(monkeypatch, trainer, n_rounds):
    from lgb_dp.square_loss import SquareLossTraining

    plans = []
    grow = SquareLossTraining._grow_tree
    monkeypatch.setattr(
        SquareLossTraining,
        "_grow_tree",
        lambda self, plan, *args: plans.append(plan) or grow(self, plan, *args),
    )
    train(dataset(X, Y), trainer, n_rounds=n_rounds)
    return plans


@pytest.mark.parametrize("trainer", [lgb_dp.DPBoost(1.0, trees_per_ensemble=4), lgb_dp.ParallelBoost(1.0)])
def test_3_trees_whose_costs_are_parallel_read_disjoint_rows(monkeypatch, trainer):
    plans = rows_of_every_tree(monkeypatch, trainer, 8)
    for group in {plan.group for plan in plans}:
        rows = np.concatenate([plan.rows for plan in plans if plan.group == group])
        assert len(np.unique(rows)) == len(rows)
    assert len({(plan.group, plan.part) for plan in plans}) == 8


def test_3_filtered_rows_are_not_handed_to_a_later_tree(monkeypatch):
    monkeypatch.setattr("lgb_dp.square_loss.G_STAR", 0.5)
    plans = rows_of_every_tree(monkeypatch, lgb_dp.DPBoost(1.0), 3)
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
    import lgb_dp.square_loss as module

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
    import lgb_dp.square_loss as module

    asked = []
    original = module.discrete_laplace
    monkeypatch.setattr(
        module, "discrete_laplace", lambda n, s, e, r: asked.append(s) or original(n, s, e, r)
    )
    train(dataset(X, Y, weight=np.ones(len(X)), weight_bound=5.0), lgb_dp.DPBoost(1.0), n_rounds=1)
    assert asked == [2 * GRADIENT_STEPS * module.quantise_weights(np.ones(1), 5.0, 1)[1]]


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
    from lgb_dp.folds import PrivateFolds

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
    import pandas as pd

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
