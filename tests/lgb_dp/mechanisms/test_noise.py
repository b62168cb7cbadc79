"""Exponential mechanism, discrete Laplace noise and rounded Gaussian noise."""

import ast
import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import gmpy2
import numpy as np
import pytest
import scipy.special
from scipy import stats

import lgb_dp
from gbdt_kernels.draws import discrete_laplace_from_words
from gbdt_kernels.trees import BinLayout, candidate_gains
from lgb_dp.mechanisms import noise as mechanisms
from lgb_dp.mechanisms.noise import (
    DRAW_SLACK,
    GaussianReserve,
    discrete_laplace,
    observed,
    release_gaussian,
    release_laplace,
    rounded_gaussian,
    select,
    selection_scale,
)
from lgb_dp.mechanisms.rng import SecureRandom
from selection_weights import weights_of


def one_feature(n_bins):
    return BinLayout(np.array([n_bins]), np.array([False]), np.zeros((0, n_bins + 1), bool))


def test_selection_scale_pays_for_its_slack():
    assert 1 - 1e-5 < selection_scale(1.0, 1.0) < 1
    assert selection_scale(1.0, 4.0) == pytest.approx(0.25, rel=1e-5)
    with pytest.raises(ValueError, match="epsilon"):
        selection_scale(DRAW_SLACK, 4.0)


def test_selection_probabilities_equal_the_closed_form():
    layout = one_feature(5)
    rng = np.random.default_rng(3)
    histogram = np.column_stack([rng.integers(-40, 40, 6), rng.integers(0, 60, 6)])
    gains = candidate_gains(histogram[None], layout, 0.1)[0]
    scale = 3.0 / np.ptp(gains)
    expected = np.exp(scale * (gains - gains.max()))
    expected /= expected.sum()

    weights, total = weights_of(scale * gains)
    exact = np.array(weights, dtype=object) / total
    np.testing.assert_allclose(exact.astype(float), expected, rtol=2.0**-31)

    n = 20_000
    drawn = select(np.repeat(scale * gains[None], n, axis=0), SecureRandom(1))
    counts = np.bincount(drawn, minlength=len(gains))
    assert stats.chisquare(counts, n * expected).pvalue > 1e-6


def test_selection_reaches_candidates_far_below_the_best():
    weights, total = weights_of([0.0, -1e9])
    assert weights == [2**62, 2**32]
    assert total == 2**62 + 2**32


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(1, 1.0), (7, 0.5), (2**21, 0.5), (2**31, 1e-3)])
def test_discrete_laplace_has_the_closed_forms_moments(sensitivity, epsilon):
    n = 40_000
    noise = discrete_laplace(n, sensitivity, epsilon, SecureRandom(4))
    q = math.exp(-epsilon / sensitivity)
    variance = 2 * q / (1 - q) ** 2
    assert noise.dtype == np.int64
    assert abs(noise.mean()) < 6 * math.sqrt(variance / n)
    assert noise.var() == pytest.approx(variance, rel=0.1)
    assert (noise == 0).mean() == pytest.approx((1 - q) / (1 + q), abs=0.02)


def test_discrete_laplace_refuses_what_it_cannot_scale():
    with pytest.raises(ValueError, match="epsilon"):
        discrete_laplace(1, 2**31, 1e-12, SecureRandom(0))


def test_words_come_from_the_operating_system_unless_fixed():
    assert (SecureRandom().words(8) != SecureRandom().words(8)).any()
    assert (SecureRandom(1).words(8) == SecureRandom(1).words(8)).all()
    assert (SecureRandom(1).words(8) != SecureRandom(2).words(8)).any()


def test_words_and_coins_are_uniform():
    random = SecureRandom(7)
    bits = np.unpackbits(random.words(20_000).view(np.uint8))
    assert abs(bits.mean() - 0.5) < 0.003
    assert abs(random.coins(20_000).mean() - 0.5) < 0.02


def test_discrete_laplace_is_the_exact_sampler_on_the_stream():
    numerator, expected = int(Fraction(0.5) / 7 * 2**52), np.empty(50, dtype=np.int64)
    assert discrete_laplace_from_words(numerator, SecureRandom(4).words(32 * 50 + 64), expected) == 50
    np.testing.assert_array_equal(discrete_laplace(50, 7, 0.5, SecureRandom(4)), expected)


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(3, 1.0), (7, 0.1), (2**21, 0.3), (2**31, 1e-3)])
def test_the_inverse_scale_is_rounded_down(monkeypatch, sensitivity, epsilon):
    asked = []
    monkeypatch.setattr(
        mechanisms, "discrete_laplace_from_words", lambda numerator, *_: asked.append(numerator) or 1
    )
    discrete_laplace(1, sensitivity, epsilon, SecureRandom(0))
    assert asked[0] <= Fraction(epsilon) / sensitivity * 2**52 < asked[0] + 1


def test_words_that_run_out_are_continued(monkeypatch):
    seen = []
    monkeypatch.setattr(
        mechanisms,
        "discrete_laplace_from_words",
        lambda _, words, noise: seen.append(words) or (len(noise) if len(seen) == 3 else 0),
    )
    discrete_laplace(1, 1, 1.0, SecureRandom(0))
    for short, long in pairwise(seen):
        assert len(long) > len(short)
        np.testing.assert_array_equal(long[: len(short)], short)


@pytest.mark.parametrize(("word", "chosen"), [(0, 0), (2**62 - 1, 0), (2**62, 1), (2**62 + 2**32 - 1, 1)])
def test_selection_is_an_exact_draw_among_integers(word, chosen):
    class Words:
        def words(self, *shape):
            return np.resize(np.array([0, word], dtype=np.uint64), shape)

    assert select(np.array([[0.0, -1e9]]), Words()).tolist() == [chosen]


def test_a_selection_goes_on_until_every_node_has_drawn(monkeypatch):
    def one_node(utilities, words, chosen, n_threads, repeats):
        node = np.flatnonzero(chosen < 0)[-1]
        chosen[node] = 10 + node

    monkeypatch.setattr(mechanisms, "select_from_words", one_node)
    assert select(np.zeros((4, 2)), SecureRandom(1)).tolist() == [10, 11, 12, 13]


def test_both_slacks_are_paid():
    assert Fraction(selection_scale(1.0, 1.0)) <= 1 - Fraction(2) ** -18 - Fraction(2) ** -29
    assert selection_scale(2.0**-20, 1.0) <= 2.0**-20 * (1 - 2.0**-18) - 2.0**-29


# Rounded Gaussian noise.


@pytest.mark.parametrize("scale", [0.4, 3.0, 1234.5, 3e7])
def test_rounded_gaussian_has_the_distribution_of_a_rounded_normal(scale):
    drawn = rounded_gaussian(40_000, scale, SecureRandom(11))
    if scale < 10:
        k = np.arange(-12 * max(1, int(scale)), 12 * max(1, int(scale)) + 1)
        probability = np.diff(stats.norm.cdf(np.append(k - 0.5, k[-1] + 0.5) / scale))
        expected = probability * len(drawn)
        seen = np.array([(drawn == value).sum() for value in k])
        usual = expected > 5
        statistic = ((seen - expected)[usual] ** 2 / expected[usual]).sum()
        assert stats.chi2.sf(statistic, usual.sum() - 1) > 1e-4
    else:
        assert stats.kstest(drawn / scale, "norm").pvalue > 1e-4


def test_rounded_gaussian_is_the_exact_rounding_of_the_quantile(monkeypatch):
    """Every draw against 400 bits, with SciPy's quantile moved by almost all the error it is granted."""
    for sign in (1, -1):
        moved = 1 + sign * 0.9 * mechanisms.NDTRI_ERROR
        monkeypatch.setattr(mechanisms, "ndtri", lambda p, moved=moved: scipy.special.ndtri(p) * moved)
        scale = 2.0**36  # a third of the draws is too close to a half-integer for float64
        words = SecureRandom(3).words(300)
        drawn = rounded_gaussian(300, scale, SecureRandom(3))
        with gmpy2.context(gmpy2.get_context(), precision=400):
            unit = gmpy2.mpfr(scale) * gmpy2.sqrt(gmpy2.mpfr(2))
            for word, value in zip(words.tolist(), drawn.tolist(), strict=True):
                tail, k = word >> 1, abs(value)
                low = gmpy2.erfc((k + gmpy2.mpfr(0.5)) / unit)
                high = gmpy2.erfc((k - gmpy2.mpfr(0.5)) / unit) if k else gmpy2.mpfr(1)
                # The tail probability is in [tail, tail + 1] / 2**63; that of the drawn value must meet it.
                assert low * 2**63 < tail + 1
                assert tail < high * 2**63


def test_rounded_gaussian_refuses_scales_it_cannot_draw():
    for scale in (0.0, -1.0, np.nan, 2.0**49):
        with pytest.raises(ValueError, match="scale"):
            rounded_gaussian(1, scale, SecureRandom(1))


def test_the_error_granted_to_the_quantile_is_never_reached():
    t = np.exp(-np.random.default_rng(0).random(2000) * 40) / 2
    z = -scipy.special.ndtri(t)
    with gmpy2.context(gmpy2.get_context(), precision=200):
        for p, value in zip(t.tolist(), z.tolist(), strict=True):
            exact_tail = gmpy2.erfc(gmpy2.mpfr(value) / gmpy2.sqrt(gmpy2.mpfr(2))) / 2
            density = gmpy2.exp(-(gmpy2.mpfr(value) ** 2) / 2) / gmpy2.sqrt(2 * gmpy2.const_pi())
            error = abs(exact_tail - gmpy2.mpfr(p)) / density
            assert error <= value * mechanisms.NDTRI_ERROR / 256 + 1.26 * 2.0**-52


RAW_SAMPLERS = {
    "discrete_laplace",
    "discrete_laplace_from_words",
    "rounded_gaussian",
    "select_from_words",
    "hand_out",
}


def raw_samplers_named_in(source):
    """Names of samplers that a module's code mentions, whether imported, called or reached by attribute."""
    named = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            named.add(node.id)
        elif isinstance(node, ast.Attribute):
            named.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            named.update(alias.name for alias in node.names)
            if (node.module or "").startswith("gbdt_kernels"):
                named.update(f"{alias.name}_from_words" for alias in node.names if alias.name == "select")
    return named & RAW_SAMPLERS


def test_private_numbers_leave_through_the_release_functions_only():
    package = Path(lgb_dp.__file__).parent
    outside = [path for path in package.rglob("*.py") if path.parent.name != "mechanisms"]
    assert len(outside) > 30
    assert {str(path): found for path in outside if (found := raw_samplers_named_in(path.read_text()))} == {}
    assert raw_samplers_named_in((package / "mechanisms" / "noise.py").read_text()) == RAW_SAMPLERS
    assert raw_samplers_named_in("from lgb_dp.mechanisms import noise\nnoise.rounded_gaussian(1, 2, r)")
    assert raw_samplers_named_in("from gbdt_kernels.draws import select")


def test_an_observer_sees_what_a_release_reads_and_may_replace_it():
    seen = []

    def observer(private, release):
        seen.append((private.mechanism, private.values.copy(), private.scale))
        return release() * 0 + 7

    sums, random = np.arange(6).reshape(2, 3), SecureRandom(1)
    with observed(observer):
        released = [
            release_gaussian(sums, 2.0, random),
            release_gaussian(sums, 2.0, GaussianReserve(2.0, random)),
            release_laplace(sums, 3, 0.5, random),
            select(np.zeros((2, 3)), random),
        ]
    assert [found[0] for found in seen] == ["Gaussian", "Gaussian", "discrete Laplace", "exponential"]
    assert [found[2] for found in seen] == [2.0, 2.0, 6.0, 1.0]
    for _, values, _ in seen[:3]:
        np.testing.assert_array_equal(values, sums)
    assert all((numbers == 7).all() for numbers in released)
    assert not (release_gaussian(sums, 2.0, random) == 7).all()
    assert len(seen) == 4


def test_what_a_reserve_has_drawn_stays_in_its_process(monkeypatch):
    reserve = GaussianReserve(2.0, SecureRandom(1))
    reserve.hand_out(2.0, 1)
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(RuntimeError, match="forked"):
        reserve.hand_out(2.0, 1)


def test_a_reserve_hands_out_whole_numbers_from_the_first_one_on():
    reserve = GaussianReserve(2.0, SecureRandom(1))
    assert [reserve.hand_out(2.0, 3).dtype for _ in range(2)] == [np.int64, np.int64]


def test_a_reserve_holds_noise_of_one_scale():
    with pytest.raises(ValueError, match="reserve"):
        release_gaussian(np.zeros(2, dtype=np.int64), 3.0, GaussianReserve(2.0, SecureRandom(1)))
