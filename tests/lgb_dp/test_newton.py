"""NewtonBoost: what it learns, what it spends, what it refuses."""

import math
import os
import pickle
import signal
import warnings

import lightgbm as lgb
import numpy as np
import pytest
import scipy.sparse
from gbdt_hosts import lightgbm as host
from small_training import binary_data, dataset, field, leaf_values

import lgb_dp
from lgb_dp.accounting.gaussian import gaussian_epsilon, gaussian_mu
from lgb_dp.newton import trainer as newton
from lgb_dp.newton.settings import automatic_depth, automatic_rate

X, Y = binary_data(600)
DELTA = 1e-5
QUIET = {"objective": "binary", "verbosity": -1}


def boosted(data=None, epsilon=20.0, n_rounds=60, params=None, callbacks=(), valid_sets=None, **kwargs):
    trainer = lgb_dp.NewtonBoost(epsilon, DELTA, **kwargs)
    data = dataset(X, Y) if data is None else data
    return lgb.train(
        {**QUIET, **(params or {})}, data, n_rounds, valid_sets=valid_sets, callbacks=[trainer, *callbacks]
    )


def accuracy(booster, features=X, label=Y):
    return float(((booster.predict(features) > 0.5) == label).mean())


def training_scores(booster):
    """Where the training rows stand, by the grower's own account."""
    rows = booster._grower._current_rows()
    return rows.score + rows.value[rows.leaf]


def live_booster(n_rounds, data=None, params=QUIET, **kwargs):
    """A booster in training, of which no round was trained yet."""
    booster = lgb.Booster(params, dataset(X, Y) if data is None else data)
    env = lgb.callback.CallbackEnv(booster, params, 0, 0, n_rounds, None)
    lgb_dp.NewtonBoost(5.0, DELTA, **kwargs)(env)
    return booster


# What it learns.


@pytest.mark.parametrize("structure", ["auto", "random", "cyclic"])
def test_it_learns_a_binary_label(structure):
    booster = boosted(structure=structure)
    assert accuracy(booster) > 0.85
    assert booster.num_trees() == 60


def test_it_learns_a_regression_within_label_bounds():
    target = 5 + 2 * X[:, 0]
    data = dataset(X, target, label_bounds=(-1, 11))
    booster = boosted(data, params={"objective": "regression"})
    assert 1 - np.var(booster.predict(X) - target) / np.var(target) > 0.7


def test_it_learns_several_classes_on_one_structure():
    label = (X[:, 0] > 0).astype(float) + (X[:, 1] > 0)
    booster = boosted(dataset(X, label), params={"objective": "multiclass", "num_class": 3}, epsilon=50.0)
    assert (booster.predict(X).argmax(axis=1) == label).mean() > 0.7
    for t in range(0, booster.num_trees(), 3):
        same = [field(booster, "threshold", tree=t + k).tolist() for k in range(3)]
        assert same[0] == same[1] == same[2]
    assert booster.privacy.ledger[-1]["count"] == 60  # one release for the trees of three classes


def test_categories_and_missing_values():
    rng = np.random.default_rng(0)
    city = rng.integers(0, 6, len(X)).astype(float)
    hole = np.where(rng.random(len(X)) < 0.3, np.nan, X[:, 0])
    label = np.where(np.isnan(hole), city % 2, (city % 2 + (hole > 1)) > 0).astype(float)
    features = np.column_stack([city, hole])
    data = lgb_dp.Dataset(features, label, bounds={1: (-3, 3)}, categories={0: range(6)}, max_bin=16)
    booster = boosted(data, epsilon=50.0, n_rounds=200)
    assert accuracy(booster, features, label) > 0.85
    unseen = np.array([[99.0, np.nan], [np.nan, np.nan]])
    assert np.isfinite(booster.predict(unseen)).all()


@pytest.mark.parametrize("structure", ["auto", "cyclic"])
def test_native_predictions_are_those_of_training(structure):
    sparse = scipy.sparse.random(400, 5, density=0.3, random_state=1, format="csr")
    label = (np.asarray(sparse.sum(axis=1)).ravel() > 0.7).astype(float)
    for features in (sparse, sparse.toarray()):
        data = lgb_dp.Dataset(features, label, bounds=(0, 1), max_bin=16)
        trainer = lgb_dp.NewtonBoost(5.0, DELTA, structure=structure)
        seen = {}

        def remember(env, seen=seen):
            seen["raw"] = training_scores(env.model)

        booster = lgb.train(QUIET, data, 20, callbacks=[trainer, remember])
        np.testing.assert_allclose(booster.predict(features, raw_score=True), seen["raw"][:, 0], atol=1e-9)


def test_weights_steer_the_model():
    weight = np.where(Y == 1, 2.0, 0.0)
    booster = boosted(dataset(X, Y, weight=weight, weight_bound=2.0))
    assert booster.predict(X).min() > 0.5
    assert booster.privacy.private


def test_the_model_is_native_and_carries_its_guarantee(tmp_path):
    booster = boosted(n_rounds=10)
    booster.save_model(tmp_path / "m.txt")
    loaded = lgb.Booster(model_file=str(tmp_path / "m.txt"))
    np.testing.assert_array_equal(loaded.predict(X), booster.predict(X))
    assert lgb_dp.privacy_of(tmp_path / "m.txt") == booster.privacy
    assert pickle.loads(pickle.dumps(booster)).privacy == booster.privacy
    contributions = booster.predict(X, pred_contrib=True)
    np.testing.assert_allclose(contributions.sum(axis=1), booster.predict(X, raw_score=True), atol=1e-9)


# What it spends.


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_reported_epsilon_is_the_closed_forms_and_not_above_the_one_asked_for(epsilon):
    report = boosted(epsilon=epsilon, n_rounds=30).privacy
    squares = sum(row["count"] * row["mu"] ** 2 for row in report.ledger)
    assert report.delta == DELTA
    assert report.epsilon <= epsilon
    assert report.epsilon == pytest.approx(epsilon, rel=1e-6)
    assert report.epsilon >= gaussian_epsilon(math.sqrt(squares), DELTA) * (1 - 1e-9)
    assert report.replace_one[0] == pytest.approx(gaussian_epsilon(2 * math.sqrt(squares), DELTA), rel=1e-6)
    assert 2 * epsilon < report.replace_one[0] < 2.5 * epsilon + 1


def test_noise_is_what_the_ledger_says(monkeypatch):
    """Standard deviations of all draws, in units of what a row can add, against the μ that were charged."""
    drawn = []
    exact = newton.rounded_gaussian
    monkeypatch.setattr(newton, "rounded_gaussian", lambda n, s, r: drawn.append((n, s)) or exact(n, s, r))
    weighted = dataset(X, Y, weight=np.ones(len(X)), weight_bound=4.0)
    for data, steps in ((dataset(X, Y), 1), (weighted, 1024)):
        drawn.clear()
        report = boosted(data, epsilon=1.0, n_rounds=5, gradient_clip=1.0).privacy
        prior, trees = (row["mu"] for row in report.ledger)
        unit = newton.STEPS * steps
        assert [scale for _, scale in drawn] == pytest.approx(
            [unit / prior, unit / trees, 0.3003 * unit / trees]
        )


@pytest.mark.parametrize("params", [{}, {"objective": "multiclass", "num_class": 3}])
def test_every_sum_gets_noise_of_its_own(monkeypatch, params):
    """What is drawn at once is handed out in order, each number once."""
    drawn, taken = {}, {}
    exact, take = newton.rounded_gaussian, newton._GaussianNoise.take

    def draw(n, scale, random):
        found = exact(n, scale, random)
        drawn.setdefault(scale, []).append(found)
        return found

    def hand_out(self, *shape):
        found = take(self, *shape)
        taken.setdefault(self.scale, []).append(found.ravel())
        return found

    monkeypatch.setattr(newton, "rounded_gaussian", draw)
    monkeypatch.setattr(newton._GaussianNoise, "take", hand_out)
    monkeypatch.setattr(newton, "_DRAWS_AT_ONCE", 50)
    boosted(dataset(X, Y), n_rounds=30, params=params)
    assert len(taken) == 2  # gradients and hessians
    for scale, numbers in taken.items():
        handed = np.concatenate(numbers)
        assert len(drawn[scale]) > 2
        np.testing.assert_array_equal(handed, np.concatenate(drawn[scale])[: len(handed)])


def test_every_draw_is_fresh():
    one, two = boosted(n_rounds=3), boosted(n_rounds=3)
    assert not np.array_equal(leaf_values(one), leaf_values(two))


def test_an_interrupted_training_reports_what_was_spent():
    class StopError(Exception):
        pass

    def stop(env):
        if env.iteration == 4:
            raise StopError

    trainer = lgb_dp.NewtonBoost(2.0, DELTA)
    with pytest.raises(StopError):
        lgb.train(QUIET, dataset(X, Y), 20, callbacks=[trainer, stop])
    report = trainer.booster_.privacy
    assert report.ledger[-1]["count"] == 5
    assert 0 < report.epsilon < 2.0


def test_rounds_planned_beyond_those_trained_stay_unspent():
    report = boosted(epsilon=2.0, n_rounds=5, rounds=20).privacy
    assert report.epsilon == pytest.approx(
        gaussian_epsilon(gaussian_mu(2.0, DELTA) * math.sqrt(0.01 + 0.99 / 4), DELTA), rel=1e-6
    )
    with pytest.raises(ValueError, match="rounds=5"):
        boosted(n_rounds=6, rounds=5)


def test_continued_training_composes_and_keeps_the_scores():
    first = boosted(epsilon=2.0, n_rounds=10)
    second = lgb.train(QUIET, dataset(X, Y), 10, init_model=first, callbacks=[lgb_dp.NewtonBoost(2.0, DELTA)])
    together = gaussian_epsilon(gaussian_mu(2.0, DELTA) * math.sqrt(2), DELTA)
    assert second.privacy.epsilon == pytest.approx(together, rel=1e-6)
    assert second.num_trees() == 20
    assert second.privacy.epsilon < 4.0
    mixed = lgb.train(QUIET, dataset(X, Y), 3, init_model=first, callbacks=[lgb_dp.DPBoost(0.5)])
    assert mixed.privacy.epsilon == pytest.approx(2.5, rel=1e-6)
    assert mixed.privacy.delta == DELTA


def test_folds_compose_to_the_root_of_their_number():
    data = dataset(X, Y)
    result = lgb.cv(
        QUIET,
        data,
        5,
        folds=lgb_dp.folds(5, data),
        callbacks=[lgb_dp.NewtonBoost(1.0, DELTA)],
        return_cvbooster=True,
    )
    for booster in result["cvbooster"].boosters:
        expected = gaussian_epsilon(2 * gaussian_mu(1.0, DELTA), DELTA)
        assert booster.privacy.epsilon == pytest.approx(expected, rel=1e-6)
        assert booster.privacy.private


def test_a_secret_sample_is_charged_by_dp_accounting_and_drawn_row_by_row(monkeypatch):
    taken = []
    draw = newton._NewtonTraining._secret_sample
    monkeypatch.setattr(
        newton._NewtonTraining, "_secret_sample", lambda self, p: taken.append(draw(self, p)) or taken[-1]
    )
    booster = boosted(epsilon=2.0, n_rounds=12, subsample=0.25)
    report = booster.privacy
    assert 1.9 < report.epsilon <= 2.0
    assert [row["probability"] for row in report.ledger] == [1.0, 0.25]
    sizes = np.array([sample.sum() for sample in taken])
    assert np.abs(sizes - 150).max() < 6 * np.sqrt(600 * 0.25 * 0.75)
    assert len({sample.tobytes() for sample in taken}) == 12
    assert "_secret" not in repr(booster.__dict__)  # nothing of the draws is kept


# What settings mean.


def test_settings_of_lightgbm_are_honoured_and_others_chosen():
    booster = boosted(params={"learning_rate": 0.05, "max_depth": 3}, n_rounds=2)
    assert "[learning_rate: 0.05]" in booster.model_to_string()
    assert booster.dump_model()["tree_info"][0]["num_leaves"] == 8
    with pytest.raises(ValueError, match="max_depth=3 and depth=4"):
        boosted(params={"max_depth": 3}, depth=4)
    rates = [0.3, 0.1, 0.1]
    booster = boosted(n_rounds=3, callbacks=[lgb.reset_parameter(learning_rate=rates)])
    shrinkage = [float(field(booster, "shrinkage", tree=t)[0]) for t in range(3)]
    assert shrinkage == rates


def test_automatic_settings_grow_with_rows_and_budget():
    assert [automatic_depth(nu) for nu in (1, 700, 3e3, 2e5, 2e6)] == [2, 3, 4, 5, 6]
    assert automatic_rate(2500, 500) == pytest.approx(0.2)
    assert automatic_rate(1e9, 1) == 1.0
    assert automatic_rate(2500, 2000) == pytest.approx(0.1)


def test_automatic_settings_follow_the_released_rows_not_the_true_ones(monkeypatch):
    """With the released number of rows fixed, twice the rows change no setting."""
    release = newton._NewtonTraining._release_label_counts
    monkeypatch.setattr(
        newton._NewtonTraining, "_release_label_counts", lambda self: release(self) * 0 + 5000.0
    )
    texts = []
    for rows in (X, np.repeat(X, 2, axis=0)):
        label = Y if len(rows) == len(Y) else np.repeat(Y, 2)
        text = boosted(dataset(rows, label), n_rounds=1).model_to_string()
        texts.append([line for line in text.splitlines() if "learning_rate" in line or "max_depth" in line])
    assert texts[0] == texts[1] != []


def test_structures_do_not_depend_on_the_rows():
    """Splits of "random" trees are the same for other data with the same public description."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lgb_dp.PrivacyLeakWarning)
        splits = []
        for label in (Y, 1 - Y):
            data = dataset(X if label is Y else -X, label)
            booster = boosted(data, n_rounds=1, structure="random", depth=3, random_state=5)
            splits.append((field(booster, "split_feature").tolist(), field(booster, "threshold").tolist()))
    assert splits[0] == splits[1]


def test_rolling_back_takes_the_scores_back():
    booster = live_booster(4)
    booster.update()
    one = training_scores(booster)
    booster.update()
    booster.rollback_one_iter()
    np.testing.assert_allclose(training_scores(booster), one, atol=1e-12)
    assert booster.privacy.ledger[-1]["count"] == 2  # what it cost stays spent


FEW_AND_MANY_BINS = np.column_stack([X[:, 0], X[:, 1] > 0, np.arange(len(X)) % 6])


def few_and_many_bins():
    """Trees of one feature have other sizes than the trees that follow."""
    return lgb_dp.Dataset(FEW_AND_MANY_BINS, Y, bounds={0: (-3, 3)}, categories={1: range(2), 2: range(6)})


@pytest.mark.parametrize("structure", ["auto", "cyclic"])
def test_trees_of_several_sizes_can_be_taken_back_and_evaluated_late(structure):
    booster = live_booster(100, few_and_many_bins(), {**QUIET, "max_depth": 3}, structure=structure)
    for _ in range(5):
        booster.update()
    booster.rollback_one_iter()
    for _ in range(9):
        booster.update()
    grown = [len(trees[0].feature) for trees in booster._grower.trees]
    assert len(set(grown)) > 1
    assert max(grown) <= 7
    with pytest.warns(lgb_dp.NotPrivateWarning):
        booster.eval_train()
    raw = booster.predict(FEW_AND_MANY_BINS, raw_score=True)
    np.testing.assert_allclose(training_scores(booster)[:, 0], raw, atol=1e-9)


@pytest.mark.parametrize("after", [1, 4])
@pytest.mark.parametrize("where", ["adding up", "learning", "making the tree"])
def test_an_interrupt_in_a_round_leaves_no_trace_in_the_scores(monkeypatch, after, where):
    class Interrupted:
        def add_up(self, *_, **__):
            raise KeyboardInterrupt

    booster = live_booster(100, few_and_many_bins())
    grower = booster._grower
    for _ in range(after):
        booster.update()
    with monkeypatch.context() as patch:
        if where == "adding up":
            patch.setattr(grower, "_pairs", Interrupted())
        elif where == "learning":
            patch.setattr(grower._splits, "learn", Interrupted().add_up)
        else:
            patch.setattr(newton, "PrivateTree", Interrupted().add_up)
        with pytest.raises(KeyboardInterrupt):
            booster.update()
    assert booster.privacy.ledger[-1]["count"] == after + 1  # charged before the data is read
    for _ in range(2):
        booster.update()
        raw = booster.predict(FEW_AND_MANY_BINS, raw_score=True)
        np.testing.assert_allclose(training_scores(booster)[:, 0], raw, atol=1e-9)


def test_an_interrupt_while_the_model_is_loaded_or_taken_back_leaves_no_trace(monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    booster = live_booster(100, few_and_many_bins())
    for _ in range(5):
        booster.update()
    booster.predict(FEW_AND_MANY_BINS[:1])
    booster.update()
    with monkeypatch.context() as patch:
        patch.setattr(host.booster, "model_text", interrupted)
        with pytest.raises(KeyboardInterrupt):
            booster.num_trees()
    assert booster.num_trees() == 6
    with pytest.warns(lgb_dp.NotPrivateWarning):
        booster.eval_train()
    scores = booster._grower._scores[id(booster.train_set)][1]
    with monkeypatch.context() as patch:
        patch.setattr(scores, "forget", interrupted)
        with pytest.raises(KeyboardInterrupt):
            booster.rollback_one_iter()
    booster.rollback_one_iter()
    add, written = scores._write, []
    with monkeypatch.context() as patch:  # scores were written, their number of trees was not
        patch.setattr(scores, "_write", lambda rows, new, n: written.append(1) or add(rows, new, -1))
        booster.update()
        booster.eval_train()
    assert written
    booster.update()
    assert booster.num_trees() == 7
    raw = booster.predict(FEW_AND_MANY_BINS, raw_score=True)
    np.testing.assert_allclose(booster._grower.raw_score(booster.train_set)[:, 0], raw, atol=1e-9)
    np.testing.assert_allclose(training_scores(booster)[:, 0], raw, atol=1e-9)


def test_an_interrupt_in_the_first_release_ends_the_training(monkeypatch):
    booster = live_booster(10)
    with monkeypatch.context() as patch:
        patch.setattr(newton, "automatic_rate", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            booster.update()
    with pytest.raises(lgb.basic.LightGBMError, match="start it anew"):
        booster.update()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("structure", ["auto", "random"])
def test_a_forked_child_gets_none_of_the_noise_that_was_drawn_ahead(structure):
    booster = live_booster(100, structure=structure)
    booster.update()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        refused = 0
        for attempt in (booster.update, lambda: booster._grower._noise_g.take(1)):
            try:
                attempt()
            except RuntimeError:
                refused += 1
        os._exit(0 if refused == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    booster.update()


def test_given_depths_are_kept_by_all_trees():
    for params, kwargs in (({"max_depth": 3}, {}), ({"num_leaves": 8}, {}), ({}, {"depth": 3})):
        for structure in ("auto", "random", "cyclic"):
            booster = boosted(n_rounds=120, params=params, structure=structure, **kwargs)
            assert max(tree["num_leaves"] for tree in booster.dump_model()["tree_info"]) == 8
            assert "[max_depth: 3]" in booster.model_to_string()
    free = boosted(n_rounds=120, epsilon=20.0)
    assert max(tree["num_leaves"] for tree in free.dump_model()["tree_info"]) == 16
    assert "[max_depth: 4]" in free.model_to_string()


def test_resetting_nothing_keeps_the_automatic_rate():
    booster = live_booster(4)
    booster.update()
    rate = booster._grower._rate
    booster.reset_parameter({})
    assert booster._grower._rate == rate != 0.1


def test_evaluation_and_early_stopping_see_the_current_model():
    data = dataset(X, Y)
    valid = lgb_dp.Dataset(X, Y, reference=data, public=True)
    history = {}
    booster = boosted(
        data,
        n_rounds=40,
        params={"metric": "binary_logloss"},
        valid_sets=[valid],
        callbacks=[lgb.record_evaluation(history)],
    )
    p = booster.predict(X)
    loss = -np.mean(Y * np.log(p) + (1 - Y) * np.log(1 - p))
    assert history["valid_0"]["binary_logloss"][-1] == pytest.approx(loss)


# What it refuses.


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"rounds": 0}, "rounds"),
        ({"structure": "best"}, "structure"),
        ({"depth": 0}, "depth"),
        ({"depth": 17}, "depth"),
        ({"hessian_share": 1.0}, "hessian_share"),
        ({"gradient_clip": 0.0}, "gradient_clip"),
        ({"gradient_clip": 1.5}, "gradient_clip"),
        ({"subsample": 0.0}, "subsample"),
        ({"subsample": 1.1}, "subsample"),
    ],
)
def test_bad_arguments_are_named(kwargs, match):
    with pytest.raises(ValueError, match=match):
        lgb_dp.NewtonBoost(**{"epsilon": 1.0, "delta": DELTA, **kwargs})


def test_delta_must_be_a_number_and_one_against_all_is_refused():
    with pytest.raises(TypeError, match="delta"):
        lgb_dp.NewtonBoost(1.0, "small")
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="multiclassova"):
        boosted(params={"objective": "multiclassova", "num_class": 3})


def test_spacing_is_public_and_checked():
    data = lgb_dp.Dataset(X[:5] * 0, Y[:5], bounds=(0, 1e6), max_bin=64, spacing="mixed").construct()
    edges = data.bins.values[0]
    assert len(edges) <= 63
    assert (np.diff(edges) > 0).all()
    assert edges[0] == 0.0
    assert edges[1] == pytest.approx(1.0)
    both = lgb_dp.Dataset(X[:5] * 0, Y[:5], bounds=(-10, 10), max_bin=64, spacing="mixed").construct()
    np.testing.assert_allclose(both.bins.values[0], -both.bins.values[0][::-1], atol=1e-9)
    with pytest.raises(ValueError, match="spacing"):
        lgb_dp.Dataset(X, Y, bounds=(0, 1), spacing="odd")


# Distinguishing neighbours: the cost is not understated.


@pytest.mark.slow
def test_the_first_leaf_values_of_neighbours_are_as_close_as_mu_says():
    """Rows all alike: the released sums of a tree are one normal draw away from each other by exactly μ."""
    features = np.full((40, 1), 1.0)
    outputs = []
    for n in (39, 40):
        values = []
        for _ in range(400):
            data = lgb_dp.Dataset(features[:n], np.ones(n), bounds=(-3, 3), max_bin=2)
            trainer = lgb_dp.NewtonBoost(2.0, DELTA, structure="random", depth=1, gradient_clip=1.0)
            sums = []
            with pytest.MonkeyPatch.context() as patch:
                release = newton._NewtonTraining._release
                patch.setattr(
                    newton._NewtonTraining,
                    "_release",
                    lambda self, *args, sums=sums, release=release: (
                        sums.append(release(self, *args)) or sums[-1]
                    ),
                )
                patch.setattr(newton, "_MAX_PRIOR", 0.0)
                lgb.train(QUIET, data, 1, callbacks=[trainer])
            values.append(sums[0].gradient.sum())
        outputs.append(np.array(values))
    mu = gaussian_mu(2.0, DELTA) * math.sqrt(0.99)
    spread = np.sqrt(2) / mu  # two leaves, each with noise 1/μ
    assert outputs[0].std() == pytest.approx(spread, rel=0.16)
    assert outputs[1].std() == pytest.approx(spread, rel=0.16)
    assert abs(outputs[1].mean() - outputs[0].mean()) < 0.5 + 5 * spread / math.sqrt(400)
