"""Questions about rows at the ends of a connection: the same answers, and every request that is not due."""

from dataclasses import replace

import numpy as np
import pytest

import lgb_dp
from gbdt_commons.store import MemoryStore
from gbdt_parties import messages
from gbdt_parties.channel import Channel
from gbdt_parties.errors import PartyRefusedError, PartyUnavailableError, ProtocolError
from gbdt_parties.messages import Abort, Finish
from gbdt_parties.session import SessionHandler
from gbdt_parties.traffic import Traffic
from gbdt_parties.two_party.answers import MAX_ROWS
from lgb_dp.vertical import predict
from lgb_dp.vertical.predicting import predicted
from lgb_dp.vertical.prediction.models import digest_of, text_of
from lgb_dp.vertical.prediction.questions import (
    Ask,
    OpenQuestions,
    OpenReply,
    QuestionSession,
    QuestionsOpened,
    RemoteAnswerer,
    Repeat,
    RowReply,
    SetUp,
    Tables,
)
from lgb_dp.vertical.prediction.rows import digest_of_names, named_by_ids
from predicted_parties import EVERYTHING, IDS, OTHER, OWN, counted, knowing, trained

pytest.importorskip("nacl")
pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")


class Served(SessionHandler):
    """A party behind a connection that may break after an answer."""

    opening, closing = (OpenQuestions,), (Finish, Abort)
    name = "bank"

    def __init__(self, rows):
        super().__init__()
        self.rows, self.lost = rows, None

    def open(self, message, session):
        kept = QuestionSession(self.rows, message)
        return kept, kept.opened()

    def handle(self, request):
        reply = super().handle(request)
        if isinstance(messages.read(request).message, self.lost or ()):
            raise PartyUnavailableError("the connection is lost")
        return reply


def channel_to(party):
    return Channel(party, np.random.default_rng().bytes(16), Traffic())


def opened(party):
    channel, text = channel_to(party), text_of(trained()[0])
    return channel, RemoteAnswerer(channel, text, digest_of(text))


@pytest.mark.parametrize("answer", EVERYTHING)
def test_answers_are_those_of_a_party_in_this_process(answer):
    one, other = knowing(answers=EVERYTHING), knowing(answers=EVERYTHING)
    served = Served(one.with_rows(OTHER, ids=IDS))
    found = predict(trained()[0], OWN, parties=[served], answer=answer, ids=IDS)
    np.testing.assert_array_equal(found, predict(trained()[0], OWN, parties=[other], answer=answer))
    assert counted(one) == 300
    assert not served.has_sessions


def test_the_traffic_with_a_party_in_this_process_is_that_with_a_served_one():
    """Before, questions within a process were not counted, and so neither were their base transfers."""
    here, apart = Traffic(), Traffic()
    predict(trained()[0], OWN, parties=[knowing()], traffic=here)
    predict(trained()[0], OWN, parties=[Served(knowing().own_rows)], traffic=apart)
    assert here.to_dicts() == apart.to_dicts()
    assert here.flows["active", "bank", "SetUp"].bytes > 128 * 64
    assert here.flows["bank", "active", "RowReply"].messages == 5


def test_messages_of_questions_are_counted():
    traffic = Traffic()
    served = Served(knowing().own_rows)
    predict(trained()[0], OWN, parties=[served], traffic=traffic)
    sent = {
        message: flow.messages for (_, receiver, message), flow in traffic.flows.items() if receiver == "bank"
    }
    assert sent == {"OpenQuestions": 1, "SetUp": 3, "Ask": 1, "Tables": 1, "Finish": 1}


def test_refusals_come_with_their_reason():
    served = Served(knowing().own_rows)
    predict(trained()[0], OWN, parties=[served])
    with pytest.raises(PartyRefusedError, match=r"300 of 300 rows.*asked"):
        predict(trained()[0], OWN, parties=[served])
    with pytest.raises(PartyRefusedError, match=r"'point'.*consented"):
        predict(trained()[0], OWN, parties=[served], answer="point")
    with pytest.raises(PartyRefusedError, match=r"model.*'bank' has trained"):
        predict(trained("regression")[0], OWN, parties=[served])
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"X has 299 rows.*party 'bank' 300"):
        predict(trained()[0], OWN[1:], parties=[served])


def test_more_rows_than_a_question_may_be_about_are_refused_when_it_is_opened():
    large = knowing().with_rows(np.zeros((MAX_ROWS + 1, 2)))
    with pytest.raises(PartyRefusedError, match=f"selection has {MAX_ROWS + 1} rows"):
        predict(trained()[0], OWN, parties=[Served(large)])


def test_ids_are_compared_and_digests_of_ids_are_not_sent():
    party = knowing()
    served = Served(party.with_rows(OTHER, ids=IDS))
    assert (
        QuestionSession(served.rows, OpenQuestions(digest_of(text_of(trained()[0])))).opened().selection
        == b""
    )
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"pass.*X as ids="):
        predict(trained()[0], OWN, parties=[served])
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"'bank'.*order"):
        predict(trained()[0], OWN, parties=[served], ids=IDS[::-1])
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"ids.*299 entries.*300 rows"):
        predict(trained()[0], OWN, parties=[served], ids=IDS[1:])
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"no ids.*none"):
        predict(trained()[0], OWN, parties=[Served(party.own_rows)], ids=IDS)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="party 'bank', in their"):
        predict(trained()[0], OWN, parties=[served.rows], ids=IDS[::-1])
    assert counted(party) == 0


@pytest.mark.parametrize("answer", EVERYTHING)
def test_rows_in_another_order_are_refused_before_anything_is_counted(answer):
    """Before, points and scores of one order were taken for those of another one."""
    party = knowing(answers=EVERYTHING)
    served = Served(party.with_rows(OTHER, ids=IDS))
    swapped = [IDS[1], IDS[0], *IDS[2:]]
    for ids in (IDS[::-1], swapped, [*IDS[:-1], "a person of no selection"]):
        with pytest.raises(lgb_dp.InvalidArgumentError, match=r"answers.*rows"):
            predict(trained()[0], OWN, parties=[served], answer=answer, ids=ids)
    assert counted(party) == 0


def test_tables_for_rows_in_another_order_are_about_another_question():
    """A party that claims the order of the one that asks, and has another one, does not get to its tables."""

    class Liar(Served):
        def open(self, message, session):
            kept, reply = super().open(message, session)
            return kept, replace(reply, order=digest_of_names(named_by_ids(IDS[::-1], 300)))

    party = knowing()
    served = Liar(party.with_rows(OTHER, ids=IDS))
    with pytest.raises(ProtocolError, match="another question"):
        predict(trained()[0], OWN, parties=[served], ids=IDS[::-1])
    assert counted(party) == 0


def test_an_answer_that_is_lost_on_its_way_is_given_again():
    """In another session, with the same bytes; the question is counted once."""
    party, store = knowing(), MemoryStore()
    served = Served(party.with_rows(OTHER, ids=IDS))
    served.lost = Tables
    with pytest.raises(PartyUnavailableError):
        predicted(trained()[0], OWN, [served], "rounded", store, IDS)
    assert counted(party) == 300
    # The rows of the lost question may not be in the next selection.
    served.lost, served.rows = None, party.with_rows(OTHER[:10], ids=IDS[:10])
    found = predicted(trained()[0], OWN[:10], [served], "rounded", store, IDS[:10])
    np.testing.assert_array_equal(found, predict(trained()[0], OWN, parties=[knowing()])[:10])
    assert counted(party) == 300


def test_a_question_that_is_lost_before_its_tables_is_asked_anew():
    party, store = knowing(), MemoryStore()
    served = Served(party.own_rows)
    for served.lost in (SetUp, Ask):
        with pytest.raises(PartyUnavailableError):
            predicted(trained()[0], OWN, [served], "label", store)
    assert counted(party) == 0
    served.lost = None
    assert set(predicted(trained()[0], OWN, [served], "label", store)) == {0, 1}
    assert counted(party) == 300


def test_requests_that_are_not_due_or_malformed_are_refused_and_count_nothing():
    party = knowing()
    served = Served(party.own_rows)
    place = np.zeros(1, dtype=np.int64)
    for request, reason in (
        (Ask("label", place), "before its session was set up"),
        (Ask("everything", place), "unknown kind"),
        (Ask("label", place - 1), "at most 65536 of the 300 rows"),
        (Ask("label", place + 300), "at most 65536 of the 300 rows"),
        (Ask("label", np.zeros(MAX_ROWS + 1, dtype=np.int64)), "at most 65536 of the 300 rows"),
        (Ask("label", place[:0]), "0 rows of a question"),
        (Tables(b"x"), "no question is open"),
        (SetUp(0, b"short"), "another version"),
        (SetUp(1, b""), "before its session was set up"),
        (SetUp(7, b""), "before its session was set up"),
        (Repeat(b"short"), "cut off"),
        (OpenReply(np.zeros(1)), "is no request about rows"),
    ):
        channel, _ = opened(served)
        with pytest.raises(PartyRefusedError, match=reason):
            channel.ask(request, RowReply)
        with pytest.raises(PartyUnavailableError):
            channel.ask(Tables(b""), RowReply)
    channel, _ = opened(served)
    assert channel.ask(Repeat(bytes(32)), RowReply).content == b""
    assert counted(party) == 0


def test_another_set_up_breaks_the_open_question_off():
    party = knowing()
    channel, remote = opened(Served(party.own_rows))
    asking = predicted_side(remote)
    asking.set_up()
    remote.channel.ask(Ask("label", np.arange(3)), RowReply)
    asking.set_up()
    with pytest.raises(PartyRefusedError, match="question is open"):
        channel.ask(Tables(b""), RowReply)
    assert counted(party) == 0


def predicted_side(remote):
    from lgb_dp.vertical.prediction.asking import AskingParty

    return AskingParty(remote.model, remote, MemoryStore(), "bank")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (QuestionsOpened(2, np.array([1.0, 1.0]), 1, bytes(16), bytes(32)), "bounds of the label"),
        (QuestionsOpened(2, np.array([0.0, np.nan]), 1, bytes(16), bytes(32)), "bounds of the label"),
        (QuestionsOpened(2, np.zeros(0), 1, bytes(16), bytes(32)), "bounds of the label"),
        (QuestionsOpened(2, np.array([0.0, 1.0]), -1, bytes(16), bytes(32)), "n_rows of QuestionsOpened"),
        (
            QuestionsOpened(2, np.array([0.0, 1.0]), 1 << 40, bytes(16), bytes(32)),
            "n_rows of QuestionsOpened",
        ),
    ],
)
def test_an_opening_that_is_malformed_is_refused(reply, reason):
    class Liar(Served):
        def open(self, message, session):
            return None, reply

    with pytest.raises(ProtocolError, match=reason):
        opened(Liar(knowing().own_rows))


def test_open_answers_of_another_length_are_refused(monkeypatch):
    answer = QuestionSession.answer
    monkeypatch.setattr(
        QuestionSession,
        "answer",
        lambda self, message: OpenReply(np.zeros(3)) if isinstance(message, Ask) else answer(self, message),
    )
    with pytest.raises(ProtocolError, match=r"3 open.*300 rows"):
        predict(trained()[0], OWN, parties=[Served(knowing().own_rows)], answer="score")
