"""Two sides of transfers, sessions and rounds in one process, for tests of two-party computations."""

import os
from types import SimpleNamespace

import numpy as np

from gbdt_commons.key_stream import KeyStream
from gbdt_parties.two_party.extension import TransferReceiver, TransferSender
from gbdt_parties.two_party.layout import RoundLayout, TreeLayout
from gbdt_parties.two_party.life import Failures, Life
from gbdt_parties.two_party.names import Seat
from gbdt_parties.two_party.punctured_trees import base_choices, grown, punctured
from gbdt_parties.two_party.rounds import CHOICES, LAST, SUMS, TABLES
from gbdt_parties.two_party.session import Session

RUN = b"run".ljust(32, b".")
A, B = Seat(0, b"a" * 32), Seat(1, b"b" * 32)
CONTEXT = b"context".ljust(32, b".")


def drawn_pairs():
    """Keys of 128 base transfers."""
    return [(os.urandom(16), os.urandom(16)) for _ in range(128)]


def drawn_bits(n=128):
    return np.unpackbits(np.frombuffer(os.urandom(n // 8), np.uint8), bitorder="little")


def chosen_keys(pairs, difference):
    return [pair[c] for pair, c in zip(pairs, base_choices(difference).tolist(), strict=True)]


def transfer_sides(context=CONTEXT):
    """Both sides of an extension, its base transfers made up; with seeds, difference and lives."""
    pairs, difference = drawn_pairs(), drawn_bits()
    failures = Failures()
    lives = Life(Failures()), Life(failures)
    seeds, message = grown(context, pairs)
    known = punctured(context, difference, chosen_keys(pairs, difference), message, lives[1])
    return SimpleNamespace(
        receiver=TransferReceiver(context, seeds, lives[0]),
        sender=TransferSender(context, known, difference, lives[1]),
        context=context,
        seeds=seeds,
        difference=difference,
        failures=failures,
        lives=lives,
    )


def delta_of(difference):
    return int.from_bytes(np.packbits(difference, bitorder="little").tobytes(), "little")


def as_integers(rows):
    return [int(low) | int(high) << 64 for low, high in rows.tolist()]


def sessions(seeds=(b"1" * 32, b"2" * 32), nonces=(None, None), failures=None, seats=(A, B), run=RUN):
    """Two open sessions."""
    one = Session(run, seats[0], seats[1], seeds[0], failures or Failures(), nonces[0])
    other = Session(run, seats[1], seats[0], seeds[1], Failures(), nonces[1])
    points = one.take_greeting(other.greeting), other.take_greeting(one.greeting)
    trees = one.take_points(points[1]), other.take_points(points[0])
    one.take_trees(trees[1])
    other.take_trees(trees[0])
    return one, other


def layout_of(n, owners=(0, 1), levels=4, n_points=16, n_outputs=1, ring_bits=48, rows_per_message=64):
    """A layout with one tree for each place in `owners`, which sum the outputs in turn."""
    trees = tuple(TreeLayout((place,), t % n_outputs, levels) for t, place in enumerate(owners))
    positions = tuple(np.linspace(-12, 12, n_points).tolist())
    bounds = (1.0, 0.3)
    return RoundLayout(
        (A, B), n, positions, n_outputs, ring_bits, trees, bounds, rows_per_message=rows_per_message
    )


def drawn(shape, below=1 << 64, dtype=np.uint64):
    """Numbers below another one."""
    words = KeyStream(os.urandom(32)).words(int(np.prod(shape)))
    return (words if below == 1 << 64 else words % np.uint64(below)).reshape(shape).astype(dtype)


def inputs_of(layout):
    """Random inputs of both sides of a round."""
    n, n_points = layout.n_rows, len(layout.positions)
    return SimpleNamespace(
        tables=drawn((n, n_points, layout.n_outputs)),
        points=drawn(n, n_points, np.uint8),
        leaves=[drawn(n, 1 << tree.levels, np.uint8) for tree in layout.trees],
        noise=[[drawn(1 << tree.levels) for tree in layout.trees] for _ in range(2)],
    )


def deliver(said, other, trace=None):
    """Give the messages of one side to the other one, as they are made."""
    for message in said:
        if trace is not None:
            trace.append(message)
        other.take(message)


def play(tables, points, trace=None):
    """A whole round of two sides."""
    steps = [(tables.send(CHOICES), points), (points.send(CHOICES), tables)]
    for said, other in steps:
        deliver(said, other, trace)
    deliver(tables.send(TABLES), points, trace)
    deliver([tables.shares(TABLES)], points, trace)
    deliver(points.send(SUMS), tables, trace)
    deliver([points.shares(SUMS)], tables, trace)
    deliver([tables.shares(LAST)], points, trace)
