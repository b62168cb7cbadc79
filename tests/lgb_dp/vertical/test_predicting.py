"""Predictions by two parties: what either learns, by questions of every order, and what survives a crash."""

import pickle
from dataclasses import replace
from threading import Thread

import lightgbm
import numpy as np
import pytest
import scipy.sparse

import lgb_dp
from gbdt_commons.store import MemoryStore
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import InvalidDataError, ProtocolError, TransferCheckError
from gbdt_parties.two_party.answers import MAX_ROWS, AskingSide
from gbdt_parties.two_party.life import Failures
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.vertical import (
    ColumnParty,
    Consent,
    VerticalDPLGBMClassifier,
    VerticalDPLGBMRegressor,
    predict,
    train,
)
from lgb_dp.vertical.predicting import predicted
from lgb_dp.vertical.prediction.answering import (
    ASKING_PLACE,
    SENT,
    AnsweringParty,
    PartyAnswers,
    RowQuestion,
    opened,
)
from lgb_dp.vertical.prediction.answers import LEVELS, AnswerKind, nearest_points
from lgb_dp.vertical.prediction.asking import AskingParty
from predicted_parties import (
    CATEGORIES,
    EVERYTHING,
    IDS,
    OTHER,
    OWN,
    SCORE,
    X,
    bank,
    counted,
    knowing,
    model_of,
    trained,
)

pytest.importorskip("nacl")
pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")


def sides(party, store):
    """Asking and answering side of questions to a party about its rows, and the model."""
    model = model_of(party, trained()[0])
    answering = AnsweringParty(party.own_rows)
    return AskingParty(model, answering, store, party.name), answering, model


def test_training_lets_the_party_keep_the_model():
    party = bank()
    rows = lgb_dp.Dataset(X[:, :1], SCORE > 0, bounds=(-1, 1), max_bin=255, spacing="mixed")
    trainers = [lgb_dp.NewtonBoost(50.0, 1e-5)]
    booster = train({"objective": "binary"}, rows, 2, parties=[party], callbacks=trainers, trees_per_round=2)
    assert predict(booster, X[:4, :1], parties=[party.with_rows(OTHER[:4])]).shape == (4,)


@pytest.mark.parametrize("objective", ["binary", "regression", "poisson"])
def test_the_parts_of_a_score_add_up_to_that_of_the_model(objective):
    booster, _ = trained(objective)
    party = knowing(objective)
    model = model_of(party, booster)
    other = model.other_part(party.codes, party.bins)
    whole = model.scale.centre + model.scale.scale * (model.first_part(OWN) + other)
    np.testing.assert_allclose(whole, booster.predict(X, raw_score=True), rtol=0, atol=1e-12)
    assert len(np.unique(other)) > 10
    sparse = model.first_part(scipy.sparse.csr_matrix(OWN))
    np.testing.assert_array_equal(sparse, model.first_part(OWN))


def test_parts_add_up_where_the_other_party_owns_the_first_tree():
    """Its part is around 0, and the prior is in the first party's."""
    booster, _ = trained()
    model = DPBooster(model_str=booster.model_to_string(start_iteration=1, num_iteration=11))
    party = bank()
    party.answers.remember(model, party.bins, None)
    joint = model_of(party, model)
    assert joint.places[0] == 1
    whole = joint.first_part(OWN) + joint.other_part(party.codes, party.bins)
    np.testing.assert_allclose(whole, model.predict(X, raw_score=True), rtol=0, atol=1e-12)


def test_a_party_with_sparse_columns_has_the_same_part():
    dense = ColumnParty(np.nan_to_num(OTHER), name="bank", bounds=(-1, 1))
    sparse = dense.with_rows(scipy.sparse.csr_matrix(np.nan_to_num(OTHER)))
    model = model_of(knowing(), trained()[0])
    parts = [model.other_part(one.codes, one.bins) for one in (dense, sparse)]
    np.testing.assert_array_equal(*parts)


@pytest.mark.parametrize("objective", ["binary", "regression", "poisson"])
def test_answers_are_the_models_at_the_nearest_points(objective):
    booster, _ = trained(objective)
    party = knowing(objective, answers=EVERYTHING, questions_per_row=3)
    exact = booster.predict(X)
    np.testing.assert_allclose(predict(booster, OWN, parties=[party], answer="score"), exact, atol=1e-12)
    at_points = predict(booster, OWN, parties=[party], answer="point")
    rounded = predict(booster, OWN, parties=[party])
    width = {"binary": 1.0, "regression": 4.0, "poisson": 8.0}[objective]
    low = {"binary": 0.0, "regression": -2.0, "poisson": 0.0}[objective]
    clipped = np.clip(at_points, low, low + width)
    np.testing.assert_allclose(rounded, clipped, rtol=0, atol=width * 0.5 / LEVELS + 1e-9)
    assert np.abs(rounded - exact).max() < 0.1 * width


def test_a_classifier_asks_for_labels_and_probabilities():
    y = np.where(SCORE > 0, "well", "ill")
    model = VerticalDPLGBMClassifier(50.0, n_estimators=8, n_jobs=1)
    party = ColumnParty(OTHER, name="bank", bounds=(-1, 1))
    bounds = {"bounds": {0: (-1, 1)}, "categories": CATEGORIES}
    model.fit(OWN, y, parties=[party], classes=["ill", "well"], **bounds)
    asked = party.with_rows(OTHER, ids=IDS)
    probability = model.predict_proba(OWN, parties=[asked])
    assert np.abs(probability - model.predict_proba(X)).max() < 0.2
    assert probability.sum(axis=1) == pytest.approx(1.0)
    # The label is in the probability, and no further question.
    labels = model.predict(OWN, parties=[asked])
    assert labels.tolist() == model.classes_[probability.argmax(axis=1)].tolist()
    assert (labels == model.predict(X)).mean() > 0.9
    # Answers are kept as long as the fit is, in copies, too.
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(OWN, parties=[asked]) == probability).all()
    with pytest.raises(lgb_dp.InvalidArgumentError, match="has no probabilities"):
        model.predict_proba(OWN, parties=[asked], answer="label")
    some = party.with_rows(OTHER[:5])
    assert set(model.predict(OWN[:5], parties=[some])) <= {"ill", "well"}
    with pytest.raises(lgb_dp.InvalidArgumentError, match="asked about before"):
        model.predict_proba(OWN[:5], parties=[some])


def test_a_regressor_asks_for_rounded_numbers():
    model = VerticalDPLGBMRegressor(50.0, n_estimators=8, n_jobs=1)
    party = ColumnParty(OTHER, name="bank", bounds=(-1, 1))
    model.fit(X[:, :1], SCORE, parties=[party], label_bounds=(-2, 2), bounds=(-1, 1))
    found = model.predict(X[:, :1], parties=[party])
    assert np.abs(found - model.predict(X[:, [0, 2, 3]])).max() < 0.4
    with pytest.raises(lgb_dp.InvalidArgumentError, match="answer='label' is for classes"):
        model.predict(X[:, :1], parties=[party], answer="label")


def test_tables_are_taken_by_name():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.nan_to_num(X), columns=list("abcd"))
    party = ColumnParty(frame[["c", "d"]], name="bank", bounds=(-1, 1))
    model = VerticalDPLGBMClassifier(50.0, n_estimators=4, n_jobs=1)
    model.fit(frame[["a", "b"]], (SCORE > 0).astype(int), parties=[party], bounds=(-1, 2))
    one = model.predict_proba(frame[["b", "a"]], parties=[party.with_rows(frame[["d", "c"]])])
    other = model.predict_proba(frame[["a", "b"]], parties=[party.with_rows(frame[["c", "d"]])])
    np.testing.assert_array_equal(one, other)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="missing are"):
        model.predict_proba(frame[["a", "c"]], parties=[party])
    with pytest.raises(lgb_dp.InvalidArgumentError, match="missing are"):
        party.with_rows(frame[["a", "c"]])


def test_a_column_that_came_later_is_no_reason_to_refuse_and_one_that_is_gone_is_named():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(np.nan_to_num(X), columns=list("abcd")).assign(e=0.5)
    party = ColumnParty(frame[["c", "d"]], name="bank", bounds=(-1, 1))
    model = VerticalDPLGBMClassifier(50.0, n_estimators=8, n_jobs=1)
    model.fit(frame[["a", "b"]], (SCORE > 0).astype(int), parties=[party], bounds=(-1, 2))
    own = frame[["e", "b", "a"]]
    expected = model.predict_proba(own, parties=[party])

    def later(columns, bounds=(-1, 1)):
        other = ColumnParty(frame[columns], name="bank", bounds=bounds)
        other.answers = party.answers
        return model.predict_proba(own, parties=[other])

    np.testing.assert_array_equal(later(["e", "d", "c"]), expected)
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"\['c'\].*no longer"):
        later(["d", "e"])
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"\['d'\].*otherwise"):
        later(["c", "d"], {"c": (-1, 1), "d": (-2, 2)})


# What the asking side learns.


def test_a_repeated_question_is_answered_alike_and_neither_counted_nor_sent(monkeypatch):
    party, store = knowing(), MemoryStore()
    asked = party.with_rows(OTHER, ids=IDS)
    first = predicted(trained()[0], OWN, [asked], "rounded", store)
    assert counted(party) == 300
    monkeypatch.setattr(AnsweringParty, "choices", None)
    np.testing.assert_array_equal(predicted(trained()[0], OWN, [asked], "rounded", store), first)
    order = np.random.default_rng(0).permutation(300)
    mixed = party.with_rows(OTHER[order], ids=[IDS[k] for k in order])
    np.testing.assert_array_equal(
        predicted(trained()[0], OWN[order], [mixed], "rounded", store), first[order]
    )
    assert counted(party) == 300


def test_another_question_about_a_row_is_refused():
    """By another kind of answer, by other columns of the asking side, in another order or overlap."""
    party, store = knowing(), MemoryStore()
    predicted(trained()[0], OWN[:200], [party.with_rows(OTHER[:200], ids=IDS[:200])], "label", store)
    asked = party.with_rows(OTHER, ids=IDS)
    for own, answer in ((OWN, "rounded"), (OWN * [0.5, 1], "label")):
        with pytest.raises(lgb_dp.InvalidArgumentError, match="rows were asked"):
            predicted(trained()[0], own, [asked], answer, store)
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"200 of 300 rows.*asked"):
        predicted(trained()[0], OWN, [asked], "label", MemoryStore())
    assert counted(party) == 200
    # Rows that are new are asked about, those that are known are not.
    predicted(trained()[0], OWN, [asked], "label", store)
    assert counted(party) == 300


def test_rows_without_ids_count_by_their_place_in_a_selection():
    party = knowing()
    one, other = party.with_rows(OTHER[:5]), party.with_rows(OTHER[:5])
    # Names do not tell that cells are equal.
    assert not set(one.row_names) & set(other.row_names)
    predict(trained()[0], OWN[:5], parties=[one])
    with pytest.raises(lgb_dp.InvalidArgumentError, match="asked about before"):
        predict(trained()[0], OWN[:5], parties=[one])
    predict(trained()[0], OWN[:5], parties=[other])
    assert counted(party) == 10


def test_any_number_of_questions_tells_the_point_and_no_more():
    """An asking side that deviates numbers the points; dithered ones would average to F_B."""
    party = knowing(questions_per_row=5, questions_per_hour=50)
    asking, answering, model = sides(party, MemoryStore())
    question = RowQuestion(model, AnswerKind.ROUNDED, tuple(party.own_rows.row_names[:40]))
    tables = np.tile(np.arange(32, dtype=np.uint64), (40, 1))
    seen = []
    for _ in range(4):
        side = AskingSide(
            asking.set_up(), 1, question.to_bytes(), tables[:, ::-1] if len(seen) % 2 else tables
        )
        found = side.entries(answering.shares(side.masked_tables(answering.choices(question))))
        seen.append(31 - found if len(seen) % 2 else found)
    points = nearest_points(model.other_part(party.codes, party.bins)[:40], model.points)
    for found in seen:
        np.testing.assert_array_equal(found, points)


def test_threads_do_not_ask_about_a_row_twice():
    party, errors = knowing(), []

    def ask():
        try:
            predict(trained()[0], OWN, parties=[party])
        except lgb_dp.InvalidArgumentError as error:
            errors.append(str(error))

    threads = [Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 2
    assert all("asked about before" in error for error in errors)
    assert counted(party) == 300


def test_questions_of_an_hour_are_limited_refused_ones_too():
    party = knowing(questions_per_hour=3)
    predict(trained()[0], OWN, parties=[party])
    for _ in range(2):
        with pytest.raises(lgb_dp.InvalidArgumentError, match="asked about before"):
            predict(trained()[0], OWN, parties=[party])
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"3 questions.*hour"):
        predict(trained()[0], OWN, parties=[party.with_rows(OTHER)])


def test_points_and_scores_take_consent_and_can_be_asked_for_again():
    for answer in ("point", "score"):
        with pytest.raises(lgb_dp.InvalidArgumentError, match=f"'{answer}'.*consented"):
            predict(trained()[0], OWN, parties=[knowing()], answer=answer)
        party = knowing(answers=(answer, "label"))
        first = predict(trained()[0], OWN, parties=[party], answer=answer)
        np.testing.assert_array_equal(predict(trained()[0], OWN, parties=[party], answer=answer), first)
        assert counted(party) == 300
        with pytest.raises(lgb_dp.InvalidArgumentError, match="asked about before"):
            predict(trained()[0], OWN, parties=[party], answer="label")
    _, answering, model = sides(knowing(), MemoryStore())
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"answer='label' is given.*table"):
        answering.given(RowQuestion(model, AnswerKind.LABEL, tuple(knowing().own_rows.row_names)))


# What the answering side learns.


def test_the_answering_side_sees_messages_of_public_lengths_that_never_repeat(monkeypatch):
    """Its view: the question, and tables under pads of a session of its own."""
    seen = []
    shares = AnsweringParty.shares
    monkeypatch.setattr(
        AnsweringParty, "shares", lambda self, message: seen.append(message) or shares(self, message)
    )
    for own in (OWN, OWN, -OWN):
        predict(trained()[0], own, parties=[knowing()])
    assert {len(message) for message in seen} == {300 * 31 * 6}
    assert len(set(seen)) == 3
    for message in seen:
        octets = np.bincount(np.frombuffer(message, np.uint8), minlength=256)
        expected = len(message) / 256
        assert ((octets - expected) ** 2 / expected).sum() < 400  # chi-square of 255 degrees


def test_the_answering_side_keeps_shares_that_say_nothing_of_the_answer():
    store = MemoryStore()
    predict(trained()[0], OWN, parties=[knowing(store=store)])
    (key,) = store.keys(SENT)
    kept = store.get(SENT, key)
    words = np.zeros((300, 8), dtype=np.uint8)
    words[:, :6] = np.frombuffer(kept, dtype=np.uint8).reshape(300, 6)
    # Entries are at most 1000; shares of them are spread over the ring.
    assert (words.view("<u8") > 1 << 40).mean() > 0.95


def test_an_answer_that_is_in_no_table_is_an_error_of_the_asking_side_alone(monkeypatch):
    party, shares = knowing(), AnsweringParty.shares
    monkeypatch.setattr(AnsweringParty, "shares", lambda self, message: bytes(len(shares(self, message))))
    with pytest.raises(lgb_dp.InvalidArgumentError, match="party deviated"):
        predict(trained()[0], OWN, parties=[party])
    monkeypatch.undo()
    party = knowing(answers=("point", "score"))
    for answer, wrong in (("point", 32.0), ("point", 0.5), ("score", np.inf)):
        monkeypatch.setattr(AnsweringParty, "given", lambda self, question, wrong=wrong: np.full(300, wrong))
        with pytest.raises(lgb_dp.InvalidArgumentError, match=r"points from 0.*31.*scores"):
            predict(trained()[0], OWN, parties=[party], answer=answer)


def test_inconsistent_choices_end_the_session_and_are_counted(tmp_path, monkeypatch):
    choices = AnsweringParty.choices

    def spoilt(self, *args):
        message = bytearray(choices(self, *args))
        message[40] ^= 1
        return bytes(message)

    monkeypatch.setattr(AnsweringParty, "choices", spoilt)
    party = knowing()
    for _ in range(3):
        with pytest.raises(TransferCheckError):
            predict(trained()[0], OWN, parties=[party], folder=tmp_path)
    monkeypatch.undo()
    with pytest.raises(TransferCheckError, match="failed 3 times"):
        predict(trained()[0], OWN, parties=[party], folder=tmp_path)
    assert counted(party) == 0


# Crashes, and what is kept.


class LostError(Exception):
    """A crash."""


def test_a_question_broken_off_before_its_tables_is_not_counted(tmp_path, monkeypatch):
    party = knowing()

    def lost(self, message):
        raise LostError

    monkeypatch.setattr(AnsweringParty, "shares", lost)
    with pytest.raises(LostError):
        predict(trained()[0], OWN, parties=[party], folder=tmp_path)
    monkeypatch.undo()
    assert counted(party) == 0
    predict(trained()[0], OWN, parties=[party], folder=tmp_path)
    assert counted(party) == 300


def test_an_answer_that_was_counted_and_lost_is_given_again_with_the_same_bytes(tmp_path, monkeypatch):
    path = tmp_path / "party.store"
    store = StoreFile(path, "party")
    party, sent = knowing(store=store), []
    asked = party.with_rows(OTHER, ids=IDS)
    shares = AnsweringParty.shares

    def lost(self, message):
        sent.append(shares(self, message))
        raise LostError

    monkeypatch.setattr(AnsweringParty, "shares", lost)
    with pytest.raises(LostError):
        predict(trained()[0], OWN, parties=[asked], folder=tmp_path)
    assert counted(party) == 300
    # Both sides begin anew.
    store.close()
    store = StoreFile(path, "party")
    asked = knowing(store=store).with_rows(OTHER, ids=IDS)
    monkeypatch.setattr(AnsweringParty, "choices", None)
    found = predict(trained()[0], OWN, parties=[asked], folder=tmp_path)
    monkeypatch.undo()
    np.testing.assert_array_equal(found, predict_anew())
    assert counted(asked) == 300
    # Another question's answer does not come with it.
    with pytest.raises(lgb_dp.InvalidArgumentError, match="asked about before"):
        predict(trained()[0], OWN * [0.5, 1], parties=[asked], folder=tmp_path)
    store.close()


def test_another_askers_question_does_not_lose_an_answer(tmp_path, monkeypatch):
    """Before, the shares of the last question about a model replaced all earlier ones."""
    party = knowing()
    shares = AnsweringParty.shares

    def lost(self, message):
        shares(self, message)
        raise LostError

    one, other = (party.with_rows(OTHER[rows], ids=IDS[rows]) for rows in (slice(100), slice(100, 300)))
    monkeypatch.setattr(AnsweringParty, "shares", lost)
    with pytest.raises(LostError):
        predict(trained()[0], OWN[:100], parties=[one], folder=tmp_path / "one")
    monkeypatch.undo()
    predict(trained()[0], OWN[100:], parties=[other], folder=tmp_path / "other")
    found = predict(trained()[0], OWN[:100], parties=[one], folder=tmp_path / "one")
    np.testing.assert_array_equal(found, predict_anew()[:100])
    assert counted(party) == 300


def test_a_caller_whose_checks_failed_keeps_no_other_one_from_asking(monkeypatch):
    """Before, three failed checks of one caller ended the questions of all."""
    party = knowing()

    def session(caller):
        return AnsweringParty(replace(party.own_rows, caller=caller))

    def set_up(answering):
        own = opened(bytes(32), ASKING_PLACE, Failures())
        points = own.take_greeting(answering.set_up(0, bytes(32) + own.greeting))
        return own.take_points(answering.set_up(1, points))

    for _ in range(3):
        answering = session("a liar")
        trees = bytearray(set_up(answering))
        trees[-1] ^= 1
        with pytest.raises(TransferCheckError, match="pass their check"):
            answering.set_up(2, bytes(trees))
    with pytest.raises(TransferCheckError, match="failed 3 times"):
        set_up(session("a liar"))
    honest = session("another caller")
    honest.set_up(2, set_up(honest))


def predict_anew():
    return predict(trained()[0], OWN, parties=[knowing()])


def test_kept_bytes_answer_the_same_tables_alone():
    store = MemoryStore()
    party = knowing(store=store)
    asking, answering, model = sides(party, MemoryStore())
    question = RowQuestion(model, AnswerKind.ROUNDED, tuple(party.own_rows.row_names[:8]))
    side = AskingSide(asking.set_up(), 1, question.to_bytes(), np.zeros((8, 32), dtype=np.uint64))
    masked = side.masked_tables(answering.choices(question))
    assert answering.again(model, question.with_tables(masked)) is None
    shares = answering.shares(masked)
    assert answering.again(model, question.with_tables(masked)) == shares
    for other_question in (
        RowQuestion(model, AnswerKind.LABEL, question.rows),
        RowQuestion(model, AnswerKind.ROUNDED, question.rows[::-1]),
    ):
        assert answering.again(model, other_question.with_tables(masked)) is None
    other_tables = masked[:-1] + bytes([masked[-1] ^ 1])
    assert answering.again(model, question.with_tables(other_tables)) is None
    with pytest.raises(ProtocolError, match="question is open"):
        answering.shares(masked)


def test_a_restart_forgets_nothing(tmp_path):
    store = StoreFile(tmp_path / "party.store", "party")
    asked = knowing(store=store).with_rows(OTHER, ids=IDS)
    first = predict(trained()[0], OWN, parties=[asked], folder=tmp_path / "a")
    store.close()
    store = StoreFile(tmp_path / "party.store", "party")
    party = bank()
    party.answers = PartyAnswers(Consent(), store)
    asked = party.with_rows(OTHER, ids=IDS)
    again = predict(trained()[0], OWN, parties=[asked], folder=tmp_path / "a")
    np.testing.assert_array_equal(again, first)
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"300 of 300 rows.*asked"):
        predict(trained()[0], OWN, parties=[asked])
    store.close()


def test_an_answer_that_cannot_be_kept_does_not_leave():
    class Full(MemoryStore):
        def write_entry(self, kind, key, place, content):
            if kind == SENT.name:
                raise OSError("disk full")
            super().write_entry(kind, key, place, content)

    party = knowing(store=Full())
    with pytest.raises(OSError, match="disk full"):
        predict(trained()[0], OWN, parties=[party])
    assert counted(party) == 0


# Bad input.


def test_other_models_are_refused():
    booster, _ = trained()
    party = knowing()
    few = DPBooster(model_str=booster.model_to_string(num_iteration=5))
    for other in (few, trained("regression")[0]):
        with pytest.raises(lgb_dp.InvalidArgumentError, match="party 'bank' has trained"):
            predict(other, OWN, parties=[party])
    linear = {"linear_tree": True, "verbosity": -1, "min_data_in_leaf": 5, "num_threads": 1}
    stock = lightgbm.train(linear, lightgbm.Dataset(np.nan_to_num(X), SCORE), 2)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="booster"):
        predict(stock, OWN, parties=[party])
    with pytest.raises(lgb_dp.ArgumentTypeError, match="booster must be"):
        predict("model.txt", OWN, parties=[party])
    # One that was saved and loaded is the same.
    loaded = DPBooster(model_str=booster.model_to_string())
    np.testing.assert_array_equal(predict(loaded, OWN, parties=[party]), predict_anew())


def test_models_of_other_columns_or_of_mixed_trees_are_not_kept():
    booster, _ = trained()
    party = ColumnParty(OTHER, name="bank", bounds=(-2, 2))
    with pytest.raises(lgb_dp.InvalidArgumentError, match="those of the 2"):
        party.answers.remember(booster, party.bins, None)
    rows = lgb_dp.Dataset(X[:, [0, 2]], SCORE > 0, bounds=(-1, 1))
    pooled = lgb_dp_train(rows)
    party = ColumnParty(X[:, 2:3], name="bank", bounds=(-1, 1))
    with pytest.raises(lgb_dp.InvalidArgumentError, match="columns of both"):
        party.answers.remember(pooled, party.bins, None)


def lgb_dp_train(rows):
    params = {"objective": "binary", "max_depth": 4, "verbosity": -1, "num_threads": 1}
    return lightgbm.train(params, rows, 10, callbacks=[lgb_dp.NewtonBoost(50.0, 1e-5)])


def test_other_rows_columns_and_arguments_are_refused_by_name():
    booster, _ = trained()
    party = knowing()
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"X has 299 rows.*party 'bank' 300"):
        predict(booster, OWN[1:], parties=[party])
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"X has 4 features.*parties.*2"):
        predict(booster, X, parties=[party])
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"1 features.*bins have 2"):
        party.with_rows(X[:, :1])
    large = np.zeros((MAX_ROWS + 1, 2))
    with pytest.raises(lgb_dp.InvalidArgumentError, match=f"X has {MAX_ROWS + 1} rows.*question"):
        predict(booster, large, parties=[party.with_rows(large)])
    for parties in (party, [], [party, party], [OTHER]):
        with pytest.raises(lgb_dp.ArgumentTypeError, match="sequence of one"):
            predict(booster, OWN, parties=parties)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="answer must be"):
        predict(booster, OWN, parties=[party], answer="everything")
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"ids.*3 entries.*300 rows"):
        party.with_rows(OTHER, ids=IDS[:3])
    with pytest.raises(InvalidDataError, match="only 1 different"):
        party.with_rows(OTHER, ids=["a"] * 300)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="answers must be"):
        Consent(answers=("all",))
    with pytest.raises(lgb_dp.InvalidArgumentError, match="questions_per_hour"):
        Consent(questions_per_hour=0)
    assert counted(party) == 0


def test_a_question_about_rows_that_are_not_there_or_too_many_is_refused():
    party = knowing()
    asking, answering, model = sides(party, MemoryStore())
    for message in (b"", bytes(64)):
        with pytest.raises(ProtocolError):
            answering.set_up(1, message)
    with pytest.raises(ProtocolError, match="session was set"):
        answering.choices(RowQuestion(model, AnswerKind.LABEL, (bytes(16),)))
    asking.set_up()
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"1 of 1 rows.*selection"):
        answering.choices(RowQuestion(model, AnswerKind.LABEL, (bytes(16),)))
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"1 of 1 rows.*asked"):
        answering.choices(RowQuestion(model, AnswerKind.LABEL, (party.own_rows.row_names[0],) * 2))
    for n in (0, MAX_ROWS + 1):
        with pytest.raises(lgb_dp.InvalidArgumentError, match=f"{n} rows.*question"):
            RowQuestion(model, AnswerKind.LABEL, (bytes(16),) * n)
