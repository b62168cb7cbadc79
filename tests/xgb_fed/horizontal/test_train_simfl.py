"""SimFL: similar rows, weighted gradients, and the theory of the paper."""

import itertools

import numpy as np
import pytest
import scipy.sparse
import xgboost

from gbdt_hosts.xgboost.boosting import NativeTreeGrower
from gbdt_parties.errors import InvalidDataError, PartyRefusedError, ProtocolError
from stock_training import train_stock
from xgb_fed.boosting.loop import LoopOptions
from xgb_fed.boosting.objectives import XGBoostObjective
from xgb_fed.errors import InvalidArgumentError, UnsupportedParameterError
from xgb_fed.horizontal.common.model import horizontal_settings
from xgb_fed.horizontal.estimators import train_tfl
from xgb_fed.horizontal.parties import as_parties
from xgb_fed.horizontal.party import HorizontalParty
from xgb_fed.horizontal.simfl.coordinator import SimFL
from xgb_fed.horizontal.simfl.lsh import TIE_DRAWS, hash_rows
from xgb_fed.horizontal.simfl.messages import (
    AggregatedGradients,
    ColumnMoments,
    HashRows,
    HashTable,
    TellMoments,
)
from xgb_fed.horizontal.simfl.party import SimFLSide
from xgb_fed.horizontal.train_simfl import train_simfl

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.HeuristicProtectionWarning")
TO_BUILDERS = ("coordinator", "AggregatedGradients")
PARAMS = {"objective": "binary:logistic", "max_depth": 3, "learning_rate": 0.3}


def drawn_parties(n_parties=3, n_rows=400, n_features=6, seed=0, classes=2):
    random = np.random.default_rng(seed)
    parties = []
    for k in range(n_parties):
        X = random.standard_normal((n_rows + 10 * k, n_features)).astype(np.float32)
        score = X[:, 0] * X[:, 1] + X[:, 2] + 0.5 * random.standard_normal(len(X))
        y = np.digitize(score, np.linspace(-1, 1, classes + 1)[1:-1])
        parties.append((X, y))
    return parties


def train(parties, rounds=6, params=PARAMS, **options):
    return train_simfl(params, parties, rounds, hash_seed=0, verbose_eval=False, **options)


@pytest.fixture
def grown_on(monkeypatch):
    """What every tree is grown on: (g, h)."""
    seen = []
    grow = NativeTreeGrower.grow

    def recorded(self, g, h, seed):
        seen.append((g.astype(np.float64), h.astype(np.float64)))
        return grow(self, g, h, seed)

    monkeypatch.setattr(NativeTreeGrower, "grow", recorded)
    return seen


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:squarederror", "multi:softprob"])
@pytest.mark.parametrize("weighted", [False, True])
def test_weighted_gradients_add_up_to_those_of_all_rows_for_every_builder(grown_on, objective, weighted):
    """Each row of the others counts at just one row of the builder (Eq. 4), so Σ G = Σ g, Σ H = Σ h.

    The right-hand side is had from the finished model's margins before each round, by another way.
    """
    n_classes = 3 if objective == "multi:softprob" else 1
    parties = drawn_parties(classes=max(2, n_classes))
    if weighted:
        parties = [(X, y, np.random.default_rng(1).random(len(y))) for X, y in parties]
    given = "auto" if n_classes > 1 else objective
    # Sums over groups of several rows are told of equal weights only.
    booster = train(parties, 6, {**PARAMS, "objective": given}, min_similar=1 if weighted else 3).booster
    X, y = (np.concatenate([party[k] for party in parties]) for k in (0, 1))
    weight = np.concatenate([party[2] if weighted else np.ones(len(party[1])) for party in parties])
    empty = xgboost.DMatrix(X)
    start = booster.predict(empty, output_margin=True, iteration_range=(0, 1)) * 0
    assert len(grown_on) == 6 * n_classes
    for number in range(6):
        if number:
            margin = booster.predict(empty, output_margin=True, iteration_range=(0, number))
        else:
            p = np.average(y, weights=weight)
            margin = start + {"binary:logistic": np.log(p / (1 - p)), "reg:squarederror": p}.get(
                objective, 0.5
            )
        margin = margin.reshape(len(y), n_classes).astype(np.float32)
        g, h = XGBoostObjective(objective, n_classes).gradients(
            margin, y.astype(np.float32), weight.astype(np.float32)
        )
        for k in range(n_classes):
            own_g, own_h = grown_on[number * n_classes + k]
            assert len(own_g) == len(parties[number % 3][1])
            assert own_g.sum() == pytest.approx(
                g[:, k].sum(dtype=np.float64), abs=1e-4 * float(np.abs(g).sum())
            )
            assert own_h.sum() == pytest.approx(h[:, k].sum(dtype=np.float64), rel=1e-5)


def test_each_rows_gradient_is_added_at_the_row_it_is_similar_to(grown_on):
    """Algorithm 2 for the first tree, row by row, with the similarity that is written down here again."""
    parties = [
        HorizontalParty(X, y, f"p{k}", categorical_labels=True, min_similar=1, random_state=k)
        for k, (X, y) in enumerate(drawn_parties())
    ]
    training = SimFL(horizontal_settings(PARAMS), parties, max_rounds=4)
    training.prepare()
    tables = [party.simfl.state.hashes for party in parties]
    # The others know a party's rows by another order than its own.
    orders = [party.simfl.disclosures.order(len(party.simfl.rows.y)) for party in parties]
    draws = {
        (j, m): orders[m][parties[j].simfl.state.similar[m]] for j, m in itertools.permutations(range(3), 2)
    }
    similar = {pair: rows[0] for pair, rows in draws.items()}
    for (j, m), rows in ((pair, row) for pair, drawn in draws.items() for row in drawn):
        counts = (tables[j][:, None, :] == tables[m][None]).sum(axis=2)
        assert np.array_equal(counts[np.arange(len(rows)), rows], counts.max(axis=1))
    training.prepare = lambda: None
    training.run(LoopOptions(1))
    p = np.mean(np.concatenate([party.simfl.rows.y for party in parties]))
    expected = p - parties[0].simfl.rows.y
    for j in (1, 2):
        np.add.at(expected, similar[j, 0], p - parties[j].simfl.rows.y)
    assert np.allclose(grown_on[0][0], expected, atol=1e-5)
    assert similar[1, 0].max() > 0


def test_ties_are_drawn_again_at_every_turn(grown_on):
    """A builder's second tree holds the sums of another draw of the ties, each row's gradient still once."""
    X = np.repeat(np.random.default_rng(0).integers(0, 2, (30, 6)), 20, axis=0).astype(np.float32)
    y = np.random.default_rng(1).standard_normal(len(X))
    parties = [HorizontalParty(X, y + k, f"p{k}", min_similar=1, random_state=k) for k in range(2)]
    settings = horizontal_settings({**PARAMS, "objective": "reg:squarederror"})
    training = SimFL(settings, parties, max_rounds=4)
    training.prepare()
    draws = parties[0].simfl.disclosures.order(len(y))[parties[1].simfl.state.similar[0]]
    assert draws.shape == (TIE_DRAWS, len(y))
    training.prepare = lambda: None
    booster = training.run(LoopOptions(4)).booster
    assert not np.array_equal(draws[0], draws[1])
    margin = booster.predict(xgboost.DMatrix(X), output_margin=True, iteration_range=(0, 2))
    expected = margin - y
    np.add.at(expected, draws[1], margin - y - 1)
    assert np.allclose(grown_on[2][0], expected, atol=1e-4)


def test_as_published_ties_are_drawn_once_and_penalties_are_not_scaled(grown_on, monkeypatch):
    """With rows of 0 and 1, many alike, a builder's second tree would hold other sums of ties."""
    X = np.repeat(np.random.default_rng(0).integers(0, 2, (30, 6)), 20, axis=0).astype(np.float32)
    y = np.random.default_rng(1).standard_normal(len(X))
    options = {"categorical_labels": False, "min_similar": 1, "as_published": True}
    parties = [HorizontalParty(X, y + k, f"p{k}", random_state=k, **options) for k in range(2)]
    given, start = [], NativeTreeGrower.__init__
    monkeypatch.setattr(
        NativeTreeGrower,
        "__init__",
        lambda self, X, params, *rest: (given.append(params), start(self, X, params, *rest))[1],
    )
    # With squared error every hessian is 1, so that sums of them are numbers of rows.
    train(parties, 6, {**PARAMS, "objective": "reg:squarederror", "reg_lambda": 2.0}, as_published=True)
    for k in (0, 1):
        first, *others = [h for _, h in grown_on[k::2]]
        assert first.max() > 2
        assert all(np.array_equal(first, h) for h in others)
    assert [params["reg_lambda"] for params in given] == [2.0, 2.0]


def test_as_published_single_rows_are_sent_and_all_parties_agree():
    with pytest.raises(InvalidArgumentError, match="min_similar=3"):
        train(drawn_parties(), as_published=True)
    parties = [
        HorizontalParty(20 * X, y, f"p{k}", categorical_labels=True, min_similar=1, as_published=k == 1)
        for k, (X, y) in enumerate(drawn_parties())
    ]
    with pytest.raises(PartyRefusedError, match="as_published"):
        train(parties)
    with pytest.raises(PartyRefusedError, match="too far"):
        train(parties, as_published=True)


def test_a_party_grows_some_rounds_in_a_turn(grown_on):
    train(drawn_parties(), 6, rounds_per_turn=2)
    assert [len(g) for g, _ in grown_on] == [400, 400, 410, 410, 420, 420]


def test_penalties_are_set_against_one_gradient_a_row(monkeypatch):
    """SimFL's trees have them times N/n; TFL's as they are."""
    given = []
    start = NativeTreeGrower.__init__

    def recorded(self, X, params, *rest):
        given.append((X.shape[0], params))
        start(self, X, params, *rest)

    monkeypatch.setattr(NativeTreeGrower, "__init__", recorded)
    params = {**PARAMS, "reg_lambda": 2.0, "reg_alpha": 0.5, "gamma": 0.25, "min_child_weight": 3.0}
    train(drawn_parties(), 1, params)
    train_tfl(params, drawn_parties(), 1, verbose_eval=False)
    assert len(given) == 6
    for k, (n_rows, used) in enumerate(given):
        factor = (400 + 410 + 420) / n_rows if k < 3 else 1
        for name in ("reg_lambda", "reg_alpha", "gamma", "min_child_weight"):
            assert used[name] == pytest.approx(factor * params[name])
        assert used["max_depth"] == 3
        assert used["learning_rate"] == 0.3


def test_penalties_times_a_factor_are_sums_divided_by_it():
    """The identity that the factor rests on: the same tree, but for rounding, with other units of H."""
    random = np.random.default_rng(0)
    X = random.standard_normal((500, 4)).astype(np.float32)
    g, h = random.standard_normal(500).astype(np.float32), random.random(500).astype(np.float32)
    params = {"max_depth": 4, "max_bin": 64, "reg_lambda": 1.0, "reg_alpha": 0.5, "gamma": 0.125}
    params["min_child_weight"] = 2.0
    penalties = ("reg_lambda", "reg_alpha", "gamma", "min_child_weight")
    factored = params | {name: 4 * params[name] for name in penalties}
    _, one = NativeTreeGrower(X, params).grow(g / 4, h / 4, 0)
    _, two = NativeTreeGrower(X, factored).grow(g, h, 0)
    _, unpenalised_by_row = NativeTreeGrower(X, params).grow(g, h, 0)
    assert np.allclose(one, two, rtol=1e-5)
    assert not np.allclose(one, unpenalised_by_row, rtol=1e-2)


def test_windows_are_as_wide_as_rows_are_typically_apart(monkeypatch):
    asked = []

    def recorded(X, mean, std, seed, n_hashes, window, n_threads):
        asked.append(window)
        return hash_rows(X, mean, std, seed, n_hashes, window, n_threads)

    monkeypatch.setattr("xgb_fed.horizontal.simfl.own_hashes.hash_rows", recorded)
    train(drawn_parties(), 1)
    assert asked == pytest.approx([np.sqrt(2 * 6)] * 3)


def test_theorem_2_bounds_the_error_on_drawn_data(monkeypatch):
    """ε = |L̃_w − L̃| of Eq. (8) is below Eq. (5) with δ = 0.01 on uniform data, for the tree grown there."""
    depth, delta = 2, 0.01
    monkeypatch.setattr(
        "xgb_fed.horizontal.simfl.own_hashes.typical_distance", lambda std: 0.5
    )  # nearer rows
    for seed in range(5):
        random = np.random.default_rng(seed)
        parties = []
        for k in range(3):
            X = random.random((500, 4)).astype(np.float32)
            parties.append(
                HorizontalParty(
                    X,
                    (X[:, 0] + X[:, 1] > 1).astype(int),
                    f"p{k}",
                    categorical_labels=True,
                    min_similar=1,
                    random_state=3 * seed + k,
                )
            )
        settings = horizontal_settings({**PARAMS, "max_depth": depth})
        training = SimFL(settings, parties, max_rounds=4)
        training.prepare()
        order = parties[0].simfl.disclosures.order(len(parties[0].simfl.rows.y))
        similar = [order[parties[j].simfl.state.similar[0][0]] for j in (1, 2)]
        training.prepare = lambda: None
        booster = training.run(LoopOptions(1)).booster
        base = np.mean(np.concatenate([party.simfl.rows.y for party in parties]))
        f = [
            booster.predict(xgboost.DMatrix(p.simfl.rows.X), output_margin=True) - np.log(base / (1 - base))
            for p in parties
        ]
        g, h = [base - party.simfl.rows.y for party in parties], base * (1 - base)

        def loss(gradient, value, h=h):
            return (gradient * value + h * value**2 / 2).sum()

        weighted = sum(loss(g[j], f[0][s]) for j, s in zip((1, 2), similar, strict=True))
        exact = sum(loss(g[j], f[j]) for j in (1, 2))
        epsilon = abs(weighted - exact)

        n_others = len(parties[1].simfl.rows.y) + len(parties[2].simfl.rows.y)
        everything = np.concatenate([party.simfl.rows.X for party in parties]).astype(np.float64)
        d_m = np.abs(everything[:, None] - everything[None]).sum(axis=2).max()
        d_t = max(
            np.abs(parties[j].simfl.rows.X - parties[0].simfl.rows.X[s]).sum(axis=1).max()
            for j, s in zip((1, 2), similar, strict=True)
        )
        split = 1 - (1 - d_t / d_m) ** depth
        largest = 2 * max(np.abs(one).max() for one in g) * max(np.abs(one).max() for one in f)
        largest += h / 2 * max(np.abs(one).max() for one in f) ** 2
        bound = (split * n_others + np.sqrt(n_others * np.log(1 / delta) / 2)) * largest
        assert 0 < epsilon <= bound
        # Rows that reach the leaf of their similar row add nothing (the proof's ξ = 0).
        same = np.concatenate([f[j] == f[0][s] for j, s in zip((1, 2), similar, strict=True)])
        assert (~same).sum() <= bound / largest


def test_model_is_the_same_for_everybody_and_native():
    parties = as_parties(drawn_parties(), 0)
    model = train(parties, 7)
    X = drawn_parties(seed=9)[0][0]
    predictions = [p.get_booster().predict(xgboost.DMatrix(X)) for p in parties]
    for predicted in predictions:
        assert np.array_equal(predicted, model.booster.predict(xgboost.DMatrix(X)))
    assert model.booster.num_boosted_rounds() == 7
    assert isinstance(model.booster, xgboost.Booster)


def test_same_seed_same_model():
    one, two = (train(drawn_parties(), params={**PARAMS, "subsample": 0.7}).booster for _ in range(2))
    assert one.save_raw("json") == two.save_raw("json")


def test_better_than_solo_where_parties_have_other_shares_of_the_classes():
    """The setting of Table 2 on drawn data; a margin of a point against chance."""
    random = np.random.default_rng(0)
    X = random.standard_normal((6000, 6)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] - X[:, 2] + random.standard_normal(6000) > 0).astype(int)
    first = y[:4000] == (random.random(4000) < 0.85)
    parties = [(X[:4000][part], y[:4000][part]) for part in (first, ~first)]
    test = xgboost.DMatrix(X[4000:])
    params = {**PARAMS, "learning_rate": 0.1}

    def error(booster):
        return np.mean((booster.predict(test) > 0.5) != y[4000:])

    ours = np.mean(
        [error(train_simfl(params, parties, 80, hash_seed=k, verbose_eval=False).booster) for k in range(3)]
    )
    solo = [error(train_stock(params, *party, 80)) for party in parties]
    assert ours + 0.01 < min(solo)
    assert ours < error(train_stock(params, X[:4000], y[:4000], 80)) + 0.025


def test_sparse_rows_train_as_dense_ones_whose_zeros_are_missing():
    random = np.random.default_rng(4)
    dense, sparse = [], []
    for _ in range(2):
        X = np.where(random.random((600, 8)) < 0.5, random.standard_normal((600, 8)), 0).astype(np.float32)
        y = (X[:, 0] + X[:, 1] > 0).astype(int)
        dense.append((np.where(X == 0, np.nan, X), y))
        sparse.append((scipy.sparse.csr_matrix(X), y))
    one, two = (train_tfl(PARAMS, parties, 8, verbose_eval=False).booster for parties in (dense, sparse))
    X = xgboost.DMatrix(dense[0][0])
    assert np.allclose(one.predict(X), two.predict(X), atol=1e-6)
    booster = train(sparse, 8).booster
    assert np.mean((booster.predict(X) > 0.5) == dense[0][1]) > 0.85


def test_tfl_of_one_builder_at_a_time_is_stock_training_on_each_turn(grown_on):
    """Without the others' gradients the first tree is the first party's own, from the common base score."""
    parties = drawn_parties(2)
    base = float(np.mean(np.concatenate([y for _, y in parties])))
    ours = train_tfl(PARAMS, parties, 1, verbose_eval=False).booster
    theirs = train_stock({**PARAMS, "base_score": base}, *parties[0], 1)
    X = xgboost.DMatrix(parties[1][0])
    assert np.allclose(ours.predict(X), theirs.predict(X), atol=1e-6)


def test_tfl_in_longer_turns(grown_on):
    parties = drawn_parties(2)
    train_tfl(PARAMS, parties, 6, rounds_per_turn=2, verbose_eval=False)
    assert [len(g) for g, _ in grown_on] == [400, 400, 410, 410, 400, 400]
    with pytest.raises(ValueError, match="rounds_per_turn=0"):
        train_tfl(PARAMS, parties, 6, rounds_per_turn=0, verbose_eval=False)


def test_a_weight_of_two_is_a_row_twice():
    parties = drawn_parties(2)
    weighted = [(X, y, np.where(np.arange(len(y)) < 100, 2.0, 1.0)) for X, y in parties]
    doubled = [(np.vstack([X, X[:100]]), np.concatenate([y, y[:100]])) for X, y in parties]
    values = {"max_bin": 1024}  # more than there are rows: cuts are the values, whatever their counts
    ours, theirs = (
        train_tfl({**PARAMS, **values}, rows, 4, verbose_eval=False).booster for rows in (weighted, doubled)
    )
    X = xgboost.DMatrix(parties[0][0])
    assert np.allclose(ours.predict(X), theirs.predict(X), atol=1e-5)


def test_early_stopping_and_evaluation():
    X, y = drawn_parties(1, 800, seed=8)[0]
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.3, 1 - y, y)
    model = train(
        drawn_parties(),
        200,
        {**PARAMS, "eval_metric": "logloss"},
        evals=[((X, y), "valid")],
        early_stopping_rounds=5,
    )
    history = model.evals_result["valid"]["logloss"]
    assert len(history) == model.best_iteration + 6 < 200
    assert model.best_score == pytest.approx(min(history))
    assert model.booster.num_boosted_rounds() == len(history)
    assert model.booster.best_iteration == model.best_iteration
    p = model.booster.predict(xgboost.DMatrix(X)).astype(np.float64)
    assert history[-1] == pytest.approx(-np.mean(np.log(np.where(y == 1, p, 1 - p))), rel=1e-5)


def test_traffic_is_what_the_paper_counts():
    """8 bytes for a row's sums from each of the M − 1 others, 4 L bytes a row for the hash tables."""
    parties = drawn_parties(3)
    model = train(parties, 3)
    sent: dict[str, int] = {}
    for (sender, _, kind), flow in model.traffic.flows.items():
        if sender != "coordinator":
            sent[kind] = sent.get(kind, 0) + flow.bytes
    n_rows = sum(len(y) for _, y in parties)
    assert sent["HashTable"] == pytest.approx(4 * 5 * n_rows, rel=0.02)
    assert sent["AggregatedGradients"] == pytest.approx(8 * 2 * n_rows, rel=0.02)
    assert all(row["content"] == "clear" for row in model.traffic.to_dicts())
    added = [f for (sender, _, kind), f in model.traffic.flows.items() if (sender, kind) == TO_BUILDERS]
    assert sum(flow.messages for flow in added) == 3
    assert sum(flow.bytes for flow in added) == pytest.approx(8 * n_rows, rel=0.02)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda g, h: (g[1:], h),
        lambda g, h: (np.full_like(g, np.nan), h),
        lambda g, h: (g, np.full_like(h, -1)),
    ],
)
def test_a_partys_malformed_sums_are_refused_by_name(monkeypatch, spoil):
    answer = SimFLSide.answer

    def spoilt(self, session, message):
        told = answer(self, session, message)
        is_sums = isinstance(told, AggregatedGradients) and self.name == "party2"
        return AggregatedGradients(*spoil(told.g, told.h)) if is_sums else told

    monkeypatch.setattr(SimFLSide, "answer", spoilt)
    with pytest.raises(ProtocolError, match="'party2': aggregated"):
        train(drawn_parties(), 1)


def test_ties_are_not_those_of_the_hash_seed_unless_the_party_says_so(monkeypatch):
    """Who knows all tables and the seed cannot recompute a party's similarity matrix."""
    X = np.repeat(np.random.default_rng(0).integers(0, 2, (40, 6)), 10, axis=0).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    monkeypatch.setattr("xgb_fed.horizontal.simfl.hash_seed.seed_from", lambda contributions: bytes(32))

    def similar(**options):
        parties = [
            HorizontalParty(X, y, name, categorical_labels=True, min_similar=1, **options)
            for name in ("a", "b")
        ]
        training = SimFL(horizontal_settings(PARAMS), parties, max_rounds=4)
        training.prepare()
        return parties[0].simfl.state.hashes, parties[0].simfl.state.similar[1]

    (one_table, one), (two_table, two) = similar(), similar()
    assert np.array_equal(one_table, two_table)
    assert not np.array_equal(one, two)
    assert np.array_equal(similar(random_state=1)[1], similar(random_state=1)[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_hashes": 6}, "L < d"),
        ({"n_hashes": 0}, "n_hashes=0"),
        ({"n_hashes": 4, "known_features": 2}, "n_hashes=4 is above 3"),
        ({"known_features": 5}, "cannot be hashed"),
        ({"known_features": -1}, "known_features=-1"),
        ({"min_similar": 0}, "min_similar=0"),
    ],
)
def test_bad_hashing_options(options, message):
    with pytest.raises(ValueError, match=message):
        train(drawn_parties(), **options)


def test_known_features_lower_the_number_of_hashes():
    parties = as_parties(drawn_parties(), 0)
    training = SimFL(horizontal_settings(PARAMS), parties, known_features=2, max_rounds=4)
    training.prepare()
    assert training.n_hashes == 6 - 1 - 2


def test_a_partys_own_known_features_and_constant_columns_lower_it_too():
    for change in ("known", "constant"):
        data = drawn_parties(2)
        if change == "constant":
            data[1][0][:, 3] = 1.0
        parties = [
            HorizontalParty(*data[0], "a", categorical_labels=True),
            HorizontalParty(*data[1], "b", categorical_labels=True, known_features=int(change == "known")),
        ]
        training = SimFL(horizontal_settings(PARAMS), parties, max_rounds=4)
        training.prepare()
        assert training.n_hashes == 6 - 1 - 1
        fewest = "b" if change == "known" else "a"  # a column that is constant at b does not count anywhere
        with pytest.raises(InvalidDataError, match=f"party '{fewest}' allows 4"):
            train(parties, n_hashes=5)


def test_a_party_refuses_more_hashes_than_it_allows_whoever_asks():
    parties = as_parties(drawn_parties(2), 0)
    training = SimFL(horizontal_settings(PARAMS), parties, max_rounds=4)
    training.ask_all(TellMoments(0), ColumnMoments)
    request = HashRows(training.contributions(), 6, np.zeros(6), np.ones(6))
    with pytest.raises(PartyRefusedError, match="gives 1 to 5"):
        training.channels[0].ask(request, HashTable)


def test_a_party_hashes_once_in_a_session():
    parties = as_parties(drawn_parties(2), 0)
    training = SimFL(horizontal_settings(PARAMS), parties, max_rounds=4)
    training.prepare()
    request = HashRows(b"", 2, np.zeros(6), np.ones(6))
    with pytest.raises(PartyRefusedError, match=r"once.*session"):
        training.channels[0].ask(request, HashTable)


def test_hashes_add_up_over_training_runs():
    """The same parties hash by the same seed, which tells nothing new; others would add equations."""
    parties = as_parties(drawn_parties(3), 0)
    for _ in range(2):
        train_simfl(PARAMS, parties[:2], 1, verbose_eval=False)
    with pytest.raises(PartyRefusedError, match=r"5 hashes.*away"):
        train_simfl(PARAMS, parties, 1, verbose_eval=False)
    parties = as_parties(drawn_parties(3), 0)
    for members in (parties[:2], parties):
        train_simfl(PARAMS, members, 1, n_hashes=2, verbose_eval=False)


@pytest.mark.parametrize("n_rows", [1, 2])
def test_moments_of_two_rows_are_not_given_away(n_rows):
    parties = drawn_parties(2)
    with pytest.raises(PartyRefusedError, match=r"give.*away"):
        train([parties[0], (parties[1][0][:n_rows], np.arange(n_rows))])


def test_few_rows_have_fewer_hashes():
    """Six columns and ten rows: 10 L + 12 < 60 leaves four hashes."""
    parties = drawn_parties(2)
    training = SimFL(
        horizontal_settings(PARAMS),
        as_parties([parties[0], (parties[1][0][:10], parties[1][1][:10])], 0),
        max_rounds=4,
    )
    training.prepare()
    assert training.n_hashes == 4


def test_bad_parties():
    parties = drawn_parties(2)
    X, y = parties[0]
    with pytest.raises(ValueError, match="at least two"):
        train(parties[:1])
    with pytest.raises(InvalidDataError, match="5 columns, 'party0' has 6"):
        train([parties[0], (X[:, :5], y)])
    with pytest.raises(InvalidDataError, match="no rows"):
        train([parties[0], (X[:0], y[:0])])
    with pytest.raises(InvalidDataError, match="400 rows and labels"):
        train([parties[0], (X, y[:-1])])
    with pytest.raises(ValueError, match="4 members"):
        train([parties[0], (X, y, y, y)])
    with pytest.raises(InvalidDataError, match="infinite"):
        train([parties[0], (np.where(X > 2, np.inf, X), y)])
    with pytest.raises(InvalidDataError, match="not negative"):
        train([parties[0], (X, y, -np.ones(len(y)))])
    with pytest.raises(InvalidDataError, match="two are needed"):
        train([(X, np.zeros(len(X))), (X, np.zeros(len(X)))])
    with pytest.raises(InvalidDataError, match=r"text.*party"):
        train([parties[0], (X, np.array(["a", "b"])[y])])
    with pytest.raises(PartyRefusedError, match="missing labels"):
        train([parties[0], (X, np.where(y == 1, np.nan, 0.0))])
    with pytest.raises(ValueError, match="names in common"):
        train([HorizontalParty(X, y, "a"), HorizontalParty(X, y, "a")])


def test_columns_need_the_same_names_in_the_same_order():
    pd = pytest.importorskip("pandas")
    (X, y), (X2, y2) = drawn_parties(2)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    with pytest.raises(InvalidDataError, match="same order"):
        train([(frame, y), (pd.DataFrame(X2, columns=list("abcdfe")), y2)])
    with pytest.raises(InvalidDataError, match="categorical"):
        train([(frame.assign(f=pd.Categorical(y)), y), (frame, y)])
    booster = train([(frame, y), (pd.DataFrame(X2, columns=list("abcdef")), y2)]).booster
    assert booster.feature_names == list("abcdef")


def test_missing_values_train():
    parties = drawn_parties(2)
    for X, _ in parties:
        X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    booster = train(parties, 30).booster
    X, y = parties[0]
    assert np.mean((booster.predict(xgboost.DMatrix(X)) > 0.5) == y) > 0.7


def test_bad_parameters():
    for params, message in (
        ({"tree_mode": "mix"}, "tree_mode='mix' is for vertical"),
        ({"goss": (0.2, 0.1)}, "goss"),
        ({"booster": "dart"}, "booster"),
        ({"max_depth": 0}, "max_depth"),
    ):
        with pytest.raises((UnsupportedParameterError, ValueError), match=message):
            train(drawn_parties(2), params={**PARAMS, **params})
    with pytest.raises(ValueError, match="num_boost_round=0"):
        train(drawn_parties(2), 0)
    with pytest.raises(ValueError, match="needs an evaluation"):
        train(drawn_parties(2), early_stopping_rounds=3)
    with pytest.raises(ValueError, match="other columns"):
        train(drawn_parties(2), evals=[((np.zeros((3, 2)), np.zeros(3)), "v")])
    with pytest.raises(ValueError, match=r"labels.*party"):
        train(drawn_parties(2), evals=[((np.zeros((3, 6)), np.array([0, 1, 7])), "v")])
