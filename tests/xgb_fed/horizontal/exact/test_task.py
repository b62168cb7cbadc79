"""Settings of exact runs: cuts, numbers, questions, and contents that parties agree on."""

from dataclasses import replace
from time import process_time
from types import SimpleNamespace

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st

from extreme_requests import reasons_for_large_values
from gbdt_parties.errors import ProtocolError, SumRangeError
from gbdt_parties.secure_sum.rings import MODULO_64, MODULO_128
from tests.support.exact_training import X, Y
from xgb_fed.boosting.features import MAX_BINS, MAX_VALUE
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.horizontal.exact.exchange import content_of, read_content
from xgb_fed.horizontal.exact.questions import ExactQuestion
from xgb_fed.horizontal.exact.task import ExactTask, check_whole, checked_cuts

PARAMS = {"objective": "binary:logistic", "max_depth": 2}
GOOD = [[-1.0, 0.5, 2.0], [0.0]]


def test_cuts_are_kept_as_float32():
    assert checked_cuts("exact", 2) == "exact"
    assert checked_cuts([np.array([0.1]), [1, 2]], 2) == [[float(np.float32(0.1))], [1.0, 2.0]]
    most = [list(map(float, range(MAX_BINS - 1)))]
    assert checked_cuts(most, 1) == most
    task = ExactTask(PARAMS, 1, 2, [], [0, 1], GOOD, 10, 2, None, 0)
    assert [own.dtype for own in task.given_cuts] == [np.float32, np.float32]
    assert [own.tolist() for own in task.given_cuts] == GOOD
    assert (task.how_cut, task.max_bin) == ("given", 3)


@pytest.mark.parametrize(
    ("cuts", "text"),
    [
        ([[0.0]], "list.*2 columns"),
        ([[0.0], [1.0], [2.0]], "list.*2 columns"),
        ([[0.0], []], r"cuts\[1\] must be 1 to"),
        ([[0.0], list(map(float, range(MAX_BINS)))], r"cuts\[1\] must be 1 to"),
        ([[0.0, 1.0, 0.5], [0.0]], r"cuts\[0\].*ascending"),
        ([[0.0, 1.0, 1.0], [0.0]], r"cuts\[0\].*ascending"),
        ([[0.0], [2 * MAX_VALUE]], r"cuts\[1\]"),
        ([[0.0], [-2 * MAX_VALUE]], r"cuts\[1\]"),
        ([[0.0], [float("nan")]], r"cuts\[1\]"),
        ([[0.0], [[1.0]]], r"cuts\[1\]"),
    ],
)
def test_other_cuts_are_refused(cuts, text):
    with pytest.raises(InvalidArgumentError, match=text):
        checked_cuts(cuts, 2)
    with pytest.raises(InvalidArgumentError, match=text):
        ExactTask(PARAMS, 1, 2, [], [0, 1], cuts, 10, 2, None, 0)


def test_cuts_of_very_many_columns_are_checked_at_once():
    """A million of them, which fit into a task, took a party seven seconds."""
    many = [[0]] * 1_000_000
    began = process_time()
    task = ExactTask(PARAMS, 1, len(many), [], [0, 1], many, 10, 2, None, 0)
    with pytest.raises(InvalidArgumentError, match=r"cuts\[999999\]"):
        replace(task, cuts=[*many[1:], [1, 0]])
    assert process_time() - began < 4


@pytest.mark.parametrize("cuts", [3, [None, [0.0]], [["a"], [0.0]], [[0.0, [1.0]], [0.0]]])
def test_other_things_are_no_cuts(cuts):
    with pytest.raises(InvalidArgumentError, match="cuts"):
        checked_cuts(cuts, 2)


def test_whole_numbers_have_a_range():
    for value in (2, 3, 7, np.int64(5)):
        check_whole("n", value, 2)
    for value in (1, True, 2.0, "3", None):
        with pytest.raises(InvalidArgumentError, match="n"):
            check_whole("n", value, 2)


def test_numbers_of_a_run_are_those_of_32_bits():
    """What a coordinator writes is bounded before anything is multiplied by it."""
    task = ExactTask(PARAMS, 1, 2, [], [0, 1], "grid", 10, 2, 1, 1)
    most = dict.fromkeys(("n_rounds", "n_columns", "min_rows_per_node", "early_stopping_rounds"), 2**31 - 1)
    for name, limit in {**most, "min_parties": 1000, "n_sets": 32}.items():
        assert getattr(replace(task, **{name: limit}), name) == limit
        for other in (limit + 1, 2**63, 10**400, -1, True, 2.0, "2", {}):
            with pytest.raises(InvalidArgumentError, match=f"integer between . and {limit}"):
                replace(task, **{name: other})


@pytest.mark.parametrize("value", [8, -8, 9, -9, 16, -(2**63)])
def test_sums_beyond_their_bits_are_refused(value):
    question = ExactQuestion("what", MODULO_64, MODULO_64.zeros(1), 3)
    assert question.checked(MODULO_64.from_integers(np.array([7, -7]))).tolist() == [7, -7]
    with pytest.raises(SumRangeError):
        question.checked(MODULO_64.from_integers(np.array([0, value])))


@given(data=st.data())
def test_sums_are_accepted_if_they_are_below_their_bits_up_and_down(data):
    """In the question's own ring, and as a part of a flight in the wider one."""
    own, is_wide = data.draw(st.sampled_from([(MODULO_64, False), (MODULO_64, True), (MODULO_128, False)]))
    bits = data.draw(st.integers(64, 126) if own is MODULO_128 else st.integers(1, 62))
    edges = st.sampled_from([-(2**bits), 2**bits, 0]).flatmap(lambda x: st.integers(x - 2, x + 2))
    value = data.draw(edges)
    is_double = is_wide or own is MODULO_128
    words = [[value % 2**64, (value >> 64) % 2**64]] if is_double else [value % 2**64]
    question = ExactQuestion("what", own, own.zeros(1), bits)
    total = np.array(words, dtype=np.uint64)
    if abs(value) < 2**bits:
        question.checked(total)
    else:
        with pytest.raises(SumRangeError):
            question.checked(total)


@pytest.mark.parametrize("classes", [None, [0, 1]])
def test_the_model_that_parties_agree_on_is_read_as_it_was_written(classes):
    booster = xgboost.train(PARAMS, xgboost.DMatrix(X, Y), 1)
    content = content_of(
        SimpleNamespace(
            booster=booster,
            cuts=[np.array([0.5], np.float32), np.array([1.5], np.float32)],
            evals_result={"a": {"logloss": [0.5]}},
            best_iteration=0,
            best_score=0.5,
        )
    )
    read = read_content(content, classes, None, "signed")
    assert read.signatures == "signed"
    assert (None if read.classes is None else read.classes.tolist()) == classes
    assert bytes(read.booster.save_raw("json")) == bytes(booster.save_raw("json"))
    assert [(own.dtype, own.tolist()) for own in read.cuts] == [(np.float32, [0.5]), (np.float32, [1.5])]
    for cut in (content[:1], (content[0][:-1], content[1]), (content[0], content[1][:-1])):
        with pytest.raises(ProtocolError, match="cannot be read"):
            read_content(cut, classes, None, "")


@pytest.mark.parametrize("cuts", ["grid", GOOD])
def test_refusals_are_short_however_large_the_value_is(cuts):
    task = ExactTask({**PARAMS, "max_bin": 8}, 1, 2, ["a", "b"], [0, 1], cuts, 10, 2, None, 0)
    reasons = list(reasons_for_large_values(ExactTask, task))
    assert len(reasons) > 30
    assert max(map(len, reasons)) < 2000
