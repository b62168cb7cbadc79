"""Private training with columns apart: rounds, their sums bit for bit, the model, the report, refusals."""

import threading
from dataclasses import replace

import lightgbm
import numpy as np
import pytest

import lgb_dp
from gbdt_parties.errors import PartyRefusedError, ProtocolError
from gbdt_parties.run.log import RUNS, THIS_PROCESS, runs_of
from lgb_dp.vertical.party import ColumnParty
from lgb_dp.vertical.replica import ReplicaAnswers
from lgb_dp.vertical.report import Guarantees, MaskedTraffic
from lgb_dp.vertical.sums import OpenedSums, PointHolder, TableHolder
from lgb_dp.vertical.train import train
from lgb_dp.vertical.training import automatic_levels
from vertical_oracle import central_sums, central_training, centrally, inputs_of

pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")
rng = np.random.default_rng(7)
N = 701
X = rng.uniform(-1, 1, (N, 6))
X[:, 2] = rng.integers(0, 4, N)
X[rng.random(N) < 0.1, 4] = np.nan
SCORE = X[:, 0] + np.where(X[:, 2] == 1, 1.0, -0.3) + 1.5 * X[:, 3]
Y = (SCORE + rng.normal(0, 0.3, N) > 0).astype(float)
BOUNDS = {0: (-1, 1), 1: (-1, 1)}
OBJECTIVES = ["binary", "regression", "huber", "regression_l1", "quantile", "poisson"]


def own_rows(y=Y, **kw):
    known = {"bounds": BOUNDS, "categories": {2: range(4)}, "max_bin": 64, **kw}
    return lgb_dp.Dataset(X[:, :3], y, **known)


def bank(x=X[:, 3:], **kw):
    return ColumnParty(x, name="bank", **{"bounds": (-1, 1), "max_bin": 64, **kw})


def budget(epsilon=30.0, **kw):
    return lgb_dp.NewtonBoost(epsilon, 1e-5, **kw)


def trained(objective="binary", y=Y, n_rounds=6, dataset=None, party=None, callbacks=None, **kw):
    params = {"objective": objective, "num_threads": 1, **kw.pop("params", {})}
    data = dataset or own_rows(y, label_bounds=None if objective == "binary" else (0.0, 4.0))
    return train(params, data, n_rounds, parties=[party or bank()], callbacks=callbacks or [budget()], **kw)


@pytest.fixture
def inputs(monkeypatch):
    """Inputs of both parties to every attempt, as they drew them, by place."""
    drawn = {0: [], 1: []}
    for place, cls in enumerate((TableHolder, PointHolder)):

        def note(self, refresh, draws, made=cls.inputs, place=place):
            given = made(self, refresh, draws)
            if place == 0:  # tables are asked for again by the oracle
                whole = given.secret(0, N)
                given = type(given)(lambda a, b: whole[a:b], given.leaves, given.noise)
            drawn[place].append((refresh, given, threading.current_thread().name))
            return given

        monkeypatch.setattr(cls, "inputs", note)
    return drawn


@pytest.mark.parametrize(
    ("objective", "epsilon", "ring_bits"),
    [*((name, 30.0, 48) for name in OBJECTIVES), ("binary", 1e6, 64), ("poisson", 1e6, 64)],
)
def test_opened_sums_are_those_of_a_central_simulation_to_the_last_bit(
    objective, epsilon, ring_bits, inputs, monkeypatch
):
    """Next to no noise asks for finer steps than those that 48 bits have room for."""
    both = {0: [], 1: []}

    def note(self, asked, do=ReplicaAnswers.opened):
        sums = yield from do(self, asked)
        both[self.place].append(sums)
        return sums

    monkeypatch.setattr(ReplicaAnswers, "opened", note)
    y = Y if objective == "binary" else np.clip(SCORE + 1.5, 0.0, 4.0)
    trained(objective, y, callbacks=[budget(epsilon)])
    opened = both[0]
    assert [[one.tolist() for one in sums] for sums in both[1]] == [
        [one.tolist() for one in sums] for sums in opened
    ]
    assert len(opened) == len(inputs[0]) == len(inputs[1]) == 2
    assert {refresh.numbers.ring_bits for refresh, _, _ in inputs[0]} == {ring_bits}
    from vertical_oracle import SEATS

    for sums, (refresh, a, one), (_, b, other) in zip(opened, inputs[0], inputs[1], strict=True):
        assert one != other
        expected = list(central_sums(refresh.layout(SEATS, N), a, b))
        assert [words.tolist() for words in sums] == [words.tolist() for words in expected]


def test_trees_split_on_one_partys_columns_in_turn_and_stock_lightgbm_predicts():
    booster = trained(n_rounds=20)
    plain = lightgbm.Booster(model_str=booster.model_to_string())
    of_nodes = plain.trees_to_dataframe().dropna(subset=["split_feature"])
    features = of_nodes.groupby("tree_index")["split_feature"].agg(
        lambda names: {int(name.removeprefix("Column_")) >= 3 for name in names}
    )
    assert all(len(owners) == 1 for owners in features)
    assert [owners.pop() for owners in features.tolist()] == [False, True] * 10
    assert plain.predict(X) == pytest.approx(booster.predict(X))
    assert np.mean((booster.predict(X) > 0.5) == Y) > 0.75


def test_names_of_tables_are_those_of_both_parties_and_twins_get_the_partys_name():
    pandas = pytest.importorskip("pandas")
    own = pandas.DataFrame(X[:, :2], columns=["age", "income"])
    other = pandas.DataFrame(X[:, 3:], columns=["balance", "income", "debt"])
    data = lgb_dp.Dataset(own, Y, bounds=(-1, 1))
    booster = trained(dataset=data, party=bank(other))
    assert booster.feature_name() == ["age", "income", "balance", "bank.income", "debt"]
    both = pandas.concat([own, other.rename(columns={"income": "bank.income"})], axis=1)
    assert booster.predict(both) == pytest.approx(booster.predict(both[both.columns[::-1]]))


def test_gradients_of_a_round_are_of_the_model_before_it(inputs):
    trained(n_rounds=10, trees_per_round=3)
    rounds = [refresh for refresh, _, _ in inputs[0]]
    assert [len(one.trees) for one in rounds] == [3, 3, 3, 1]
    assert [len(one.released) for one in rounds] == [0, 3, 6, 9]
    assert [one.points[-1] > 0.1 for one in rounds] == [False, True, True, True]


def test_trees_of_the_square_loss_are_deep_where_their_leaves_stand_out_of_the_noise(inputs):
    """Deep are 4 levels; which of both follows from the released number of rows and public numbers."""
    cases = [("regression", 4.0, 4), ("binary", 4.0, 2), ("huber", 4.0, 2), ("regression", 0.5, 2)]
    for objective, epsilon, levels in cases:
        inputs[0].clear()
        y = Y if objective == "binary" else np.clip(SCORE + 1.5, 0.0, 4.0)
        trained(objective, y, callbacks=[budget(epsilon)])
        drawn = {len(tree.feature) for refresh, _, _ in inputs[0] for tree in refresh.trees}
        assert drawn == {2**levels - 1}, (objective, epsilon)


def test_levels_of_the_square_loss_follow_from_the_noise_of_one_tree():
    """A run of more trees has more noise in each, and the pooled trainer's levels."""
    enough = 24.0 / 0.01
    assert automatic_levels("regression", enough, 0.2, 0.01) == 4
    assert automatic_levels("regression", enough - 1, 0.2, 0.01) == 2
    assert automatic_levels("regression", enough, 0.25, 0.0099) == 3
    assert [automatic_levels("binary", n, 0.2, 0.1) for n in (2_999.0, 3_000.0, 10_000.0, 1e9)] == [
        2,
        3,
        4,
        4,
    ]


def test_the_level_of_predictions_is_not_released():
    """Its clip would need other steps and another ring."""
    released = {row["release"] for row in trained("poisson", n_rounds=4).privacy.ledger}
    assert "leaf sums" in released
    assert "sums over all rows" not in released


def test_every_tree_is_charged_for_and_the_plan_is_kept():
    report = trained(n_rounds=10).privacy
    counts = {row["release"]: row["count"] for row in report.ledger}
    assert counts["leaf sums"] == 10
    assert counts["label counts"] == 1
    assert report.private
    assert report.epsilon <= 30.0
    assert report.delta <= 1e-5


def test_the_report_states_the_limit_first_then_all_guarantees():
    notes = trained().privacy.notes
    assert "follow the protocol" in notes[0]
    assert "towards the world" in notes[1]
    assert "left out" in notes[2]
    assert "label unchanged" in notes[2]


def test_guarantees_follow_from_mu():
    from lgb_dp.accounting.gaussian import gaussian_epsilon

    of = Guarantees.of(0.3, 0.03, 0.0, 1e-5, is_binary=True)
    mu = np.hypot(0.3, 0.03)
    assert of.world == of.left_out == pytest.approx(gaussian_epsilon(mu, 1e-5))
    assert of.replaced == pytest.approx(gaussian_epsilon(np.hypot(0.6, np.sqrt(2) * 0.03), 1e-5))
    assert of.label_unchanged == pytest.approx(gaussian_epsilon(np.sqrt(2) * 0.3, 1e-5), rel=1e-6)
    other = Guarantees.of(0.3, 0.03, 0.0, 1e-5, is_binary=False)
    assert other.label_unchanged == pytest.approx(gaussian_epsilon(0.6, 1e-5), rel=1e-6)


def test_bytes_depend_on_public_numbers_alone():
    """Same sizes and layouts, other labels and columns: equal counts of messages and bytes."""
    counts = []
    for y, x in ((Y, X[:, 3:]), (1 - Y[::-1], np.zeros((N, 3)))):
        traffic = MaskedTraffic()
        trained(dataset=own_rows(y), party=bank(x), traffic=traffic, params={"max_depth": 3})
        counts.append(traffic.to_dicts())
    assert counts[0] == counts[1]
    assert {row["content"] for row in counts[0]} == {"masked"}
    assert {(row["from"], row["to"]) for row in counts[0]} == {("labels", "bank"), ("bank", "labels")}


def test_noise_of_leaf_sums_is_that_of_both_parties(monkeypatch):
    """Over many leaves of trees on rows whose gradients are known to be bounded, noise has variance 2 V."""
    seen = []

    def noted(asked):
        if not isinstance(asked, OpenedSums):
            return (yield from centrally(asked))
        layout, a, b = inputs_of(asked)
        numbers, with_noise = asked.refresh.numbers, list(central_sums(layout, a, b))
        for t, words in enumerate(with_noise):
            exact = (words - a.noise[t] - b.noise[t]) & np.uint64((1 << layout.ring_bits) - 1)
            got, bare = numbers.decoded(words)[0], numbers.decoded(exact)[0]
            seen.extend(((got - bare) / np.sqrt(2 * numbers.variances[0])).tolist())
        return with_noise

    params = {"objective": "binary", "num_threads": 1}
    central_training(params, own_rows(), 120, bank(), budget(1.0), 4, noted)
    assert len(seen) > 400
    assert np.mean(np.square(seen)) == pytest.approx(1.0, abs=4 * np.sqrt(2 / len(seen)))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"weight": np.ones(N), "weight_bound": 1.0}, "weight is not supported"),
        ({"groups": np.arange(N), "rows_per_group": 1}, "groups is not supported"),
        ({"init_score": np.zeros(N)}, "init_score is not supported"),
    ],
)
def test_rows_that_are_more_than_columns_and_labels_are_refused(change, match):
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=match):
        trained(dataset=own_rows(**change))


@pytest.mark.parametrize(
    ("setting", "value"),
    [("subsample", 0.5), ("structure", "random"), ("rounds", 50), ("hessian_share", 0.1)],
)
def test_settings_of_one_place_are_refused(setting, value):
    with pytest.raises(lgb_dp.UnsupportedParameterError, match=f"{setting}="):
        trained(callbacks=[budget(**{setting: value})])


def test_other_numbers_of_parties_and_rows_are_refused():
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="2 parties"):
        train({"objective": "binary"}, own_rows(), 4, parties=[bank(), bank()], callbacks=[budget()])
    with pytest.raises(lgb_dp.InvalidArgumentError, match="the same rows"):
        trained(party=bank(X[1:, 3:]))
    with pytest.raises(lgb_dp.ArgumentTypeError, match="labels and weights"):
        bank(weight=np.ones(N))
    public = pytest.raises(lgb_dp.InvalidArgumentError, match="must be public")
    with public, pytest.warns(lgb_dp.PrivacyLeakWarning):
        trained(dataset=own_rows(bounds=None))
    with pytest.raises(lgb_dp.InvalidArgumentError, match="must be public"):
        bank(bounds=None)


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"learning_rate": 0.5}, "must be at most 0.375"),
        ({"max_depth": 7}, "must be at most 6"),
        ({"objective": "multiclass", "num_class": 3}, "multiclass"),
    ],
)
def test_parameters_that_do_not_go_with_rounds_are_refused(params, match):
    with pytest.raises(lgb_dp.PrivateTrainingError, match=match):
        trained(params=params)


@pytest.mark.parametrize("signs", [[1, 0], [0, 0], [1] + [0] * 6])
def test_settings_that_the_host_refuses_are_refused_by_name_before_a_run_is_kept(signs):
    """Before, LightGBM's own error came after both had signed, and the checkpoint was of that run."""
    party = bank(folder=None)
    with pytest.raises(PartyRefusedError, match="monotone_constraints"):
        trained(params={"monotone_constraints": signs}, party=party)
    (ledger,) = party.runs_apart.values()
    assert not runs_of(ledger.store, THIS_PROCESS).keys(RUNS)


def test_settings_of_a_run_are_refused_before_the_other_party_is_asked(tmp_path):
    """Before, the checkpoint was already that of the refused run."""
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"learning_rate=0\.9"):
        trained(params={"learning_rate": 0.9}, checkpoint=tmp_path)
    assert not list(tmp_path.iterdir())
    trained(n_rounds=2, checkpoint=tmp_path)


def test_monotone_constraints_hold_within_either_partys_columns():
    constraints = [1, 0, 0, 1, 0, 0]
    booster = trained(n_rounds=40, params={"monotone_constraints": constraints})
    for f in (0, 3):
        rows = np.repeat(X[:20], 30, axis=0)
        rows[:, f] = np.tile(np.linspace(-1, 1, 30), 20)
        assert (np.diff(booster.predict(rows, raw_score=True).reshape(20, 30), axis=1) >= -1e-12).all()


def test_an_error_of_one_party_ends_the_run_of_both(monkeypatch):
    def fail(self, refresh, draws):
        raise RuntimeError("no points today")

    monkeypatch.setattr(PointHolder, "inputs", fail)
    with pytest.raises(RuntimeError, match="no points today"):
        trained()


def test_sums_out_of_range_are_refused(monkeypatch):
    """A party that adds what no honest one adds."""
    made = PointHolder.inputs

    def wrong(self, refresh, draws):
        given = made(self, refresh, draws)
        given.noise[0][:] = np.uint64(2**64 - 2**22)  # a negative sum of hessians
        return given

    monkeypatch.setattr(PointHolder, "inputs", wrong)
    with pytest.raises(ProtocolError, match="range"):
        trained()


def test_fewer_trees_than_a_round_has_are_one_round():
    assert trained(n_rounds=2).num_trees() == 2


def test_parties_with_other_releases_of_numpy_agree_on_rounds(inputs):
    """NumPy 2 writes its floats in another way than NumPy 1, and than Python."""
    trained(n_rounds=2, trees_per_round=2)
    ours, _, _ = inputs[0][0]
    for of in (float, np.float64):
        numbers = replace(ours.numbers, mu=of(ours.numbers.mu), max_rows=np.int64(ours.numbers.max_rows))
        theirs = replace(ours, prior=of(ours.prior), clip=of(ours.clip), numbers=numbers)
        assert theirs.digest == ours.digest
    for change in ({"prior": 0.25}, {"clip": 0.5}, {"number": 1}, {"owners": (1, 1)}):
        assert replace(ours, **change).digest != ours.digest
