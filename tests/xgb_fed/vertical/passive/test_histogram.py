"""Encrypted histograms against sums of integers."""

from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from xgb_fed import OkamotoUchiyama, Paillier, Plain
from xgb_fed.vertical.passive.histogram import WORTH_LEAVING_OUT, Histograms, build_histograms

SCHEMES = {"plain": Plain(100), "ou": OkamotoUchiyama(512, True), "paillier": Paillier(512, True)}


@cache
def key_of(scheme):
    return SCHEMES[scheme].generate()


class Case:
    """Rows in nodes, most of them in one bin of a feature; two ciphertexts a row."""

    def __init__(self, seed, n_bins, sizes):
        random = np.random.default_rng(seed)
        n_rows = sum(sizes) + 3
        rare = random.random((n_rows, len(n_bins))) < random.choice([0.1, 1.0], len(n_bins))
        usual = random.integers(0, n_bins)
        self.codes = np.where(rare, random.integers(0, n_bins, (n_rows, len(n_bins))), usual).astype(np.uint8)
        self.rows = random.permutation(n_rows)[: sum(sizes)].astype(np.int32)
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.offsets = np.concatenate([[0], np.cumsum(n_bins)]).astype(np.int64)
        self.values = random.integers(0, 2**40, (2, n_rows))

    def built(self, key):
        sources = [key.encrypt(values.tolist()) for values in self.values]
        return build_histograms(key.public, sources, self.codes, self.rows, self.starts, self.offsets)

    def expected(self):
        """Sums of both values, and row counts, of every bin of every node."""
        shape = (len(self.starts) - 1, int(self.offsets[-1]))
        sums, counts = np.zeros((2, *shape), dtype=np.int64), np.zeros(shape, dtype=np.int64)
        for node in range(len(self.starts) - 1):
            for row in self.rows[self.starts[node] : self.starts[node + 1]]:
                places = self.offsets[:-1] + self.codes[row]
                counts[node, places] += 1
                sums[:, node, places] += self.values[:, row, None]
        return sums, counts


def decrypted(key, ciphertexts, places):
    """The plaintexts at some bins."""
    return key.decrypt(ciphertexts.reshape(-1, *ciphertexts.shape[2:])[places.ravel()])


def assert_sums(key, histograms, sums, counts, places=None):
    np.testing.assert_array_equal(histograms.counts, counts)
    places = np.ones(counts.shape, dtype=bool) if places is None else places
    for own, expected in zip(histograms.sums, sums, strict=True):
        assert decrypted(key, own, places) == expected[places].tolist()


@given(
    st.integers(0, 2**32),
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
    st.lists(st.integers(0, 50), min_size=1, max_size=4),
)
@example(0, [3, 4, 2], [50, 0, 40])
@example(1, [1, 1], [30])
@settings(max_examples=40)
def test_sums_of_every_bin(seed, n_bins, sizes):
    """Empty nodes, empty bins, and bins that hold nearly all rows among them."""
    case, key = Case(seed, n_bins, sizes), key_of("plain")
    assert_sums(key, case.built(key), *case.expected())


@pytest.mark.parametrize("scheme", ["ou", "paillier"])
def test_sums_of_every_bin_under_encryption(scheme):
    case, key = Case(3, [4, 2, 9, 1, 3, 5, 2, 2, 6], [60, 0, 25]), key_of(scheme)
    assert_sums(key, case.built(key), *case.expected())


@pytest.mark.parametrize(("scheme", "n_cases"), [("plain", 20), ("ou", 1)])
def test_a_child_by_subtraction(scheme, n_cases):
    """Bins with no rows of the one, of the other, of both, and with a single one."""
    met = set()
    for seed in range(5, 5 + n_cases):
        case, key = Case(seed, [4, 2, 7], [20, 12]), key_of(scheme)
        children, (sums, counts) = case.built(key), case.expected()
        case.starts = case.starts[[0, 2]]
        rest = case.built(key).less(key.public, children.take(np.array([1])))
        # What is left without rows is not computed: nobody reads it.
        assert_sums(key, rest, sums[:, :1], counts[:1], counts[:1] > 0)
        met |= set(zip(np.minimum(counts[0], 2), np.minimum(counts[1], 1), strict=True))
    assert n_cases == 1 or len(met) == 6


def test_nodes_taken_and_joined():
    case, key = Case(6, [3, 5], [20, 0, 9]), key_of("plain")
    built, (sums, counts) = case.built(key), case.expected()
    parts = [built.take(np.array([2])), built.take(np.array([0, 1]))]
    order = [2, 0, 1]
    assert_sums(key, Histograms.joined(parts), sums[:, order], counts[order])


class Counting:
    """A key that counts the ciphertexts it is asked to add up."""

    def __init__(self, key):
        self.key, self.added = key, 0

    def sum_by_index(self, source, order, starts):
        self.added += len(order)
        return self.key.sum_by_index(source, order, starts)

    def __getattr__(self, name):
        return getattr(self.key, name)


def test_the_fullest_bins_are_not_added_up():
    """One column is added up in full, of each other one only what is not in its fullest bin."""
    n_rows, n_features, n_bins = 200, 6, 3
    case = Case(0, [n_bins] * n_features, [n_rows])
    case.codes[:] = 1
    case.codes[case.rows[:5]] = 2
    key = Counting(key_of("plain"))
    sources = [key.encrypt(case.values[0].tolist())]
    built = build_histograms(key, sources, case.codes, case.rows, case.starts, case.offsets)
    sums, counts = case.expected()
    assert_sums(key_of("plain"), built, sums[:1], counts)
    assert key.added <= n_rows + (n_features - 1) * (5 + n_bins + WORTH_LEAVING_OUT)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_sums_of_two_sets_of_rows_add_up_to_those_of_both(scheme):
    """To the last bit: the product of the same residues is the same, in whatever order."""
    key, case = key_of(scheme), Case(3, [4, 1, 7], [60])
    sources = [key.encrypt(values.tolist()) for values in case.values]

    def built(rows):
        starts = np.array([0, len(rows)], dtype=np.int64)
        return build_histograms(key.public, sources, case.codes, rows, starts, case.offsets)

    whole = built(case.rows)
    added = built(case.rows[:25]).plus(key.public, built(case.rows[25:]))
    assert (added.counts == whole.counts).all()
    for own, others in zip(added.sums, whole.sums, strict=True):
        assert own.tobytes() == others.tobytes()
