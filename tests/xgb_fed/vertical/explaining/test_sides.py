"""Sides of all rows, told without their paths."""

import numpy as np
import pytest

import xgb_fed
from explained_models import NONE, asked, bank_of, ids
from gbdt_parties import messages
from gbdt_parties.memory import MemoryAllowance
from vertical_training import Recorder
from xgb_fed.vertical.protocol import messages as vertical_messages
from xgb_fed.vertical.protocol.messages import ColumnsTold, RouteRows, SidesTold, TellSides


def test_predictions_that_hide_paths_are_the_same_and_show_no_rows(explained):
    model, X, _, _, parties = explained
    seen = [Recorder(party) for party in parties]
    hidden = model.predict(X[:, :3], seen, hide_paths=True)
    np.testing.assert_array_equal(hidden, model.predict(X[:, :3], parties))
    kinds = {type(m) for party in seen for m in party.messages()}
    assert TellSides in kinds
    assert RouteRows not in kinds
    # What the parties are asked does not depend on the active party's columns, that is on paths.
    again = [Recorder(party) for party in parties]
    model.predict(X[::-1, :3], again, hide_paths=True)
    for one, other in zip(seen, again, strict=True):
        assert [r[28:] for r in one.requests] == [r[28:] for r in other.requests]


def test_sides_are_those_of_all_rows():
    bank, columns = bank_of()
    told = asked(bank, TellSides(ids(0, 3)))
    assert isinstance(told, SidesTold)
    expected = [columns.data[:, 2] < np.float32(0.2), columns.data[:, 1] < np.float32(0.1)]
    np.testing.assert_array_equal(told.left_rows, np.packbits(expected, axis=1).ravel())
    assert not len(asked(bank_of()[0], TellSides(NONE)).left_rows)


def test_a_session_tells_each_side_once_and_within_limits(monkeypatch):
    assert "once in a session" in asked(bank_of()[0], TellSides(ids(0, 1)), TellSides(ids(2, 1))).reason
    assert isinstance(asked(bank_of()[0], TellSides(ids(0, 1)), TellSides(ids(2, 3))), SidesTold)
    monkeypatch.setattr(vertical_messages, "MAX_SIDES_BYTES", 5)
    assert isinstance(asked(bank_of()[0], TellSides(ids(0, 1))), SidesTold)
    assert "more splits than one answer" in asked(bank_of()[0], TellSides(ids(0, 1, 2))).reason
    assert "once" not in getattr(asked(bank_of(90)[0], TellSides(ids(0))), "reason", "")
    monkeypatch.undo()
    memory = MemoryAllowance(1500)
    assert "the sides of rows would take" in asked(bank_of(90, memory=memory)[0], TellSides(ids(0, 1))).reason
    assert memory.reserved <= 1500


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: SidesTold(m.left_rows[:-1]), "other rows or splits"),
        (lambda m: SidesTold(m.left_rows | 1), "flags beyond the last row"),
        (lambda m: ColumnsTold(m.columns[:-1], 1), "other splits"),
        (lambda m: ColumnsTold(m.columns, 2), "per_feature"),
        (lambda m: ColumnsTold(m.columns - 1, 1), "columns that it does not have"),
        (lambda m: ColumnsTold(m.columns + 9, 0), "columns that it does not have"),
    ],
)
def test_answers_that_cannot_be_are_refused(explained, change, words):
    model, X, _, _, parties = explained

    def changed(request, answer):
        envelope = messages.read(answer)
        try:
            message = change(envelope.message)
        except AttributeError:
            return answer
        return messages.write(envelope.session, envelope.sequence, message)

    liar = Recorder(parties[0], changed)
    with pytest.raises(xgb_fed.ProtocolError, match=f"'party 0'.*{words}"):
        model.explain(X[:299, :3], [liar, parties[1]], rows=np.arange(299))
