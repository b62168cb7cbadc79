"""Masked tables: each entry as a sum of shares, beside plain integers."""

import numpy as np
import pytest

from drawn_words import words
from gbdt_kernels.transfers.tables import mask_tables, unmask_entries


@pytest.mark.parametrize(("n_points", "n_outputs", "n_parts"), [(2, 1, 3), (16, 2, 3), (5, 3, 4)])
def test_every_point_finds_its_entry(n_points, n_outputs, n_parts):
    n, n_blocks = n_points, -(-n_outputs // 2)
    table, inner, outer = words(n, n_points, n_outputs), *words(2, n, n_points, n_blocks, 2)
    shares, message = words(n, n_outputs), np.empty((n, n_points - 1, n_outputs, n_parts), np.uint16)
    mask_tables(table, inner, outer, shares, message)
    points = np.arange(n, dtype=np.uint8)
    own = (np.ascontiguousarray(pads[np.arange(n), points][:, None]) for pads in (inner, outer))
    others = np.empty_like(shares)
    unmask_entries(points, *own, message, others)
    ring = np.uint64((1 << 16 * n_parts) - 1)
    assert ((shares + others) & ring == table[np.arange(n), points] & ring).all()
    pads = (inner ^ outer).reshape(n, n_points, -1)[:, :, :n_outputs]
    assert (shares == table[:, 0] + pads[:, 0]).all()
    for i in range(n):
        for j in range(1, n_points):
            for o in range(n_outputs):
                masked = int(table[i, j, o]) - int(shares[i, o]) + int(pads[i, j, o])
                parts = [masked >> 16 * b & 0xFFFF for b in range(n_parts)]
                assert message[i, j - 1, o].tolist() == parts
