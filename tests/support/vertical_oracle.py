"""Central simulation of private training with columns apart: both parties' inputs, added up in one place."""

import numpy as np

from gbdt_commons.key_stream import KeyStream
from gbdt_parties.two_party.names import Seat

SEATS = Seat(0, b"a" * 32), Seat(1, b"b" * 32)


class Streams:
    """The draws of an attempt, without a protocol."""

    def stream(self, purpose):
        return KeyStream()


def central_sums(layout, a, b):
    """Sums of every tree with both noises, from the inputs of both parties."""
    entries = np.concatenate([a.tables(c.start, c.stop) for c in layout.chunks])[
        np.arange(layout.n_rows), b.points
    ]
    ring, own = np.uint64((1 << layout.ring_bits) - 1), [iter(a.leaves), iter(b.leaves)]
    for t, tree in enumerate(layout.trees):
        leaf, sums = next(own[tree.owners[0]]), np.zeros(1 << tree.levels, dtype=np.uint64)
        np.add.at(sums, leaf, entries[:, tree.output])
        yield (sums + a.noise[t] + b.noise[t]) & ring


class CentralSums:
    """`VerticalSums` without cryptography."""

    def __init__(self, tables, points):
        self.tables, self.points = tables, points

    def label_counts(self):
        return self.tables.label_counts()

    def feature_counts(self, layout):
        parts = [holder.rows.feature_counts(layout) for holder in (self.tables, self.points)]
        return np.concatenate(parts)

    def opened(self, refresh):
        layout = refresh.layout(SEATS, self.tables.rows.n_rows)
        a, b = (holder.inputs(refresh, Streams()) for holder in (self.tables, self.points))
        return list(central_sums(layout, a, b))
