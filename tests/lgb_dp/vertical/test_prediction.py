"""Predictions of new rows: points that never move, answers by table, and questions that are counted."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.metrics import roc_auc_score

from gbdt_commons.errors import StoreError
from gbdt_commons.store import MemoryStore, bytes_kind
from gbdt_commons.store_file import StoreFile
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.losses.labels import LabelScale
from lgb_dp.vertical.prediction.answers import (
    LEVELS,
    N_POINTS,
    AnswerKind,
    answer_tables,
    nearest_points,
    prediction_points,
    read_answers,
)
from lgb_dp.vertical.prediction.consent import AnsweredRows, Consent

BINARY = LabelScale("binary", 1, 2.0, 5.0, sigmoid=1.0)
LINEAR = LabelScale("regression", 1, 10.0, 30.0)
POISSON = LabelScale("poisson", 1, 0.0, 40.0)
ROWS = [b"row %d" % k + bytes(11) for k in range(5)]


def points_of(scale, low=-20.0, high=20.0):
    return prediction_points(scale, low, high)


@pytest.mark.parametrize(("scale", "reach"), [(BINARY, 12), (LINEAR, 1), (POISSON, 4)])
def test_points_are_five_bits_and_reach_what_the_model_can_add(scale, reach):
    points = points_of(scale)
    assert len(points) == N_POINTS == 2**5
    assert list(points) == sorted(set(points))
    assert points[-1] == -points[0] == pytest.approx(reach)
    small = points_of(scale, -0.02, 0.03)
    assert small[-1] == -small[0] == pytest.approx(0.03)
    assert points_of(scale, 0.0, 0.0)[0] < 0


def test_points_do_not_move_and_are_the_nearest():
    points = np.array(points_of(BINARY))
    score = np.random.default_rng(0).normal(0, 6, 2_000)
    found = nearest_points(score, points)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, np.abs(score[:, None] - points).argmin(axis=1))
    for _ in range(50):
        np.testing.assert_array_equal(nearest_points(score, points), found)
    np.testing.assert_array_equal(nearest_points(np.array([-1e300, 1e300]), points), [0, N_POINTS - 1])
    np.testing.assert_array_equal(nearest_points(points, points), np.arange(N_POINTS))


def test_dithered_points_would_be_bisected_and_these_are_not():
    """Whatever is asked about a row, scores of one point get the same answers."""
    points = np.array(points_of(BINARY))
    step = (points[17] - points[16]) / 2
    rows = points[16] + np.linspace(-0.4, 0.4, 9) * step
    for own in np.linspace(-3, 3, 200):
        tables = answer_tables(np.full(9, own), points, AnswerKind.ROUNDED, BINARY)
        assert len(np.unique(tables[np.arange(9), nearest_points(rows, points)])) == 1


def looked_up(own, others, answer, scale):
    points = points_of(scale)
    tables = answer_tables(own, points, answer, scale)
    assert tables.dtype == np.uint64
    found = tables[np.arange(len(own)), nearest_points(others, points)]
    return read_answers(found, answer, scale), own + np.array(points)[nearest_points(others, points)]


def test_answers_are_labels_probabilities_or_numbers_of_the_score_at_the_point():
    rng = np.random.default_rng(1)
    own, others = rng.normal(0, 3, (2, 500))
    label, score = looked_up(own, others, AnswerKind.LABEL, BINARY)
    np.testing.assert_array_equal(label, np.where(score > 0, 5.0, 2.0))
    probability, _ = looked_up(own, others, AnswerKind.ROUNDED, BINARY)
    np.testing.assert_allclose(probability, expit(score), atol=0.5 / LEVELS + 1e-12)
    number, score = looked_up(own / 6, others / 6, AnswerKind.ROUNDED, LINEAR)
    np.testing.assert_allclose(number, np.clip(20 + 10 * score, 10, 30), atol=20 * 0.5 / LEVELS + 1e-9)
    mean, score = looked_up(own - 3, others / 2, AnswerKind.ROUNDED, POISSON)
    np.testing.assert_allclose(mean, 40 * np.exp(np.minimum(score, 0)), atol=40 * 0.5 / LEVELS + 1e-9)


def test_an_entry_that_is_in_no_table_is_refused():
    with pytest.raises(InvalidArgumentError, match="0 to 1000"):
        read_answers(np.array([3, LEVELS + 1], dtype=np.uint64), AnswerKind.ROUNDED, BINARY)
    with pytest.raises(InvalidArgumentError, match="0 to 1:"):
        read_answers(np.array([2], dtype=np.uint64), AnswerKind.LABEL, BINARY)


def test_answers_without_a_table_are_refused_by_name():
    for answer in (AnswerKind.POINT, AnswerKind.SCORE):
        with pytest.raises(InvalidArgumentError, match=f"answer='{answer.value}' needs no table"):
            answer_tables(np.zeros(1), (0.0, 1.0), answer, BINARY)
    with pytest.raises(InvalidArgumentError, match="objective='regression' has rounded predictions"):
        answer_tables(np.zeros(1), (0.0, 1.0), AnswerKind.LABEL, LINEAR)


def test_little_is_lost_by_points_that_are_closer_in_the_middle():
    rng = np.random.default_rng(3)
    own, others = rng.normal(-2, 1, 20_000), rng.normal(0, 0.9, 20_000)
    label = rng.random(20_000) < expit(own + others)
    exact = roc_auc_score(label, own + others)
    probability, _ = looked_up(own, others, AnswerKind.ROUNDED, BINARY)
    assert exact - roc_auc_score(label, probability) < 0.001
    even = np.linspace(-12, 12, N_POINTS)
    assert exact - roc_auc_score(label, own + even[nearest_points(others, even)]) > 0.002


def test_a_row_of_a_model_is_asked_about_once():
    answered = AnsweredRows(Consent())
    answered.take("model", AnswerKind.LABEL, ROWS[:3])
    with pytest.raises(InvalidArgumentError, match=r"1 of 3 rows.*asked"):
        answered.take("model", AnswerKind.ROUNDED, ROWS[2:])
    # All or none: rows 3 and 4 were not counted.
    answered.take("model", AnswerKind.ROUNDED, ROWS[3:])
    answered.take("another model", AnswerKind.LABEL, ROWS)
    assert (answered.count("model"), answered.count("another model")) == (5, 5)


def test_a_row_twice_in_one_question_is_two_questions():
    with pytest.raises(InvalidArgumentError, match="1 of 2 rows"):
        AnsweredRows(Consent()).take("model", AnswerKind.LABEL, [*ROWS[:2], ROWS[0]])
    AnsweredRows(Consent(questions_per_row=2)).take("model", AnswerKind.LABEL, [*ROWS[:2], ROWS[0]])


def test_models_that_a_row_is_asked_about_with_are_limited():
    """Every model has points of its own: models of a tiny ε, one after the other, would tell all of a row."""
    store = MemoryStore()
    consent = Consent(models_per_row=2, answers=("label", "point"))
    answered = AnsweredRows(consent, store)
    answered.take("a", AnswerKind.LABEL, [b"1" * 16, b"2" * 16])
    answered.give("b", AnswerKind.POINT, [b"1" * 16], np.zeros(1))
    answered = AnsweredRows(consent, store)
    with pytest.raises(InvalidArgumentError, match=r"2 rows.*models.*: models_per_row=2"):
        answered.take("c", AnswerKind.LABEL, [b"1" * 16, b"2" * 16])
    answered.take("c", AnswerKind.LABEL, [b"2" * 16])
    # The same question again tells nothing new.
    assert answered.give("b", AnswerKind.POINT, [b"1" * 16], np.ones(1)) == [0.0]


def test_answers_of_a_model_are_limited():
    answered = AnsweredRows(Consent(rows_per_model=4))
    answered.take("model", AnswerKind.LABEL, ROWS[:3])
    with pytest.raises(InvalidArgumentError, match=r"5 answers.*model.*4"):
        answered.take("model", AnswerKind.LABEL, ROWS[3:])
    answered.take("model", AnswerKind.LABEL, ROWS[3:4])


def test_more_than_labels_and_rounded_predictions_takes_consent():
    for answer in (AnswerKind.POINT, AnswerKind.SCORE):
        with pytest.raises(InvalidArgumentError, match=f"'{answer.value}'.*consented"):
            AnsweredRows(Consent()).give("model", answer, ROWS, np.zeros(5))
        AnsweredRows(Consent(answers=frozenset({answer}))).give("model", answer, ROWS, np.zeros(5))


def test_counts_outlive_the_process(tmp_path):
    path = tmp_path / "store.sqlite"
    store = StoreFile(path, "private columns")
    AnsweredRows(Consent(), store).take("model", AnswerKind.LABEL, ROWS[:4])
    store.close()
    store = StoreFile(path, "private columns")
    answered = AnsweredRows(Consent(), store)
    assert answered.count("model") == 4
    with pytest.raises(InvalidArgumentError, match="4 of 5 rows"):
        answered.take("model", AnswerKind.LABEL, ROWS)
    store.close()


def test_a_question_that_cannot_be_kept_is_not_answered():
    class Full(MemoryStore):
        def append(self, *entry):
            raise OSError("disk full")

    answered = AnsweredRows(Consent(), Full())
    with pytest.raises(OSError, match="disk full"):
        answered.take("model", AnswerKind.LABEL, ROWS)
    assert answered.count("model") == 0


def test_a_damaged_record_is_no_reason_to_answer():
    store = MemoryStore()
    store.append(bytes_kind("answered rows"), "model", b"cut")
    with pytest.raises(StoreError, match="answered rows"):
        AnsweredRows(Consent(), store).take("model", AnswerKind.LABEL, ROWS)
