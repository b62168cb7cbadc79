import time
from threading import Event

import pytest

from xgb_fed.vertical.passive.session import BackgroundWork


class Key:
    """Prepares one row at a time, and notes how many there are."""

    def __init__(self):
        self.ready = 0

    def prepare(self, wanted):
        self.ready += 1
        time.sleep(0.001)
        return self.ready < wanted


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


@pytest.fixture
def key():
    return Key()


@pytest.fixture
def meanwhile(key):
    made = BackgroundWork(key)
    yield made
    made.close()


def test_what_is_given_is_done_in_order_while_randomness_is_prepared(key, meanwhile):
    done = []
    meanwhile.prepare(10**6)
    wait_for(lambda: key.ready > 3)
    for k in range(5):
        meanwhile.give(lambda k=k: done.append(k))
    meanwhile.finish()
    assert done == list(range(5))
    assert 3 < key.ready < 10**6


def test_as_much_is_prepared_as_is_wanted_and_nothing_after_the_end(key, meanwhile):
    meanwhile.prepare(7)
    wait_for(lambda: key.ready == 7)
    time.sleep(0.02)
    assert key.ready == 7
    meanwhile.prepare(10**6)
    meanwhile.finish()
    ready = key.ready
    time.sleep(0.02)
    assert key.ready == ready
    meanwhile.prepare(0)
    time.sleep(0.02)
    assert key.ready == ready


def test_an_error_is_raised_at_the_end(meanwhile):
    meanwhile.give(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        meanwhile.finish()
    meanwhile.finish()


def test_what_is_dropped_is_not_begun_and_what_has_begun_ends_first(meanwhile, monkeypatch):
    begun, dropped, done, rest = Event(), Event(), [], meanwhile.rest

    def slow():
        begun.set()
        assert dropped.wait(60)
        done.append("slow")

    def rest_once_all_is_dropped():
        dropped.set()
        rest()

    monkeypatch.setattr(meanwhile, "rest", rest_once_all_is_dropped)

    meanwhile.give(slow)
    meanwhile.give(lambda: done.append("never"))
    assert begun.wait(60)
    meanwhile.drop()
    assert done == ["slow"]
    meanwhile.finish()
    assert done == ["slow"]


def test_nothing_goes_on_after_closing(key, meanwhile):
    meanwhile.prepare(10**6)
    wait_for(lambda: key.ready)
    meanwhile.close()
    ready = key.ready
    time.sleep(0.02)
    assert key.ready == ready
