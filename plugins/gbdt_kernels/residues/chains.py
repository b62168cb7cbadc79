"""Products of chains of rows: what the sum of a histogram bin is on ciphertexts."""

from __future__ import annotations

from typing import Any

import gmpy2
import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.residues.lanes import LANES
from gbdt_kernels.residues.limbs import check_rows, check_starts, from_rows
from gbdt_kernels.residues.modular import multiply
from gbdt_kernels.residues.modulus import Modulus, Rows, as_rows
from gbdt_kernels.residues.paths import path_kernels
from gbdt_kernels.threads import blocks, run


def chain_products(
    source: Rows,
    order: NDArray[np.integer[Any]],
    starts: NDArray[np.int64],
    modulus: Modulus,
    out: Rows | None = None,
    targets: NDArray[np.int64] | None = None,
    n_threads: int = 0,
) -> Rows:
    """Product of each chain of rows: chain c is ``source[order[starts[c]:starts[c + 1]]]``.

    A chain of k rows takes k − 1 products; an empty one gives 1.  The places of `order` are cut into equal
    spans, eight per thread (one for each lane), whatever the chains' lengths; a chain cut by that is
    multiplied together at the end.

    `source` has shape (n_rows, width), `order` row numbers chain by chain, `starts` shape (n_chains + 1,).
    The result, of shape (n_chains, width), is written to `out` if that is given: chain c to row
    ``targets[c]``, no row twice, or else to row c.
    """
    source = as_rows(source, modulus)
    check_rows("order", order, len(source))
    check_starts(starts, len(order))
    n_chains = len(starts) - 1
    if out is None:
        out = np.empty((n_chains, modulus.width), dtype=np.uint64)
    if targets is None:
        targets = np.arange(n_chains)
    order = np.ascontiguousarray(order, dtype=np.int32)
    used = np.flatnonzero(np.diff(starts))
    out[np.delete(targets, used)] = modulus.one
    if len(used):
        _multiply_chains(source, order, starts, used, modulus, out, targets, n_threads)
    return out


def _multiply_chains(
    source: Rows,
    order: NDArray[np.integer[Any]],
    starts: NDArray[np.int64],
    used: NDArray[np.int64],
    modulus: Modulus,
    out: Rows,
    targets: NDArray[np.int64],
    n_threads: int,
) -> None:
    """Products of the chains `used`, which are not empty."""
    first, last = int(starts[used[0]]), int(starts[used[-1] + 1])
    n_parts = len(blocks(last - first, n_threads, modulus.steps))
    cuts = first + (last - first) * np.arange(LANES * n_parts + 1) // (LANES * n_parts)
    bounds = np.union1d(starts[used], cuts)
    pieces = bounds[:-1]
    chain = used[np.searchsorted(starts[used], pieces, side="right") - 1]
    is_rest = pieces != starts[chain]
    rest_of = chain[is_rest]
    rests = np.empty((len(rest_of), modulus.width), dtype=np.uint64)
    destinations = np.where(is_rest, -np.cumsum(is_rest), targets[chain])
    spans = np.searchsorted(bounds, cuts)
    chains = path_kernels().chains

    def work(index: int, _start: int, _stop: int) -> None:
        own = spans[LANES * index : LANES * (index + 1) + 1]
        chains(source, order, bounds, destinations, own, *modulus.constants, out, rests)

    run(work, [(i, i + 1) for i in range(n_parts)])
    while len(rest_of):
        once, at = np.unique(rest_of, return_index=True)
        out[targets[once]] = multiply(out[targets[once]], rests[at], modulus, n_threads)
        rest_of, rests = np.delete(rest_of, at), np.delete(rests, at, axis=0)


def are_units(rows: Rows, modulus: Modulus, n_threads: int = 0) -> bool:
    """Whether every row is invertible: their product is, for one product per row and one gcd."""
    product = chain_products(
        rows, np.arange(len(rows)), np.array([0, len(rows)]), modulus, n_threads=n_threads
    )
    return bool(gmpy2.gcd(from_rows(product)[0], modulus.value) == 1)
