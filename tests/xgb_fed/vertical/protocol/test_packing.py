import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gbdt_kernels.residues.limbs import from_rows
from gbdt_parties.errors import ProtocolError
from packed_fields import decoded, decoded_pairs, encoded_pairs
from scaled_gradients import gradients, scaled
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.ciphers.paillier import Paillier
from xgb_fed.ciphers.plain import Plain
from xgb_fed.errors import PackingError, PlaintextRangeError
from xgb_fed.vertical.passive.histogram import build_histograms
from xgb_fed.vertical.protocol.packing import (
    HALF_BITS,
    GHPacking,
    MultiClassPacking,
    check_layout,
    packing_for,
)
from xgb_fed.vertical.trees.partition import Partition


def test_budget_of_the_design():
    """The figures of the design: logistic loss, 150,000 and ten million rows."""
    small, large = GHPacking(150_000, h_max=0.25), GHPacking(10_000_000, h_max=0.25)
    assert (small.bits, large.bits) == (141, 153)
    limits = [1 << 2047, 1 << 682, 1 << 1023]
    assert [small.per_ciphertext(limit) for limit in limits] == [14, 4, 7]
    assert [large.per_ciphertext(limit) for limit in limits] == [13, 4, 6]


bounded = st.floats(-1, 1, width=32)


@given(
    st.lists(st.tuples(bounded, st.floats(0, 0.25, width=32)), min_size=1, max_size=60), st.integers(0, 53)
)
@settings(deadline=None)
def test_sums_come_back_exactly(pairs, precision):
    packing = GHPacking(len(pairs), h_max=0.25, precision=precision)
    g, h = (np.array(column) for column in zip(*pairs, strict=True))
    plaintexts = encoded_pairs(packing, g, h)
    unit = 2.0**precision
    total_g, total_h = decoded_pairs(packing, [sum(plaintexts), plaintexts[0]], [len(pairs), 1])
    assert total_g[0] == sum(int(np.rint(x * unit)) for x in g) / unit
    assert total_h[0] == sum(int(np.rint(x * unit)) for x in h) / unit
    assert total_g[1] == np.rint(g[0] * unit) / unit


@given(st.data())
@settings(deadline=None, max_examples=40)
def test_fields_never_meet(data):
    """All rows at their bounds, both ends: the widest sums the budget allows."""
    g_min = data.draw(st.floats(-1000, 1000))
    g_max = data.draw(st.floats(g_min, 1000))
    h_max = data.draw(st.floats(1e-3, 10))
    n_rows = data.draw(st.integers(1, 10**7))
    packing = GHPacking(n_rows, g_min, g_max, h_max, precision=40)
    rows = encoded_pairs(packing, [g_min, g_max], [0.0, h_max])
    top = rows[1] * n_rows
    assert top.bit_length() <= packing.bits
    assert (top & ((1 << packing.h_bits) - 1)) == n_rows * round(h_max * 2**40)
    g, _ = decoded_pairs(packing, [rows[0] * n_rows], [n_rows])
    assert g[0] == pytest.approx(n_rows * g_min, abs=n_rows * 2.0**-40)


def test_empty_sum():
    g, h = decoded_pairs(GHPacking(10), [0], [0])
    assert (g[0], h[0]) == (0.0, 0.0)


def test_bounds_are_enforced():
    packing = GHPacking(10, h_max=0.25)
    for g, h in [([1.5], [0.1]), ([-1.01], [0.1]), ([0.0], [0.26]), ([0.0], [-0.1]), ([np.nan], [0.1])]:
        with pytest.raises(PlaintextRangeError):
            encoded_pairs(packing, g, h)
    with pytest.raises(PlaintextRangeError):
        decoded_pairs(packing, [1 << packing.bits], [3])


def test_errors_before_training():
    with pytest.raises(PackingError, match="plaintexts have 100"):
        GHPacking(1000).per_ciphertext(1 << 100)
    with pytest.raises(PackingError, match="a precision of"):
        GHPacking(1000, g_min=-1e6, g_max=1e6)
    with pytest.raises(PackingError):
        MultiClassPacking(GHPacking(1000), 3, 1 << 100)
    for bad in ({"n_rows": 0}, {"g_min": 2.0}, {"h_max": 0.0}, {"h_max": np.inf}):
        with pytest.raises(ValueError, match="must"):
            GHPacking(**{"n_rows": 5, **bad})


@pytest.mark.parametrize("n_classes", [1, 2, 4, 5, 7])
def test_multi_class(n_classes):
    """Algorithms 1 and 2, the last group not full."""
    rng = np.random.default_rng(n_classes)
    packing = MultiClassPacking(GHPacking(50, h_max=0.5), n_classes, 1 << 600)
    g, h = rng.uniform(-1, 1, (50, n_classes)), rng.uniform(0, 0.5, (50, n_classes))
    plaintexts = packing.encode(g, h)
    assert len(plaintexts) == -(-n_classes // packing.classes_per_ciphertext)
    parts = [slice(0, 20), slice(20, 50)]
    sums = [[sum(from_rows(group[part])) for part in parts] for group in plaintexts]
    total_g, total_h = decoded(packing, sums, [20, 30])
    np.testing.assert_allclose(total_g, [g[part].sum(axis=0) for part in parts], rtol=1e-12)
    np.testing.assert_allclose(total_h, [h[part].sum(axis=0) for part in parts], rtol=1e-12)


@pytest.mark.parametrize("shapes", [((4, 3), (4, 3)), ((4, 2), (4, 1)), ((4, 2), (3, 2)), ((4,), (4,))])
def test_gradients_of_another_shape_are_not_packed(shapes):
    packing = MultiClassPacking(GHPacking(4), 2, 1 << 600)
    with pytest.raises(ValueError, match="have shapes"):
        packing.encode(*map(np.zeros, shapes))


def test_first_class_lies_highest():
    """As the paper's Figure 6 has it: e = (e << b_gh) + gh, class by class."""
    gh = GHPacking(3)
    packing = MultiClassPacking(gh, 2, 1 << 600)
    g, h = np.array([[0.5, -0.25]]), np.array([[0.125, 1.0]])
    first, second = (encoded_pairs(gh, g[:, k], h[:, k])[0] for k in (0, 1))
    assert from_rows(packing.encode(g, h)[0])[0] == (first << gh.bits) + second


def test_unpacking_refuses_what_does_not_belong():
    """Two sums in a plaintext, each of two bits: g, then h."""
    packing = GHPacking(1, 0, 1, 1, precision=0)
    g, h = decoded_pairs(packing, [0b1001, 0b1100], [1, 1, 1], 2)
    assert (g.tolist(), h.tolist()) == ([1, 0, 1], [0, 1, 1])
    for plaintexts, words in [
        ([0b11001, 0b1100], "longer than its fields"),
        ([0b1001, 0b1101], "more fields than were packed"),
        ([0b1001], "another number of plaintexts"),
    ]:
        with pytest.raises(PlaintextRangeError, match=words):
            decoded_pairs(packing, plaintexts, [1, 1, 1], 2)


def test_a_plaintext_of_fewer_classes_holds_no_others():
    """Three classes, of which the last has a plaintext of its own, with room for two."""
    packing = MultiClassPacking(GHPacking(1, 0, 1, 1, precision=0), 3, 1 << 4)
    assert [len(group) for group in packing.groups] == [2, 1]
    g, h = decoded(packing, [[0b1001], [0b11]], [1])
    assert (g.tolist(), h.tolist()) == ([[1, 0, 1]], [[0, 1, 1]])
    for last in (0b0111, 0b1011):
        with pytest.raises(PlaintextRangeError, match=r"classes.*packed"):
            decoded(packing, [[0b1001], [last]], [1])


@pytest.mark.parametrize("scheme", [Plain(700), Paillier(512, True), OkamotoUchiyama(512, True)], ids=repr)
def test_from_gradients_to_split_statistics(scheme):
    """The whole life: pack, encrypt, histogram, compress, re-randomise, decrypt, unpack."""
    key = scheme.generate()
    rng = np.random.default_rng(0)
    n, n_bins = 200, 6
    g, h = rng.uniform(-1, 1, n), rng.uniform(0, 0.25, n)
    codes = rng.integers(0, n_bins, (n, 2)).astype(np.uint8)
    packing = GHPacking(n, h_max=0.25)
    offsets = np.array([0, n_bins, 2 * n_bins])
    public = key.public
    encrypted = key.encrypt(encoded_pairs(packing, g, h))
    built = build_histograms(public, [encrypted], codes, np.arange(n), np.array([0, n]), offsets)
    histogram = built.sums[0][0]
    per = packing.per_ciphertext(public.plaintext_limit)
    message = public.to_bytes(public.rerandomise(public.compress(histogram, packing.bits, per)))
    values = key.decrypt(public.from_bytes(message))
    counts = np.concatenate([np.bincount(codes[:, f], minlength=n_bins) for f in range(2)])
    got_g, got_h = decoded_pairs(packing, values, counts, per)
    for f in range(2):
        part = slice(f * n_bins, (f + 1) * n_bins)
        np.testing.assert_allclose(got_g[part], np.bincount(codes[:, f], g), atol=1e-12)
        np.testing.assert_allclose(got_h[part], np.bincount(codes[:, f], h), atol=1e-12)


@pytest.mark.parametrize("n_rows", [2, 1000, 150_000])
@pytest.mark.parametrize("bits", [341, 682, 2047])
def test_the_layouts_that_are_accepted_are_those_of_honest_parties(n_rows, bits):
    """Of all widths of fields, and as many groups as ten classes can take."""
    honest = set()
    for n_classes in range(1, 11 + bits // 100):
        packing = packing_for(n_rows, n_classes, 1 << bits)
        honest.add((packing.gh.bits * packing.classes_per_ciphertext, len(packing.groups)))
    n_groups = {groups for _, groups in honest}
    assert {1, 2} <= n_groups
    accepted = set()
    for layout in itertools.product(range(-1, bits + 200), n_groups):
        try:
            check_layout(*layout, n_rows, 1 << bits)
        except ProtocolError:
            continue
        accepted.add(layout)
    assert accepted == honest


def test_a_layout_that_is_refused_is_named():
    with pytest.raises(ProtocolError, match=r"field_bits=1 with n_groups=1 .* 127 bits, .* 16 classes"):
        check_layout(1, 1, 1000, 1 << 2047)


def integers_of(halves):
    """Python integers of halves of shape (2, n)."""
    return [(int(high) << HALF_BITS) + int(low) for high, low in zip(*halves, strict=True)]


@given(gradients(), st.data())
@settings(max_examples=40)
def test_sums_are_exact_and_their_floats_the_nearest(pair, data):
    own = scaled(*pair)
    n_rows, n_classes = pair[0].shape
    left = np.array(data.draw(st.lists(st.booleans(), min_size=n_rows, max_size=n_rows)))
    partition = Partition.root(n_rows).children({0: left})
    sums, counts = own.node_sums(partition)
    assert counts.tolist() == [left.sum(), (~left).sum()]
    units = [Fraction(2) ** (exponent - 53) for exponent in (own.g_exponent, own.h_exponent)]
    floats = own.to_float(sums)
    for k in range(n_classes):
        exact = [integers_of(part[:, k]) for part in sums]
        for node, rows in enumerate((left, ~left)):
            for which, integers in enumerate((own.g, own.h)):
                total = sum(integers[rows, k].tolist())
                assert exact[which][node] == total
                assert floats[which][k, node] == float(total * units[which])


def test_sums_of_many_rows_are_exact():
    """Halves of 27 bits: a hundred thousand rows at the largest, one of them off by the last bit."""
    g = np.ones((100_000, 1))
    g[-1] -= 2.0**-53
    own = scaled(g, g)
    sums, _ = own.node_sums(Partition.root(len(g)))
    assert [integers_of(part[:, 0]) for part in sums] == [[(100_000 << 53) - 1]] * 2
