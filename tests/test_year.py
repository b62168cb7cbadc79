"""A year in use: two companies and four hospitals train every month, while rows, columns and trust change."""

import csv
import shutil

import numpy as np
import pandas as pd
import pytest

import lgb_dp
import lgb_dp.federated
from gbdt_parties import protocol
from gbdt_parties.errors import InvalidDataError
from kept_stores import end_process
from two_builds import Build, PartyOfBuild
from two_organisations import serving
from veilboost import command_line as cli
from xgb_fed import ExactTerms, HorizontalParty, train_exact

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning"),
    pytest.mark.filterwarnings("ignore::xgb_fed.FewPartiesWarning"),
]

PLAN = """
tls: certs/acme
data: {{file: acme.csv, id: user, label: y{more}}}
parties: [{{name: bank, address: "127.0.0.1:{port}"}}]
training: {{rounds: 2, cipher: okamoto-uchiyama, timeout: 60, patience: 0, model: model-{month:02}}}
parameters: {{objective: "binary:logistic", max_depth: 2, max_bin: 8, base_score: 0.5}}
"""
MONTHS = range(1, 13)
RNG = np.random.default_rng(1)
PEOPLE = RNG.normal(size=(600, 5)).round(3)
LABELS = (PEOPLE.sum(axis=1) + RNG.normal(size=600) > 0).astype(int)
GONE = [f"person-{k:03}" for k in (3, 14, 15)]


def people(month):
    """How many there are."""
    return 150 + 30 * month


def write_month(folder, month):
    """The files of both companies as they are at the end of a month."""
    names = ["b0", *([] if month == 9 else ["b1"]), *(["b2"] if month >= 4 else [])]
    with open(folder / "acme.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "y", "a0", "a1"])
        for k in range(people(month)):
            writer.writerow([f"person-{k:03}", LABELS[k], *PEOPLE[k, :2]])
    with open(folder / "bank.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", *names])
        for k in range(people(month) - 1, 9, -1):
            writer.writerow([f"person-{k:03}", *(PEOPLE[k, 2 + int(name[1])] for name in names)])


class Companies:
    """Acme trains and predicts, and the bank serves."""

    def __init__(self, folder, capsys):
        self.folder, self._capsys = folder, capsys
        for name in ("acme", "bank"):
            assert self.run("certs", name)[0] == 0

    def run(self, *arguments):
        """A command's exit code and all that it has printed."""
        code = cli.main(list(arguments))
        shown = self._capsys.readouterr()
        return code, shown.out + shown.err

    def plan(self, month, port, more=""):
        name = f"plan-{month:02}.yaml"
        (self.folder / name).write_text(PLAN.format(month=month, port=port, more=more))
        return name

    def month(self, month, port, more=""):
        """Align and train."""
        plan = self.plan(month, port, more)
        for command in ("align", "train"):
            code, shown = self.run(command, plan)
            assert code == 0, shown
        return shown

    def predictions(self, month, port, more=""):
        """Of an older model, for the people of January."""
        lines = (self.folder / "acme.csv").read_text().splitlines(keepends=True)
        (self.folder / "january.csv").write_text("".join(lines[: people(1) + 1]))
        plan = self.plan(month, port, more)
        code, shown = self.run("predict", plan, "--data", "january.csv", "--out", "out.csv")
        if code:
            return code, shown
        return code, pd.read_csv(self.folder / "out.csv").set_index("id")


def test_two_companies_train_every_month(tmp_path, monkeypatch, capsys):
    pytest.importorskip("nacl")
    monkeypatch.chdir(tmp_path)
    companies, first, options, more = Companies(tmp_path, capsys), None, [], ""
    (tmp_path / "withdrawn.csv").write_text("user\n" + "\n".join(GONE) + "\n")
    for month in MONTHS:
        write_month(tmp_path, month)
        if month == 8:  # three people withdraw their consent, at both companies
            options, more = ["--exclude", "withdrawn.csv"], ", exclude: withdrawn.csv"
        with serving(tmp_path, 0, *options) as (_, port):
            if month == 6:  # the bank renews its certificate while it serves
                key = (tmp_path / "certs" / "bank" / "party.key").read_bytes()
                code, shown = companies.run("certs", "bank", "--renew")
                assert code == 0, shown
                assert (tmp_path / "certs" / "bank" / "party.key").read_bytes() == key
            assert "2 trees" in companies.month(month, port, more)
            code, found = companies.predictions(1, port, more)
            if month == 9:  # the bank has lost a column that the model of January needs
                assert code != 0
                assert "b1" in (tmp_path / "bank.log").read_text() or "b1" in found
                continue
            assert code == 0, found
            first = found if first is None else first
            left = first.index.difference(GONE) if more else first.index
            assert sorted(found.index) == sorted(left)
            pd.testing.assert_frame_equal(found.loc[left], first.loc[left])
        end_process(tmp_path)
        if month == 10:
            shutil.copytree(tmp_path / "bank-models", tmp_path / "backup")
        if month == 11:  # the bank's disk is lost, and October's backup is put back
            shutil.rmtree(tmp_path / "bank-models")
            shutil.copytree(tmp_path / "backup", tmp_path / "bank-models")
    with serving(tmp_path, 0, *options) as (_, port):
        assert companies.predictions(10, port, more)[0] == 0
        code, shown = companies.predictions(11, port, more)
        assert code != 0
        assert "model" in shown
    code, shown = companies.run("status", "bank-models", "--json")
    assert "acme" in shown


def hospital(number, month, folder, *, label=LABELS, without=(), accept_rows=None):
    """A hospital's rows at the end of a month: its fourth of all people, and 10 more each month."""
    rows = np.setdiff1d(np.arange(number, 120 + 40 * month, 4), without)
    return HorizontalParty(
        PEOPLE[rows],
        label[rows],
        f"hospital {number}",
        categorical_labels=True,
        directory=folder / f"hospital-{number}",
        exact=ExactTerms(min_rows_per_node=10),
        accept_rows=accept_rows,
    )


def trained(folder, parties):
    """An exact model of two rounds, after which all processes end."""
    params = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 16}
    try:
        return train_exact(params, parties, 2, verbose_eval=False)
    finally:
        end_process(folder)


def test_four_hospitals_train_every_month(tmp_path):
    corrected, without, models = LABELS.copy(), [], []
    for month in MONTHS:
        if month == 5:  # one corrected label is too few, beside rows that came: it waits for others
            corrected[1] = 1 - corrected[1]
            with pytest.raises((InvalidDataError, lgb_dp.federated.PartyRefusedError), match="accept_rows"):
                trained(tmp_path, [hospital(k, month, tmp_path, label=corrected) for k in range(4)])
            end_process(tmp_path)
            corrected = LABELS.copy()
        if month == 6:  # ten labels are corrected together
            corrected[np.arange(1, 41, 4)] ^= 1
        if month == 8:  # twelve people of the first hospital withdraw
            without = np.arange(0, 48, 4)
        parties = [hospital(k, month, tmp_path, label=corrected, without=without) for k in range(4)]
        if month == 9:  # one hospital is a minor version ahead
            later = Build(protocol.VERSION + 1, protocol.VERSION)
            parties[3] = PartyOfBuild(parties[3], later)
        models.append(trained(tmp_path, parties))
        if month == 10:
            shutil.copytree(tmp_path / "hospital-2", tmp_path / "backup")
        if month == 11:
            shutil.rmtree(tmp_path / "hospital-2")
            shutil.copytree(tmp_path / "backup", tmp_path / "hospital-2")
    assert [model.booster.num_boosted_rounds() for model in models] == [2] * 12


def test_a_budget_of_four_hospitals_ends_within_the_year(tmp_path):
    """Parties charge what they have answered: attempts that were planned and not made leave room."""
    share = lgb_dp.Budget.open(tmp_path / "plan.budget", 1.0, 1e-5).plan(6)
    refused = []
    for month in MONTHS:
        parties = []
        for k in range(4):
            rows = np.arange(k, 120 + 40 * month, 4)
            parties.append(
                lgb_dp.federated.Party(
                    PEOPLE[rows],
                    LABELS[rows],
                    name=f"hospital {k}",
                    folder=tmp_path / f"hospital-{k}",
                    budget=(1.0, 1e-5),
                    bounds=(-4, 4),
                )
            )
        try:
            booster = lgb_dp.federated.train(
                {"objective": "binary"},
                parties,
                3,
                callbacks=[lgb_dp.NewtonBoost(share.epsilon, share.delta)],
            )
            assert booster.privacy.private
        except lgb_dp.federated.PartyRefusedError as error:
            refused.append((month, str(error)))
        finally:
            for party in parties:
                party.close()
    first = refused[0][0]
    assert 7 <= first <= 10
    assert [month for month, _ in refused] == list(range(first, 13))
    assert all("budget" in text for _, text in refused)


def test_a_yearly_budget_in_one_place_ends_after_its_twelve_models(tmp_path):
    budget = lgb_dp.Budget.open(tmp_path / "claims.budget", 2.0, 1e-5)
    share = budget.plan(12)
    for month in MONTHS:
        rows = slice(people(month))
        model = lgb_dp.DPLGBMClassifier(share.epsilon, delta=share.delta, n_estimators=3, max_depth=2)
        budget = lgb_dp.Budget.open(tmp_path / "claims.budget")
        model.fit(PEOPLE[rows], LABELS[rows], bounds=(-4, 4), budget=budget)
        assert model.privacy_.private
    with pytest.raises(lgb_dp.BudgetExceededError):
        model.fit(PEOPLE, LABELS, bounds=(-4, 4), budget=lgb_dp.Budget.open(tmp_path / "claims.budget"))
    assert budget.report().epsilon <= 2.0
