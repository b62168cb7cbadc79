"""Several classes with columns apart: a run for each against the others, which share one budget."""

import json
import re
from fractions import Fraction

import lightgbm
import numpy as np
import pytest
from scipy.special import expit

import lgb_dp
from columns_apart import CLASSES, OF_CLASSES, N, X, bank, inputs_drawn, own_rows, text_of, trained
from gbdt_hosts.lightgbm import tree_blocks, tree_fields
from gbdt_parties.errors import PartyRefusedError
from gbdt_parties.run.flights.terms import attempts_at
from lgb_dp.accounting.gaussian import gaussian_epsilon, gaussian_mu
from lgb_dp.accounting.ledger import Ledger
from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.accounting.shares import CLOSENESS_SHARE
from lgb_dp.federated.ledger import read_ledger
from lgb_dp.newton.budget_plan import BudgetPlan
from lgb_dp.vertical import predict, replay
from lgb_dp.vertical.columns import declaration
from lgb_dp.vertical.replica import ReplicaAnswers
from lgb_dp.vertical.report import MaskedTraffic
from lgb_dp.vertical.sums import OneAgainstRest, ReleasedCounts, TableHolder
from lgb_dp.vertical.task import MAX_CLASSES, ColumnTask
from lgb_dp.vertical.training import RunOfParties
from predicted_parties import model_of
from vertical_oracle import SEATS, central_sums, central_training, centrally

pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")
K = 3


def model(party=None, n_trees=4, **kw):
    return trained(party or bank(), n_trees, params=OF_CLASSES, y=kw.pop("y", CLASSES), **kw)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of both parties: its model, their folders, the inputs to every round, and all opened sums."""
    folder = tmp_path_factory.mktemp("classes")
    with pytest.MonkeyPatch.context() as patch:
        drawn, opened, targets = inputs_drawn(patch), {0: [], 1: []}, []

        def note(self, asked, do=ReplicaAnswers.opened):
            sums = yield from do(self, asked)
            opened[self.place].append((asked.refresh.number, [one.tolist() for one in sums]))
            return sums

        def holder(self, rows, label, loss, scale, do=TableHolder.__init__):
            targets.append(label)
            do(self, rows, label, loss, scale)

        patch.setattr(ReplicaAnswers, "opened", note)
        patch.setattr(TableHolder, "__init__", holder)
        party = bank(folder=folder / "bank", auditable=True)
        booster = model(party, checkpoint=folder / "labels", auditable=True)
        party.close()
    return booster, folder, drawn, opened, targets


def test_sums_of_every_class_are_those_of_a_central_simulation_to_the_last_bit(run):
    _, _, drawn, opened, _ = run
    assert opened[0] == opened[1]
    assert [number for number, _ in opened[0]] == list(range(2 * K))
    for number, sums in opened[0]:
        (refresh, a), (_, b) = (drawn[place][number] for place in (0, 1))
        assert sums == [one.tolist() for one in central_sums(refresh.layout(SEATS, N), a, b)]


def test_every_class_is_told_from_all_others(run):
    targets = run[-1]
    assert [one.tolist() for one in targets] == [(k == CLASSES).astype(float).tolist() for k in range(K)]
    turn, labels = OneAgainstRest(1, K), np.array([0.0, 1.0, 2.0, 3.0, 0.5, -1.0, np.nan])
    np.testing.assert_array_equal(turn.labels(labels), [0.0, 1.0, 0.0, *[np.nan] * 4])


def test_gradients_are_of_the_score_of_the_class_alone(run):
    """Trees of the model, and those of a round, are of the class whose turn it was."""
    booster, _, drawn, _, _ = run
    blocks = [tree_fields(block) for block in tree_blocks(text_of(booster))]
    for number in range(2 * K):
        refresh, of_class = drawn[0][number][0], blocks[number % K :: K]
        first = 2 * (number // K)
        assert len(refresh.released) == first
        for one, tree in zip(refresh.released[1:], of_class[1:], strict=False):
            np.testing.assert_array_equal(np.sort(one.value[:, 0]), np.sort(tree.leaf_value))
        for public, tree in zip(refresh.trees, of_class[first:], strict=False):
            assert sorted(public.feature.tolist()) == sorted(tree.feature.tolist())


def test_structures_of_classes_have_streams_of_their_own():
    whole = RunOfParties((1.0, 1e-5), 2, 4, bytes(32), 1, None, iter(()))
    seeds = {whole.of_class(OneAgainstRest(k, K)).public_seed for k in range(K)}
    assert len(seeds | {whole.public_seed}) == K + 1


def test_the_model_is_lightgbms_own_of_one_against_rest(run):
    booster = run[0]
    plain = lightgbm.Booster(model_str=text_of(booster))
    assert "objective=multiclassova num_class:3 sigmoid:1" in text_of(booster)
    assert (plain.num_trees(), plain.num_model_per_iteration()) == (4 * K, K)
    raw = plain.predict(X, raw_score=True)
    np.testing.assert_allclose(plain.predict(X), expit(raw), rtol=1e-12)
    np.testing.assert_array_equal(booster.predict(X), plain.predict(X))
    many = np.tile(X, (40, 1))
    np.testing.assert_array_equal(booster.predict(many), plain.predict(many))
    assert lgb_dp.privacy_of(plain) == booster.privacy


def test_both_ledgers_have_every_charge_once_and_the_budget_of_all_classes(run):
    """What all attempts may cost is the μ of the ε and δ that were asked for."""
    booster, folder, *_ = run
    labels, other = (read_ledger(folder / name) for name in ("labels", "bank"))
    assert {row["release"]: row["answers"] for row in labels.rows} == {"label counts": K, "leaf sums": 2 * K}
    assert {row["release"]: row["answers"] for row in other.rows} == {"leaf sums": 2 * K}
    assert (labels.epsilon, labels.delta) == (other.epsilon, other.delta) == (30.0, 1e-5)
    mu = {row["release"]: row["mu"] for row in labels.rows}
    # Of two rounds of a class there may be seven attempts.
    whole = np.sqrt(mu["label counts"] ** 2 + 7 / 2 * mu["leaf sums"] ** 2)
    assert whole == pytest.approx(gaussian_mu(*(x * (1 - CLOSENESS_SHARE) for x in (30.0, 1e-5))), rel=1e-9)
    report = booster.privacy
    assert report.private
    assert 30.0 * (1 - 1e-6) < report.epsilon <= 30.0
    assert report.delta <= 1e-5
    counts = {row["release"]: row["count"] for row in report.ledger}
    assert counts == {"noise in integers": K, "label counts": K, "leaf sums": 4 * K}
    spent = np.sqrt(mu["label counts"] ** 2 + mu["leaf sums"] ** 2)
    assert report.spent[0] == pytest.approx(gaussian_epsilon(spent, 1e-5), rel=1e-6)


def test_an_auditor_repeats_the_runs_of_all_classes(run):
    for name, rows in (("labels", own_rows(y=CLASSES)), ("bank", X[:, 2:])):
        report = replay(run[1] / name, rows)
        assert report.difference is None
        assert (report.has_ended, report.rounds, report.attempts) == (True, 2 * K, 2 * K)


def test_guarantees_are_those_of_all_classes_together(run):
    """With its label unchanged, a replaced row costs √2·μ of all trees: each run keeps the sign of its g."""
    notes = run[0].privacy.notes
    assert "follow the protocol" in notes[0]
    mu = gaussian_mu(30.0, 1e-5)
    unchanged = gaussian_epsilon(np.sqrt(2 * 0.99) * mu, 1e-5)
    assert "towards the world, one row of the joined table added or removed: epsilon = 30, delta" in notes[1]
    assert float(re.search(r"label unchanged: epsilon = (\S+),", notes[2])[1]) == pytest.approx(
        unchanged, rel=1e-5
    )


@pytest.mark.parametrize("n_classes", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("n_trees", [1, 3, 40, 203])
def test_noise_is_planned_for_every_attempt_of_every_class(n_classes, n_trees):
    """Σμ² of all plans is at most that of the whole; attempts that are spare may all be of one class."""
    params = {"objective": "binary"}
    if n_classes > 1:
        params = {"objective": "multiclassova", "num_class": n_classes}
    task = task_of(params, n_trees=n_trees)
    assert task.n_rounds == n_classes * -(-n_trees // task.per_round)
    assert attempts_at(task.n_rounds) * task.per_round <= task.n_planned
    settings, n_planned = task.trainer_settings(), task.trainer_settings()["rounds"]
    for has_histograms in (False, True):
        ledger = Ledger()
        of_run = (ledger, settings["epsilon"], settings["delta"], n_planned, 1.0)
        plan = BudgetPlan(*of_run, may_need_histograms=True, n_runs=n_classes)
        ledger.charge(plan.counts)
        if has_histograms:
            plan.charge_histograms()
        mus = [plan.counts.mu, *[plan.tree.mu] * n_planned, *[plan.histograms.mu] * has_histograms]
        cost = n_classes * sum(Fraction(mu) ** 2 for mu in mus)
        assert (1 - 1e-9) * task.granted**2 < cost <= Fraction(task.granted) ** 2


def task_of(params, n_trees=4):
    settings = {"epsilon": 1.0, "delta": 1e-5, "depth": "auto", "gradient_clip": "auto"}
    return ColumnTask("labels", params, settings, n_trees, min(4, n_trees), N, None, declaration(bank().bins))


def test_a_fit_beyond_the_budget_is_refused_before_anything_leaves(tmp_path):
    """The budget would do for two of the three classes."""
    traffic, party = MaskedTraffic(), bank(folder=tmp_path / "bank", budget=(25.0, 1e-5))
    with pytest.raises(PartyRefusedError, match="of the party's budget"):
        model(party, traffic=traffic, checkpoint=tmp_path / "labels")
    party.close()
    assert traffic.flows == {}
    assert read_ledger(tmp_path / "bank").rows == []
    assert not (tmp_path / "bank" / "models").exists()


def test_a_party_has_budget_for_as_many_fits_as_it_says(tmp_path):
    party = bank(folder=tmp_path / "bank", budget=(30.5, 1e-5))
    model(party)
    with pytest.raises(PartyRefusedError, match="of the party's budget"):
        model(party)
    party.close()


def test_rows_without_a_class_count_in_no_run():
    """The counts of labels that each run would release, before noise."""
    seen = []

    def noted(asked):
        if isinstance(asked, ReleasedCounts) and asked.release.what == "label counts":
            seen.append(asked.sums.tolist())
        return centrally(asked)

    y = CLASSES.copy()
    y[:7], y[7:10] = np.nan, 5.0
    data = lgb_dp.Dataset(X[:, :2], y, bounds=(-1, 1), max_bin=64, label_overflow="clip")
    central_training(OF_CLASSES, data, 2, bank(), lgb_dp.NewtonBoost(30.0, 1e-5), 2, noted)
    numbers = [np.sum(y == k) for k in range(K)]
    unit = sum(seen[0]) // (N - 10)
    assert seen == [[unit * int(sum(numbers) - one), unit * int(one)] for one in numbers]


def test_declarations_are_paid_for_once():
    """Each class's run reads them; together with the runs they cost what they would with two classes."""
    paid = PrivacyReport(0.5, 0.0, True, (), ("a note",), ())
    data = lgb_dp.Dataset(X[:, :2], CLASSES, bounds=(-1, 1), max_bin=64, paid_for=[paid])
    newton = lgb_dp.NewtonBoost(30.0, 1e-5)
    report = lgb_dp.vertical.train(OF_CLASSES, data, 2, parties=[bank()], callbacks=[newton]).privacy
    assert report.cost.epsilon == pytest.approx(0.5, abs=1e-6)
    assert report.epsilon == pytest.approx(30.5, rel=1e-6)
    assert sum("a note" in note for note in report.notes) == 1


def test_messages_depend_on_public_numbers_alone():
    counts = []
    for y, x in ((CLASSES, X[:, 2:]), (np.zeros(N), np.zeros((N, 2)))):
        traffic = MaskedTraffic()
        model(bank(x=x), y=y, traffic=traffic)
        counts.append(traffic.to_dicts())
    assert counts[0] == counts[1]


def test_softmax_and_too_many_classes_are_refused_by_name():
    rows, newton = own_rows(y=CLASSES), lgb_dp.NewtonBoost(30.0, 1e-5)

    def refused(match, **params):
        with pytest.raises(lgb_dp.PrivateTrainingError, match=match):
            lgb_dp.vertical.train({**OF_CLASSES, **params}, rows, 4, parties=[bank()], callbacks=[newton])

    refused("objective='multiclass'.*'multiclassova'", objective="multiclass")
    refused(f"num_class must be between 1 and {MAX_CLASSES}, got 65", num_class=65)
    refused("num_class=1 ", num_class=1)
    values = json.loads(task_of(OF_CLASSES).to_json())
    values["params"]["num_class"] = 10**9
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"num_class must be .* got 1000000000"):
        ColumnTask.from_json(json.dumps(values))


def test_questions_about_a_model_of_several_classes_are_refused_by_name(run):
    party = bank()
    with pytest.raises(lgb_dp.UnsupportedParameterError, match="booster has 3 classes"):
        predict(run[0], X[:, :2], parties=[party])
    booster = model(party)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="party 'bank' has trained"):
        model_of(party, booster)
