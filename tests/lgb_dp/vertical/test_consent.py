"""Limits of answers about rows: of each caller, of a row that changes, and what a refusal says of others."""

import os
from dataclasses import replace

import numpy as np
import pytest

import lgb_dp
from forked_children import refused_in_a_child
from gbdt_commons.store import MemoryStore
from gbdt_parties.run.log import THIS_PROCESS
from lgb_dp.vertical import Consent, predict
from lgb_dp.vertical.prediction.answers import AnswerKind
from lgb_dp.vertical.prediction.consent import AnsweredRows
from predicted_parties import EVERYTHING, IDS, OTHER, OWN, counted, knowing, trained

pytest.importorskip("nacl")
pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")


def asked_by(caller, party, rows=slice(None), answer="label"):
    """A caller's question about some rows."""
    asked = replace(party.with_rows(OTHER[rows], ids=IDS[rows]), caller=caller)
    return predict(trained()[0], OWN[rows], parties=[asked], answer=answer)


def test_a_caller_that_asks_too_often_keeps_no_other_one_from_asking():
    """Before, all callers had one count of questions in an hour."""
    party = knowing(questions_per_hour=2)
    for start in (0, 1):
        asked_by(THIS_PROCESS, party, slice(start, start + 1))
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"2 questions.*hour"):
        asked_by(THIS_PROCESS, party, slice(2, 3))
    answered = party.answers.answered
    for caller in ("another bank", "a third one"):
        for _ in range(2):
            answered.begin(caller)
        with pytest.raises(lgb_dp.InvalidArgumentError, match="more than 2 questions"):
            answered.begin(caller)


def test_a_restart_forgets_the_hour_of_no_caller():
    store = MemoryStore()
    for caller in ("one", "other"):
        AnsweredRows(Consent(questions_per_hour=1), store).begin(caller)
    answered = AnsweredRows(Consent(questions_per_hour=1), store)
    for caller in ("one", "other"):
        with pytest.raises(lgb_dp.InvalidArgumentError, match="more than 1 questions"):
            answered.begin(caller)
    answered.reset_hour()
    for caller in ("one", "other"):
        answered.begin(caller)


def test_a_refusal_does_not_say_how_often_others_have_asked():
    """Rows that others have asked about with their models; before, it said how many they were."""
    rows, refusals = [bytes([k]) * 16 for k in range(9)], []
    for n_of_others in (1, 7):
        answered = AnsweredRows(Consent(models_per_row=2))
        for model in ("of one caller", "of another one"):
            answered.take(model, AnswerKind.LABEL, rows[:n_of_others])
        with pytest.raises(lgb_dp.InvalidArgumentError, match="models_per_row=2") as refused:
            answered.take("mine", AnswerKind.LABEL, rows)
        refusals.append(str(refused.value))
    assert refusals[0] == refusals[1]


@pytest.mark.parametrize("answer", ["point", "score"])
def test_an_open_question_again_is_answered_as_before_though_the_row_has_changed(answer):
    """Before, a row that changed was answered anew any number of times, and counted once."""
    store = MemoryStore()
    party = knowing(answers=EVERYTHING, questions_per_row=2, store=store)
    first = asked_by(THIS_PROCESS, party, answer=answer)
    changed = party.with_rows(-OTHER, ids=IDS)
    for _ in range(3):
        again = predict(trained()[0], OWN, parties=[changed], answer=answer)
        np.testing.assert_array_equal(again, first)
    assert counted(party) == 300
    # After a restart, too, and in another order, beside rows that are new.
    party = knowing(answers=EVERYTHING, questions_per_row=2, store=store)
    order = np.random.default_rng(2).permutation(300)
    mixed = party.with_rows(-OTHER[order], ids=[IDS[k] for k in order[:-1]] + ["a new person"])
    again = predict(trained()[0], OWN[order], parties=[mixed], answer=answer)
    np.testing.assert_array_equal(again[:-1], first[order[:-1]])
    assert counted(party) == 301


def test_each_answer_about_a_row_that_changes_is_counted():
    """Consent to two questions is one to two answers about an id, in whatever state the row is."""
    party = knowing(answers=EVERYTHING, questions_per_row=2)
    first = asked_by(THIS_PROCESS, party, answer="rounded")
    changed = party.with_rows(-OTHER, ids=IDS)
    second = predict(trained()[0], OWN, parties=[changed])
    assert (first != second).any()
    assert counted(party) == 600
    for answer in EVERYTHING:
        with pytest.raises(lgb_dp.InvalidArgumentError, match=r"300 of 300 rows.*asked"):
            predict(trained()[0], OWN, parties=[changed], answer=answer)


def test_open_answers_of_two_kinds_are_two_questions():
    party = knowing(answers=EVERYTHING)
    asked_by(THIS_PROCESS, party, answer="point")
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"300 of 300 rows.*asked"):
        asked_by(THIS_PROCESS, party, answer="score")
    assert counted(party) == 300


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("answer", ["label", "score"])
def test_a_forked_process_answers_about_no_row_of_its_parent(answer):
    """Its counts would be a copy: before, parent and child each answered about a row."""
    party = knowing(answers=EVERYTHING)
    assert refused_in_a_child(lambda: asked_by(THIS_PROCESS, party, answer=answer))
    asked_by(THIS_PROCESS, party, answer=answer)
    assert counted(party) == 300
