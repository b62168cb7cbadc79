"""Rounds of exact training are shown as they end: metrics, a caller's function, a bar for a person."""

import io
import json
import logging

import numpy as np
import pytest

from veilboost.kept_files import ROUNDS_FILE
from veilboost.running.progress import RoundLog
from xgb_fed import ExactTerms, HorizontalParty, train_exact
from xgb_fed.horizontal.exact.training import RoundsDone
from xgb_fed.horizontal.train_exact import RoundsShown

N_ROUNDS = 6
RNG = np.random.default_rng(1)
X = RNG.normal(size=(240, 3)).astype(np.float32)
Y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
PARAMS = {"objective": "binary:logistic", "max_depth": 2, "eval_metric": ["logloss", "error"]}


class Elsewhere:
    """A party that is not known to be one of this process."""

    def __init__(self, party):
        self.name, self.handle = party.name, party.handle


def members(n_held_out=40):
    terms = ExactTerms(min_rows_per_node=2, held_out=[(X[200 : 200 + n_held_out], Y[200 : 200 + n_held_out])])
    return [
        HorizontalParty(X[k:200:3], Y[k:200:3], f"p{k}", categorical_labels=True, exact=terms if k else None)
        for k in range(3)
    ]


def train(parties, **more):
    return train_exact(PARAMS, parties, N_ROUNDS, min_rows_per_node=10, **more)


def test_a_function_is_called_when_a_round_has_ended(monkeypatch):
    """Not when training has: the sums of later rounds are opened after it."""
    calls, opened = [], []
    parties = members()
    of_sum = parties[0].handle

    def handle(content):
        opened.append(len(calls))
        return of_sum(content)

    monkeypatch.setattr(parties[0], "handle", handle)
    model = train(
        parties,
        verbose_eval=False,
        on_round=lambda number, results: calls.append((number, {k: dict(v) for k, v in results.items()})),
    )
    assert [number for number, _ in calls] == list(range(N_ROUNDS))
    for number, results in calls:
        for name, values in model.evals_result["validation_0"].items():
            assert results["validation_0"][name] == values[: number + 1]
    assert set(range(N_ROUNDS)) <= set(opened)


@pytest.mark.parametrize("here", [True, False])
def test_metrics_are_printed_as_xgboost_prints_them(here, capsys):
    parties = members()
    model = train(parties if here else [Elsewhere(party) for party in parties], verbose_eval=2)
    of = model.evals_result["validation_0"]
    expected = [
        f"[{k}]\tvalidation_0-logloss:{of['logloss'][k]:.5f}\tvalidation_0-error:{of['error'][k]:.5f}"
        for k in range(0, N_ROUNDS, 2)
    ]
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize("verbose", [False, True])
def test_a_run_without_a_person_and_without_metrics_is_silent(verbose, capsys):
    train([(X[k::3], Y[k::3]) for k in range(3)], verbose_eval=verbose)
    shown = capsys.readouterr()
    assert shown.out + shown.err == ""


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_person_sees_a_bar_with_the_last_metrics(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    results = {"validation_0": {"logloss": [0.6, 0.5]}}
    done = iter([RoundsDone(0, {}), RoundsDone(1, results), RoundsDone(2, results)])
    with RoundsShown(5, lambda: next(done), False) as shown:
        for n_opened in range(3):
            shown(n_opened)
        shown.bar.refresh()
    assert "2/5" in terminal.getvalue()
    assert "validation_0-logloss:0.50000" in terminal.getvalue()


def test_a_coordinator_without_rows_sees_sums(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with RoundsShown(5, None, False) as shown:
        shown(7)
        shown.bar.refresh()
    assert "7 sums" in terminal.getvalue()


def test_rounds_that_are_computed_again_are_shown_once():
    numbers = []
    done = iter([RoundsDone(n, {}) for n in (2, 0, 1, 3)])
    with RoundsShown(5, lambda: next(done), False, lambda number, _: numbers.append(number)) as shown:
        for n_opened in range(4):
            shown(n_opened)
    assert numbers == [0, 1, 2]


def test_the_log_has_rounds_metrics_and_the_time_left(caplog, tmp_path):
    clock = iter([0.0, 2.0, 4.0])
    (tmp_path / ROUNDS_FILE).write_text("of an earlier run")
    log = RoundLog(logging.getLogger("test"), 10, tmp_path, lambda: next(clock))
    with caplog.at_level("INFO"):
        log(0, {"validation_0": {"logloss": [0.6]}})
        log(1, {"validation_0": {"logloss": [0.6, 0.500000123]}})  # the file has no further digits
    assert caplog.messages == [
        "tree 1 of 10, validation_0-logloss:0.60000, 18 s left",
        "tree 2 of 10, validation_0-logloss:0.50000, 16 s left",
    ]
    first, second = map(json.loads, (tmp_path / ROUNDS_FILE).read_text().splitlines())
    assert (first["round"], second["round"]) == (1, 2)
    assert second == {"round": 2, "of": 10, "left": "16 s", "metrics": {"validation_0-logloss": 0.5}}
    RoundLog(logging.getLogger("test"), 10, tmp_path / "no folder")(0, {})  # it ends no run
