"""One person with several rows: the guarantee covers the person, and noise is planned for all the rows."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

import lgb_dp
from lgb_dp.accounting.gaussian import gaussian_mu
from lgb_dp.accounting.unit import Unit
from lgb_dp.data.folds import PrivateFolds
from lgb_dp.data.groups import kept_rows
from lgb_dp.data.weights import WEIGHT_STEPS, quantise_group_means
from lgb_dp.dpboost import square_loss
from lgb_dp.mechanisms import noise
from lgb_dp.mechanisms.noise import DRAW_SLACK, UTILITY_SLACK
from lgb_dp.mechanisms.rng import SecureRandom
from small_training import binary_data, dataset, train

pytestmark = pytest.mark.usefixtures("coarse_accounting")

X, Y = binary_data(300)
GROUPS = np.random.default_rng(3).integers(0, 60, len(Y))
DELTA = 1e-5
PERSON = "add or remove one person (at most 3 rows)"
QUIET = {"objective": "binary", "verbosity": -1, "max_depth": 2}
MEAN = {"group_weight": "mean"}
TRAINERS = [
    (lambda: lgb_dp.NewtonBoost(1.0, DELTA), {}),
    (lambda: lgb_dp.NewtonBoost(1.0, DELTA), MEAN),
    (lambda: lgb_dp.DPBoost(1.0), {}),
    (lambda: lgb_dp.DPBoost(1.0), MEAN),
    (lambda: lgb_dp.SequentialBoost(1.0), {}),
    (lambda: lgb_dp.ParallelBoost(1.0), {}),
    (lambda: lgb_dp.MBoost(1.0, weight_share=0.1), {}),
    (lambda: lgb_dp.RandomForestLaplace(1.0), {}),
    (lambda: lgb_dp.RandomForestExponential(1.0), {}),
]


def grouped(k=3, **kwargs):
    return dataset(X, Y, groups=GROUPS, rows_per_group=k, **kwargs)


# Which rows are used.


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 4), st.integers(0, 2**32))
def test_groups_keep_rows_that_do_not_depend_on_other_groups(groups, k, seed):
    group = np.array(groups)
    words = np.random.default_rng(seed).integers(0, 2**64, len(group), dtype=np.uint64)
    kept = kept_rows(group, words, k)
    assert (np.bincount(group[kept], minlength=5) == np.minimum(np.bincount(group, minlength=5), k)).all()
    for other in range(5):  # remove a group: the rows kept of all others stay the same
        rest = np.flatnonzero(group != other)
        if len(rest):
            _, numbers = np.unique(group[rest], return_inverse=True)
            np.testing.assert_array_equal(
                rest[kept_rows(numbers, words[rest], k)], np.setdiff1d(kept, np.flatnonzero(group == other))
            )


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, scipy.sparse.csr_matrix, scipy.sparse.coo_matrix])
def test_groups_drop_whole_rows(kind):
    data = lgb_dp.Dataset(
        kind(np.column_stack([np.arange(300.0), X])),
        np.arange(300.0),
        bounds=(-300, 300),
        max_bin=255,
        groups=[f"person {g:02d}" for g in GROUPS],
        rows_per_group=2,
        weight=np.arange(300.0),
        weight_bound=300.0,
        init_score=np.arange(300.0),
        public_init_score=True,
        free_raw_data=False,
    ).construct()
    assert data.num_data() == np.minimum(np.bincount(GROUPS), 2).sum()
    np.testing.assert_array_equal(data.label, data.weight)
    np.testing.assert_array_equal(data.label, data.start_scores[:, 0])
    np.testing.assert_array_equal(GROUPS[data.label.astype(int)], np.unique(GROUPS)[data.group_of_row])
    assert data.data.shape[0] == data.num_data()


def test_groups_have_several_draws_of_rows():
    drawn = {
        tuple(
            dataset(np.arange(9.0)[:, None], np.arange(9.0), groups=np.zeros(9), rows_per_group=2)
            .construct()
            .label
        )
        for _ in range(40)
    }
    assert len(drawn) > 5


# What the report says.


@pytest.mark.parametrize(("trainer", "kwargs"), TRAINERS)
def test_groups_are_the_unit_of_the_report_and_cost_what_was_asked(trainer, kwargs):
    report = train(grouped(**kwargs), trainer()).privacy
    assert report.private
    assert report.neighbouring == PERSON
    assert 0.99 < report.epsilon <= 1.0
    assert "replace one person" in str(report)


def test_groups_of_the_metadata_are_the_unit_too():
    bounds, first = lgb_dp.private_bounds(X, 1.0, DELTA, groups=GROUPS, rows_per_group=3)
    edges, second = lgb_dp.private_quantile_edges(X, bounds, 1.0, DELTA, groups=GROUPS, rows_per_group=3)
    for report in (first, second):
        assert report.neighbouring == PERSON
        assert report.cost.mu == pytest.approx(gaussian_mu(1.0, DELTA), rel=1e-9)
        assert report.ledger[0]["mu"] == pytest.approx(gaussian_mu(1.0, DELTA) / 3, rel=1e-9)
    data = grouped(bounds=bounds, bin_edges=edges, paid_for=[first, second])
    report = train(data, lgb_dp.NewtonBoost(1.0, DELTA)).privacy
    assert report.cost.mu == pytest.approx(np.sqrt(3) * gaussian_mu(1.0, DELTA), rel=1e-9)


def test_groups_do_not_mix_with_results_of_another_unit():
    _, rows = lgb_dp.private_bounds(X, 1.0, DELTA)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="one row"):
        train(grouped(paid_for=[rows]), lgb_dp.DPBoost(1.0))
    first = train(grouped(), lgb_dp.DPBoost(1.0))
    with pytest.raises(lgb_dp.InvalidArgumentError, match="at most 3 rows"):
        lgb.train(QUIET, dataset(X, Y), 2, init_model=first, callbacks=[lgb_dp.DPBoost(1.0)])
    with pytest.raises(lgb_dp.InvalidArgumentError, match="units"):
        lgb_dp.compose(rows, first.privacy)
    budget = lgb_dp.Budget(3.0)
    train(grouped(), lgb_dp.DPBoost(1.0, budget=budget))
    assert budget.report().neighbouring == PERSON


# Noise, against what a person can change.


def person_sums(k, mean, seed):
    """Steps of the label counts with and without one person, whose rows have anything at all."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 2 * k + 1))
    X_more = np.r_[X, rng.uniform(-5, 5, (n, 4))]
    y_more, groups = np.r_[Y, rng.integers(0, 2, n)], np.r_[GROUPS, np.full(n, 1000)]
    return X_more, y_more, groups


def seen_releases(monkeypatch, data, trainer, n_rounds=2):
    """(sums, scale) of every release, all of which are pinned to the same values."""
    seen = []

    def observe(private, release):
        seen.append(private)
        return np.full_like(release(), 1)

    with noise.observed(observe):
        train(data, trainer, n_rounds=n_rounds)
    return seen


@pytest.mark.parametrize("kwargs", [{}, MEAN])
@pytest.mark.parametrize("seed", range(6))
def test_groups_change_no_gaussian_release_by_more_than_planned(monkeypatch, kwargs, seed):
    """Structures are public and the first scores alike, so that neighbours' sums can be compared."""
    k = 3
    X_more, y_more, groups = person_sums(k, kwargs, seed)
    monkeypatch.setattr("lgb_dp.boosting.training.SecureRandom", lambda state: SecureRandom(7))
    monkeypatch.setattr("lgb_dp.data.groups.SecureRandom", lambda: SecureRandom(8))
    releases = []
    for n in (len(X), len(X_more)):
        data = dataset(X_more[:n], y_more[:n], groups=groups[:n], rows_per_group=k, **kwargs)
        trainer = lgb_dp.NewtonBoost(1.0, DELTA, structure="random", depth=2)
        releases.append(seen_releases(monkeypatch, data, trainer, n_rounds=1))
    mu = gaussian_mu(1.0, DELTA)
    squares = 0.0
    for less, more in zip(*releases, strict=True):
        change = (np.asarray(more.values) - np.asarray(less.values)).astype(float).ravel()
        squares += (change**2).sum() / less.scale**2
    assert 0 < np.sqrt(squares) <= mu * (1 + 1e-6)


PURE_TRAINERS = [
    (lambda: lgb_dp.DPBoost(1.0), {}),
    (lambda: lgb_dp.DPBoost(1.0), MEAN),
    (lambda: lgb_dp.DPBoost(1.0, eoe=False, gdf=False), MEAN),
    (lambda: lgb_dp.DPBoost(1.0, variant="paper"), {}),
    (lambda: lgb_dp.SequentialBoost(1.0), {}),
    (lambda: lgb_dp.ParallelBoost(1.0), {}),
    (lambda: lgb_dp.MBoost(1.0, weight_share=0.1), {}),
    (lambda: lgb_dp.RandomForestLaplace(1.0), {}),
    (lambda: lgb_dp.RandomForestExponential(1.0), {}),
]


@pytest.mark.parametrize(("trainer", "kwargs"), PURE_TRAINERS)
@pytest.mark.parametrize("seed", range(3))
def test_groups_change_no_pure_release_by_more_than_planned(monkeypatch, trainer, kwargs, seed):
    """All releases pinned, the losses of all of them together are at most ε for one person."""
    X_more, y_more, groups = person_sums(3, kwargs, seed)
    monkeypatch.setattr("lgb_dp.boosting.training.SecureRandom", lambda state: SecureRandom(7))
    monkeypatch.setattr("lgb_dp.data.groups.SecureRandom", lambda: SecureRandom(8))
    releases = []
    for n in (len(X), len(X_more)):
        data = dataset(X_more[:n], y_more[:n], groups=groups[:n], rows_per_group=3, **kwargs)
        releases.append(seen_releases(monkeypatch, data, trainer(), n_rounds=3))
    loss = 0.0
    for less, more in zip(*releases, strict=True):
        assert less.scale == more.scale
        change = (np.asarray(more.values) - np.asarray(less.values)).astype(float)
        if less.mechanism == "exponential":  # bounded range: utilities of a node, already in nats
            loss += np.ptp(np.atleast_2d(change), axis=1).sum()
        else:
            loss += np.abs(change).sum() / less.scale
    assert 0 < loss <= 1.0 + 1e-9


@pytest.mark.parametrize(("k", "kwargs"), [(1, {}), (3, {}), (3, MEAN)])
def test_groups_scale_the_noise_of_pure_trainers(monkeypatch, k, kwargs):
    scales = []
    grow = square_loss.grow_structure
    monkeypatch.setattr(square_loss, "grow_structure", lambda *args: scales.append(args[6][0]) or grow(*args))
    train(dataset(X, Y), lgb_dp.DPBoost(1.0), n_rounds=1)
    train(grouped(k, **kwargs), lgb_dp.DPBoost(1.0), n_rounds=1)
    steps = WEIGHT_STEPS if kwargs else 1
    assert scales[1] * steps == pytest.approx(scales[0] / (1 if kwargs else k), rel=1e-4)
    assert scales[1] * steps <= scales[0]


def test_rounding_is_paid_for_in_every_node_that_has_rows_of_a_person(monkeypatch):
    """Rows of weight 1/k share the range of a node's gains, and not what the draw of each node rounds."""
    scales, k = [], 3
    grow = square_loss.grow_structure
    monkeypatch.setattr(square_loss, "grow_structure", lambda *args: scales.append(args[6][0]) or grow(*args))
    train(dataset(X, Y), lgb_dp.DPBoost(1.0), n_rounds=1)
    train(grouped(k, **MEAN), lgb_dp.DPBoost(1.0), n_rounds=1)

    def cost(scale, n_nodes):
        exact = scale * square_loss.GRADIENT_STEPS**2 * square_loss.GAIN_RANGE["tight"]
        paid = (exact + DRAW_SLACK) / (1 - UTILITY_SLACK)
        return exact + n_nodes * (UTILITY_SLACK * paid + DRAW_SLACK)

    assert cost(scales[1] * WEIGHT_STEPS, k) == pytest.approx(cost(scales[0], 1), rel=1e-12)


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 2)), min_size=1, max_size=30), st.booleans())
def test_group_means_weigh_at_most_one_row(rows, weighted):
    _, group = np.unique([g for g, _ in rows], return_inverse=True)
    weight = np.array([w for _, w in rows]) if weighted else None
    steps, whole = quantise_group_means(weight, 2.0 if weighted else None, group)
    assert whole == WEIGHT_STEPS
    assert (np.bincount(group, weights=steps) <= whole).all()
    assert (steps >= 0).all()


@pytest.mark.parametrize(
    "trainer",
    [
        lgb_dp.MBoost(1.0),
        lgb_dp.RandomForestLaplace(1.0),
        lgb_dp.RandomForestExponential(1.0),
        lgb_dp.DPBoost(1.0, variant="paper"),
        lgb_dp.SequentialBoost(1.0),
        lgb_dp.ParallelBoost(1.0),
    ],
)
def test_group_means_are_refused_where_sensitivity_is_not_linear(trainer):
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="group_weight='mean'"):
        train(grouped(**MEAN), trainer)


# Draws per person.


def test_groups_are_folded_and_sampled_as_a_whole(monkeypatch):
    data = grouped()
    folds = PrivateFolds(data, 4, SecureRandom(1))
    for person in range(data.group_of_row.max() + 1):
        assert len(set(folds.fold_of_row[data.group_of_row == person])) == 1
    assert set(folds.fold_of_row) == set(range(4))
    words = data.draw_words(SecureRandom(2))
    assert len(np.unique(words)) == data.group_of_row.max() + 1
    with pytest.warns(lgb_dp.NotPrivateWarning):
        boosters = lgb.cv(
            QUIET, data, 2, folds=folds, callbacks=[lgb_dp.DPBoost(0.5)], return_cvbooster=True
        )["cvbooster"].boosters
    for booster in boosters:
        assert booster.privacy.private
        assert booster.privacy.neighbouring == PERSON
        assert booster.privacy.epsilon == pytest.approx(1.5)


def test_secret_samples_of_groups_are_amplified_for_the_person():
    report = train(grouped(), lgb_dp.NewtonBoost(1.0, DELTA, subsample=0.5), n_rounds=4).privacy
    assert 0.9 < report.epsilon <= 1.0
    assert report.neighbouring == PERSON


# Arguments.


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"rows_per_group": 3}, "need groups"),
        ({"group_weight": "mean"}, "need groups"),
        ({"groups": GROUPS}, "rows_per_group"),
        ({"groups": GROUPS, "rows_per_group": 0}, "rows_per_group"),
        ({"groups": GROUPS[:-1], "rows_per_group": 3}, "groups has shape"),
        ({"groups": GROUPS, "rows_per_group": 3, "group_weight": "sum"}, "group_weight"),
    ],
)
def test_groups_are_checked(arguments, named):
    with pytest.raises(lgb_dp.InvalidArgumentError, match=named):
        dataset(X, Y, **arguments).construct()


def test_groups_are_never_quoted():
    with pytest.raises(lgb_dp.ArgumentTypeError) as caught:
        dataset(X[:2], Y[:2], groups=np.array(["SECRET", None], dtype=object), rows_per_group=1).construct()
    assert "SECRET" not in str(caught.value)


def test_units_say_what_they_are():
    assert Unit().neighbouring == "add or remove one row"
    assert Unit(3, 1).neighbouring == Unit(3, 3).neighbouring == PERSON


def test_units_are_equal_if_their_relations_are():
    units = [Unit(), Unit(3), Unit(None, 1, 1), Unit(None, 1, 2), Unit(3, 1, 1), Unit(3, 1, 2), Unit(2)]
    assert len(set(units)) == len(units)
    assert Unit(3, 1) == Unit(3, 3)
    assert Unit(3, 3).at_parties(2) == Unit(3, 1).at_parties(2) != Unit(3, 3)
    for unit in units:
        assert Unit.of_relation(unit.neighbouring) == unit


@pytest.mark.parametrize(
    "text",
    [
        "",
        "add or remove one house",
        "add or remove one row at each of up to 1 parties",
        "add or remove one row (at most 0 rows)",
        "add or remove one row (at most 3 rows)",
        "add or remove one person at one party at each of up to 2 parties",
        "add or remove one row\x1b[2J",
    ],
)
def test_other_relations_are_no_units(text):
    with pytest.raises(ValueError, match="neighbouring relation"):
        Unit.of_relation(text)
