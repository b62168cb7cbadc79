"""Records of questions about rows: a guess of an id is confirmed by no record but the secret itself."""

import hashlib

import pytest

from gbdt_commons.store import MemoryStore
from lgb_dp.vertical.predicting import predicted
from lgb_dp.vertical.prediction.answering import AnsweringParty
from lgb_dp.vertical.prediction.answers import AnswerKind
from lgb_dp.vertical.prediction.rows import ROW_BYTES, SECRET, as_kept, named_by_ids
from predicted_parties import IDS, OTHER, OWN, counted, knowing, trained

pytest.importorskip("nacl")
pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")


class Stolen(MemoryStore):
    """A store whose every key and entry is noted."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def write_entry(self, kind, key, place, content):
        if kind != SECRET.name:
            self.seen.append(key.encode() + b" " + content)
        super().write_entry(kind, key, place, content)

    def confirms(self, name):
        """Whether a row's name is in it, as bytes or as digits."""
        return any(name in one or name.hex().encode() in one for one in self.seen)


def digests_of(name):
    """Everything about one row that follows from its name, from public numbers and from few guesses."""
    yield name
    yield hashlib.sha256(name).digest()[:ROW_BYTES]
    for answer in AnswerKind:
        yield hashlib.sha256(answer.value.encode() + b":" + name).digest()[:ROW_BYTES]


@pytest.mark.parametrize("answer", ["label", "rounded", "point", "score"])
def test_neither_store_tells_that_an_id_was_asked_about(answer):
    """Before, both kept digests of ids without a key: whoever had one could try all ids there are."""
    asking, answering = Stolen(), Stolen()
    party = knowing(store=answering, answers=(answer,))
    asked = party.with_rows(OTHER[:3], ids=IDS[:3])
    predicted(trained()[0], OWN[:3], [asked], answer, asking)
    assert counted(party) == 3
    for name in named_by_ids(IDS[:3], 3):
        for store in (asking, answering):
            assert store.seen
            assert not any(store.confirms(digest) for digest in digests_of(name))


def test_a_question_under_way_tells_no_id_either(monkeypatch):
    class LostError(Exception):
        pass

    asking, party = Stolen(), knowing()
    asked = party.with_rows(OTHER[:1], ids=IDS[:1])

    def lost(self, message):
        raise LostError

    monkeypatch.setattr(AnsweringParty, "shares", lost)
    with pytest.raises(LostError):
        predicted(trained()[0], OWN[:1], [asked], "label", asking)
    (name,) = named_by_ids(IDS[:1], 1)
    assert asking.seen
    assert not any(asking.confirms(digest) for digest in digests_of(name))


def test_names_are_those_of_one_store_and_outlive_a_restart():
    store, other = MemoryStore(), MemoryStore()
    names = named_by_ids(IDS, 300)
    kept = as_kept(store, b"row", names)
    assert len(set(kept)) == 300
    assert as_kept(store, b"row", names[::-1]) == kept[::-1]
    assert not set(as_kept(other, b"row", names)) & set(kept)
    assert not set(as_kept(store, b"table", names)) & set(kept)
    assert {len(one) for one in kept} == {ROW_BYTES}
