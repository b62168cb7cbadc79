"""Harrell's concordance of times to events: pairs that predictions put in order, counted in O(n log n)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel


@kernel
def _ordered_pairs(first, last, second, rank, n_ranks):
    """Comparable pairs, and twice those in order, with one for those of equal rank.

    `first` has rows in descending order of the times of their events, `second` rows in descending order of
    those at which they were last without one; `last[i]` is how many of these come after the event of
    ``first[i]``. Ranks of predictions are from 1 to `n_ranks`.
    """
    tree = np.zeros(n_ranks + 1, dtype=np.int64)  # Fenwick's: counts of ranks
    n_pairs, n_ordered, added = np.int64(0), np.int64(0), np.int64(0)
    for i in range(len(first)):
        while added < last[i]:
            k = rank[second[added]]
            while k <= n_ranks:
                tree[k] += 1
                k += k & -k
            added += 1
        own = rank[first[i]]
        for k in (own, own - 1):  # those of at most this rank, and of less
            n_ordered += added
            while k > 0:
                n_ordered -= tree[k]
                k -= k & -k
        n_pairs += added
    return n_pairs, n_ordered


def concordance(
    lower: NDArray[np.float64], upper: NDArray[np.float64], predicted: NDArray[np.float64]
) -> tuple[int, float]:
    """Comparable pairs of rows, and those whose predicted times are in the order of the events.

    A row's event comes after `lower` and by `upper`, at both where they are equal, and never where `upper` is
    infinite. A pair is comparable where the event of one came before, or when the other was last seen without
    one. Two predictions that are equal count half.
    """
    event = np.flatnonzero(np.isfinite(upper))
    event = event[np.argsort(-upper[event], kind="stable")]
    # Rows seen without an event at the very time of another's come before rows of that event.
    second = np.lexsort((lower == upper, -lower))
    key = np.column_stack([-lower[second], lower[second] == upper[second]])
    order = np.empty(len(key), dtype=[("time", np.float64), ("at", np.float64)])
    order["time"], order["at"] = key[:, 0], key[:, 1]
    wanted = np.empty(len(event), dtype=order.dtype)
    wanted["time"], wanted["at"] = -upper[event], 1.0
    last = np.searchsorted(order, wanted, side="left").astype(np.int64)
    ranks = np.unique(predicted, return_inverse=True)[1].reshape(-1).astype(np.int64) + 1
    n_pairs, n_ordered = _ordered_pairs(event, last, second, ranks, int(ranks.max(initial=0)))
    return int(n_pairs), n_ordered / 2
