"""Private training across parties: the model, its guarantee, and what is refused before anything leaves."""

import math
import re
import warnings
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest

import lgb_dp
from disturbed import Between, lost
from federated_training import BINARY, BOUNDS, DELTA, X, Y, charges, parties, party, rows_of, train
from gbdt_hosts.lightgbm import tree_blocks
from gbdt_parties.errors import PartyRefusedError, ProtocolError
from gbdt_parties.messages import read, write
from gbdt_parties.secure_sum.messages import AskSum, Contributed, FinishedModel, OpenRun
from gbdt_parties.traffic import Traffic
from lgb_dp import federated
from lgb_dp.accounting.gaussian import gaussian_epsilon
from lgb_dp.accounting.shares import share_variance
from lgb_dp.federated import replica
from lgb_dp.federated.coordinator import n_attempts
from lgb_dp.federated.task import MAX_ATTEMPTS
from lgb_dp.mechanisms import rng as rng_module
from lgb_dp.mechanisms.noise import observed
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.budget_plan import HISTOGRAM_SHARE, LEVEL_SHARE, PRIOR_SHARE
from lgb_dp.newton.releases.held_out_rows import HoldOut
from lgb_dp.newton.run_task import LONGEST_ROUND, Answer, RunTask
from lgb_dp.newton.splits.feature_histograms import FeatureHistograms

KEY = bytes(range(32))
MULTICLASS = {**BINARY, "objective": "multiclass", "num_class": 3}
LABELS = {
    "binary": Y,
    "multiclass": np.digitize(X[:, 0], [-0.3, 0.3]).astype(float),
    "regression": X[:, 0],
    "poisson": np.floor(2 + 2 * X[:, 0]),
    lgb_dp.AFT("normal"): np.rec.fromarrays([Y > 0, 2 + X[:, 0]], names=["event", "time"]),
}
LABEL_BOUNDS = {"regression": (-1, 1), "poisson": (0, 4), lgb_dp.AFT("normal"): (0.5, 3)}


@pytest.fixture(scope="module")
def booster():
    return train(parties(), 20)


def test_the_model_is_a_native_one_that_has_learned(booster):
    plain = lgb.Booster(model_str=booster.model_to_string())
    assert plain.num_trees() == 20
    assert np.mean((booster.predict(X) > 0.5) == Y) > 0.75


def test_the_guarantee_states_unit_and_views(booster):
    report = lgb_dp.privacy_of(booster.model_to_string())
    assert report.private
    assert 49.999 < report.epsilon <= 50.0
    assert report.delta <= DELTA
    assert report.neighbouring == "add or remove one row at one party"
    views = next(note for note in report.notes if note.startswith("views"))
    outside = gaussian_epsilon(report.cost.mu * math.sqrt(2 / 3), DELTA)
    shown = [float(epsilon) for epsilon in re.findall(r"epsilon = (\S+), delta = 1e-05", views)]
    assert shown == pytest.approx([outside, report.epsilon], rel=1e-5)
    assert [row["count"] for row in report.ledger if row["release"] == "leaf sums"] == [20]


def test_a_person_at_several_parties_costs_as_often():
    report = train(parties(), 2, parties_per_person=2, colluding=2, min_parties=3).privacy
    assert report.neighbouring == "add or remove one row at each of up to 2 parties"
    once = train(parties(), 2).privacy
    assert report.cost.mu == pytest.approx(once.cost.mu)
    assert report.ledger[1]["mu"] == pytest.approx(once.ledger[1]["mu"] / 2)
    assert "one party alone, which knows its own noise" in str(report)


class PinnedNoise:
    """The same total noise wherever the rows are: the first party adds it, the others add none."""

    def __init__(self):
        self.stream, self.first = np.random.default_rng(3), None

    def share(self, private, release):
        """As the observer of releases at parties; the name of the party that is asked is in `first`."""
        noise = self.noise(private.values.shape) if self.first else 0
        return private.values + noise

    def noise(self, shape):
        return self.stream.integers(-3000, 3000, shape)


def test_rows_are_held_out_alike_wherever_they_are(monkeypatch):
    monkeypatch.setattr("lgb_dp.newton.core.distilled_depth", lambda *_: (3, False))
    monkeypatch.setattr("lgb_dp.newton.core.can_hold_out", lambda *_: True)
    check_model_of_pooled_rows("binary", 2, monkeypatch)


def test_thresholds_are_drawn_alike_wherever_the_rows_are(monkeypatch):
    monkeypatch.setattr("lgb_dp.newton.core.MIN_ROWS_OVER_STD", 0.0)
    monkeypatch.setattr("lgb_dp.newton.core.features_with_many_bins", lambda bins: bins.n_bins > 2)
    monkeypatch.setattr("lgb_dp.newton.splits.feature_histograms.CELLS_PER_FEATURE", 2)
    asked = []
    weights = FeatureHistograms.threshold_weights
    monkeypatch.setattr(
        FeatureHistograms, "threshold_weights", lambda self: asked.append(weights(self)) or asked[-1]
    )
    check_model_of_pooled_rows("binary", 5, monkeypatch)
    assert len(asked) == 6
    assert {tuple(w) for w in asked[0]} != {tuple(np.ones(7))}
    for other in asked[1:]:
        np.testing.assert_array_equal(asked[0], other)


@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression"])
def test_rows_that_train_nothing_are_counted_as_of_pooled_rows(objective, monkeypatch):
    divided = HoldOut.divided

    def by_codes(self, is_held, codes, label, weight):
        return divided(self, codes.codes.sum(axis=1, dtype=int) % 3 == 0, codes, label, weight)

    monkeypatch.setattr(HoldOut, "divided", by_codes)
    check_model_of_pooled_rows(objective, 3, monkeypatch, held=0.3)


def test_a_run_with_held_out_rows_costs_no_more_and_tells_parties_apart():
    members = parties()
    found, plain = train(members, 6, held=0.3), train(parties(), 6)
    assert found.privacy.cost.mu == pytest.approx(plain.privacy.cost.mu)
    assert found.evaluation.n_rows.value == pytest.approx(0.3 * len(X), abs=40)
    for member in members:
        costs = {True: 0.0, False: 0.0}
        for charge in charges(member):
            costs[charge["what"] == "held-out rows"] += charge["mu"] ** 2
        assert min(costs.values()) > 0
        assert max(costs.values()) <= found.privacy.cost.mu**2 * (1 + 1e-9)


def check_model_of_pooled_rows(objective, n_parties, monkeypatch, per_round=1, held=0.0):
    """The trees across parties are those of pooled rows; gives the number of sums that were asked for."""
    params = MULTICLASS if objective == "multiclass" else {**BINARY, "objective": objective}
    y, label_bounds = LABELS[objective], LABEL_BOUNDS.get(objective)
    settings = {} if label_bounds is None else {"label_bounds": label_bounds}
    monkeypatch.setattr(SecureRandom, "public", classmethod(lambda cls, key: _public(KEY)))
    pinned = PinnedNoise()

    def is_first(place):
        def disturb(number, message, send):
            pinned.first = isinstance(message, AskSum) and place == 0
            return send()

        return disturb

    members = [
        Between(party(place, n_parties, y=y[rows_of(place, n_parties)], **settings), is_first(place))
        for place in range(n_parties)
    ]
    with observed(pinned.share):
        across = train(members, 12, params, trees_per_round=per_round, held=held)
    n_sums = sum(isinstance(asked, AskSum) for asked, _ in members[0].answers)

    pooled_noise = PinnedNoise()

    def with_noise(question):
        yield from ()
        std = question.parts[0][1]
        factor = math.sqrt(n_parties * share_variance(std, n_parties, 1)) / std
        return Answer([part[0] + pooled_noise.noise(part[0].shape) for part in question.parts], factor)

    rate = math.inf if per_round == 1 else LONGEST_ROUND / per_round
    coins = SecureRandom()
    of_rows = {"validation_fraction": held, "coins": coins}
    run = RunTask(n_trees=12, trees_per_round=per_round, largest_rate=rate, ask=with_noise, **of_rows)
    monkeypatch.setattr("lgb_dp.newton.trainer.RunTask", lambda **_: run)
    monkeypatch.setattr(rng_module, "KeyStream", lambda key: _key_stream(KEY))
    data = lgb_dp.Dataset(X, y, bounds=BOUNDS, max_bin=8, spacing="mixed", label_overflow="clip", **settings)
    less = 1 - 1e-9
    rounds = n_attempts(12, per_round)
    trainer = lgb_dp.NewtonBoost(50.0 * less, DELTA * less, rounds=rounds)
    pooled = lgb.train({**params, "verbosity": -1}, data, 12, callbacks=[trainer])
    found = {row["release"] for row in across.privacy.ledger}
    assert ("sums over all rows" in found) == (objective not in ("binary", "multiclass"))
    blocks = tree_blocks(across.model_to_string())
    assert blocks == tree_blocks(pooled.model_to_string())
    assert len(set(blocks)) > 6
    assert (across.evaluation is not None) == (held > 0)
    if held:
        assert across.evaluation.to_dict() == pooled.evaluation.to_dict()
    return n_sums


@pytest.mark.parametrize("objective", ["binary", "multiclass", "regression", "poisson", lgb_dp.AFT("normal")])
@pytest.mark.parametrize("n_parties", [pytest.param(2, marks=pytest.mark.slow), 5])
def test_the_same_noise_gives_the_model_of_pooled_rows_to_the_byte(objective, n_parties, monkeypatch):
    check_model_of_pooled_rows(objective, n_parties, monkeypatch)


@pytest.mark.parametrize("objective", ["binary", "multiclass"])
def test_trees_of_one_round_share_a_message_and_give_the_model_of_pooled_rows(objective, monkeypatch):
    n_sums = check_model_of_pooled_rows(objective, 2, monkeypatch, per_round=4)
    assert n_sums == 1 + 3 + 1, "label counts, twelve trees, and the question that finds no more"


def test_each_tree_of_a_round_is_charged_for(tmp_path):
    members = [party(place, folder=tmp_path / str(place)) for place in range(3)]
    booster = train(members, 7, trees_per_round=3)
    assert booster.num_trees() == 7
    (mu,) = {row["mu"] for row in booster.privacy.ledger if row["release"] == "leaf sums"}
    assert sum(row["count"] for row in booster.privacy.ledger if row["release"] == "leaf sums") == 7
    for member in members:
        notes = [entry for entry in charges(member)]
        charged = [note["mu"] for note in notes if note["what"] == "leaf sums"]
        assert charged == pytest.approx([mu * 3**0.5, mu * 3**0.5, mu])


def test_a_party_that_is_lost_in_a_round_of_several_trees_leaves_enough_for_the_others():
    def disturb(number, message, send):
        gone.extend([message] if isinstance(message, AskSum) and message.round == 1 else [])
        return lost() if gone else send()

    gone, members = [], parties(4)
    members[3] = Between(members[3], disturb)
    booster = train(members, 6, trees_per_round=3, min_parties=3)
    assert gone
    assert booster.num_trees() == 6


def test_noise_is_planned_for_whole_rounds_beyond_the_trees():
    assert [n_attempts(n, 1) for n in (1, 20, 21, 100)] == [2, 22, 23, 106]
    assert [n_attempts(n, 7) for n in (7, 20, 200)] == [14, 27, 214]
    assert n_attempts(99_999, 7) == MAX_ATTEMPTS
    assert n_attempts(10**6, 1) == 10**6  # refused with the number that was given


def test_spare_attempts_pay_for_any_release_once_more():
    """Trees share what is left of μ² by the dearest run, which has the histograms and the last release."""
    trees = 1 - PRIOR_SHARE - HISTOGRAM_SHARE - LEVEL_SHARE
    for n_rounds in range(1, 3000):
        attempts = n_attempts(n_rounds, 1)
        assert (attempts - n_rounds) * trees / attempts >= HISTOGRAM_SHARE


@pytest.mark.parametrize(
    ("objective", "what"),
    [
        ("binary", "held-out rows"),
        pytest.param("binary", "label counts", marks=pytest.mark.slow),
        ("binary", "feature histograms"),
        pytest.param("poisson", "feature histograms", marks=pytest.mark.slow),
        ("poisson", "sums over all rows"),
    ],
)
def test_a_party_that_is_lost_in_a_release_that_is_no_tree_leaves_enough_for_the_others(objective, what):
    rng, failed = np.random.default_rng(1), []

    def lose(number, message, send):
        answer = send()
        answered = charges(member.party)
        if isinstance(message, AskSum) and answered[-1]["what"] == what and len(failed) < 2:
            failed.append(number)  # twice, since it is asked once more at once
            lost()
        return answer

    def made(place):
        features = rng.uniform(-1, 1, (2000, 3))
        label = rng.poisson(np.exp(features[:, 0])) if objective == "poisson" else features[:, 0] > 0
        bounds = (0, 10) if objective == "poisson" else None
        return party(place, X=features, y=label.astype(float), label_bounds=bounds, max_bin=64)

    first, second, member = made(0), made(1), Between(made(2), lose)
    held = 0.2 if what == "held-out rows" else 0.0
    train([first, second, member], 100, {**BINARY, "objective": objective}, 8.0, min_parties=2, held=held)
    answered = [one["what"] for one in charges(first)]
    assert answered.count(what) == (3 if held else 2)
    assert answered.count("leaf sums") == 100


def test_a_learning_rate_that_trees_of_one_round_would_overshoot_with_is_refused():
    with pytest.raises(PartyRefusedError, match=r"learning_rate=0\.4.*0\.375"):
        train(parties(), 8, {**BINARY, "learning_rate": 0.4}, trees_per_round=4)
    assert train(parties(), 8, {**BINARY, "learning_rate": 0.3}, trees_per_round=4).num_trees() == 8


_key_stream = rng_module.KeyStream


def _public(key):
    random = SecureRandom()
    random.stream = _key_stream(key)
    return random


def test_noise_at_a_party_has_the_variance_of_its_share():
    seen = []

    def note(private, release):
        seen.append((private.mechanism, private.scale))
        return release()

    with observed(note):
        booster = train(parties(), 2, colluding=2, min_parties=3)
    assert {mechanism for mechanism, _ in seen} == {"discrete Gaussian"}
    mu = next(row["mu"] for row in booster.privacy.ledger if row["release"] == "leaf sums")
    planned = 1.0 * 2**14 / mu  # steps times the clip, which is 1 at such an ε
    assert {round(scale / planned, 3) for _, scale in seen[3::2]} == {1.0}, "all but two of three parties"


def test_a_contribution_is_small_and_says_nothing_by_itself():
    traffic, members = Traffic(), [Between(one) for one in parties()]
    train(members, 10, {**BINARY, "max_depth": 4}, traffic=traffic)
    up = [row for row in traffic.to_dicts() if row["message"] == "Contributed" and row["from"] == "ada"]
    assert up[0]["bytes"] / up[0]["count"] < 390
    contents = [a.content for asked, a in members[0].answers if isinstance(a, Contributed) and a.content]
    values = np.concatenate([np.frombuffer(c[12:-64], dtype=np.uint64) for c in contents])
    assert (values >> np.uint64(63)).mean() == pytest.approx(0.5, abs=0.2)


# Bad input.


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("columns", {"feature_name": ["a", "b", "d"]}),
        ("columns", {"X": X[:100, :2], "y": Y[:100]}),
        ("types", {"categories": {2: [0, 1]}, "X": np.round(X[:100] ** 2), "y": Y[:100]}),
        ("bounds", {"bounds": (-1.0, 1.5)}),
        ("bounds", {"max_bin": 9}),
        ("label_bounds", {"label_bounds": (0, 2)}),
        ("weight_bound", {"weight": np.ones(120), "weight_bound": 1.0}),
        ("groups", {"groups": np.arange(120), "rows_per_group": 1}),
    ],
)
def test_parties_that_differ_are_named_before_anything_leaves(part, other):
    members = [Between(party(0)), Between(party(1)), Between(party(2, **other))]
    with pytest.raises(lgb_dp.PartiesDifferError, match=f"{part}.*'ada' and 'cyd' differ"):
        train(members)
    assert [member.calls for member in members] == [1, 1, 1]


def test_a_party_told_other_settings_than_the_roster_is_for_refuses():
    def smaller_epsilon(number, message, send):
        if isinstance(message, OpenRun):
            return send(
                replace(message, request=message.request.replace('"epsilon": 50.0', '"epsilon": 5.0'))
            )
        return send()

    members = [Between(party(0), smaller_epsilon), party(1), party(2)]
    with pytest.raises(PartyRefusedError, match="for other settings"):
        train(members)


def test_one_party_where_several_are_demanded():
    with pytest.raises(lgb_dp.InvalidArgumentError, match="1 parties; at least 2"):
        train([party()])
    with pytest.raises(lgb_dp.InvalidArgumentError, match="2 parties; at least 3"):
        train(parties(2), min_parties=3)
    with pytest.raises(PartyRefusedError, match="at least 3"):
        train([party(0, min_parties=3), party(1)])
    with pytest.raises(PartyRefusedError, match=r"at most 1.*demands 2"):
        train([party(0), party(1), party(2, colluding=2)])


def test_two_parties_are_warned():
    trainer = lgb_dp.NewtonBoost(50.0, DELTA)
    members = parties(2)
    with pytest.warns(lgb_dp.FewPartiesWarning, match="two parties"):
        federated.train(BINARY, members, 1, callbacks=[trainer])


@pytest.mark.parametrize(
    ("callbacks", "error"),
    [
        ([], "one NewtonBoost, got 0"),
        ([lgb_dp.NewtonBoost(1.0, DELTA)] * 2, "one NewtonBoost, got 2"),
        ([lgb_dp.DPBoost(1.0)], "a DPBoost"),
        ([lgb_dp.NewtonBoost(1.0, DELTA, subsample=0.5)], "subsample=0.5"),
        ([lgb_dp.NewtonBoost(1.0, DELTA, rounds=50)], "max_attempts"),
        ([lgb_dp.NewtonBoost(1.0, DELTA, budget=lgb_dp.Budget(1.0, 1e-5))], "budget="),
        ([lgb_dp.NewtonBoost(math.inf, DELTA)], "epsilon must be finite"),
    ],
)
def test_callbacks_that_cannot_be_honoured(callbacks, error):
    with pytest.raises(lgb_dp.PrivateTrainingError, match=error):
        federated.train(BINARY, parties(), 3, callbacks=callbacks)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"colluding": 0}, "colluding"),
        ({"colluding": 3}, "3 parties; at least 4"),
        ({"min_parties": 1}, "min_parties"),
        ({"max_attempts": 3}, "max_attempts"),
        ({"parties_per_person": 0}, "parties_per_person"),
        ({"params": {"objective": len}}, "no functions"),
    ],
)
def test_arguments_out_of_range(settings, error):
    with pytest.raises(lgb_dp.PrivateTrainingError, match=error):
        train(parties(), **settings)


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"machines": "10.0.0.1:1234", "num_machines": 2}, "num_machines|machines"),
        ({"input_model": "/etc/passwd"}, "input_model"),
        ({"objective": "multiclass", "num_class": 257}, "at most 256"),
    ],
)
def test_parameters_are_checked_before_lightgbm_sees_them(params, error, monkeypatch):
    monkeypatch.setattr(replica, "check_parameters", None)
    with pytest.raises(PartyRefusedError, match=error):
        train(parties(), params={**BINARY, **params})


def test_parameters_that_private_training_refuses_are_refused_by_a_party():
    with pytest.raises(PartyRefusedError, match=r"bagging_fraction=0\.5"):
        train(parties(), params={**BINARY, "bagging_fraction": 0.5})


def test_bounds_read_from_the_data_are_refused():
    warnings.simplefilter("ignore", lgb_dp.PrivacyLeakWarning)  # until the end of this test
    with pytest.raises(lgb_dp.InvalidArgumentError, match="must be public"):
        party(0, bounds=None)
    with pytest.raises(lgb_dp.ArgumentTypeError, match="no argument 'init_score'"):
        party(0, init_score=Y[:120])


def test_tables_train_too():
    def table(rows):
        return pd.DataFrame({"a": X[rows, 0], "b": X[rows, 1], "kind": np.where(X[rows, 2] > 0, "x", "y")})

    settings = {"bounds": {"a": (-1, 1), "b": (-1, 1)}, "categories": {"kind": ["x", "y"]}}
    members = [party(place, X=table(rows_of(place, 3)), **settings) for place in range(3)]
    booster = train(members, 5)
    assert booster.predict(table(slice(None)).iloc[:, ::-1]).shape == Y.shape


def test_a_party_with_another_model_is_noticed():
    def another(number, message, send):
        answer = read(send())
        if isinstance(answer.message, FinishedModel):
            return write(answer.session, answer.sequence, replace(answer.message, digests=bytes(32)))
        return write(answer.session, answer.sequence, answer.message)

    with pytest.raises(ProtocolError, match="party 'cyd' has another"):
        train([party(0), party(1), Between(party(2), another)], 2)


def test_parties_with_other_releases_of_numpy_ask_the_same():
    """NumPy 2 writes its floats in another way than NumPy 1, and than Python."""
    ours, theirs = (
        replica.NoisedQuestion("leaf sums", b"", (np.zeros(2, dtype=np.int64),), (of(0.1),), 0.1, 5)
        for of in (float, np.float64)
    )
    assert ours.parts == theirs.parts != replace(ours, stds=(0.2,)).parts
