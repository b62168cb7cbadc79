"""Messages as one side keeps them: received ones whole, of sent ones a digest that no address changes."""

import pytest

from gbdt_commons.store import MemoryStore
from gbdt_parties.messages import Abort, Done, read, readdressed, write
from gbdt_parties.run.record import KeptExchange, MessageRecord, summary


@pytest.fixture
def record():
    return MessageRecord(MemoryStore())


def test_messages_are_kept_in_order_and_by_process(record):
    asked, answered = write(b"s" * 16, 3, Abort()), write(b"s" * 16, 3, Done())
    record.keep(answered, asked)
    record.begin()
    record.keep(b"", asked)
    first, begun, second = record.entries()
    assert begun is None
    assert (first.sent, first.received, first.n_bytes) == (summary(answered), asked, len(answered))
    assert not first.was_refused
    assert second.was_refused
    assert second.n_bytes == 0
    record.begin()
    assert list(record.of_process(0)) == [KeptExchange(summary(b""), asked)]
    assert list(record.of_process(1)) == []


def test_a_digest_is_of_the_message_and_not_of_its_address():
    one, other = write(b"s" * 16, 3, Done()), write(b"t" * 16, 4, Done())
    assert summary(one) == summary(other) != summary(write(b"s" * 16, 3, Abort()))
    assert readdressed(one, b"t" * 16, 4) == other
    assert read(readdressed(one)).session == bytes(16)
