"""Refused calls are summarised in the log."""

import logging

from gbdt_parties.transport.refusals import MAX_KEYS, RefusalLog


def test_a_flood_of_refusals_is_summarised_in_the_log(caplog):
    now = [0.0]
    log = RefusalLog(logging.getLogger("gbdt_parties.test"), clock=lambda: now[0])
    for _ in range(1000):
        log.add("eve", "not allowed")
    log.add("umbrella", "two requests are under way")
    assert [line.getMessage() for line in caplog.records] == [
        "refused eve: not allowed",
        "refused umbrella: two requests are under way",
    ]
    now[0] = 61.0
    log.add("eve", "not allowed")
    assert caplog.records[-2].getMessage() == "refused eve 999 more times in the last 60 s: not allowed"
    assert caplog.records[-1].getMessage() == "refused eve: not allowed"


def test_a_flood_of_different_refusals_is_bounded_too(caplog):
    log = RefusalLog(logging.getLogger("gbdt_parties.test"), clock=lambda: 0.0)
    for number in range(10 * MAX_KEYS):
        log.add("eve", f"reason {number}")
    assert len(caplog.records) == MAX_KEYS
    log.close()
    assert f"{9 * MAX_KEYS} more refusals" in caplog.records[-1].getMessage()
