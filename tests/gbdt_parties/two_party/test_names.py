"""Names that keys are bound to: no two sessions, directions, steps or batches have the same."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbdt_parties.errors import PartyArgumentError
from gbdt_parties.two_party.extension import Batch
from gbdt_parties.two_party.names import Seat, Step, direction_digest, session_digest
from two_party_sides import RUN, A, B

NONCES = b"1" * 32, b"2" * 32
STEPS = st.builds(Step, st.integers(0, 2**32 - 1), st.integers(0, 2**16 - 1), st.integers(0, 255))


def test_both_sides_have_one_name_for_a_session():
    assert session_digest(RUN, A, B, NONCES) == session_digest(RUN, B, A, NONCES[::-1])


def test_everything_that_names_a_session_changes_its_digest():
    other_place, other_key = Seat(2, B.key), Seat(1, b"c" * 32)
    found = [
        session_digest(RUN, A, B, NONCES),
        session_digest(b"other".ljust(32), A, B, NONCES),
        session_digest(RUN, A, other_place, NONCES),
        session_digest(RUN, A, other_key, NONCES),
        session_digest(RUN, Seat(0, B.key), Seat(1, A.key), NONCES),
        session_digest(RUN, A, B, NONCES[::-1]),
        session_digest(RUN, A, B, (NONCES[0], b"3" * 32)),
    ]
    assert len(set(found)) == len(found)


def test_directions_differ_and_both_sides_agree_on_them():
    session = session_digest(RUN, A, B, NONCES)
    assert direction_digest(session, A, B) != direction_digest(session, B, A)
    swapped = direction_digest(session, Seat(0, B.key), Seat(1, A.key))
    assert len({direction_digest(session, A, B), direction_digest(session, B, A), swapped}) == 3


@pytest.mark.parametrize("other", [Seat(0, b"b" * 32), Seat(1, b"a" * 32)])
def test_twins_are_refused(other):
    with pytest.raises(PartyArgumentError, match="differ in place"):
        session_digest(RUN, A, other, NONCES)


@pytest.mark.parametrize(("place", "key"), [(-1, b"a" * 32), (1 << 16, b"a" * 32), (0, b"a" * 31)])
def test_seats_out_of_range_are_refused(place, key):
    with pytest.raises(PartyArgumentError):
        Seat(place, key)


@given(STEPS, STEPS, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_steps_and_batches_have_bytes_of_their_own(one, other, m, n):
    assert (one.to_bytes() == other.to_bytes()) == (one == other)
    assert (one.digest(RUN) == other.digest(RUN)) == (one == other)
    first, second = Batch(one, m), Batch(other, n)
    assert (first.to_bytes() == second.to_bytes()) == (first == second)
    assert len(first.to_bytes()) == 12


def test_steps_are_ordered_as_they_happen():
    steps = [Step(*numbers) for numbers in itertools.product(range(3), repeat=3)]
    assert steps == sorted(steps)
    assert Batch(Step(1, 0, 1), 7) < Batch(Step(1, 1, 1), 0) < Batch(Step(2, 0, 1), 0)


def test_purposes_do_not_run_into_each_other():
    step = Step(1, 2, 3)
    assert (
        len(
            {
                step.digest(RUN, b"ab"),
                step.digest(RUN, b"a", b"b"),
                step.digest(RUN),
                step.digest(RUN + b"ab"),
            }
        )
        == 4
    )


@pytest.mark.parametrize("numbers", [(1 << 32, 0, 0), (0, 1 << 16, 0), (0, 0, 256), (-1, 0, 0)])
def test_steps_out_of_range_are_refused(numbers):
    with pytest.raises(PartyArgumentError, match="must be 0 to"):
        Step(*numbers)
