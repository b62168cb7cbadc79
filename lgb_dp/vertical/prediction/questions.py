"""Questions about rows as messages: the asking side of a connection, and the answering side of a session.

A session is opened for one model and one selection of rows, which the answering party names: by ids on which
both have aligned them, or by places.  Each request has one answer, and one that was counted can be asked for
in a later session (`Repeat`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from gbdt_parties import messages
from gbdt_parties.channel import Channel
from gbdt_parties.errors import ProtocolError
from gbdt_parties.messages import Abort, Done, Finish, Float64s, Int64s, Integer, Message, Octets, Text
from gbdt_parties.two_party.answers import MAX_ROWS
from gbdt_parties.two_party.names import DIGEST_BYTES
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.vertical.prediction.answering import AnsweringParty, AskedRows, RowQuestion
from lgb_dp.vertical.prediction.answers import AnswerKind
from lgb_dp.vertical.prediction.consent import OPEN
from lgb_dp.vertical.prediction.models import JointModel
from lgb_dp.vertical.prediction.rows import digest_of_names, named_by_ids, named_by_place


class OpenQuestions(Message, kind=216):
    """Asking party to the other: opens a session of questions about the rows of one model."""

    model: Text
    """Digest."""


class QuestionsOpened(Message, kind=217):
    """The answer: public numbers of the model, and how the rows are named."""

    n_first: Integer
    """Features of the party with the labels."""
    label_bounds: Float64s
    n_rows: Annotated[int, "i", 1, MAX_ROWS]
    selection: Octets
    """Empty where both know the rows' ids: digests of ids would tell those that are not in common."""
    order: Octets
    """Digest of all names in their order, which the asking party compares with its own: a place is the same
    row on both sides then, for every kind of answer."""


class SetUp(Message, kind=218):
    """Asking party to the other: a message of the set-up of transfers."""

    stage: Integer
    """From 0, which begins another session, to 2."""
    content: Octets


class Ask(Message, kind=219):
    """Asking party to the other: a question; answered with choices, or by consent openly."""

    answer: Text
    places: Int64s
    """Of the rows in the selection."""


class Tables(Message, kind=220):
    """Asking party to the other: masked tables of the question before; answered with shares."""

    content: Octets


class Repeat(Message, kind=221):
    """Asking party to the other: a question whose answer was lost, in any session; answered with shares."""

    asked: Octets
    """`RowQuestion.with_tables`."""


class RowReply(Message, kind=222):
    """The answer to these: bytes of the protocol, none if nothing was answered."""

    content: Octets


class OpenReply(Message, kind=223):
    """The answer to a question that is answered openly."""

    values: Float64s


REQUESTS = (SetUp, Ask, Tables, Repeat)


class QuestionSession:
    """The answering side; `InvalidArgumentError` for a foreign model, or too many rows."""

    def __init__(self, rows: AskedRows, message: OpenQuestions) -> None:
        self._names, self._lock, self._selection = rows.row_names, rows.answers.lock, rows.selection
        check_selection(len(self._names))
        self._model = rows.answers.model(message.model, rows.name, rows.caller)
        self._answering = AnsweringParty(rows)

    def opened(self) -> QuestionsOpened:
        """The answer to the first request."""
        model = self._model
        bounds = np.array([model.scale.low, model.scale.high])
        order = digest_of_names(self._names)
        return QuestionsOpened(model.n_first, bounds, len(self._names), self._selection, order)

    def answer(self, message: Message) -> Message:
        """Answer a further request.

        `InvalidArgumentError` if it is refused, or is about rows that are not here; `ProtocolError` if it is
        none of these, or is not due.
        """
        with self._lock.held():
            if isinstance(message, SetUp):
                return RowReply(self._answering.set_up(message.stage, message.content))
            if isinstance(message, Ask):
                question = self._question(message.answer, message.places)
                if question.answer in OPEN:
                    return OpenReply(self._answering.given(question))
                return RowReply(self._answering.choices(question))
            if isinstance(message, Tables):
                return RowReply(self._answering.shares(message.content))
            if isinstance(message, Repeat):
                if len(message.asked) != DIGEST_BYTES:
                    raise ProtocolError("the digest of a question is cut off")
                return RowReply(self._answering.again(self._model, message.asked) or b"")
            if isinstance(message, (Finish, Abort)):
                return Done()
        raise ProtocolError(f"{type(message).__name__} is no request about rows")

    def _question(self, answer: str, places: NDArray[np.int64]) -> RowQuestion:
        if len(places) > MAX_ROWS or ((places < 0) | (places >= len(self._names))).any():
            raise ProtocolError(
                f"a question about {len(places)} rows: it is about at most {MAX_ROWS} of the "
                f"{len(self._names)} rows of the selection"
            )
        return RowQuestion(self._model, _kind(answer), tuple(self._names[k] for k in places.tolist()))


def check_selection(n_rows: int) -> None:
    """InvalidArgumentError for more rows than a question may have, before their names take memory."""
    if n_rows > MAX_ROWS:
        raise InvalidArgumentError(f"the selection has {n_rows} rows: questions are about at most {MAX_ROWS}")


def names_of_rows(ids: Sequence[str] | None, n_rows: int, selection: bytes, name: str) -> list[bytes]:
    """Rows' names as the asking party knows them; `InvalidArgumentError` if ids lack on one side."""
    if (ids is None) != bool(selection):
        has = "have no ids: pass none" if selection else "have ids: pass those of X as ids="
        raise InvalidArgumentError(f"rows of party {name!r} {has}")
    return named_by_place(selection, n_rows) if ids is None else named_by_ids(ids, n_rows)


def _kind(answer: str) -> AnswerKind:
    known = {one.value: one for one in AnswerKind}
    if answer not in known:
        raise ProtocolError("a question of an unknown kind")
    return known[answer]


class QuestionsHere:
    """A party of this process at the end of a connection: its errors are raised as they are."""

    def __init__(self, rows: AskedRows) -> None:
        self.name, self._rows = rows.name, rows
        self._kept: QuestionSession | None = None

    def handle(self, request: bytes) -> bytes:
        """Answer a request of the only session."""
        envelope = messages.read(request)
        answer: Message
        if isinstance(envelope.message, OpenQuestions):
            self._kept = QuestionSession(self._rows, envelope.message)
            answer = self._kept.opened()
        else:
            assert self._kept is not None
            answer = self._kept.answer(envelope.message)
        return messages.write(envelope.session, envelope.sequence, answer, envelope.version)


class RemoteAnswerer:
    """The other party's side at the end of a connection, as `asking.Answerer`.

    The channel is for one session, and the text is the model's as this party has it. Ids of the rows are
    given if both parties have aligned them. For a party in this process, `names` are the rows' own: `ids` may
    be left out then, and must be theirs.

    `model` has the label's bounds that the other party has kept; questions are bound to them.
    `PartyRefusedError` if the other party does not have the model; `ProtocolError` if its answer is
    malformed. `InvalidArgumentError` if its rows are not those of `ids`, in their order; nothing was asked
    about any then.
    """

    def __init__(
        self,
        channel: Channel,
        text: str,
        digest: str,
        ids: Sequence[str] | None = None,
        names: list[bytes] | None = None,
    ) -> None:
        self.channel = channel
        opened = channel.ask(OpenQuestions(digest), QuestionsOpened)
        bounds = opened.label_bounds
        if len(bounds) != 2 or not np.isfinite(bounds).all() or not bounds[0] < bounds[1]:
            raise ProtocolError(f"party {channel.name!r} gave bounds of the label that are none")
        if names is None or ids is not None:
            names = names_of_rows(ids, opened.n_rows, opened.selection, channel.name)
        if digest_of_names(names) != opened.order:
            raise InvalidArgumentError(
                f"ids are not those of party {channel.name!r}, in their order: answers would be about other "
                "rows"
            )
        self.row_names = names
        self._places = {name: place for place, name in enumerate(self.row_names)}
        self.model = JointModel(text, opened.n_first, (float(bounds[0]), float(bounds[1])))

    def _about(self, rows: Sequence[bytes]) -> NDArray[np.int64]:
        """Places of rows; none is a name that this selection does not have."""
        return np.array([self._places.get(name, -1) for name in rows], dtype=np.int64)

    def set_up(self, stage: int, message: bytes) -> bytes:
        """See `asking.Answerer`."""
        return self.channel.ask(SetUp(stage, message), RowReply).content

    def choices(self, question: RowQuestion) -> bytes:
        """See `asking.Answerer`."""
        return self.channel.ask(Ask(question.answer.value, self._about(question.rows)), RowReply).content

    def shares(self, masked_tables: bytes) -> bytes:
        """See `asking.Answerer`."""
        return self.channel.ask(Tables(masked_tables), RowReply).content

    def again(self, model: JointModel, asked: bytes) -> bytes | None:
        """See `asking.Answerer`."""
        return self.channel.ask(Repeat(asked), RowReply).content or None

    def given(self, question: RowQuestion) -> NDArray[np.float64]:
        """See `asking.Answerer`; `ProtocolError` if there is not one number for each row."""
        message = Ask(question.answer.value, self._about(question.rows))
        values = self.channel.ask(message, OpenReply).values
        if len(values) != len(question.rows):
            raise ProtocolError(f"{len(values)} open answers about {len(question.rows)} rows")
        return values

    def end(self) -> None:
        """End the session."""
        self.channel.ask(Finish(), Done)
