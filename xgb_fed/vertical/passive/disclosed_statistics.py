"""How much an active party has been told about the columns of a passive one, over all its training runs.

Each node with statistics tells the active party, which knows the node's rows and their gradients, three exact
sums over the rows of every bin: their number, and their sums of g and h.  They are linear equations for the
same unknown: which rows are in the bin.  About as many equations as rows solve for it, however many rows each
bin and each node has.  The opening of a training run tells the first of these sums for all its rows.  Nothing
exact in fixed bins avoids this, so it is counted, said and limited, for parties that encrypt gradients.
The limit does not bound an active party that encrypts other numbers.
"""

from __future__ import annotations

import json
import logging
import math
from threading import Lock

from gbdt_commons.store import Kind, MemoryStore, Store, bytes_kind
from gbdt_parties.errors import ProtocolError
from xgb_fed.vertical.protocol.packing import packing_for

logger = logging.getLogger(__name__)

MAX_STATISTICS = 0.25
"""Equations per row that a server gives one active party by default.

100 trees of depth 5 on 150,000 rows are 0.06.  By 0.25, least squares had found a quarter of the bins (28 %
of those of 1,000 rows in 16 bins, where guessing finds 6 %), by 0.6 a half, by 1.3 nine tenths.
"""

TELLING = 0.5
"""Equations per row from which on the log warns; with 1.3, 87 to 96 % of the cells' bins were found."""

MAX_OPENINGS = 4096
"""Openings that are remembered; an older one is counted again when it is repeated."""

_STEP = 0.001
"""Counts that are written ahead, so that the record changes rarely and is never behind."""


def n_classes_of(field_bits: int, n_groups: int, n_rows: int) -> int:
    """Classes whose g and h a row's ciphertexts are announced to hold, at most.

    A packed sum has `field_bits` bits, and the width of a class in it follows from the number of rows of the
    training run.  A row has `n_groups` ciphertexts.
    """
    one_class = packing_for(n_rows, 1, 1 << 4096).gh.bits
    return n_groups * -(-field_bits // one_class)


def nodes_of(n_trees: int, max_depth: int, most: int) -> int:
    """Nodes of full trees that have statistics, `most` of them in a level: smaller ones have none."""
    return n_trees * sum(min(1 << level, max(1, most)) for level in range(min(max_depth, 31)))


def _counted(content: bytes) -> float:
    """Equations per row as a record holds them; `ValueError` for a number that is no count."""
    per_row = json.loads(content)
    if isinstance(per_row, bool) or not isinstance(per_row, (int, float)) or not 0 <= per_row < math.inf:
        raise ValueError("not a finite number of at least 0")
    return float(per_row)


GIVEN = Kind[float]("given statistics", lambda per_row: json.dumps(per_row).encode(), _counted)
"""The record of equations per row."""

OPENED = bytes_kind("counted openings")
"""Records, under the digests of openings, that these were counted."""


class DisclosedStatistics:
    """The equations per row that one active party has got, never less than that after a crash.

    A node of a run of k classes gives 1 + 2k sums of each bin over some rows: so many equations for the
    indicators of the bin.  An opening gives one sum of each bin, the number of its rows, which is 1 / (1 +
    2k) of a node, once for each set of rows and `max_bin`.

    Proof of the bound: each equation counts 1 / (rows of its sample), at least 1 / |S| if the sample lies
    within a set of rows S; so samples within S gave at most `per_row` times |S| equations, and their rank for
    any bin is no more than their number.

    The bound assumes honestly encrypted gradients.  The protocol has no proof of what is encrypted: an active
    party that encrypts 2^k for row k reads from one sum which rows are in the bin, as many as the plaintext
    space has bits, and `limit` does not bound what it learns.

    Statistics beyond `limit` equations per row are refused.  The store keeps the number, and which openings
    were counted; raises `StoreError` if a record is damaged.
    """

    def __init__(self, limit: float = math.inf, store: Store | None = None) -> None:
        self._limit, self.store, self._lock = limit, MemoryStore() if store is None else store, Lock()
        self.per_row = self._written = self.store.get(GIVEN, "") or 0.0
        self._openings = dict.fromkeys(self.store.keys(OPENED))

    def add(self, n_nodes: int, n_classes: int, n_rows: int) -> None:
        """Count statistics of nodes before they are given.

        The nodes include those that are not sent because they follow from their sibling, and all classes of a
        row have gradients.  `n_rows` are the sampled rows of the tree: samples and runs on parts of the rows
        count as if they were on the same ones.  Raises `ProtocolError` if the statistics are more than the
        limit.
        """
        with self._lock:
            self._count((1 + 2 * n_classes) * n_nodes / n_rows)

    def check_plan(self, n_trees: int, n_nodes: int, n_classes: int, n_rows: int) -> None:
        """Refuse a run whose trees of `n_nodes` could not be half full; nothing is counted."""
        most, left = (1 + 2 * n_classes) * n_nodes / n_rows, self._limit - self.per_row
        logger.info("the run takes up to %.3g statistics per row, of %.3g that are left", most, left)
        if most / 2 > left:
            raise ProtocolError(
                f"{n_trees} trees take up to {most:.3g} statistics per row, and this party has {left:.3g} "
                f"left of {self._limit:g}: the run would not end; accepted are fewer trees or levels, or its "
                "operator can allow more (--max-statistics, Limits.max_statistics)"
            )

    def add_opening(self, what: str, n_rows: int) -> None:
        """Count the numbers of rows per bin that an opening gives, unless they were given before.

        `what` is the digest of the rows, their values and how they are cut: equal ones give the same
        equations. Raises `ProtocolError` if they are more than the limit.
        """
        with self._lock:
            if what not in self._openings:
                self._count(1 / n_rows, what)

    def _count(self, per_row: float, opening: str | None = None) -> None:
        """Add equations and the opening that gave them: on the disk first, both at once."""
        before = self.per_row
        after = before + per_row
        if not after <= self._limit:  # nor under a limit that is not a number
            raise ProtocolError(
                f"this party has given {before:.3g} statistics per row in all training runs, these would be "
                f"{per_row:.3g} more, and it gives at most {self._limit:g}; its operator can allow more "
                "(--max-statistics, Limits.max_statistics)"
            )
        openings = [*self._openings, *([] if opening is None else [opening])]
        forgotten = openings[: max(0, len(openings) - MAX_OPENINGS)]
        if opening is not None or after > self._written:
            written = max(self._written, after + _STEP)
            with self.store.transaction():
                self.store.put(GIVEN, "", written)
                for one in forgotten:
                    self.store.delete(OPENED, one)
                if opening is not None:
                    self.store.put(OPENED, opening, b"")
            self._written = written
        self.per_row, self._openings = after, dict.fromkeys(openings[len(forgotten) :])
        if before < TELLING <= after:
            logger.warning(
                "%.2f statistics per row were given in all training runs: from about one per row on, the "
                "active party can compute the bins of most values (--max-statistics limits them)",
                after,
            )
