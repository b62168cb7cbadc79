import pytest

from gbdt_parties.errors import ProtocolError
from gbdt_parties.memory import MemoryAllowance


def test_room_is_given_back_when_nobody_refers_to_it():
    allowance = MemoryAllowance(100 << 20)
    room = allowance.reserve(60 << 20, "a tree")
    with pytest.raises(ProtocolError, match=r"session would take 41 MiB;.*100 MiB.*60 MiB"):
        allowance.reserve(41 << 20, "a session")
    other = allowance.reserve(40 << 20, "a session")
    assert allowance.reserved == 100 << 20
    del room
    assert allowance.reserved == other.n_bytes


def test_room_in_a_circle_is_given_back_when_it_is_needed():
    allowance = MemoryAllowance(100)
    circle = [allowance.reserve(100, "a tree")]
    circle.append(circle)
    del circle
    assert allowance.reserve(100, "another tree").n_bytes == 100


def test_what_can_be_done_without_takes_no_room_that_something_else_may_need():
    allowance = MemoryAllowance(100)
    first = allowance.reserve_spare(20)
    assert first.n_bytes == allowance.reserved == 20
    assert allowance.reserve_spare(6) is None
    assert allowance.reserved == 20
    del first
    tree = allowance.reserve(30, "a tree")
    assert allowance.reserve_spare(1) is None
    del tree
    assert allowance.reserve_spare(25) is not None
