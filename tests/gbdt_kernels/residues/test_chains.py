"""Products of chains of residues, of whatever lengths."""

import numpy as np
import pytest

from gbdt_kernels import residues
from gbdt_kernels.residues import Modulus
from moduli import edge_values


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_chains_of_uneven_lengths(path, n_threads):
    """One chain longer than all spans, short ones, empty ones; targets in another order."""
    modulus = Modulus((1 << 512) + 75)
    values = edge_values(modulus.value, 50)[3:]
    rows = residues.encode(values, modulus)
    lengths = [0, 4000, 1, 0, 2, 700, 0]
    order = np.random.default_rng(1).integers(0, len(values), sum(lengths))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    targets = np.array([6, 0, 2, 1, 5, 3, 4])
    out = np.zeros((7, modulus.width), dtype=np.uint64)
    residues.chain_products(rows, order, starts, modulus, out, targets, n_threads)
    got = residues.decode(out, modulus)
    for c, target in enumerate(targets):
        expected = 1
        for row in order[starts[c] : starts[c + 1]]:
            expected = expected * values[row] % modulus.value
        assert got[target] == expected
