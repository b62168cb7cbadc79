"""Every byte of a session and its rounds follows from seeds, nonces and inputs: a second implementation."""

import pytest

from gbdt_parties.two_party.life import Failures
from gbdt_parties.two_party.rounds import PointSide, TableSide
from gbdt_parties.two_party.session import Session
from two_party_replay import ReplayedRound, session_of
from two_party_sides import RUN, A, B, inputs_of, layout_of, play

pytest.importorskip("nacl")

SEEDS, NONCES = (b"1" * 32, b"2" * 32), (b"m" * 32, b"n" * 32)
ATTEMPTS = (b"x" * 32, b"y" * 32)


@pytest.fixture(scope="module")
def both():
    """Open sessions and what the second implementation says about them, with the messages of the set-up."""
    pair = (
        Session(RUN, A, B, SEEDS[0], Failures(), NONCES[0]),
        Session(RUN, B, A, SEEDS[1], Failures(), NONCES[1]),
    )
    greetings = [one.greeting for one in pair]
    points = [pair[0].take_greeting(greetings[1]), pair[1].take_greeting(greetings[0])]
    trees = [pair[0].take_points(points[1]), pair[1].take_points(points[0])]
    pair[0].take_trees(trees[1])
    pair[1].take_trees(trees[0])
    return pair, session_of(RUN, (A, B), SEEDS, NONCES), [greetings, points, trees]


def test_the_set_up(both):
    pair, session, said = both
    assert session.said == said
    assert [one.digest for one in pair] == 2 * [session.digest]
    assert [one.sending for one in pair] == session.sending
    for one, delta in zip(pair, session.deltas, strict=True):
        assert int(one.sender.difference[0]) | int(one.sender.difference[1]) << 64 == delta


@pytest.mark.parametrize(
    ("number", "layout"),
    [
        (1, layout_of(5, owners=(0, 1), levels=4, n_points=16)),
        (2, layout_of(70, owners=(1, 0), levels=2, n_points=3, ring_bits=64)),
        (3, layout_of(3, owners=(1, 1, 0), levels=3, n_points=5, n_outputs=3)),
        (4, layout_of(2, owners=(1,), levels=6, n_points=2)),
    ],
    ids=["48 bits", "64 bits", "outputs", "deep"],
)
def test_every_byte_of_a_round(both, number, layout):
    pair, session, _ = both
    inputs, trace, attempt = inputs_of(layout), [], number % 2
    own = [[inputs.leaves[t] for t in layout.owned_by(place)] for place in (0, 1)]
    tables = TableSide(
        pair[0],
        layout,
        number,
        attempt,
        lambda first, last: inputs.tables[first:last],
        own[0],
        inputs.noise[0],
        ATTEMPTS[0],
    )
    points = PointSide(pair[1], layout, number, attempt, inputs.points, own[1], inputs.noise[1], ATTEMPTS[1])
    play(tables, points, trace)
    replayed = ReplayedRound(session, layout, number, attempt, SEEDS, ATTEMPTS, inputs)
    assert [len(message) for message in replayed.trace] == [len(message) for message in trace]
    assert replayed.trace == trace
    ring = 1 << layout.ring_bits
    for t, opened in enumerate(points.opened):
        sums = zip(
            replayed.sums[0][t], replayed.sums[1][t], *(noise[t] for noise in inputs.noise), strict=True
        )
        assert opened.tolist() == [sum(map(int, four)) % ring for four in sums]
