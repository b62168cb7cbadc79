import tracemalloc

import numpy as np
import pytest
from gbdt_kernels import modular
from gbdt_kernels.bin_products import histogram_products
from gbdt_kernels.modular import Modulus

MODULUS = Modulus((1 << 127) - 1)


def expected_histogram(values, codes, rows, starts, bin_offsets):
    out = np.ones((len(starts) - 1, bin_offsets[-1]), dtype=object)
    for node in range(len(starts) - 1):
        for row in rows[starts[node] : starts[node + 1]]:
            for f in range(codes.shape[1]):
                place = bin_offsets[f] + codes[row, f]
                out[node, place] = out[node, place] * values[row] % MODULUS.value
    return out.reshape(-1).tolist()


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("starts", [[0, 200], [0, 0, 150, 151, 300], [0, 0], []])
def test_histogram(starts, n_threads):
    """Few bins, many bins, an empty node, more features than are sorted at once."""
    rng = np.random.default_rng(0)
    n_bins = np.array([1, 2, 33, 5, 1])
    bin_offsets = np.concatenate([[0], np.cumsum(n_bins)])
    codes = np.stack([rng.integers(0, n, 300) for n in n_bins], axis=1).astype(np.uint8)
    values = [int(x) for x in rng.integers(1, 2**62, 300)]
    starts = np.array(starts or [0], dtype=np.int64)
    rows = rng.permutation(300)[: starts[-1]].astype(np.int32)
    ciphertexts = modular.encode(values, MODULUS)
    out = histogram_products(ciphertexts, codes, rows, starts, bin_offsets, MODULUS, n_threads)
    assert out.shape == (len(starts) - 1, bin_offsets[-1], MODULUS.width)
    got = modular.decode(out.reshape(-1, MODULUS.width), MODULUS)
    assert got == expected_histogram(values, codes, rows, starts, bin_offsets)


def test_memory_is_the_histogram_and_a_quarter_of_the_inputs():
    modulus = Modulus((1 << 2048) - 1)
    n_rows, n_features, n_bins = 4000, 40, 8
    ciphertexts = np.repeat(modulus.one, n_rows, axis=0)
    codes = np.random.default_rng(0).integers(0, n_bins, (n_rows, n_features)).astype(np.uint8)
    rows, starts = np.arange(n_rows), np.array([0, n_rows])
    offsets = n_bins * np.arange(n_features + 1)
    histogram_products(ciphertexts, codes, rows, starts, offsets, modulus)
    tracemalloc.start()
    out = histogram_products(ciphertexts, codes, rows, starts, offsets, modulus)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < out.nbytes + 0.3 * ciphertexts.nbytes


def test_nothing_out_of_range_reaches_the_kernel():
    one = np.repeat(MODULUS.one, 4, axis=0)
    codes = np.zeros((4, 2), dtype=np.uint8)
    rows, starts, offsets = np.arange(4), np.array([0, 4]), np.array([0, 1, 2])
    for bad_codes in (codes[:3], codes[:, :1], codes + np.uint8(1)):
        with pytest.raises(ValueError, match="code"):
            histogram_products(one, bad_codes, rows, starts, offsets, MODULUS)
    with pytest.raises(ValueError, match="bytes"):
        histogram_products(one, codes.astype(np.int8), rows, starts, offsets, MODULUS)
    with pytest.raises(ValueError, match="starts"):
        histogram_products(one, codes, rows, starts + 1, offsets, MODULUS)
    with pytest.raises(IndexError):
        histogram_products(one, codes, rows + 1, starts, offsets, MODULUS)
