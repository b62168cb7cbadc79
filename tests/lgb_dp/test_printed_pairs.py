"""Every ε that is printed stands beside a δ at which it is true, by an accountant of the tests' own."""

import html
import itertools
import json
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import federated_training
import lgb_dp
from gbdt_commons.statements.registry import fields_to_fill
from gbdt_parties.errors import PartyRefusedError
from independent_accounting import lower_delta, of_cost
from lgb_dp.accounting.cost import Cost, pair_text, printed
from lgb_dp.accounting.gaussian import composed_mu, gaussian_mu
from lgb_dp.accounting.ledger import Ledger, Release
from lgb_dp.accounting.report import PrivacyReport, report_of
from lgb_dp.accounting.unit import Unit
from lgb_dp.vertical.report import Guarantees
from small_training import binary_data, dataset, train
from veilboost.command_line import main

pytestmark = pytest.mark.usefixtures("coarse_accounting")

ROOT = Path(__file__).parents[2]
X, Y = binary_data(300)
EPSILON = re.compile(r"(?<!\^)\b(?:epsilon|ε)\b,? *>?= ?[\d.i]")
PAIR = re.compile(r"(?:epsilon|ε) = ([\d.e+-]+|inf), (?:delta|δ) = ([\d.e+-]*\d)")


def pairs_in(text):
    """Every (words before, ε, δ) of a text, in which no ε may be without δ."""
    text = html.unescape(re.sub(r"<[^>]*>", " ", text)) if "</" in text else text
    text = re.sub(r"\s+", " ", text)
    found = list(PAIR.finditer(text))
    assert len(EPSILON.findall(text)) == len(found), text
    starts = [0, *(one.end() for one in found)]
    return [(text[a : b.start()], float(b[1]), float(b[2])) for a, b in zip(starts, found, strict=False)]


def holds(epsilon, delta, releases, *, replaced=False):
    assert delta >= lower_delta(epsilon, releases, replaced=replaced) * (1 - 1e-6), (epsilon, delta, releases)


def check_report(report):
    """The pairs of a report, in all of its forms, against its releases."""
    granted = of_cost(report.cost)
    known = {"granted": (report.epsilon, report.delta), "replaced": report.replace_one, "spent": report.spent}
    holds(*known["granted"], granted)
    holds(*known["replaced"], granted, replaced=True)
    of_dict = report.to_dict()
    assert (of_dict["epsilon"], of_dict["delta"]) == known["granted"]
    assert (tuple(of_dict["replace_one"]), tuple(of_dict["spent"])) == (known["replaced"], known["spent"])
    for text in (str(report), report._repr_html_()):
        check_costs_each(text, report.ledger)
        own = re.sub(r"(note: )?(views of|this run's releases|towards the other).*", "", text)
        shown = pairs_in(own)
        kinds = ["replaced" if "replace" in words else "spent" if "spent" in words else "granted"
                 for words, _, _ in shown]  # fmt: skip
        assert set(kinds) == known.keys() - ({"spent"} if known["spent"] == known["granted"] else set())
        for kind, (_, epsilon, delta) in zip(kinds, shown, strict=True):
            assert Fraction(epsilon) >= Fraction(known[kind][0]) or math.isinf(epsilon)
            assert delta >= known[kind][1]
            assert epsilon <= known[kind][0] * (1 + 1e-5)
            assert delta <= known[kind][1] * (1 + 1e-2)


def check_costs_each(text, rows):
    """The table of releases states every ε with its δ, both rounded up."""
    shown = re.findall(r"\bepsilon ([\d.e+-]+|inf)(?: delta ([\d.e+-]+))?", text)
    costly = [row for row in rows if row["epsilon"]]
    for (epsilon, delta), row in zip(shown, costly, strict=True):
        assert float(epsilon) >= row["epsilon"]
        assert float(delta or 0) >= row["delta"]


MADE = [
    Release("leaf sums", "Gaussian", 0.0, 0, 0, 0.0, 0.4),
    Release("leaf sums", "Gaussian", 0.0, 0, 0, 0.0, 0.5, 0.5),
    Release("leaf sums", "Gaussian", 0.0, 0, 0, 0.0, 0.3, 0.99),
    Release("splits", "exponential", 0.7, 1, 0),
]
SEARCHED = Cost(0.5, 1e-6)


def ledgers():
    """Releases, what was spent before and the unit, in all combinations; two of three are slow."""
    releases = [one for n in (1, 2, 3) for one in itertools.combinations(MADE, n)]
    units = [Unit(), Unit(3, 3), Unit(3, 1), Unit(None, 2, 2)]
    for k, case in enumerate(itertools.product(releases, [None, SEARCHED], units)):
        yield pytest.param(*case, marks=[pytest.mark.slow] * (k % 3 > 0), id=str(k))


@pytest.mark.parametrize(("releases", "inherited", "unit"), list(ledgers()))
def test_printed_pairs_of_reports_of_every_kind_of_release(releases, inherited, unit):
    ledger = Ledger(unit=unit)
    ledger.granted_delta = 1e-5 if any(release.mu for release in releases) else 0.0
    ledger.grant(releases * 2)
    for release in releases:
        ledger.charge(release)
    if inherited is not None:
        ledger.inherit(inherited, "initial model", 0.0)
    check_report(report_of(ledger))


@pytest.mark.parametrize(
    ("probability", "epsilon"),
    [(0.99, 1.0), *(pytest.param(one, 4.0, marks=pytest.mark.slow) for one in (0.9, 0.5))],
)
def test_printed_pairs_of_secret_samples(probability, epsilon):
    """δ of a replaced row was 55 to 30,000 times the one beside its ε."""
    trainer = lgb_dp.NewtonBoost(epsilon, 1e-6, subsample=probability, structure="cyclic")
    check_report(train(dataset(X, Y), trainer, n_rounds=2).privacy)


@pytest.fixture(scope="module")
def models():
    """Boosters of every kind of run, with the name of each."""
    budget = lgb_dp.Budget(4.0, 1e-4, pure_epsilon=2.0, approximate_delta=5e-5)
    _, bounds = lgb_dp.private_bounds(X, 0.2, 1e-6)
    pure = train(dataset(X, Y), lgb_dp.DPBoost(0.7))
    searched = PrivacyReport(0.5, 1e-6, True, (), (), (), cost=SEARCHED)
    folds_of = dataset(X, Y)
    rows, _ = next(lgb_dp.folds(3, folds_of).split())
    persons = {"groups": np.arange(300) // 2, "rows_per_group": 2}
    sampled = lgb_dp.NewtonBoost(0.8, 1e-5, subsample=0.7, budget=budget)
    newton = lgb_dp.NewtonBoost(1.0, 1e-5, budget=budget)
    return {
        "newton": train(dataset(X, Y), newton),
        "dpboost": pure,
        "mboost": train(dataset(X, Y), lgb_dp.MBoost(1.3)),
        "sampled": train(dataset(X, Y), sampled),
        "persons": train(dataset(X, Y, **persons), lgb_dp.NewtonBoost(1.0, 1e-5)),
        "mixed": train(dataset(X, Y, paid_for=[bounds, searched, pure.privacy]), newton),
        "fold": train(folds_of.subset(rows), lgb_dp.NewtonBoost(0.5, 1e-6)),
        "weak": train(dataset(X, Y), lgb_dp.NewtonBoost(800.0, 1e-5)),
        "parties": federated_training.train(federated_training.parties(3), 2, epsilon=1.0),
        "persons at parties": federated_training.train(
            federated_training.parties(3), 2, epsilon=1.0, parties_per_person=2, colluding=2, min_parties=3
        ),
    }


NAMES = ("newton", "dpboost", "mboost", "sampled", "persons", "mixed", "fold", "weak", "parties",
         "persons at parties")  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_printed_pairs_of_models_and_compositions(models, name):
    report = models[name].privacy
    check_report(report)
    check_report(lgb_dp.compose(report, report))
    assert [pair[1:] for pair in pairs_in(models[name]._repr_html_())][:2] == [
        pair[1:] for pair in pairs_in(str(report))
    ][:2]


@pytest.mark.parametrize("name", NAMES)
def test_printed_pairs_of_statements(models, name):
    report = models[name].privacy
    statement = lgb_dp.statement(models[name], fill=dict.fromkeys(fields_to_fill({}), "x"))
    granted, replaced = (report.epsilon, report.delta), report.replace_one
    allowed = {pair_text(*granted), pair_text(*replaced)}
    allowed |= {one[0] for note in report.notes for one in re.finditer(PAIR, note)}
    allowed |= {f"epsilon = {printed(report.cost.epsilon, 3)}, delta = {printed(report.cost.delta, 3)}"}
    for text in (statement.to_html(), *json.loads(statement.to_json()).get("words", []), statement.to_yaml()):
        assert {pair_text(*pair[1:]) for pair in pairs_in(text)} <= allowed
    assert [pair[1:] for pair in pairs_in(statement.headline)] == [pairs_in(pair_text(*granted))[0][1:]]
    told = json.loads(statement.to_json())["guarantee"]
    assert (told["epsilon"], told["delta"]) == granted
    assert (told["epsilon, replacing one"], told["delta, replacing one"]) == replaced
    assert ("epsilon spent (information)" in told) == ("delta spent (information)" in told)
    record = statement.registry["deployment"]
    (parameters,) = [part["privacy_parameters"] for part in record.values() if "privacy_parameters" in part]
    assert (parameters["epsilon"], parameters.get("delta", 0.0)) == granted
    factor, up_to = re.search(r"e\^epsilon = (\S+) at most(?:, up to a probability of (\S+))? \(", " ".join(
        statement.words)).groups()  # fmt: skip
    holds(math.log(float(factor)) if factor != "inf" else math.inf, float(up_to or 0), of_cost(report.cost))


def test_printed_pairs_of_views_and_of_parties_with_columns(models):
    for name, n, t in (("parties", 3, 1), ("persons at parties", 3, 2)):
        report = models[name].privacy
        (views,) = [pairs_in(note) for note in report.notes if note.startswith("views")]
        hidden = [n, n - 1, n - t][:: 1 if t > 1 else 2]
        for (_, epsilon, delta), alone in zip(views, hidden, strict=True):
            holds(epsilon, delta, [(report.cost.mu * math.sqrt((n - t) / alone), 1.0, 1)])
        assert pair_text(*views[-1][1:]) == pair_text(report.epsilon, 1e-5)
    for is_binary in (True, False):
        trees, counts, histograms = 0.6, 0.2, 0.1
        told = Guarantees.of(trees, counts, histograms, 1e-5, is_binary=is_binary).notes()
        shown = [pair[1:] for note in told for pair in pairs_in(note)]
        root = math.sqrt(2)
        whole, other = (trees, counts, histograms), (2 * trees, root * counts, root * histograms)
        same = ((root if is_binary else 2) * trees, root * histograms)
        for pair, mus in zip(shown, (whole, whole, other, same), strict=True):
            holds(*pair, [(mu, 1.0, 1) for mu in mus])


PARTS = [*(pytest.param(one, 0.0, marks=pytest.mark.slow) for one in (0.0, 0.4)), (0.4, 4e-6), (1.0, 0.0)]


@pytest.mark.parametrize(("pure", "approximate"), PARTS)
def test_printed_pairs_of_budgets_and_of_their_refusals(pure, approximate):
    budget = lgb_dp.Budget(1.0, 1e-5, pure_epsilon=pure, approximate_delta=approximate)
    costs = [Cost(0.1), Cost(0.05, 1e-6), Cost(mu=gaussian_mu(0.3, 1e-6)), Cost(2.0, 1e-3), Cost(mu=9.0)]
    for cost in costs * 4:
        check_report(budget.report())
        (_, *whole), *left = pairs_in(repr(budget))
        assert whole == [1.0, 1e-5]
        assert left
        before = budget.remaining
        try:
            budget.charge(cost, "a result")
            continue
        except lgb_dp.BudgetExceededError as error:
            text = str(error)
        (_, *asked), (_, *of), *most = pairs_in(text)
        holds(*asked, of_cost(cost))
        assert of == [1.0, 1e-5]
        assert most or re.search("nothing is left|pure_epsilon", text)
        for _, epsilon, delta in most:
            if cost.mu:
                budget.charge(Cost(mu=gaussian_mu(epsilon, delta)), "what may still be asked for")
            else:
                assert epsilon <= before.epsilon <= epsilon * (1 + 1e-5)
                budget.charge(Cost(epsilon, delta), "what may still be asked for")
    check_report(budget.report())


def test_printed_pairs_of_ledgers_of_parties(tmp_path, capsys):
    members = [federated_training.party(0, folder=tmp_path / "ada", budget=(3.0, 1e-5)),
               federated_training.party(1), federated_training.party(2)]  # fmt: skip
    booster = federated_training.train(members, 2, epsilon=1.0)
    assert main(["ledger", str(tmp_path / "ada")]) == 0
    (_, *whole), (_, *spent) = pairs_in(capsys.readouterr().out)
    assert whole == [3.0, 1e-5]
    mus = [row["mu"] for row in booster.privacy.ledger for _ in range(row["count"])]
    holds(*spent, [(composed_mu(mus), 1.0, 1)])
    with pytest.raises(PartyRefusedError) as refused:
        federated_training.train(members, 2, epsilon=3.0)
    (_, *asked), (_, *of) = pairs_in(str(refused.value))
    assert asked == pytest.approx([3.0, 1e-5], rel=1e-3)
    assert of == whole


def test_printed_pairs_of_logs_and_warnings(capfd, recwarn):
    trainer = lgb_dp.NewtonBoost(4.0, 1e-2, subsample=0.5, random_state=1)
    train(dataset(X, Y), trainer, verbosity=2)
    for text in (*capfd.readouterr(), *(str(one.message) for one in recwarn)):
        pairs_in(text)


@pytest.mark.parametrize("folder", ["lgb_dp", "plugins", "patches", "examples"])
def test_printed_pairs_are_written_in_one_place(folder):
    """No module formats an ε for readers but `pair_text`; an argument is echoed as `epsilon=…`."""
    alone = re.compile(r"(?<!\^)(epsilon|ε) (=|>=) \{(?!.*(delta|δ|at (this|it)))")
    found = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if alone.search(line)
    ]
    assert found == []


@given(st.floats(0, 1e308), st.integers(1, 17))
@settings(max_examples=300)
def test_printed_pairs_are_rounded_up(value, digits):
    shown = float(printed(value, digits))
    assert shown >= value
    assert shown <= value * (1 + 10.0 ** (1 - digits)) or math.isinf(shown)


def test_printed_pairs_of_simple_numbers_stay_simple():
    assert pair_text(0.1, 1e-5) == "epsilon = 0.1, delta = 1e-05"
    assert pair_text(0.1000004, 1.001e-5) == "epsilon = 0.100001, delta = 1.01e-05"
    assert pair_text(math.inf, 0.0) == "epsilon = inf, delta = 0"
    assert pair_text(np.float64(2), np.float64(0)) == "epsilon = 2, delta = 0"
