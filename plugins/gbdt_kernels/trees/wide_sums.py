"""Histograms whose sums are exact fixed-point numbers of 128 bits, and what is computed of them.

A number is two words of 64 bits, the low one first, negative numbers as their complement: addition modulo
2^128 never rounds, whatever the order.  The sums of a bin are four words, those of the gradients first.
Missing values have the code after a column's last bin and no place in a histogram: their sums are the node's
less those of the column's bins.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.compilation import kernel

WORDS = 4
"""Words of a bin's sums: gradients and hessians, two each."""

NO_NODE = -1
"""In place of a node: the row is not counted."""


@kernel
def _fixed_point(values, scale, first, out):
    """``values`` (float64) times 2^scale, to the nearest integer, as words `first` and the next of rows."""
    for i in range(len(values)):
        mantissa, exponent = math.frexp(abs(values[i]))
        whole = np.uint64(math.ldexp(mantissa, 53))
        shift = exponent - 53 + scale
        low, high = np.uint64(0), np.uint64(0)
        if shift >= 64:
            high = whole << np.uint64(shift - 64)
        elif shift > 0:
            low = whole << np.uint64(shift)
            high = whole >> np.uint64(64 - shift)
        elif shift > -64:
            half = np.uint64(1) << np.uint64(-shift - 1) if shift < 0 else np.uint64(0)
            low = (whole + half) >> np.uint64(-shift)
        if values[i] < 0:
            low = ~low + np.uint64(1)
            high = ~high + np.uint64(low == 0)
        out[i, first] = low
        out[i, first + 1] = high


def fixed_point(values: NDArray[np.floating[Any]], scale: int) -> NDArray[np.uint64]:
    """Fixed-point numbers, shape (n, 2), of `scale` binary digits; each is less than 2^(127 - scale)."""
    return fixed_points([values], scale)


def fixed_points(columns: Sequence[NDArray[np.floating[Any]]], scale: int) -> NDArray[np.uint64]:
    """Fixed-point numbers of several columns side by side, shape (n, 2 * len(columns)); see `fixed_point`."""
    out = np.empty((len(columns[0]), 2 * len(columns)), dtype=np.uint64)
    for k, values in enumerate(columns):
        _fixed_point(np.ascontiguousarray(values, dtype=np.float64), scale, 2 * k, out)
    return out


@kernel
def _to_float(low, high, scale):
    """The nearest float64 of a number, or its neighbour."""
    is_negative = high >> np.uint64(63) != 0
    if is_negative:
        low = ~low + np.uint64(1)
        high = ~high + np.uint64(low == 0)
    value = math.ldexp(np.float64(high), 64) + np.float64(low)
    value = math.ldexp(value, -scale)
    return -value if is_negative else value


@kernel
def _floats(words, scale, out):
    for i in range(len(words)):
        out[i] = _to_float(words[i, 0], words[i, 1], scale)


def as_floats(words: NDArray[np.uint64], scale: int) -> NDArray[np.float64]:
    """Fixed-point numbers, shape (..., 2), as float64 of shape (...)."""
    flat = np.ascontiguousarray(words).reshape(-1, 2)
    out = np.empty(len(flat))
    _floats(flat, scale, out)
    return out.reshape(words.shape[:-1])


@kernel
def _add(total, words):
    """Add the words of a row, or of a bin, to sums, in place."""
    for q in range(0, 4, 2):
        low = total[q] + words[q]
        total[q + 1] += words[q + 1] + np.uint64(low < total[q])
        total[q] = low


@kernel
def _add_rows(codes, node_of_row, words, n_bins, offsets, bins, totals):
    for row in range(len(node_of_row)):
        node = node_of_row[row]
        if node < 0:
            continue
        own = words[row]
        _add(totals[node], own)
        g_low, g_high, h_low, h_high = own[0], own[1], own[2], own[3]
        histogram = bins[node]
        for f in range(codes.shape[1]):
            code = codes[row, f]
            if code < n_bins[f]:
                place = histogram[offsets[f] + code]
                low = place[0] + g_low
                place[1] += g_high + np.uint64(low < g_low)
                place[0] = low
                low = place[2] + h_low
                place[3] += h_high + np.uint64(low < h_low)
                place[2] = low


def wide_histograms(
    codes: NDArray[Any],
    node_of_row: NDArray[np.int32],
    words: NDArray[np.uint64],
    n_bins: NDArray[np.int64],
    n_nodes: int,
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Sums of the rows of some nodes, by bin, shape (n_nodes, n_bins.sum(), 4), and in all, (n_nodes, 4).

    `codes` are uint8 or uint16 of shape (n_rows, n_columns); the node of a row is a number below `n_nodes`,
    or `NO_NODE`. `words`, shape (n_rows, 4), are gradient and hessian of every row.
    """
    offsets = np.concatenate([[0], np.cumsum(n_bins)]).astype(np.int64)
    bins = np.zeros((n_nodes, int(offsets[-1]), WORDS), dtype=np.uint64)
    totals = np.zeros((n_nodes, WORDS), dtype=np.uint64)
    _add_rows(codes, node_of_row, words, n_bins, offsets, bins, totals)
    return bins, totals


@kernel
def _left_sums(bins, totals, n_bins, scale, g, h, has_missing):
    missing = np.empty(4, dtype=np.uint64)
    running = np.empty(4, dtype=np.uint64)
    for node in range(len(bins)):
        first, candidate = 0, 0
        for f in range(len(n_bins)):
            for q in range(4):
                missing[q] = totals[node, q]
            for b in range(first, first + n_bins[f]):
                _subtract(missing, bins[node, b])
            has_missing[node, f] = (missing[0] | missing[1] | missing[2] | missing[3]) != 0
            running[:] = 0
            for b in range(first, first + n_bins[f]):
                _add(running, bins[node, b])
                g[node, candidate] = _to_float(running[0], running[1], scale)
                h[node, candidate] = _to_float(running[2], running[3], scale)
                candidate += 1
            _add(running, missing)
            for b in range(first + n_bins[f] - 1, first - 1, -1):
                _subtract(running, bins[node, b])
                g[node, candidate] = _to_float(running[0], running[1], scale)
                h[node, candidate] = _to_float(running[2], running[3], scale)
                candidate += 1
            first += n_bins[f]


@kernel
def _subtract(total, words):
    for q in range(0, 4, 2):
        borrow = np.uint64(total[q] < words[q])
        total[q] -= words[q]
        total[q + 1] -= words[q + 1] + borrow


def left_sums(
    bins: NDArray[np.uint64], totals: NDArray[np.uint64], n_bins: NDArray[np.int64], scale: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Sums to the left of every candidate split, column by column.

    A column's bins are walked upwards with missing values on the right, then downwards with missing values on
    the left. The sums of gradients and hessians have shape (n_nodes, 2 * n_bins.sum()). The third result,
    shape (n_nodes, n_columns), says whether the sums of missing values are not both 0.
    """
    n_nodes = len(bins)
    g, h = (np.empty((n_nodes, 2 * bins.shape[1])) for _ in range(2))
    has_missing = np.empty((n_nodes, len(n_bins)), dtype=np.bool_)
    _left_sums(np.ascontiguousarray(bins), totals, n_bins, scale, g, h, has_missing)
    return g, h, has_missing


def wide_sum(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sum of some bins, shape (n, 4), as shape (4,)."""
    total = np.zeros(WORDS, dtype=np.uint64)
    _sum(words, total)
    return total


@kernel
def _sum(words, total):
    for i in range(len(words)):
        _add(total, words[i])


def wide_difference(a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """``a - b``, number by number, for words of shape (..., 4)."""
    rest = a - b
    rest[..., 1] -= a[..., 0] < b[..., 0]
    rest[..., 3] -= a[..., 2] < b[..., 2]
    return rest


@kernel
def _route(codes, node_of_row, column, last_left, default_left, left_child, n_bins):
    for row in range(len(node_of_row)):
        node = node_of_row[row]
        if left_child[node] < 0:
            continue
        code = codes[row, column[node]]
        is_missing = code == n_bins[column[node]]
        goes_left = default_left[node] if is_missing else code <= last_left[node]
        node_of_row[row] = left_child[node] + (0 if goes_left else 1)


def route_by_codes(
    codes: NDArray[Any],
    node_of_row: NDArray[np.int32],
    column: NDArray[np.int64],
    last_left: NDArray[np.int64],
    default_left: NDArray[np.bool_],
    left_child: NDArray[np.int64],
    n_bins: NDArray[np.int64],
) -> None:
    """Send the rows of nodes that are split to the left child, or to the one after it, in place.

    Splits have a number for each node; a `left_child` below 0 leaves its rows where they are.
    """
    _route(codes, node_of_row, column, last_left, default_left, left_child, n_bins)
