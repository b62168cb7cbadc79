"""What a party checks and counts of a run before the first sum of its rows leaves."""

import json
import sys
import tracemalloc
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from disturbed import Between
from exact_training import NAMES, PARAMS, X, Y, parties, party, train
from gbdt_commons.store import MemoryStore
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.secure_sum.messages import AskSum, ProposeRoster
from gbdt_parties.secure_sum.rings import MODULO_64
from xgb_fed import ExactTerms, HorizontalParty, PartyRefusedError, train_exact
from xgb_fed.horizontal.common.rows import HorizontalLimits
from xgb_fed.horizontal.exact.metrics import METRICS, metric_names
from xgb_fed.horizontal.exact.questions import ExactQuestion
from xgb_fed.horizontal.exact.rows.samples import RowDraws
from xgb_fed.horizontal.exact.run import ExactSubject, needed_bytes
from xgb_fed.horizontal.exact.task import ExactTask


class Stopped(BaseException):
    pass


def test_rounds_are_counted_of_a_run_that_goes_no_further_than_its_first_sum():
    """Else a coordinator that begins run after run is told the first sum as often as it likes."""
    members = [Between(party(0, max_rounds=5)), party(1), party(2)]

    def stop_after(number, message, send):
        answer = send()
        if isinstance(message, AskSum):
            raise Stopped
        return answer

    members[0].disturb = stop_after
    for _ in range(2):
        with pytest.raises(Stopped):
            train(members)
    members[0].disturb = lambda number, message, send: send()
    with pytest.raises(PartyRefusedError, match=r"2 further.*taken.*4"):
        train(members)
    train(members, 1)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("is_held_out", [False, True])
def test_labels_that_have_no_sum_are_refused_before_anything_leaves(wrong, is_held_out, monkeypatch):
    """No power of two holds them, and their sums would be of any size."""
    monkeypatch.delattr(ExactSubject, "vector")
    y = Y.astype(np.float64)
    others = np.where(np.arange(len(y)) == 7, wrong, y)
    terms = ExactTerms(held_out=[(X + 10, others)] if is_held_out else [])
    member = HorizontalParty(X, y if is_held_out else others, "ada", exact=terms)
    with pytest.raises(PartyRefusedError, match=r"y.*infinite"):
        train([member, (X, y)], params={"objective": "reg:squarederror", "max_depth": 2})


def test_a_run_that_just_meets_the_limits_of_a_party_is_accepted(tmp_path):
    limits = HorizontalLimits(max_bin=8, max_depth=2)

    def limited():
        member = party(0, max_rounds=2)
        sessions = member.for_caller(tmp_path, MemoryStore(), set(), MemoryAllowance(sys.maxsize), limits)
        return Between(SimpleNamespace(name=member.name, handle=sessions.handle))

    train([limited(), party(1), party(2)], 2)
    for n_rounds, params, reason in (
        (2, {"max_bin": 9}, "max_bin=9; this party accepts at most 8"),
        (2, {"max_depth": 3}, "max_depth=3; this party accepts at most 2"),
        (3, {}, "3 rounds; this party takes part in at most 2"),
    ):
        with pytest.raises(PartyRefusedError, match=reason):
            train([limited(), party(1), party(2)], n_rounds, {**PARAMS, **params})


@pytest.mark.parametrize(("n_values", "n_asked"), [(4096, 4096), (4097, 4096)])
def test_contributions_to_a_sum_have_32_mib_at_all_parties_together(n_values, n_asked):
    """As the wire protocol says: parties that cut sums into other parts cannot add them up."""

    def asking():
        yield (ExactQuestion("rows", MODULO_64, MODULO_64.zeros(n_values), 40),)

    task, roster = SimpleNamespace(n_rounds=1), SimpleNamespace(names=[f"p{k}" for k in range(1024)])
    training = SimpleNamespace(task=task, draws=RowDraws(None, "", 0), run=asking)
    computation = ExactSubject.begin(SimpleNamespace(), training, roster, b"", b"")
    assert computation.question().n_values == n_asked


ALLOWED = 64 << 20


def limited(member, max_bytes=ALLOWED):
    """A party as ``--max-memory`` limits it."""
    member.exact_runs.memory.max_bytes = max_bytes
    return member


def test_metrics_are_taken_once_as_by_xgboost():
    """XGBoost leaves out the second of two equal metrics, so that the last different one decides."""
    assert metric_names("binary:logistic", ["error", "logloss", "error"]) == ["error", "logloss"]
    params = {**PARAMS, "eval_metric": ["logloss", "error", "logloss"]}
    members = [(X[k::3], Y[k::3]) for k in range(3)]
    model = train_exact(params, members, 2, evals=[((X + 10, Y), "v")])
    assert list(model.evals_result["validation_0"]) == ["logloss", "error"]
    assert max(len(metrics) for metrics in METRICS.values()) <= 3


def test_a_list_of_many_metrics_takes_no_memory_at_a_party():
    """Before, 200,000 times the same metric, of 2,000 held-out rows, took gigabytes of 64 MiB."""
    held_out = [(np.resize(X, (2000, 3)) + 10, np.resize(Y, 2000))]
    members = [limited(party(0, held_out=held_out)), limited(party(1)), limited(party(2))]
    for n_metrics, refused in ((500, False), (200_000, True)):
        tracemalloc.start()
        try:
            params = {**PARAMS, "eval_metric": ["error"] * n_metrics}
            if refused:
                with pytest.raises(PartyRefusedError, match=r"settings.*run"):
                    train(members, 1, params, verbose_eval=False)
            else:
                train(members, 1, params, verbose_eval=False)
            assert tracemalloc.get_traced_memory()[1] < ALLOWED
        finally:
            tracemalloc.stop()


def many(value, count):
    return [value] * count


def of_params(name, value):
    return lambda task: {**task, "params": {**task["params"], name: value}}


def of_task(name, value):
    return lambda task: {**task, name: value}


ENLARGED = {
    "eval_metric": lambda n: of_params("eval_metric", many("error", n)),
    "feature_types": lambda n: of_params("feature_types", many("q", n)),
    "monotone_constraints": lambda n: of_params("monotone_constraints", many(0, n)),
    "interaction_constraints": lambda n: of_params("interaction_constraints", many([], n)),
    "objective_parameters": lambda n: of_params("objective_parameters", {str(k): {} for k in range(n)}),
    "other parameters": lambda n: lambda task: {**task, "params": {str(k): [] for k in range(n)}},
    "names": lambda n: of_task("names", many("c", n)),
    "classes": lambda n: of_task("classes", list(range(n))),
    "cuts": lambda n: of_task("cuts", many([0], n)),
    "cuts of a column": lambda n: of_task("cuts", [[0], [0], list(range(n))]),
    "lists in lists": lambda n: of_task("cuts", many({"": {}}, n)),
    "num_boost_round": lambda n: of_task("n_rounds", n),
    "num_class": lambda n: of_params("num_class", n),
    "max_depth": lambda n: of_params("max_depth", n),
    "max_bin": lambda n: of_params("max_bin", n),
    "n_columns": lambda n: of_task("n_columns", n),
    "n_sets": lambda n: of_task("n_sets", n),
    "min_rows_per_node": lambda n: of_task("min_rows_per_node", n),
    "min_parties": lambda n: of_task("min_parties", n),
    "early_stopping_rounds": lambda n: of_task("early_stopping_rounds", n),
}
"""Every field of a task, and parameter, that can be made long or large."""

NUMBERS = {
    "n_columns",
    "n_sets",
    "num_boost_round",
    "min_rows_per_node",
    "min_parties",
    "max_depth",
    "max_bin",
}


@pytest.mark.parametrize(
    "size", [*(pytest.param(size, marks=pytest.mark.slow) for size in (5, 30_000)), 300_000]
)
@pytest.mark.parametrize("field", ENLARGED)
def test_an_enlarged_task_stays_within_the_allowance_or_is_refused(field, size):
    enlarge, peaks = ENLARGED[field](10**4000 if size == 300_000 and field in NUMBERS else size), []

    def disturb(number, message, send):
        if not isinstance(message, ProposeRoster):
            return send()
        changed = replace(message, task=json.dumps(enlarge(json.loads(message.task))))
        tracemalloc.start()
        try:
            answer = send(changed)
            # The message itself, as bytes and as text, is within limits of its own.
            peaks.append(tracemalloc.get_traced_memory()[1] - 8 * len(changed.task))
        finally:
            tracemalloc.stop()
        return answer

    members = [limited(one) for one in parties()]
    members[1] = Between(members[1], disturb)
    with pytest.raises(PartyRefusedError, match=NAMES[1]):
        train(members)
    assert len(peaks) == 1
    assert peaks[0] < ALLOWED


def test_a_run_takes_no_more_than_was_reserved():
    """Arrays of all three parties together, which are in this process."""
    held_out = [(np.resize(X, (3000, 3)), np.resize(Y, 3000))]
    for params, n_rounds in (
        ({"max_depth": 1, "eval_metric": ["error", "logloss"]}, 10),
        ({"max_depth": 5, "max_bin": 200, "min_child_weight": 0}, 3),
    ):
        members = [party(place, held_out=held_out, min_rows_per_node=1) for place in range(3)]
        task = ExactTask({**PARAMS, **params}, n_rounds, 3, [], [0, 1], "grid", 1, 2, None, 1)
        tracemalloc.start()
        try:
            train(members, n_rounds, {**PARAMS, **params}, min_rows_per_node=1, verbose_eval=False)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 3 * needed_bytes(task, [100, 3000])


def test_a_run_that_needs_more_than_is_allowed_is_refused_before_it_begins():
    task = ExactTask({**PARAMS, "max_bin": 200}, 2, 3, [], [0, 1], "grid", 10, 2, None, 1)
    needed = needed_bytes(task, [100])
    for allowed, refused in ((needed, True), (needed + (128 << 10), False)):  # the settings take some too
        members = [limited(party(0), allowed), party(1), party(2)]
        expected = pytest.raises(PartyRefusedError, match=r"ada.*histograms")
        with expected if refused else nullcontext():
            train(members, 2, {**PARAMS, "max_bin": 200}, verbose_eval=False)


def test_what_a_run_takes_grows_with_everything_that_is_chosen():
    known = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3, "max_bin": 32}
    task = ExactTask(known, 10, 5, [], [0, 1, 2], "grid", 10, 2, None, 1)
    base = needed_bytes(task, [1000, 100])
    for larger in (
        replace(task, n_rounds=11),
        replace(task, n_columns=6),
        replace(task, n_sets=2),
        replace(task, cuts=[list(range(50))] * 5),
        *(
            replace(task, params={**known, **one})
            for one in (
                {"num_class": 4},
                {"max_depth": 4},
                {"max_bin": 33},
                {"eval_metric": ["merror", "mlogloss"]},
            )
        ),
    ):
        assert needed_bytes(larger, [1000, 100]) > base
    assert needed_bytes(task, [1001, 100]) > base
    assert needed_bytes(task, [1000, 101]) > base
