"""What NewtonBoost spends: noise is what the ledger says, and costs compose."""

import math

import lightgbm as lgb
import numpy as np
import pytest

import lgb_dp
from drawn_noise import gaussians_drawn
from lgb_dp.accounting.gaussian import SampledGaussian, composed_epsilon, gaussian_epsilon, gaussian_mu
from lgb_dp.accounting.ledger import Ledger
from lgb_dp.accounting.unit import Unit
from lgb_dp.losses.loss import STEPS
from lgb_dp.mechanisms import noise as mechanisms
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton import budget_plan, core
from lgb_dp.newton.noised_sums import Releases
from lgb_dp.newton.releases.leaf_sums import LocalLeafSums
from newton_training import DELTA, QUIET, X, Y, boosted
from small_training import dataset, leaf_values

pytestmark = pytest.mark.usefixtures("coarse_accounting")


@pytest.mark.parametrize("k", [1, 4])
def test_samples_of_persons_are_planned_for_what_k_rows_cost(k):
    ledger = Ledger(unit=Unit(k, k))
    plan = budget_plan.BudgetPlan(ledger, 1.0, DELTA, 10, 0.5, may_need_histograms=True)
    before = k * math.hypot(plan.counts.mu, plan.histograms.mu)
    epsilon = composed_epsilon(before, (SampledGaussian(k * plan.tree.mu, 0.5, 10),), DELTA)
    assert 0.97 < epsilon <= 1.0
    assert ledger.cost.at(DELTA)[0] <= 1.0 + 1e-9
    assert plan.mu == pytest.approx(gaussian_mu(1.0, DELTA) / k)
    assert plan.counts.mu == pytest.approx(plan.mu * math.sqrt(budget_plan.PRIOR_SHARE))


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
    drawn = gaussians_drawn(monkeypatch)
    weighted = dataset(X, Y, weight=np.ones(len(X)), weight_bound=4.0)
    for data, steps in ((dataset(X, Y), 1), (weighted, 1024)):
        drawn.clear()
        report = boosted(data, epsilon=1.0, n_rounds=5, gradient_clip=1.0).privacy
        prior, trees = (row["mu"] for row in report.ledger)
        unit = STEPS * steps
        assert [scale for _, scale in drawn] == pytest.approx(
            [unit / prior, unit / trees, 0.3003 * unit / trees]
        )


@pytest.mark.parametrize("params", [{}, {"objective": "multiclass", "num_class": 3}])
def test_every_sum_gets_noise_of_its_own(monkeypatch, params):
    """What is drawn at once is handed out in order, each number once."""
    drawn, taken = {}, {}
    exact, take = mechanisms.rounded_gaussian, mechanisms.GaussianReserve.hand_out

    def draw(n, scale, random):
        found = exact(n, scale, random)
        drawn.setdefault(scale, []).append(found)
        return found

    def hand_out(self, scale, *shape):
        found = take(self, scale, *shape)
        taken.setdefault(self.scale, []).append(found.ravel())
        return found

    monkeypatch.setattr(mechanisms, "rounded_gaussian", draw)
    monkeypatch.setattr(mechanisms.GaussianReserve, "hand_out", hand_out)
    monkeypatch.setattr(mechanisms, "DRAWS_AT_ONCE", 50)
    boosted(dataset(X, Y), n_rounds=30, params=params)
    assert len(taken) == 2  # gradients and hessians
    for scale, numbers in taken.items():
        handed = np.concatenate(numbers)
        assert len(drawn[scale]) > 2
        np.testing.assert_array_equal(handed, np.concatenate(drawn[scale])[: len(handed)])


def test_every_draw_is_fresh():
    one, two = boosted(n_rounds=3), boosted(n_rounds=3)
    assert not np.array_equal(leaf_values(one), leaf_values(two))


def test_an_interrupted_training_reports_what_was_granted_and_what_was_spent():
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
    assert report.epsilon == pytest.approx(2.0, rel=1e-6)
    assert 0 < report.spent[0] < 1.5


def test_rounds_planned_beyond_those_trained_stay_unspent():
    report = boosted(epsilon=2.0, n_rounds=5, rounds=20).privacy
    assert report.epsilon == pytest.approx(2.0, rel=1e-6)
    assert report.spent[0] == pytest.approx(
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
    draw = LocalLeafSums.secret_sample
    monkeypatch.setattr(LocalLeafSums, "secret_sample", lambda self: taken.append(draw(self)) or taken[-1])
    booster = boosted(epsilon=2.0, n_rounds=12, subsample=0.25)
    report = booster.privacy
    assert 1.9 < report.epsilon <= 2.0
    assert [row["probability"] for row in report.ledger] == [1.0, 0.25]
    sizes = np.array([sample.sum() for sample in taken])
    assert np.abs(sizes - 150).max() < 6 * np.sqrt(600 * 0.25 * 0.75)
    assert len({sample.tobytes() for sample in taken}) == 12
    assert "_secret" not in repr(booster.__dict__)  # nothing of the draws is kept


def test_feature_histograms_take_their_share_of_the_budget(monkeypatch):
    """Noise is √d w̄ over the μ that is charged, and the trees cost as much less."""
    monkeypatch.setattr(core, "distilled_depth", lambda *facts: (3, True))
    drawn = gaussians_drawn(monkeypatch)
    report = boosted(
        dataset(X, Y, weight=np.ones(len(X)), weight_bound=4.0), epsilon=1.0, n_rounds=5, gradient_clip=1.0
    ).privacy
    prior, histograms, trees = (row["mu"] for row in report.ledger)
    whole = gaussian_mu(1.0, DELTA)
    assert histograms == pytest.approx(whole * math.sqrt(0.05))
    assert prior**2 + histograms**2 + 5 * trees**2 <= whole**2
    assert trees == pytest.approx(whole * math.sqrt(0.94 / 5))
    unit = STEPS * 1024
    assert drawn[1] == (4 * 9, pytest.approx(math.sqrt(4) * unit / histograms))
    assert [scale for _, scale in drawn[2:]] == pytest.approx([unit / trees, 0.3003 * unit / trees])


@pytest.mark.parametrize(("epsilon", "max_bin", "n_released"), [(100.0, 40, 3), (100.0, 16, 0), (1.0, 40, 0)])
def test_histograms_of_numeric_features_are_released_where_they_show_rows(
    monkeypatch, epsilon, max_bin, n_released
):
    """Of three numeric features beside one of categories; not of few bins, nor where noise hides all."""
    drawn = gaussians_drawn(monkeypatch)
    table = np.column_stack([X[:, :3], np.arange(600) % 5])
    data = dataset(table, Y, max_bin=max_bin, categories={3: range(5)})
    ledger = boosted(data, epsilon=epsilon, n_rounds=5).privacy.ledger
    released = [row["release"] for row in ledger]
    assert released == ["label counts", *["feature histograms"] * (n_released > 0), "leaf sums"]
    assert (
        sum(row["mu"] ** 2 for row in ledger[:-1]) + 5 * ledger[-1]["mu"] ** 2
        <= gaussian_mu(epsilon, DELTA) ** 2
    )
    if n_released:
        scale = math.sqrt(n_released) * STEPS / ledger[1]["mu"]
        assert drawn[1] == (n_released * (max_bin + 1), pytest.approx(scale))


@pytest.mark.parametrize("kwargs", [{}, {"groups": np.arange(600) // 2, "rows_per_group": 2}])
def test_a_row_more_moves_all_releases_by_no_more_than_mu(monkeypatch, kwargs):
    """The lengths of what a row, or a person, adds to sums, in units of the noise, over a whole run."""
    monkeypatch.setattr(core, "distilled_depth", lambda *facts: (3, True))
    monkeypatch.setattr("lgb_dp.boosting.training.SecureRandom", lambda state: SecureRandom(7))
    n_fewer = 598 if kwargs else 599
    seen = []
    for n in (600, n_fewer):
        rows = {name: v[:n] if name == "groups" else v for name, v in kwargs.items()}
        private = []

        def observe(values, release, private=private):
            private.append(values)
            return np.full_like(release(), 1)

        with mechanisms.observed(observe):
            boosted(dataset(X[:n], Y[:n], **rows), epsilon=1.0, n_rounds=12)
        seen.append(private)
    squares = 0.0
    for more, less in zip(*seen, strict=True):
        assert more.scale == less.scale
        squares += (((more.values - less.values).astype(float) / more.scale) ** 2).sum()
    assert 0.05 * 0.4 < squares / gaussian_mu(1.0, DELTA) ** 2 <= 1


def test_secret_samples_leave_room_for_feature_histograms(monkeypatch):
    """Planned in any case, since what samples cost has no μ; charged where structures are distilled."""
    asked = []
    exact = budget_plan.sampled_mu
    monkeypatch.setattr(budget_plan, "sampled_mu", lambda *args: asked.append(args) or exact(*args))
    whole = gaussian_mu(2.0, DELTA)
    for depth in (None, 3):
        monkeypatch.setattr(core, "distilled_depth", lambda *facts, depth=depth: depth and (depth, True))
        report = boosted(epsilon=2.0, n_rounds=12, subsample=0.25).privacy
        assert asked[-1][2] == pytest.approx(whole * math.sqrt(0.06))
        assert 1.9 < report.epsilon <= 2.0
        assert report.spent[0] <= 2.0
        released = [row["release"] for row in report.ledger]
        assert released == ["label counts", *["feature histograms"] * (depth is not None), "leaf sums"]
        assert [row["probability"] for row in report.ledger] == [1.0] * (len(released) - 1) + [0.25]


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

                def released(self, rounds, sums=sums, release=Releases.leaf_sums):
                    sums.append((yield from release(self, rounds)))
                    return sums[-1]

                patch.setattr(Releases, "leaf_sums", released)
                patch.setattr("lgb_dp.losses.loss.MAX_PRIOR", 0.0)
                lgb.train(QUIET, data, 1, callbacks=[trainer])
            [(trained, held)] = sums[0]  # one tree in the round
            assert held is None  # all rows are in the leaves
            values.append(trained.gradient.sum())
        outputs.append(np.array(values))
    mu = gaussian_mu(2.0, DELTA) * math.sqrt(0.99)
    spread = np.sqrt(2) / mu  # two leaves, each with noise 1/μ
    assert outputs[0].std() == pytest.approx(spread, rel=0.16)
    assert outputs[1].std() == pytest.approx(spread, rel=0.16)
    assert abs(outputs[1].mean() - outputs[0].mean()) < 0.5 + 5 * spread / math.sqrt(400)
