"""Central simulation of private training with columns apart: both parties' inputs, added up in one place."""

import os

import numpy as np

from gbdt_commons.key_stream import KeyStream
from gbdt_parties.run.engine import carried_out, drive
from gbdt_parties.two_party.names import Seat
from lgb_dp.mechanisms.noise import release_gaussian
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.vertical.replica import PartyRows, run_of
from lgb_dp.vertical.sums import OpenedSums
from lgb_dp.vertical.train import task_of

SEATS = Seat(0, b"a" * 32), Seat(1, b"b" * 32)


class Streams:
    """The draws of an attempt, without a protocol."""

    def stream(self, purpose):
        return KeyStream()


def central_sums(layout, a, b):
    """Sums of every tree with both noises, from the inputs of both parties."""
    entries = np.concatenate([a.secret(c.start, c.stop) for c in layout.chunks])[
        np.arange(layout.n_rows), b.secret
    ]
    ring, own = np.uint64((1 << layout.ring_bits) - 1), [iter(a.leaves), iter(b.leaves)]
    for t, tree in enumerate(layout.trees):
        leaf, sums = next(own[tree.owners[0]]), np.zeros(1 << tree.levels, dtype=np.uint64)
        np.add.at(sums, leaf, entries[:, tree.output])
        yield (sums + a.noise[t] + b.noise[t]) & ring


class CentralRows:
    """A `Holder` of both parties' rows in one place."""

    def __init__(self, tables, points):
        self.tables, self.points = tables, points

    def label_counts(self):
        return self.tables.label_counts()

    def feature_counts(self, layout):
        return sum(holder.feature_counts(layout) for holder in (self.tables, self.points))


def inputs_of(asked):
    """A round's layout, and the inputs of both parties to it."""
    holders = asked.holder.tables, asked.holder.points
    layout = asked.refresh.layout(SEATS, holders[0].rows.n_rows)
    return layout, *(holder.inputs(asked.refresh, Streams()) for holder in holders)


def centrally(asked):
    """The answer to a question of the trainer, without cryptography."""
    yield from ()
    if isinstance(asked, OpenedSums):
        return list(central_sums(*inputs_of(asked)))
    assert sum(asked.sizes) == len(asked.sums)
    return release_gaussian(asked.sums, asked.scale, SecureRandom())


def central_training(params, train_set, n_trees, party, trainer, per_round, answer=centrally):
    """A model of the trainer of either party, with the given answers to its questions."""
    rows = train_set.construct()
    task = task_of(params, rows, trainer, n_trees, per_round, "labels", rows.num_data())
    bins = rows.bins, party.bins
    sides = (
        PartyRows(rows.codes, rows.label, bins, party.name),
        PartyRows(party.codes, None, bins, party.name),
    )

    def both(loss, scale, turn):
        return CentralRows(*(one.holder(one.columns(task.n_threads), loss, scale, turn) for one in sides))

    return carried_out(drive(run_of(task, sides[0], os.urandom(32), both), answer), None)
