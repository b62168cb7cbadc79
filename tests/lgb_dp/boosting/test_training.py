"""The callback inside lightgbm.train: native behaviour, continued and interrupted training."""

import json
import subprocess
import sys
import warnings

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import lgb_dp
from gbdt_hosts.lightgbm import guarantee_in
from growers import kept_scores
from lgb_dp.dpboost import square_loss
from small_training import binary_data, dataset, leaf_values, train

X, Y = binary_data()
QUIET = {"objective": "binary", "verbosity": -1, "max_depth": 2, "learning_rate": 0.3}


def valid(data, public=True):
    return data.create_valid(X, Y, public=public)


def test_result_is_a_native_booster_that_lightgbm_alone_reads(tmp_path):
    booster = train(dataset(X, Y), lgb_dp.DPBoost(1.0))
    assert isinstance(booster, lgb.Booster)
    path = tmp_path / "model.txt"
    booster.save_model(path)
    np.save(tmp_path / "X.npy", X)
    code = (
        "import sys, lightgbm, numpy as np\n"
        f"p = lightgbm.Booster(model_file={str(path)!r}).predict(np.load({str(tmp_path / 'X.npy')!r}))\n"
        f"np.save({str(tmp_path / 'p.npy')!r}, p)\n"
        "assert 'lgb_dp' not in sys.modules and 'gbdt_hosts' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=900)
    np.testing.assert_array_equal(np.load(tmp_path / "p.npy"), booster.predict(X))
    assert lgb_dp.privacy_of(path).epsilon == 1.0


def test_evaluation_equals_lightgbms_on_the_predictions():
    from sklearn.metrics import log_loss, roc_auc_score

    data, history = dataset(X, Y), {}
    booster = train(
        data,
        lgb_dp.DPBoost(4.0),
        n_rounds=6,
        valid_sets=[valid(data)],
        callbacks=[lgb.record_evaluation(history)],
        metric=["auc", "binary_logloss"],
    )
    for i in range(6):
        p = booster.predict(X, num_iteration=i + 1)
        assert history["valid_0"]["auc"][i] == pytest.approx(roc_auc_score(Y, p), abs=1e-12)
        assert history["valid_0"]["binary_logloss"][i] == pytest.approx(log_loss(Y, p), abs=1e-9)


def test_custom_metric_gets_the_users_dataset():
    data = dataset(X, Y)
    check, seen = valid(data), []

    def feval(preds, eval_data):
        seen.append(eval_data)
        return "mean", float(np.mean(preds)), True

    history = {}
    lgb.train(
        QUIET,
        data,
        2,
        valid_sets=[check],
        feval=feval,
        callbacks=[lgb_dp.DPBoost(1.0), lgb.record_evaluation(history)],
    )
    assert all(d is check for d in seen)
    assert "mean" in history["valid_0"]


def test_early_stopping_truncates_the_model_but_not_the_ledger():
    data = dataset(X, Y)
    booster = train(
        data,
        lgb_dp.SequentialBoost(1.0),
        n_rounds=10,
        valid_sets=[valid(data)],
        callbacks=[lgb.early_stopping(2, verbose=False)],
    )
    grown = sum(row["count"] for row in booster.privacy.ledger if row["release"] == "leaf values")
    assert booster.num_trees() == booster.best_iteration <= grown
    assert booster.privacy.epsilon == pytest.approx(grown / 10)


def test_public_calls_agree_while_the_booster_is_in_training():
    data = dataset(X, Y)
    booster = lgb.train(QUIET, data, 4, callbacks=[lgb_dp.DPBoost(1.0)], keep_training_booster=True)
    assert booster.num_trees() == booster.current_iteration() == len(booster.dump_model()["tree_info"]) == 4
    assert booster.predict(X).shape == (len(X),)
    booster.rollback_one_iter()
    assert booster.num_trees() == booster.current_iteration() == 3
    with pytest.warns(lgb_dp.NotPrivateWarning):
        kept = kept_scores(booster, data)[:, 0]
    np.testing.assert_allclose(booster.predict(X, raw_score=True), kept, atol=1e-12)
    assert booster.privacy.epsilon == 1.0
    with pytest.raises(lgb.basic.LightGBMError, match="all are spent"):
        booster.update()
    for call in (lambda: booster.set_leaf_output(0, 0, 1.0), lambda: booster.shuffle_models()):
        with pytest.raises(lgb.basic.LightGBMError, match="in training"):
            call()


def test_shap_values_are_finite_and_add_up():
    booster = train(dataset(X, Y), lgb_dp.DPBoost(0.1), n_rounds=5, max_depth=3)
    contributions = booster.predict(X, pred_contrib=True)
    assert np.isfinite(contributions).all()
    np.testing.assert_allclose(contributions.sum(axis=1), booster.predict(X, raw_score=True), atol=1e-9)
    assert booster.feature_importance().sum() == 5 * 7


def test_a_changed_leaf_is_found_out():
    booster = train(dataset(X, Y), lgb_dp.DPBoost(1.0))
    booster.set_leaf_output(1, 0, 0.5)
    with pytest.raises(lgb_dp.AlteredModelError, match=r"\[1\]"):
        lgb_dp.privacy_of(booster)


def test_continued_training_composes():
    first = train(dataset(X, Y), lgb_dp.DPBoost(1.0))
    second = lgb.train(QUIET, dataset(X, Y), 2, init_model=first, callbacks=[lgb_dp.DPBoost(0.5)])
    assert second.num_trees() == 5
    assert second.privacy.epsilon == 1.5
    assert second.privacy.private
    np.testing.assert_array_equal(second.predict(X, num_iteration=3), first.predict(X))


def test_continuing_a_model_without_a_guarantee_is_not_private_unless_declared_public():
    stock = lgb.train({"objective": "binary", "verbosity": -1}, lgb.Dataset(X, Y), 2)
    voided = lgb.train(QUIET, dataset(X, Y), 2, init_model=stock, callbacks=[lgb_dp.DPBoost(0.5)])
    assert not voided.privacy.private
    assert "init_model" in voided.privacy.reasons[0]
    public = lgb.train(
        QUIET, dataset(X, Y), 2, init_model=stock, callbacks=[lgb_dp.DPBoost(0.5, public_init_model=True)]
    )
    assert public.privacy.private
    assert public.privacy.epsilon == 0.5


def test_an_interrupted_training_leaves_a_usable_booster_and_what_it_spent():
    trainer = lgb_dp.SequentialBoost(1.0)

    def interrupt(env):
        if env.iteration == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lgb.train(QUIET, dataset(X, Y), 10, callbacks=[trainer, interrupt])
    booster = trainer.booster_
    assert booster.num_trees() == 4
    assert np.isfinite(booster.predict(X)).all()
    assert booster.privacy.epsilon == pytest.approx(0.4)


def test_an_interruption_within_a_tree_is_charged(monkeypatch):
    trainer = lgb_dp.SequentialBoost(1.0)

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("lgb_dp.mechanisms.noise.discrete_laplace", fail)
    with pytest.raises(KeyboardInterrupt):
        lgb.train(QUIET, dataset(X, Y), 10, callbacks=[trainer])
    assert trainer.booster_.num_trees() == 0
    assert trainer.booster_.privacy.epsilon == pytest.approx(0.1)


def test_learning_rate_is_frozen_within_an_ensemble():
    booster = train(
        dataset(X, Y),
        lgb_dp.DPBoost(1.0, trees_per_ensemble=2),
        n_rounds=4,
        callbacks=[lgb.reset_parameter(learning_rate=[0.5, 0.1, 0.2, 0.3])],
    )
    shrinkage = [tree["shrinkage"] for tree in booster.dump_model()["tree_info"]]
    assert shrinkage == [0.5, 0.5, 0.2, 0.2]


def test_a_trainer_is_reusable():
    trainer = lgb_dp.DPBoost(1.0)
    first, second = (train(dataset(X, Y), trainer) for _ in range(2))
    assert first.privacy.epsilon == second.privacy.epsilon == 1.0
    assert (leaf_values(first) != leaf_values(second)).any()


@pytest.mark.parametrize("objective", ["multiclass", "multiclassova"])
def test_multiclass_shares_the_budget_and_learns(objective):
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    booster = train(
        dataset(X, y), lgb_dp.DPBoost(600.0), n_rounds=8, objective=objective, num_class=3, max_depth=3
    )
    assert booster.num_trees() == 24
    assert booster.privacy.epsilon == pytest.approx(600.0)
    assert booster.privacy.epsilon <= 600.0
    p = booster.predict(X)
    assert p.shape == (len(X), 3)
    assert (p.argmax(axis=1) == y).mean() > 0.5
    if objective == "multiclass":
        np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_regression_predicts_in_label_units():
    y = 100 + 10 * X[:, 0]
    data = lgb_dp.Dataset(X, label=y, bounds=(-3, 3), label_bounds=(70, 130))
    booster = train(data, lgb_dp.DPBoost(60.0), n_rounds=10, objective="regression", max_depth=3)
    assert np.sqrt(np.mean((booster.predict(X) - y) ** 2)) < 0.6 * y.std()


def test_categories_missing_values_and_unseen_values_predict_as_trained():
    rng = np.random.default_rng(1)
    n = 600
    frame = pd.DataFrame(
        {
            "number": np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n)),
            "letter": pd.Categorical(rng.choice(list("abcd"), n)),
            "code": rng.integers(0, 6, n),
        }
    )
    frame.loc[::9, "letter"] = np.nan
    y = ((frame["letter"].isin(["a", "c"])) ^ (frame["code"] == 2)).astype(float)
    categories = {"letter": "dtype", "code": range(5)}
    data = lgb_dp.Dataset(frame, label=y, bounds={"number": (-3, 3)}, categories=categories)
    booster = lgb.train(
        {**QUIET, "max_depth": 4}, data, 6, callbacks=[lgb_dp.DPBoost(100.0)], keep_training_booster=True
    )
    with pytest.warns(lgb_dp.NotPrivateWarning):
        kept = kept_scores(booster, data)[:, 0]
    accepted = {"accept_undeclared": ["letter", "code"]}
    np.testing.assert_allclose(booster.predict(frame, raw_score=True, **accepted), kept, atol=1e-12)
    assert ((booster.predict(frame, **accepted) > 0.5) == y).mean() > 0.85
    unseen = frame.assign(letter=pd.Categorical(["z"] * n), code=17)
    missing = frame.assign(letter=pd.Categorical([None] * n, categories=list("abcd")), code=17)
    np.testing.assert_array_equal(booster.predict(unseen, **accepted), booster.predict(missing, **accepted))
    assert booster.predict(frame, pred_contrib=True, **accepted).shape == (n, 4)


def test_sparse_training_equals_dense_training():
    dense = np.where(np.random.default_rng(0).random(X.shape) < 0.7, 0.0, X)
    models = []
    for data in (dense, scipy.sparse.csr_matrix(dense), scipy.sparse.csc_matrix(dense)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lgb_dp.PrivacyLeakWarning)
            booster = train(dataset(data, Y), lgb_dp.DPBoost(5.0, random_state=1), n_rounds=4)
        models.append(booster.model_to_string())
        np.testing.assert_allclose(booster.predict(data), booster.predict(dense))
    assert models[0] == models[1] == models[2]


def test_threads_do_not_change_the_model(monkeypatch):
    monkeypatch.setattr("gbdt_kernels.threads.MIN_BLOCK", 10)
    models = []
    for n_threads in (1, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", lgb_dp.PrivacyLeakWarning)
            booster = train(dataset(X, Y), lgb_dp.DPBoost(5.0, random_state=1), num_threads=n_threads)
        models.append([line for line in booster.model_to_string().splitlines() if "thread" not in line])
    assert models[0] == models[1]


@pytest.mark.parametrize("switch", ["gdf", "glc", "eoe"])
@pytest.mark.parametrize("variant", ["paper", "tight"])
def test_each_part_of_the_algorithm_can_be_switched_off(switch, variant):
    booster = train(dataset(X, Y), lgb_dp.DPBoost(1.0, variant=variant, **{switch: False}), n_rounds=4)
    assert booster.privacy.private
    assert booster.privacy.epsilon == pytest.approx(1.0)
    assert booster.privacy.epsilon <= 1.0


def test_leaf_clipping_is_geometric():
    booster = train(dataset(X, Y), lgb_dp.DPBoost(1e-3), n_rounds=6)
    for t in range(6):
        assert np.abs(leaf_values(booster, t)).max() <= 0.3 * 0.7**t + 1e-12


def test_ensembles_share_the_budget():
    booster = train(dataset(X, Y), lgb_dp.DPBoost(1.0, trees_per_ensemble=4), n_rounds=10)
    assert booster.privacy.epsilon == pytest.approx(1.0)
    assert {row["group"] for row in booster.privacy.ledger} == {0, 1, 2}
    assert {row["disjoint_sets_of_rows"] for row in booster.privacy.ledger} == {4, 2}


def test_plain_validation_sets_need_their_raw_data():
    kept = lgb.Dataset(X, Y, free_raw_data=False)
    history = {}
    with pytest.warns(lgb_dp.NotPrivateWarning):
        booster = train(
            dataset(X, Y),
            lgb_dp.DPBoost(1.0),
            valid_sets=[kept],
            callbacks=[lgb.record_evaluation(history)],
            metric="auc",
        )
    from sklearn.metrics import roc_auc_score

    assert history["valid_0"]["auc"][-1] == pytest.approx(roc_auc_score(Y, booster.predict(X)))
    with pytest.raises(ValueError, match="free_raw_data=False"):
        train(dataset(X, Y), lgb_dp.DPBoost(1.0), valid_sets=[lgb.Dataset(X, Y)])


def test_weights_move_the_fit():
    heavy = np.where(Y == 1, 1.0, 0.05)
    data = dataset(X[:, 2:], Y, weight=heavy, weight_bound=1.0)
    booster = train(data, lgb_dp.DPBoost(200.0), n_rounds=10)
    assert booster.predict(X[:, 2:]).mean() > 0.6


def test_values_that_lightgbm_reads_differently_train_as_they_predict():
    values = np.array([1e-40, -1e-40, 1e-35, 2e-35, 0.0, -0.0, np.inf, -np.inf, np.nan, 1.0])
    X = np.column_stack([values, np.array([2.7, 2.0, -0.5, 0.0, 3.2, np.nan, 1.0, 1.9, -3.0, 9.0])])
    data = lgb_dp.Dataset(X, np.arange(10) % 2, bin_edges={0: [-1.0, 0.0, 0.5]}, categories={1: [0, 1, 2, 3]})
    for _ in range(10):
        booster = lgb.train(
            {**QUIET, "max_depth": 4}, data, 5, callbacks=[lgb_dp.DPBoost(1.0)], keep_training_booster=True
        )
        with pytest.warns(lgb_dp.NotPrivateWarning):
            kept = kept_scores(booster, data)[:, 0]
        np.testing.assert_allclose(booster.predict(X, raw_score=True), kept, atol=1e-12)


def with_guarantee(booster, **changes):
    """The model with another guarantee, as a trainer of another kind would leave it."""
    text = booster.model_to_string()
    line = next(line for line in text.splitlines() if line.startswith("[dp_guarantee:"))
    guarantee = {**guarantee_in(text), **changes}
    return lgb.Booster(model_str=text.replace(line, f"[dp_guarantee: {json.dumps(guarantee)}]"))


def test_continuing_inherits_delta_reasons_and_notes():
    first = with_guarantee(
        train(dataset(X, Y), lgb_dp.DPBoost(1.0)), delta=1e-6, private=False, reasons=["why"], notes=["what"]
    )
    params = {"objective": "binary", "verbosity": -1}
    second = lgb.train(params, dataset(X, Y), 2, init_model=first, callbacks=[lgb_dp.DPBoost(0.5)]).privacy
    assert (second.epsilon, second.delta) == (1.5, 1e-6)
    assert not second.private
    assert second.reasons == ("why",)
    assert second.notes[0] == "of the initial model: what"


def test_a_continued_training_plans_for_its_own_iterations():
    first = train(dataset(X, Y), lgb_dp.SequentialBoost(1.0))
    params = {"objective": "binary", "verbosity": -1}
    second = lgb.train(params, dataset(X, Y), 2, init_model=first, callbacks=[lgb_dp.SequentialBoost(0.5)])
    assert second.privacy.epsilon == pytest.approx(1.5)


def test_leaf_clipping_follows_the_frozen_rate():
    rates = lgb.reset_parameter(learning_rate=[0.5, 0.1, 0.1])
    booster = train(dataset(X, Y), lgb_dp.DPBoost(1e-3), max_depth=6, callbacks=[rates])
    for t in range(3):
        assert np.abs(leaf_values(booster, t)).max() <= 0.5 * 0.5**t + 1e-12


def test_lambda_reaches_the_splits(monkeypatch):
    asked = []
    grow = square_loss.grow_structure
    monkeypatch.setattr(square_loss, "grow_structure", lambda *args: asked.append(args[5]) or grow(*args))
    train(dataset(X, Y), lgb_dp.DPBoost(1.0), n_rounds=1, lambda_l2=7.0)
    assert asked == [7.0]
