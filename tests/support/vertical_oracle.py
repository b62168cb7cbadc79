"""Central simulation of private training with columns apart: both parties' inputs, added up in one place."""

import os

import numpy as np

from gbdt_commons.key_stream import KeyStream
from gbdt_parties.two_party.names import Seat
from lgb_dp.mechanisms.noise import release_gaussian
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.vertical.replica import PartyRows, trained_with
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


class CentralSums:
    """`VerticalSums` of both parties in one place, without cryptography."""

    def __init__(self, tables, points):
        self.tables, self.points = tables, points

    def label_counts(self):
        return self.tables.label_counts()

    def feature_counts(self, layout):
        return sum(holder.rows.feature_counts(layout) for holder in (self.tables, self.points))

    def released(self, release, sums, scale, sizes):
        assert sum(sizes) == len(sums)
        return release_gaussian(sums, scale, SecureRandom())

    def opened(self, refresh):
        layout = refresh.layout(SEATS, self.tables.rows.n_rows)
        a, b = (holder.inputs(refresh, Streams()) for holder in (self.tables, self.points))
        return list(central_sums(layout, a, b))


def central_training(make, params, train_set, n_trees, party, trainer, per_round):
    """A model of the trainer of either party, with sums that ``make(tables, points)`` gives."""
    rows = train_set.construct()
    task = task_of(params, rows, trainer, n_trees, per_round, "labels", rows.num_data())
    bins = rows.bins, party.bins
    sides = (
        PartyRows(rows.codes, rows.label, bins, party.name),
        PartyRows(party.codes, None, bins, party.name),
    )

    def sums(loss, scale, turn):
        return make(*(one.holder(one.columns(task.n_threads), loss, scale, turn) for one in sides))

    return trained_with(task, sides[0], os.urandom(32), sums)
