"""Sums at roots are over the same rows, or over sets that differ in `min_rows_per_node` rows or more."""

from itertools import combinations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from gbdt_parties.errors import InvalidDataError
from xgb_fed import ExactTerms, HorizontalParty, PartyRefusedError, train_exact
from xgb_fed.boosting.features import Columns, codes_of
from xgb_fed.horizontal import exact_trees
from xgb_fed.horizontal.exact_cuts import bounds_of_bins
from xgb_fed.horizontal.exact_questions import Question
from xgb_fed.horizontal.exact_samples import check_subsample, least_difference
from xgb_fed.horizontal.exact_trees import GrowingRules
from xgb_fed.horizontal.kept_state import KeptState
from xgb_fed.horizontal.row_sets import differences, n_differing, row_codes

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.FewPartiesWarning")

MIN_ROWS = 10
PARAMS = {"objective": "binary:logistic", "max_depth": 1, "max_bin": 16, "base_score": 0.5}

# The attack that read rows: the root of a sample that lacks one row, taken from the root of all rows.


@pytest.fixture
def opened(monkeypatch):
    """What any one party, or the coordinator, sees: all opened sums with what was asked."""
    seen, checked = [], Question.checked

    def noted(self, total):
        out = checked(self, total)
        seen.append((self.what, np.array(out)))
        return out

    monkeypatch.setattr(Question, "checked", noted)
    return seen


def rows_read(opened, runs, min_rows):
    """Rows of breast_cancer, held by four parties, that differences of opened roots show with their labels.

    Parameters
    ----------
    runs : list of (int, float, float)
        Rounds, learning rate and subsample of each run after one of all rows.
    """
    X, y = load_breast_cancer(return_X_y=True)
    X, where = X.astype(np.float32), np.random.default_rng(0).permutation(len(y)) % 4
    terms = ExactTerms(min_rows_per_node=min_rows)
    members = [
        HorizontalParty(X[where == k], y[where == k], f"h{k}", categorical_labels=True, exact=terms)
        for k in range(4)
    ]

    def roots(n_rounds, learning_rate, subsample):
        opened.clear()
        params = {**PARAMS, "learning_rate": learning_rate, "subsample": subsample}
        model = None
        try:
            model = train_exact(params, members, n_rounds, min_rows_per_node=min_rows)
        except PartyRefusedError as error:
            if "subsample" not in str(error):
                raise
        counts = [int(total[0]) for what, total in opened if what.endswith(": rows")]
        sums = [total.reshape(-1, 4) for what, total in opened if what.endswith(": roots")]
        return model, counts[::4], sums[::4]  # four parties in this process open each sum

    model, _, (full,) = roots(1, 0.3, 1.0)
    cuts, _ = bounds_of_bins(model.cuts)
    codes = np.asarray(codes_of(Columns(X, [f"f{k}" for k in range(30)]), cuts))
    at = np.concatenate([[0], np.cumsum([len(own) for own in cuts])])
    known = {(*code, label) for code, label in zip(codes.tolist(), y.tolist(), strict=True)}
    found = set()
    for run in runs:
        for count, root in zip(*roots(*run)[1:], strict=True):
            if count == len(y) - 1:
                g, h = (_signed(full[:, k : k + 2]) - _signed(root[:, k : k + 2]) for k in (0, 2))
                bins = [int(np.flatnonzero(h[at[f] : at[f + 1]] != 0)[0]) for f in range(30)]
                found.add((*bins, int(g[-1] < 0)))
    assert found <= known
    return len(found)


def _signed(words):
    values = words[:, 0].astype(object) + words[:, 1].astype(object) * 2**64
    return np.array([value - 2**128 if value >= 2**127 else value for value in values], dtype=object)


NEARLY_ALL = 1 - 1 / 569


def test_subsample_difference_reads_no_rows_in_a_few_runs(opened):
    """Before, one in three samples lacked one row, which was read bin by bin with its label."""
    assert rows_read(opened, [(8, 1e-12, NEARLY_ALL), (1, 0.3, NEARLY_ALL), (4, 1e-12, 0.85)], 20) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "runs",
    [[(900, 1e-12, NEARLY_ALL)], [(1, 0.3 + k / 1000, NEARLY_ALL) for k in range(60)], [(300, 1e-12, 0.85)]],
)
def test_subsample_difference_reads_no_rows(opened, runs):
    """Before, these read 264 and 20 of 569 rows."""
    assert rows_read(opened, runs, 20) == 0


# The class: over any sequence of runs, no two roots are over sets that differ in a few rows.

SIZES = (150, 152, 154, 157)
IDS = dict(zip(SIZES, np.split(np.arange(sum(SIZES)), np.cumsum(SIZES)[:-1]), strict=True))
RNG = np.random.default_rng(3)
X = RNG.normal(size=(sum(SIZES), 2)).astype(np.float32)
LABELS = {
    "binary:logistic": (X[:, 0] + RNG.normal(size=len(X)) > 0).astype(int),
    "multi:softprob": np.digitize(X[:, 0], [-0.5, 0.5]),
}


def members_of(objective, without=0, weight=None):
    """Four parties; the last one may lack rows, or have other weights, and draws by the same key."""
    rows = [*(IDS[n] for n in SIZES[:-1]), IDS[SIZES[-1]][: SIZES[-1] - without]]
    IDS[len(rows[-1])] = rows[-1]
    return [
        HorizontalParty(
            X[own],
            LABELS[objective][own],
            f"h{k}",
            categorical_labels=True,
            random_state=k,
            sample_weight=weight if k == 3 else None,
        )
        for k, own in enumerate(rows)
    ]


@pytest.fixture
def roots(monkeypatch):
    """Rows of all parties at each root that was asked about, by run, question and class."""
    seen, ask = {}, exact_trees._roots

    def noted(trees, counts, rules, what):
        for tree in trees:
            own = set(IDS[len(tree.sampled)][tree.sampled].tolist())
            seen.setdefault((seen["run"], what, tree.group), set()).update(own)
        return ask(trees, counts, rules, what)

    monkeypatch.setattr(exact_trees, "_roots", noted)
    return seen


def check_drawn_runs(roots, n_runs, seed):
    """Runs with drawn settings, parties and rows; gives the number of different sets at roots."""
    rng = np.random.default_rng(seed)
    one_less = np.ones(SIZES[-1])
    one_less[7] = 0
    groups = {objective: members_of(objective) for objective in LABELS}
    changed = members_of("binary:logistic", 1), members_of("binary:logistic", 0, one_less)
    n = len(X)
    shares = [0.8, 0.8 + 1e-9, 0.8001, 0.5, 0.85, 60 / n, 1 - 60 / n, 1 - 1 / n, 1 - 9 / n, 2 / n, 1.0]
    refused = 0
    for run in range(n_runs):
        roots["run"] = run
        subsample = float(rng.choice(shares))
        objective = str(rng.choice(list(LABELS)))
        members = groups[objective]
        if subsample < 1 and rng.random() < 0.5:
            # Sums of all rows do differ by what was changed between two runs: see the guide.
            objective, members = "binary:logistic", changed[int(rng.integers(2))]
        members = members[int(rng.integers(3)) // 2 :]
        params = {**PARAMS, "objective": objective, "subsample": subsample, "max_bin": 4}
        params |= {"learning_rate": float(rng.choice([1e-12, 0.3])), "max_depth": int(rng.integers(1, 3))}
        try:
            train_exact(params, members, int(rng.integers(1, 4)), min_rows_per_node=int(rng.choice([10, 12])))
        except PartyRefusedError as error:
            if "subsample=" not in str(error):
                raise
            refused += 1
    assert refused
    sets = {frozenset(rows) for name, rows in roots.items() if name != "run"}
    for one, other in combinations(sets, 2):
        assert len(one ^ other) >= MIN_ROWS
    return len(sets)


def test_no_two_roots_differ_in_few_rows(roots):
    assert check_drawn_runs(roots, 14, 0) > 8


@pytest.mark.slow
def test_no_two_roots_differ_in_few_rows_over_many_runs(roots):
    assert check_drawn_runs(roots, 150, 1) > 60


# What the guarantee is made of.


@pytest.mark.parametrize("min_rows", [2, 10, 100, 10_000])
def test_fewer_rows_than_the_minimum_are_as_good_as_ruled_out(min_rows):
    """The exact binomial tail at the smallest size that is accepted is below the bound, and not far below."""
    stats = pytest.importorskip("scipy.stats")
    for n in (2 * least_difference(min_rows), 100 * least_difference(min_rows)):
        tail = stats.binom(n, least_difference(min_rows) / n).cdf(min_rows - 1)
        assert tail < np.exp(-32)
    assert np.exp(-45) < stats.poisson(least_difference(min_rows)).cdf(min_rows - 1) < np.exp(-32)


def test_subsample_is_accepted_where_enough_rows_are_taken_and_left_out():
    for subsample in (0.1, 0.5, 0.9, 1.0):
        check_subsample(600, subsample, 10)
    for n_rows, subsample, accepted in (
        (599, 0.9, "0.101 to 0.899, or 1"),
        (600, 0.0999, "0.1"),
        (100, 0.5, "is 1"),
    ):
        with pytest.raises(
            InvalidDataError, match=rf"subsample=.* of {n_rows} rows .*min_rows_per_node=10.*{accepted}"
        ):
            check_subsample(n_rows, subsample, 10)
    check_subsample(1, 0.5, 1)


@pytest.mark.parametrize(("counts", "match"), [([91, 100], "all but 9 rows"), ([9, 50], "grown on 9 rows")])
def test_the_root_is_not_asked_about_if_few_rows_were_drawn_or_left_out(counts, match):
    sampled = [np.arange(100) < count for count in counts]
    words = [np.zeros((100, 4), dtype=np.uint64)] * 2
    columns = type("Of100Rows", (), {"codes": np.zeros((100, 1), dtype=np.uint8)})
    growing = exact_trees.grow_trees(
        columns, words, sampled, GrowingRules(1, 10, None, 80, 100), "r", 100, True
    )
    assert next(growing).what == "r: rows"
    with pytest.raises(InvalidDataError, match=match):
        growing.send(np.array(counts))


def test_samples_depend_on_the_rows_of_all_and_on_subsample_alone(roots):
    members = members_of("binary:logistic")
    draws = []
    for run, (params, n_rounds, parties) in enumerate(
        [
            ({}, 2, members),
            ({"learning_rate": 0.01, "max_depth": 2, "colsample_bytree": 0.5, "reg_lambda": 3}, 3, members),
            ({"subsample": 0.8000001}, 2, members),
            ({}, 2, members[1:]),
        ]
    ):
        roots["run"] = run
        train_exact({**PARAMS, "subsample": 0.8, **params}, parties, n_rounds, min_rows_per_node=10 + run)
        draws.append([rows for name, rows in roots.items() if name[0] == run])
    assert draws[0] == draws[1][:2]
    assert draws[0][0] != draws[0][1]
    assert draws[0][0] != draws[2][0]
    others = set(IDS[SIZES[0]].tolist())
    assert draws[0][0] - others != draws[3][0]  # all draw anew where the parties are others


def test_shares_and_overlaps_of_samples_are_those_of_independent_draws(roots):
    """As XGBoost draws: each row with probability `subsample`, independently in each tree."""
    members, n_rounds, share = members_of("binary:logistic"), 20, 0.7
    roots["run"] = 0
    train_exact({**PARAMS, "max_bin": 4, "subsample": share}, members, n_rounds)
    drawn = np.array([[row in rows for row in range(len(X))] for name, rows in roots.items() if name[0] == 0])
    assert drawn.shape == (n_rounds, len(X))
    for probability, hits in ((share, drawn), (share**2, drawn[1:] & drawn[:-1])):
        deviation = np.sqrt(probability * (1 - probability) * hits.size)
        assert abs(hits.sum() - probability * hits.size) < 4 * deviation
    # No row is drawn more or less often than others: a binomial of 20 draws, whose variance is 4.2.
    assert abs(drawn.sum(axis=0).var() / (n_rounds * share * (1 - share)) - 1) < 0.3


def test_samples_of_all_runs_are_counted_once_and_across_restarts(tmp_path):
    """As rounds are: what was counted is on the disk before a root is asked about."""

    def member(k, max_samples):
        terms = ExactTerms(max_samples=max_samples)
        rows = IDS[SIZES[k]]
        return HorizontalParty(
            X[rows],
            LABELS["binary:logistic"][rows],
            f"h{k}",
            categorical_labels=True,
            exact=terms,
            directory=tmp_path / f"h{k}",
        )

    def train(n_rounds, subsample=0.5, max_samples=7):
        params = {**PARAMS, "max_bin": 4, "subsample": subsample}
        train_exact(params, [member(0, max_samples), member(1, 100)], n_rounds)

    train(3)
    train(3)  # the same samples
    train(5, subsample=1.0)
    train(4)  # one more
    with pytest.raises(
        PartyRefusedError, match=r"4 further samples of rows; this party has drawn 4, .*=7 in all"
    ):
        train(4, subsample=0.6)
    train(3, subsample=0.6)
    with pytest.raises(PartyRefusedError, match="1 further samples"):
        train(5)
    with pytest.raises(PartyRefusedError, match="max_samples=0"):
        train(1, max_samples=0)
    train(4)


def test_names_of_samples_are_bounded_and_forgotten_ones_counted_again():
    kept = KeptState("", bytes(32))
    for k in range(200):
        kept.count_samples(bytes([k]), 2, 3, 10**4)
    assert (kept.n_samples, len(kept.samples_of)) == (1200, 64)
    kept.count_samples(bytes([199]), 3, 2, 10**4)
    assert kept.n_samples == 1203  # three rounds of three classes
    kept.count_samples(bytes([0]), 2, 3, 10**4)
    assert kept.n_samples == 1209
    with pytest.raises(InvalidDataError, match="max_samples=1209"):
        kept.count_samples(b"new", 1, 1, 1209)


# Held-out rows, and parties that join or leave.


def test_a_party_of_few_rows_does_not_take_part():
    """Before, with 3 rows, they were the difference of the roots of two runs, one of them without it."""
    y = LABELS["binary:logistic"]
    members = [(X[:200], y[:200]), (X[200:400], y[200:400]), (X[400:403], y[400:403])]
    with pytest.raises(PartyRefusedError, match="fewer rows of weights above 0 than min_rows_per_node=10"):
        train_exact(PARAMS, members, 1)
    train_exact(PARAMS, members, 1, min_rows_per_node=3)


@pytest.mark.parametrize("other", [(200, 249), (201, 251)])
def test_held_out_sets_that_differ_in_few_rows_are_refused(other):
    """Before, the difference of two metrics was the loss of one row, and with it its label."""
    y = LABELS["binary:logistic"]
    evals = [((X[slice(*rows)], y[slice(*rows)]), str(rows)) for rows in ((200, 250), other)]
    members = [(X[:200], y[:200]), (X[300:400], y[300:400]), (X[400:500], y[400:500])]
    with pytest.raises(PartyRefusedError, match=r"1 differ in [12] rows of all parties, fewer than"):
        train_exact(PARAMS, members, 1, evals=evals)


def test_sets_of_several_parties_are_compared_together():
    """What is few rows at one party may be enough at all of them; the rows to train on are a set as well."""
    y = LABELS["binary:logistic"]

    def train(*lacking):
        members = []
        for k, starts in enumerate(lacking):
            rows = np.arange(200 * k, 200 * k + 200)
            sets = [(X[rows[start:]], y[rows[start:]]) for start in starts]
            terms = ExactTerms(held_out=sets)
            members.append(HorizontalParty(X[rows], y[rows], f"h{k}", categorical_labels=True, exact=terms))
        train_exact(PARAMS, members, 1, verbose_eval=False)

    train([100, 105], [100, 105])
    train([0, 0], [0, 0])
    train([5], [5])
    with pytest.raises(PartyRefusedError, match="held-out set 0 and held-out set 1 differ in 9 rows"):
        train([100, 105], [100, 104])
    with pytest.raises(PartyRefusedError, match="the rows to train on and held-out set 0 differ in 9 rows"):
        train([5], [4])


def test_rows_are_compared_by_content_and_as_often_as_they_occur():
    columns = Columns(np.array([[0.0, np.nan], [-0.0, np.nan], [1, 2], [2, 1]], dtype=np.float32), ["a", "b"])
    y, ones = np.zeros(4, dtype=np.float32), np.ones(4, dtype=np.float32)
    codes = row_codes(columns, y, ones)
    assert len(np.unique(codes)) == 3
    labelled = row_codes(columns, np.float32([0, 1, 0, 0]), ones)
    weighted = row_codes(columns, y, np.float32([1, 1, 0, 2]))
    assert differences([codes, labelled, weighted]) == [2, 3, 5]
    assert n_differing(codes, codes[:0]) == 4
    assert n_differing(codes[:0], codes[:0]) == 0
    assert n_differing(codes, np.sort(np.repeat(codes, 2))) == 4
