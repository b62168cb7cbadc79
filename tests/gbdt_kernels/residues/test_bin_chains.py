import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels.residues.bin_chains import bin_chains, bin_counts


@st.composite
def nodes_of_codes(draw):
    """Codes of some features, and rows of some nodes, empty ones among them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_rows = draw(st.integers(0, 60))
    n_bins = np.array(draw(st.lists(st.integers(1, 300), min_size=1, max_size=4)))
    dtype = np.uint8 if n_bins.max() <= 256 else np.uint16
    codes = np.stack([rng.integers(0, n, n_rows) for n in n_bins], axis=1).astype(dtype)
    sizes = draw(st.lists(st.integers(0, 20), max_size=4))
    starts = np.minimum(np.concatenate([[0], np.cumsum(sizes)]), n_rows).astype(np.int64)
    rows = rng.permutation(n_rows)[: starts[-1]].astype(np.int32)
    left_out = rng.integers(-1, n_bins, (len(starts) - 1, len(n_bins)))
    features = np.array(sorted(draw(st.sets(st.integers(0, len(n_bins) - 1)))), dtype=np.int64)
    return codes, rows, starts, np.concatenate([[0], np.cumsum(n_bins)]), left_out, features


@given(nodes_of_codes())
@settings(deadline=None)
def test_counts_and_chains_against_a_loop(case):
    codes, rows, starts, offsets, left_out, features = case
    counts = bin_counts(codes, rows, starts, offsets)
    order, chain_starts = bin_chains(codes, rows, starts, offsets, features, counts, left_out)
    chain = 0
    for node in range(len(starts) - 1):
        own = rows[starts[node] : starts[node + 1]]
        for f in range(codes.shape[1]):
            expected = np.bincount(codes[own, f], minlength=offsets[f + 1] - offsets[f])
            assert counts[node, offsets[f] : offsets[f + 1]].tolist() == expected.tolist()
        for f in features:
            for b in range(offsets[f + 1] - offsets[f]):
                got = order[chain_starts[chain] : chain_starts[chain + 1]]
                wanted = own[codes[own, f] == b] if b != left_out[node, f] else own[:0]
                assert got.tolist() == wanted.tolist()
                chain += 1
    assert len(chain_starts) == chain + 1
    assert chain_starts[-1] == len(order)
