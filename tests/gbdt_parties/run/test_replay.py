"""What an auditor is told: which run it is, and the first byte that differs."""

import pytest

from gbdt_commons.store import MemoryStore
from gbdt_parties.errors import PartyArgumentError
from gbdt_parties.messages import Abort, Done, write
from gbdt_parties.run.log import RunLog
from gbdt_parties.run.record import KeptExchange, summary
from gbdt_parties.run.replay import Compared, DifferenceError, chosen

ONE, OTHER = b"a" * 16, b"b" * 16
DONE = write(bytes(16), 0, Done())


def store_of(*runs, auditable=True):
    store = MemoryStore()
    for run in runs:
        RunLog(store, run).begin({"auditable": auditable})
    return store


def test_the_only_auditable_run_is_chosen_or_one_by_its_number():
    stores = [store_of(ONE), store_of(OTHER, auditable=False)]
    assert chosen(stores, None).run == chosen(stores, ONE.hex()).run == ONE
    assert chosen([store_of(ONE, OTHER)], OTHER.hex()).run == OTHER
    with pytest.raises(PartyArgumentError, match=f"run=None.*{ONE.hex()}"):
        chosen([store_of(ONE, OTHER)], None)
    for run in (None, OTHER.hex()):
        with pytest.raises(PartyArgumentError, match=f"run={run!r}"):
            chosen([store_of(OTHER, auditable=False)], run)


def test_the_first_difference_is_named_by_its_message_or_byte():
    compared = Compared()
    compared.check(KeptExchange(summary(DONE), b""), write(b"s" * 16, 9, Done()), "request 0")
    with pytest.raises(DifferenceError, match="Abort, sent with request 1"):
        compared.check(KeptExchange(summary(b""), b""), write(bytes(16), 0, Abort()), "request 1")
    with pytest.raises(DifferenceError, match="Done, sent with request 2"):
        compared.check(KeptExchange(summary(write(bytes(16), 0, Abort())), b""), DONE, "request 2")
    compared.check_content(b"same", b"same", "it")
    for found, made, place in ((b"abcd", b"abxd", 2), (b"ab", b"abc", 2), (b"", b"a", 0)):
        with pytest.raises(DifferenceError, match=f"byte {place} of it"):
            compared.check_content(found, made, "it")
    report = compared.report(3, 4, False, "something")
    assert (report.rounds, report.attempts, report.messages, report.bytes) == (3, 4, 1, len(DONE))
    assert not report.agrees
