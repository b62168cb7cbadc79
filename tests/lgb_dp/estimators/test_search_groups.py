"""Private search over persons with several rows: split, noise and report cover persons."""

import warnings

import numpy as np
import pytest

import lgb_dp
from lgb_dp.estimators import search
from lgb_dp.mechanisms import noise
from lgb_dp.mechanisms.rng import SecureRandom
from small_training import binary_data

X, Y = binary_data(300)
Y = Y.astype(int)
PERSON = np.random.default_rng(3).integers(0, 60, len(Y))
PERSONS = {"groups": PERSON, "rows_per_group": 3}
MEAN = {**PERSONS, "group_weight": "mean"}
UNIT = "add or remove one person (at most 3 rows)"
DELTA = 1e-6
MEAN_TRIALS = 2.0


def searched(epsilon=6.0, **kwargs):
    model = lgb_dp.DPLGBMClassifier(n_estimators=2)
    settings = {"max_depth": [1, 2], "learning_rate": [0.1, 0.3]}
    return lgb_dp.DPRandomizedSearchCV(
        model, settings, epsilon=epsilon, delta=DELTA, mean_trials=MEAN_TRIALS, **kwargs
    )


def fit(X=X, Y=Y, epsilon=6.0, **kwargs):
    return searched(epsilon).fit(X, Y, bounds=(-3, 3), classes=[0, 1], **kwargs)


def watched(call):
    """What was released of private sums, in order: (mechanism, values, scale)."""
    seen = []

    def observe(private, release):
        seen.append(private)
        return np.full_like(release(), 1)

    with noise.observed(observe):
        call()
    return seen


@pytest.fixture
def two_trials(monkeypatch):
    monkeypatch.setattr(search, "draw_number_of_trials", lambda *_: 2)


@pytest.fixture
def parts(monkeypatch):
    """Training and test part of every search, with each row's person."""
    seen, honest = [], search.divided
    monkeypatch.setattr(search, "divided", lambda *args: seen.append(honest(*args)) or seen[-1])
    return seen


@pytest.fixture
def fixed_words(monkeypatch):
    """The same words in every search for the rows that it shares with another one."""

    def fix(seed):
        for name in ("estimators.search", "data.groups", "boosting.training"):
            monkeypatch.setattr(f"lgb_dp.{name}.SecureRandom", lambda state=None: SecureRandom(seed))

    fix(7)
    return fix


@pytest.mark.parametrize("kwargs", [PERSONS, MEAN])
def test_groups_of_a_search_are_the_unit_of_its_report(kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit(**kwargs)
    rows = fit()
    for report in (found.privacy_, lgb_dp.privacy_of(found.best_estimator_.booster_)):
        assert report.private
        assert report.neighbouring == UNIT
        assert report.epsilon == rows.privacy_.epsilon
        assert report.delta == DELTA
        assert 5.9 < report.epsilon <= 6.0
    assert rows.privacy_.neighbouring != UNIT


@pytest.mark.parametrize(
    ("kwargs", "times"), [(PERSONS, 3), ({**PERSONS, "rows_per_group": 1}, 1), (MEAN, 1)]
)
def test_groups_of_a_search_have_the_noise_of_k_rows(kwargs, times):
    """Every release of every trial, and the score, has the μ of the search for a person."""
    mu = search.trial_mu(6.0, DELTA, MEAN_TRIALS)
    scores = [r for r in watched(lambda: fit(**kwargs)) if r.values.shape == (1,)]
    assert {r.scale for r in scores} == {times * search.SCORE_STEPS / mu}


SEEDS = [(0, "train"), (1, "train"), (3, "test"), (13, "test")]


@pytest.mark.parametrize(("seed", "part"), SEEDS)
@pytest.mark.parametrize("kwargs", [PERSONS, MEAN])
def test_groups_change_no_release_of_a_search_by_more_than_planned(
    two_trials, fixed_words, seed, part, kwargs
):
    """One person more, with any rows: the changes of a trial's releases are at most μ long in all.

    The person is in one part, so that either the model's releases change or the score does.  The structure is
    public in the first trees, and releases are pinned.
    """
    fixed_words(seed)
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 7))
    X_more, y_more = np.r_[X, rng.uniform(-3, 3, (n, 4))], np.r_[Y, rng.integers(0, 2, n)]
    groups = np.r_[PERSON, np.full(n, 1000)]
    releases = [
        watched(lambda size=size: fit(X_more[:size], y_more[:size], **{**kwargs, "groups": groups[:size]}))
        for size in (len(X), len(X_more))
    ]
    mu = search.trial_mu(6.0, DELTA, MEAN_TRIALS)
    n_per_trial = len(releases[0]) // 2
    for trial in range(2):
        pairs = list(
            zip(*(of[trial * n_per_trial : (trial + 1) * n_per_trial] for of in releases), strict=True)
        )
        assert pairs[-1][0].values.shape == (1,)
        squares = [
            ((np.asarray(more.values) - less.values).astype(float) ** 2).sum() / less.scale**2
            for less, more in pairs
        ]
        model, score = np.sqrt(sum(squares[:-1])), np.sqrt(squares[-1])
        changed, same = (model, score) if part == "train" else (score, model)
        assert same == 0
        assert 0 < changed <= mu * (1 + 1e-6)


def test_groups_are_never_separated_by_the_split_of_a_search(parts):
    for _ in range(5):
        fit(**PERSONS)
    for train, test in parts:
        assert not set(PERSON[train.rows]) & set(PERSON[test.rows])
        assert set(PERSON[train.rows]) | set(PERSON[test.rows]) == set(PERSON)
        kept = np.r_[train.rows, test.rows]
        assert len(set(kept)) == len(kept)
        assert (np.bincount(PERSON[kept]) == np.minimum(np.bincount(PERSON), 3)).all()
        for part in (train, test):
            np.testing.assert_array_equal(np.unique(PERSON)[part.person], PERSON[part.rows])
    assert len({train.rows.tobytes() for train, _ in parts}) == 5
    assert 0 < np.mean([len(test.rows) for _, test in parts]) / len(kept) < 0.5


def test_groups_of_a_search_do_not_depend_on_each_other(fixed_words, parts):
    """One person more, or with other rows: everybody else's rows and part stay what they were."""
    fit(**PERSONS)
    more = np.r_[X, X[:7]], np.r_[Y, Y[:7]]
    fit(*more, groups=np.r_[PERSON, np.full(7, 1000)], rows_per_group=3)
    fit(*more, groups=np.r_[PERSON, np.full(7, PERSON.max())], rows_per_group=3)
    of_others = [
        [part.rows[(part.rows < len(X)) & (person[part.rows] != PERSON.max())].tolist() for part in found]
        for found, person in zip(
            parts, [PERSON, np.r_[PERSON, [1000] * 7], np.r_[PERSON, [59] * 7]], strict=True
        )
    ]
    whole = [part.rows[part.rows < len(X)].tolist() for part in parts[1]]
    assert whole == [part.rows.tolist() for part in parts[0]]
    assert of_others[0] == of_others[1] == of_others[2]


def test_the_shares_of_a_score_weigh_no_more_than_one_row():
    person = np.random.default_rng(1).integers(0, 9, 40)
    whole = np.full(40, search.SCORE_STEPS)
    shares = search.mean_shares(whole, person)
    sums = np.bincount(person, weights=shares)
    assert sums.max() <= search.SCORE_STEPS
    assert sums.min() > 0.99 * search.SCORE_STEPS


def test_groups_of_a_search_pay_from_a_budget_of_persons():
    budget = lgb_dp.Budget(8.0, 1e-5, pure_epsilon=7.0, approximate_delta=5e-6)
    _, paid = lgb_dp.private_bounds(X, 0.1, DELTA, budget=budget, **PERSONS)
    found = fit(**PERSONS, budget=budget, paid_for=[paid])
    assert found.privacy_.neighbouring == budget.report().neighbouring == UNIT
    assert budget.spent.epsilon == pytest.approx(6.0, rel=1e-14)
    assert budget.spent.mu == pytest.approx(paid.cost.mu, rel=1e-9)
    _, of_rows = lgb_dp.private_bounds(X, 0.1, DELTA)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="one person"):
        fit(**PERSONS, paid_for=[of_rows])
    with pytest.raises(lgb_dp.InvalidArgumentError, match="one person"):
        fit(paid_for=[paid])
    with pytest.raises(lgb_dp.InvalidArgumentError, match="at most 3 rows"):
        fit(budget=budget, epsilon=0.5)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"rows_per_group": 3}, "need groups"),
        ({"groups": PERSON}, "rows_per_group"),
        ({**PERSONS, "rows_per_group": 0}, "rows_per_group"),
        ({**PERSONS, "group_weight": "sum"}, "group_weight"),
        ({**PERSONS, "groups": PERSON[1:]}, "groups has shape"),
    ],
)
def test_groups_of_a_search_are_checked_before_the_first_trial(monkeypatch, arguments, named):
    monkeypatch.setattr(search, "row_scores", lambda *_: pytest.fail("a trial was run"))
    with pytest.raises(lgb_dp.InvalidArgumentError, match=named):
        fit(**arguments)
