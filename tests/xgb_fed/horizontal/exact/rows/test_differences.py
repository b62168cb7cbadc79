"""Sums at roots are over the same rows, or over sets that differ in `min_rows_per_node` rows or more."""

from itertools import combinations, product

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from gbdt_parties.errors import InvalidDataError
from kept_stores import end_process
from xgb_fed import ExactTerms, HorizontalParty, PartyRefusedError, train_exact
from xgb_fed.boosting.features import Columns, codes_of
from xgb_fed.horizontal.common.party_state import PartyState
from xgb_fed.horizontal.exact import trees as exact_trees
from xgb_fed.horizontal.exact.cuts import bounds_of_bins
from xgb_fed.horizontal.exact.questions import ExactQuestion
from xgb_fed.horizontal.exact.rows.samples import (
    SAMPLES,
    RowDraws,
    check_own_sample,
    check_subsample,
    count_samples,
    least_difference,
)
from xgb_fed.horizontal.exact.sizes import RowSet, rows_of_its_own
from xgb_fed.horizontal.exact.training import ExactTraining
from xgb_fed.horizontal.exact.trees import GrowingRules

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.FewPartiesWarning")

MIN_ROWS = 10
PARAMS = {"objective": "binary:logistic", "max_depth": 1, "max_bin": 16, "base_score": 0.5}

# The attack that read rows: the root of a sample that lacks one row, taken from the root of all rows.


@pytest.fixture
def opened(monkeypatch):
    """What any one party, or the coordinator, sees: all opened sums with what was asked."""
    seen, checked = [], ExactQuestion.checked

    def noted(self, total):
        out = checked(self, total)
        seen.append((self.what, np.array(out)))
        return out

    monkeypatch.setattr(ExactQuestion, "checked", noted)
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


def test_subsample_difference_of_a_small_party_is_refused():
    """Before, the other one of two parties subtracted its own sums, and read 11 of 12 rows in 200 rounds."""
    X, y = load_breast_cancer(return_X_y=True)
    few, many = np.split(np.random.default_rng(0).permutation(len(y)), [12])
    members = [
        HorizontalParty(X[own], y[own], name, categorical_labels=True)
        for name, own in (("a", many), ("b", few))
    ]
    with pytest.raises(PartyRefusedError, match=r"'?b'?.*subsample=0\.2.*fewer than 60"):
        train_exact({**PARAMS, "subsample": 0.2}, members, 200)
    train_exact(PARAMS, members, 1)


def test_subsample_difference_of_a_partys_own_rows_is_checked_as_drawn(monkeypatch):
    """However unlikely: nothing of a sample leaves that few of the party's rows are in, or not in."""
    for drawn in (9, 591, 600 - 9):
        with pytest.raises(InvalidDataError, match="leaves out fewer"):
            check_own_sample(drawn, 600, 10)
    for drawn in (10, 590, 600):
        check_own_sample(drawn, 600, 10)
    check_own_sample(1, 600, 1)
    members = [(X[:200], LABELS["binary:logistic"][:200]), (X[200:400], LABELS["binary:logistic"][200:400])]
    monkeypatch.setattr(ExactTraining, "drawn", lambda self, *_: np.arange(len(self.rows.y)) < 9)
    with pytest.raises(PartyRefusedError, match="leaves out fewer"):
        train_exact({**PARAMS, "subsample": 0.5}, members, 1)


def test_samples_depend_on_the_names_of_all_parties():
    """Before, a party that shifted its mark had others draw the same samples with other parties."""
    marks = np.arange(4)
    draws = [RowDraws(PartyState(bytes(32)), "rows", 100, names) for names in ("ab", "ba", "ac", "abc")]
    seeds = [own.seed(marks, 0.5, 1, 1) for own in draws]
    assert seeds[0] == seeds[1]
    assert len(set(seeds)) == 3


# The class: over any sequence of runs, no two roots are over sets that differ in a few rows.

SIZES = (410, 412, 414, 417)
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
    seen, ask = {}, exact_trees.make_roots

    def noted(trees, counts, rules, what):
        for tree in trees:
            own = set(IDS[len(tree.sampled)][tree.sampled].tolist())
            seen.setdefault("own", set()).add((len(tree.sampled), frozenset(own)))
            seen.setdefault((seen["run"], what, tree.group), set()).update(own)
        return ask(trees, counts, rules, what)

    monkeypatch.setattr(exact_trees, "make_roots", noted)
    return seen


def check_drawn_runs(roots, n_runs, seed):
    """Runs with drawn settings, parties and rows; gives the number of different sets at roots."""
    rng = np.random.default_rng(seed)
    one_less = np.ones(SIZES[-1])
    one_less[7] = 0
    groups = {objective: members_of(objective) for objective in LABELS}
    changed = members_of("binary:logistic", 1), members_of("binary:logistic", 0, one_less)
    n = len(X)
    shares = [
        0.8,
        0.8 + 1e-9,
        0.8001,
        0.5,
        0.85,
        65 / 410,
        1 - 65 / 410,
        60 / n,
        1 - 1 / n,
        1 - 9 / n,
        2 / n,
        1.0,
    ]
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
    sets = {frozenset(rows) for name, rows in roots.items() if name not in ("run", "own")}
    for one, other in combinations(sets, 2):
        assert len(one ^ other) >= MIN_ROWS
    # What is left where all other parties subtract theirs: a party's own rows.
    for (n_one, one), (n_other, other) in combinations(roots["own"], 2):
        assert min(len(one), len(other)) >= MIN_ROWS
        assert n_one != n_other or len(one ^ other) >= MIN_ROWS
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
    for n_rows, subsample in ((599, 0.9), (600, 0.0999), (100, 0.5)):
        match = f"subsample={subsample} .*min_rows_per_node=10 .* accepted is 1, or 60/n to 1 - 60/n"
        with pytest.raises(InvalidDataError, match=match) as refused:
            check_subsample(n_rows, subsample, 10)
        assert str(n_rows) not in str(refused.value)
    check_subsample(1, 0.5, 1)


@pytest.mark.parametrize(("counts", "match"), [([91, 100], "all but 9 rows"), ([9, 50], "grown on 9 rows")])
def test_the_root_is_not_asked_about_if_few_rows_were_drawn_or_left_out(counts, match):
    sampled = [np.arange(100) < count for count in counts]
    words = [np.zeros((100, 4), dtype=np.uint64)] * 2
    columns = type("Of100Rows", (), {"codes": np.zeros((100, 1), dtype=np.uint8)})
    growing = exact_trees.grow_trees(
        columns, words, sampled, GrowingRules(1, 10, None, 80, 100, 1.0), "r", 100, True
    )
    (question,) = next(growing)
    assert question.what == "r: rows"
    with pytest.raises(InvalidDataError, match=match):
        growing.send([np.array(counts)])


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
        end_process(tmp_path)
        params = {**PARAMS, "max_bin": 4, "subsample": subsample}
        train_exact(params, [member(0, max_samples), member(1, 100)], n_rounds)

    train(3)
    train(3)  # the same samples
    train(5, subsample=1.0)
    train(4)  # one more
    with pytest.raises(PartyRefusedError, match=r"4 further.*drawn 4.*=7"):
        train(4, subsample=0.6)
    train(3, subsample=0.6)
    with pytest.raises(PartyRefusedError, match="1 further samples"):
        train(5)
    with pytest.raises(PartyRefusedError, match="max_samples=0"):
        train(1, max_samples=0)
    train(4)


def test_names_of_samples_are_bounded_and_forgotten_ones_counted_again():
    kept = PartyState(bytes(32))

    def counted():
        samples = kept.store.get(SAMPLES, "")
        return samples["n"], len(samples["of"])

    for k in range(200):
        count_samples(kept, str(k), 2, 3, 10**4)
    assert counted() == (1200, 64)
    count_samples(kept, "199", 3, 2, 10**4)
    assert counted()[0] == 1203  # three rounds of three classes
    count_samples(kept, "0", 2, 3, 10**4)
    assert counted()[0] == 1209
    with pytest.raises(InvalidDataError, match="max_samples=1209"):
        count_samples(kept, "new", 1, 1, 1209)


# Held-out rows, and parties that join or leave.


def test_a_party_of_few_rows_does_not_take_part():
    """Before, with 3 rows, they were the difference of the roots of two runs, one of them without it."""
    y = LABELS["binary:logistic"]
    members = [(X[:200], y[:200]), (X[200:400], y[200:400]), (X[400:403], y[400:403])]
    with pytest.raises(PartyRefusedError, match=r"fewer.*above 0 than min_rows_per_node=10"):
        train_exact(PARAMS, members, 1)
    train_exact(PARAMS, members, 1, min_rows_per_node=3)


# Of 500 rows, which sets a party holds out; it trains on the first 100.
TRAINED, MEN, WOMEN, ONE = (np.arange(*ends) for ends in ((0, 100), (100, 200), (200, 280), (280, 281)))
TOGETHER = np.concatenate([MEN, WOMEN, ONE])
REST = "held-out set {} has fewer than min_rows_per_node=10 rows of this party that are in no other set"


def hold_out(*sets, trained=TRAINED, min_rows=10):
    """Train with a party that has these sets of rows, or rows and weights, held out, and one without any."""
    y = LABELS["binary:logistic"]
    held_out = []
    for own in sets:
        rows, weight = own if isinstance(own, tuple) else (own, 1.0)
        held_out.append((X[rows], y[rows], np.broadcast_to(weight, len(rows))))
    terms = ExactTerms(held_out=held_out, min_rows_per_node=min_rows)
    one = HorizontalParty(X[trained], y[trained], "one", categorical_labels=True, exact=terms)
    model = train_exact(PARAMS, [one, (X[-99:], y[-99:])], 1, min_rows_per_node=min_rows, verbose_eval=False)
    return len(model.evals_result)


@pytest.mark.parametrize(
    ("sets", "which"),
    [
        ([MEN, MEN[1:]], 0),
        ([MEN, np.append(MEN[1:], ONE)], 0),
        # Before, losses over all less those over men and women were the loss of one row.
        ([MEN, WOMEN, TOGETHER], 0),
        # Before, all rows of other weights differed, so that twice one loss less the other was one row's.
        ([(MEN, 2.0), np.append(MEN, ONE)], 0),
        ([(MEN, 1.0), (MEN, np.where(MEN == 150, 2.0, 1.0))], 0),
        ([TRAINED[1:]], 0),
        ([np.append(TRAINED, ONE)], 0),
        ([(TRAINED, 2.0)], 0),
        # Before, runs with and without the party differed in the loss of this row.
        ([ONE], 0),
        ([MEN, WOMEN[:9]], 1),
    ],
)
def test_held_out_sums_that_combine_to_few_rows_are_refused(sets, which):
    match = (
        "the set of rows to train on has fewer" if sets[0] is not MEN and which == 0 else REST.format(which)
    )
    with pytest.raises(PartyRefusedError, match=f"{match}|{REST.format(which)}"):
        hold_out(*sets)


def test_held_out_sets_are_accepted_that_are_apart_or_the_same():
    assert hold_out(MEN, WOMEN, MEN[::-1], TRAINED) == 4
    assert hold_out(WOMEN[:10]) == 1
    assert hold_out(np.append(MEN, TRAINED[:3])) == 1  # as rows of different people may be the same
    assert hold_out(ONE, MEN, MEN[1:], min_rows=1) == 3


def test_held_out_rows_of_a_party_are_enough_without_those_of_others():
    """Before, rows of all parties were counted together, and others can subtract theirs."""
    y = LABELS["binary:logistic"]
    sets = [(X[400:409], y[400:409]), (X[300:400], y[300:400])]
    members = [
        HorizontalParty(
            X[100 * k : 100 * k + 100],
            y[100 * k : 100 * k + 100],
            f"h{k}",
            categorical_labels=True,
            exact=ExactTerms(held_out=[own]),
        )
        for k, own in enumerate(sets)
    ]
    with pytest.raises(PartyRefusedError, match=REST.format(0)):
        train_exact(PARAMS, members, 1, verbose_eval=False)


@pytest.mark.parametrize("seed", range(30))
def test_no_combination_of_held_out_sums_is_about_few_rows(seed):
    """Of sets that are accepted, whatever the factors: tried on those that leave the fewest rows."""
    rng = np.random.default_rng(seed)
    columns, y = Columns(np.arange(40, dtype=np.float32)[:, None], ["a"]), np.zeros(40, dtype=np.float32)
    weights = np.where(rng.random((3, 40)) < rng.choice([0.2, 0.5, 0.9], (3, 1)), 1.0, 0.0).astype(np.float32)
    weights *= rng.choice([1.0, 2.0], (3, 40)) if seed % 2 else 1
    least = min(rows_of_its_own([RowSet.of(columns, y, weight) for weight in weights]))
    fewest = 40
    for factors in product(np.arange(-4, 5) / 2, repeat=3):
        about = int((np.asarray(factors) @ weights != 0).sum())
        fewest = min(fewest, about or 40)
    assert least <= fewest


def test_rows_are_compared_by_content():
    columns = Columns(np.array([[0.0, np.nan], [-0.0, np.nan], [1, 2], [2, 1]], dtype=np.float32), ["a", "b"])
    y, ones = np.zeros(4, dtype=np.float32), np.ones(4, dtype=np.float32)
    one = RowSet.of(columns, y, ones)
    assert [len(np.unique(codes)) for codes in (one.rows, one.weighted)] == [3, 3]
    labelled = RowSet.of(columns, np.float32([0, 1, 0, 0]), ones)
    weighted = RowSet.of(columns, y, np.float32([1, 1, 0, 2]))
    assert [len(own.rows) for own in (one, labelled, weighted)] == [4, 4, 3]
    assert rows_of_its_own([one, one]) == [4, 4]
    assert rows_of_its_own([one, labelled]) == [0, 1]
    assert rows_of_its_own([one, weighted]) == [1, 0]
    assert rows_of_its_own([labelled]) == [4]
