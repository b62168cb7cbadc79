"""No side door around the guarantee: each test is a way in which a report once said less than was true."""

import copy
import pickle
import warnings

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import lgb_dp
from lgb_dp.accounting.cost import Cost
from lgb_dp.accounting.gaussian import gaussian_mu
from lgb_dp.accounting.ledger import Ledger, Release
from lgb_dp.data.bins import public_bins
from lgb_dp.data.provenance import Provenance
from small_training import binary_data, dataset, train

X, Y = binary_data()
DELTA = 1e-5
QUIET = {"objective": "binary", "verbosity": -1, "max_depth": 2}


# Knowledge of the data: what it leaks, and what it has cost, travels with the bins.


@pytest.mark.parametrize("data", [X, pd.DataFrame(X)])
def test_side_door_quantile_edges_refuse_bounds_read_from_the_data(data):
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"bounds.*public"):
        lgb_dp.private_quantile_edges(data, None, 1.0, DELTA)


def test_side_door_bins_know_themselves_that_bounds_were_read():
    bins = public_bins(X, ("a", "b", "c", "d"), None, 8, None, None)
    for same in (bins, copy.deepcopy(bins), copy.copy(bins), pickle.loads(pickle.dumps(bins))):
        assert "bounds were read" in same.provenance.leaks[0]


def paid_dataset(**kwargs):
    bounds, paid = lgb_dp.private_bounds(X, 2.0, DELTA)
    return lgb_dp.Dataset(X, Y, bounds=bounds, max_bin=8, paid_for=[paid], **kwargs), paid


def heirs(data):
    """Every way to get from one Dataset to another that shares its bins."""
    data.construct()
    yield "reference", lgb_dp.Dataset(X, Y, reference=data)
    yield "create_valid", data.create_valid(X, Y)
    yield "reference of a reference", lgb_dp.Dataset(X, Y, reference=data.create_valid(X, Y))
    yield "copy", copy.copy(data)
    yield "set_reference", lgb_dp.Dataset(X, Y).set_reference(data)
    split = lgb_dp.folds(3, data).split()
    yield "training part of a fold", data.subset(next(split)[0])
    yield "reference of a subset", lgb_dp.Dataset(X, Y, reference=data.subset(next(split)[0]))
    yield "subset", data.subset(np.arange(100))


def test_side_door_what_was_paid_for_is_charged_to_every_heir():
    data, paid = paid_dataset()
    for way, heir in heirs(data):
        report = train(heir, lgb_dp.DPBoost(0.1)).privacy
        assert report.epsilon >= paid.epsilon + 0.1 - 1e-9, way


def test_side_door_what_was_paid_for_is_charged_once():
    data, paid = paid_dataset()
    alone = train(data, lgb_dp.DPBoost(0.1)).privacy
    again = lgb_dp.Dataset(X, Y, reference=data, paid_for=[paid])
    assert train(again, lgb_dp.DPBoost(0.1)).privacy.epsilon == alone.epsilon
    _, other = lgb_dp.private_bounds(X, 2.0, DELTA)
    assert other == paid
    twice = train(lgb_dp.Dataset(X, Y, reference=data, paid_for=[other]), lgb_dp.DPBoost(0.1)).privacy
    assert twice.epsilon > alone.epsilon + 0.5


def test_side_door_changing_the_reference_forgets_no_cost():
    data, paid = paid_dataset(free_raw_data=False)
    data.construct().set_reference(lgb_dp.Dataset(X, Y, bounds=data.bounds, max_bin=8))
    assert train(data, lgb_dp.DPBoost(0.1)).privacy.epsilon >= paid.epsilon + 0.1 - 1e-9


def test_side_door_leaks_reach_every_heir():
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="bounds"):
        data = lgb_dp.Dataset(X, Y, max_bin=8).construct()
    for way, heir in heirs(data):
        assert not train(heir, lgb_dp.DPBoost(0.1)).privacy.private, way


def test_side_door_what_is_disclosed_cannot_be_taken_back():
    data = dataset(X, Y).disclose(Provenance(("a reason",)))
    data.disclose(Provenance())
    assert train(data, lgb_dp.DPBoost(1.0)).privacy.reasons == ("a reason",)


# Categories of a dtype come from the rows.


@pytest.mark.filterwarnings("ignore::lgb_dp.PrivacyLeakWarning")
def test_side_door_a_private_cell_as_a_category_voids_the_report():
    frame = pd.DataFrame({"city": pd.Categorical(["SECRET-TOWN", *["x"] * (len(Y) - 1)]), "b": X[:, 0]})
    booster = train(lgb_dp.Dataset(frame, Y, bounds={"b": (-3, 3)}), lgb_dp.DPBoost(1.0))
    assert "SECRET-TOWN" in booster.model_to_string()  # that is what must not be called private
    assert not booster.privacy.private
    assert "SECRET-TOWN" not in str(booster.privacy)


def test_side_door_undeclared_categories_warn():
    frame = pd.DataFrame({"city": pd.Categorical(list("xy") * 200)})
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="city"):
        lgb_dp.Dataset(frame, Y).construct()


@pytest.mark.parametrize(
    ("categories", "named"), [("values", "categories"), ({"city": "values"}, "city"), ({"b": "dtype"}, "'b'")]
)
def test_side_door_only_a_dtype_can_be_declared_by_that_word(categories, named):
    frame = pd.DataFrame({"city": pd.Categorical(list("xy") * 200), "b": X[:, 0]})
    with pytest.raises(lgb_dp.InvalidArgumentError, match=named):
        lgb_dp.Dataset(frame, Y, bounds={"b": (-3, 3)}, categories=categories).construct()


# Initial scores.


def private_scores():
    plain = lgb.train({**QUIET, "min_data_in_leaf": 1}, lgb.Dataset(X, Y), 5)
    return plain.predict(X, raw_score=True)


def test_side_door_an_init_score_of_a_model_of_the_same_rows_voids_the_report():
    for data in (
        dataset(X, Y, init_score=private_scores()),
        dataset(X, Y).set_init_score(private_scores()),
        dataset(X, Y, init_score=np.zeros(len(X))),
    ):
        with pytest.warns(lgb_dp.PrivacyLeakWarning, match="init_score"):
            report = train(data, lgb_dp.DPBoost(1.0)).privacy
        assert not report.private
        assert "public_init_score" in report.reasons[0]


def test_side_door_an_init_score_declared_public_is_noted():
    for data in (
        dataset(X, Y, init_score=X[:, 0], public_init_score=True),
        dataset(X, Y).set_init_score(X[:, 0], public=True),
    ):
        report = train(data, lgb_dp.DPBoost(1.0)).privacy
        assert report.private
        assert "init_score" in report.notes[0]


def test_side_door_folds_inherit_the_init_score():
    data = dataset(X, Y, init_score=private_scores())
    part = data.subset(next(lgb_dp.folds(3, data).split())[0])
    with pytest.warns(lgb_dp.PrivacyLeakWarning, match="init_score"):
        assert not train(part, lgb_dp.DPBoost(1.0)).privacy.private


def test_side_door_an_init_score_of_evaluation_rows_voids_nothing():
    data = dataset(X, Y)
    valid = lgb_dp.Dataset(X, Y, reference=data, init_score=private_scores(), public=True)
    assert train(data, lgb_dp.DPBoost(1.0), valid_sets=[valid]).privacy.private


# Folds, and folds of folds.


def cv_reports(data, folds):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lgb_dp.NotPrivateWarning)
        result = lgb.cv(QUIET, data, 2, folds=folds, callbacks=[lgb_dp.DPBoost(0.5)], return_cvbooster=True)
    return [booster.privacy for booster in result["cvbooster"].boosters]


def test_side_door_two_folds_are_both_private():
    data = dataset(X, Y)
    folds = lgb_dp.folds(2, data)
    for _ in range(2):  # a second cross-validation begins anew
        reports = cv_reports(data, folds)
        assert [report.private for report in reports] == [True, True]
        assert [report.epsilon for report in reports] == [0.5, 0.5]


def test_side_door_a_training_part_that_is_trained_on_twice_is_reported():
    data = dataset(X, Y)
    rows, _ = next(lgb_dp.folds(3, data).split())
    parts = [data.subset(rows), data.subset(rows)]
    assert [train(part, lgb_dp.DPBoost(1.0)).privacy.private for part in parts] == [True, False]
    assert not train(parts[0], lgb_dp.DPBoost(1.0)).privacy.private


def test_side_door_nested_folds_multiply_and_say_what_to_compose():
    data = dataset(X, Y)
    for rows, _ in lgb_dp.folds(4, data).split():
        part = data.subset(rows)
        for report in cv_reports(part, lgb_dp.folds(3, part)):
            assert report.private
            assert report.epsilon == 3 * 2 * 0.5
            assert "lgb_dp.compose" in report.notes[0]
        outer = train(part, lgb_dp.DPBoost(0.5)).privacy
        assert outer.private
        assert outer.epsilon == 3 * 0.5


def test_side_door_a_second_division_of_an_outer_training_part_is_reported():
    data = dataset(X, Y)
    rows, _ = next(lgb_dp.folds(4, data).split())
    one, two = data.subset(rows), data.subset(rows)
    assert all(report.private for report in cv_reports(one, lgb_dp.folds(3, one)))
    assert not any(report.private for report in cv_reports(two, lgb_dp.folds(3, two)))


# δ.


@pytest.mark.parametrize("delta", [0.1, 0.5, 0.999])
def test_side_door_a_delta_that_publishes_a_tenth_of_all_rows_is_refused(delta):
    for call in (lambda: lgb_dp.NewtonBoost(1.0, delta), lambda: lgb_dp.private_bounds(X, 1.0, delta)):
        with pytest.raises(lgb_dp.InvalidArgumentError, match="delta"):
            call()


def test_side_door_a_delta_above_one_over_the_number_of_rows_warns():
    with pytest.warns(lgb_dp.NotPrivateWarning, match="delta"):
        report = train(dataset(X, Y), lgb_dp.NewtonBoost(1.0, 0.05)).privacy
    assert any("delta" in note for note in report.notes)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lgb_dp.NotPrivateWarning)
        report = train(dataset(X, Y), lgb_dp.NewtonBoost(1.0, DELTA)).privacy
    assert report.notes == ()


def test_side_door_a_delta_that_earlier_results_make_too_large_warns():
    """Each δ alone is below 1/400; together they are not."""
    trainer = lgb_dp.NewtonBoost(1.0, 0.002)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lgb_dp.NotPrivateWarning)
        assert train(dataset(X, Y), trainer).privacy.notes == ()
    paid = lgb_dp.PrivacyReport(
        epsilon=1.0, delta=0.002, private=True, reasons=(), notes=(), ledger=(), cost=Cost(1.0, 0.002)
    )
    with pytest.warns(lgb_dp.NotPrivateWarning, match="delta = 0.004"):
        report = train(dataset(X, Y, paid_for=[paid]), trainer).privacy
    assert any("delta = 0.004" in note for note in report.notes)


@pytest.mark.parametrize("release", [lgb_dp.private_bounds, lgb_dp.private_quantile_edges])
def test_side_door_a_large_delta_of_metadata_warns(release):
    bounds = [(-3, 3)] if release is lgb_dp.private_quantile_edges else []
    with pytest.warns(lgb_dp.NotPrivateWarning, match="delta"):
        _, report = release(X, *bounds, 5.0, 0.05)
    assert any("delta" in note for note in report.notes)
    with warnings.catch_warnings():
        warnings.simplefilter("error", lgb_dp.NotPrivateWarning)
        _, report = release(X, *bounds, 5.0, DELTA)
    assert report.notes == ()


def test_side_door_a_large_delta_of_a_search_warns():
    search = lgb_dp.DPRandomizedSearchCV(
        lgb_dp.DPLGBMClassifier(n_estimators=2),
        {"max_depth": [1, 2]},
        epsilon=5.0,
        delta=0.05,
        mean_trials=2.0,
    )
    with pytest.warns(lgb_dp.NotPrivateWarning, match="delta"):
        search.fit(X, Y.astype(int), bounds=(-3, 3), classes=[0, 1])
    assert any("delta" in note for note in search.privacy_.notes)


# Stopping on the way: what was granted is the guarantee.


def test_side_door_an_early_stopped_run_states_what_was_granted():
    seen = []

    def stop(env):
        seen.append(env.model.privacy)
        if env.iteration == 4:
            raise lgb.callback.EarlyStopException(4, [])

    booster = train(dataset(X, Y), lgb_dp.NewtonBoost(1.0, DELTA), n_rounds=40, callbacks=[stop])
    full = train(dataset(X, Y), lgb_dp.NewtonBoost(1.0, DELTA), n_rounds=40).privacy
    for report in (*seen, booster.privacy, lgb_dp.privacy_of(booster)):
        assert (report.epsilon, report.delta) == (full.epsilon, full.delta)
        assert report.cost == full.cost
        assert report.spent[0] < 0.8 * report.epsilon
        assert "spent: epsilon" in str(report)
    assert [report.spent[0] for report in seen] == sorted(report.spent[0] for report in seen)
    assert full.spent == (full.epsilon, full.delta)
    assert "spent" not in str(full)


def test_side_door_pure_runs_may_state_their_running_sum():
    def stop(env):
        if env.iteration == 1:
            raise lgb.callback.EarlyStopException(1, [])

    report = train(dataset(X, Y), lgb_dp.SequentialBoost(1.0), n_rounds=4, callbacks=[stop]).privacy
    assert report.epsilon == report.spent[0] == pytest.approx(0.5)


def test_side_door_a_continued_model_charges_what_the_first_run_was_granted():
    first = train(dataset(X, Y), lgb_dp.NewtonBoost(1.0, DELTA, rounds=100), n_rounds=3)
    second = lgb.train(QUIET, dataset(X, Y), 2, init_model=first, callbacks=[lgb_dp.DPBoost(0.5)]).privacy
    assert second.epsilon == pytest.approx(1.5, rel=1e-6)
    stopped = lgb.train(QUIET, dataset(X, Y), 4, init_model=first, callbacks=[lgb_dp.SequentialBoost(0.5)])
    assert stopped.privacy.epsilon == pytest.approx(1.5, rel=1e-6)


def test_side_door_what_is_not_planned_is_not_released():
    ledger = Ledger(granted_delta=DELTA)
    one = Release("leaf sums", "Gaussian", 0.0, 0, 0, mu=0.1)
    ledger.grant([one, one])
    for _ in range(2):
        ledger.charge(one)
    for beyond in (one, Release("leaf sums", "Gaussian", 0.0, 0, 0, mu=0.2)):
        with pytest.raises(lgb_dp.BudgetSpentError):
            ledger.charge(beyond)
    with pytest.raises(lgb_dp.BudgetSpentError):
        ledger.grant([one])


def test_side_door_the_statement_that_stopping_would_falsify_is_not_made():
    """Stop once the privacy loss exceeds ε of the releases so far: δ is then several times the stated."""
    delta, n_rounds = 1e-3, 30
    mu = gaussian_mu(1.0, delta) / np.sqrt(n_rounds)
    ledger = Ledger(granted_delta=delta)
    release = Release("leaf sums", "Gaussian", 0.0, 0, 0, mu=mu)
    ledger.grant([release] * n_rounds)
    running, stated = [], []
    for _ in range(n_rounds):
        ledger.charge(release)
        running.append(ledger.spent[0])
        stated.append(ledger.epsilon)
    rng = np.random.default_rng(0)
    steps = mu * rng.standard_normal((200_000, n_rounds)) + mu**2 / 2
    loss = np.cumsum(steps, axis=1)  # log of the ratio of the two neighbours' densities

    def achieved(epsilons):
        beyond = loss > epsilons
        stop = np.where(beyond.any(axis=1), beyond.argmax(axis=1), n_rounds - 1)
        excess = np.array(epsilons)[stop] - loss[np.arange(len(loss)), stop]
        return np.maximum(-np.expm1(excess), 0).mean()

    assert achieved(np.array(running)) > 2 * delta
    assert achieved(np.array(stated)) < 1.3 * delta  # 1.3 leaves room for the simulation
    assert stated == [ledger.epsilon] * n_rounds


def test_side_door_compositions_say_what_they_assume():
    reports = [train(dataset(X, Y), lgb_dp.NewtonBoost(1.0, DELTA)).privacy for _ in range(2)]
    assert "fixed beforehand" in lgb_dp.compose(*reports).notes[-1]
    assert lgb_dp.compose(reports[0]).notes == ()
