"""An exact sampler of the discrete Gaussian distribution, P(k) ∝ exp(-k² / 2V) on the integers.

A discrete Laplace number of about the same width is proposed, and accepted with the probability that makes
up the difference (Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS
2020).  With P(y) ∝ exp(-s |y|) and acceptance exp(-(|y| - V s)² / 2V), the product is exp(-y² / 2V) times a
constant, whatever s is, so that s may be any number of the proposal's sampler.
"""

from __future__ import annotations

import math

import gmpy2
import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.draws import discrete_laplace_from_words
from gbdt_kernels.draws.discrete import LOG2_DENOMINATOR
from lgb_dp.checks import checked_integer
from lgb_dp.mechanisms.rng import WordSource

MAX_VARIANCE = 2**80
_WORDS_PER_PROPOSAL = 32
_PROPOSALS_PER_DRAW = 1.4
"""Proposals are accepted with probability √(π / 2e) = 0.76 at least, where V is large."""

DOUBT = 2.0**-30
LEAST_DOUBT = 2.0**-50
_WORD_BITS = 64


def discrete_gaussian(n: int, variance: int, random: WordSource) -> NDArray[np.int64]:
    """Independent integers with P(k) ∝ exp(-k² / 2V), for a variance V from 1 to 2⁸⁰.

    The draws are exact: floating-point numbers decide only what their error cannot change.
    `InvalidArgumentError` if V is out of range.
    """
    variance = checked_integer("variance of discrete Gaussian noise", variance, 1, MAX_VARIANCE)
    slope = int(2**LOG2_DENOMINATOR / math.sqrt(variance))
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < n:
        n_proposed = int(_PROPOSALS_PER_DRAW * (n - len(drawn))) + 8
        proposed = np.empty(n_proposed, dtype=np.int64)
        n_made = discrete_laplace_from_words(slope, random.words(_WORDS_PER_PROPOSAL * n_proposed), proposed)
        proposed = proposed[:n_made]
        drawn = np.concatenate([drawn, proposed[accept(proposed, variance, slope, random)]])
    return drawn[:n]


def accept(proposed: NDArray[np.int64], variance: int, slope: int, random: WordSource) -> NDArray[np.bool_]:
    """Which proposals are accepted, each with probability exp(-γ), γ = (|y| - V s)² / 2V.

    A uniform number is compared with exp(-γ) by its first 64 bits.  For |y| up to 64 √V, float64 moves γ by
    less than 2⁻³⁸: |y| - V s is off by at most 2⁻⁵¹ (|y| + V s), and so is γ by 65 · 64 · 2⁻⁵¹; everything
    else is a few roundings.  Beyond, exp(-γ) is below 2⁻⁵⁰.  Where the comparison is closer than `DOUBT` of
    exp(-γ), plus `LEAST_DOUBT`, it is made exactly.
    """
    size = np.abs(proposed).astype(np.float64)
    distance = size - float(variance) * (slope / 2**LOG2_DENOMINATOR)
    probability = np.exp(-(distance**2) / (2.0 * float(variance)))
    word = random.words(len(proposed))
    uniform = word.astype(np.float64) * 2.0**-_WORD_BITS
    accepted: NDArray[np.bool_] = uniform < probability
    doubtful = np.abs(uniform - probability) <= probability * DOUBT + LEAST_DOUBT
    for i in np.flatnonzero(doubtful):
        accepted[i] = is_below(int(word[i]), int(proposed[i]), variance, slope, random)
    return accepted


def is_below(word: int, proposed: int, variance: int, slope: int, random: WordSource) -> bool:
    """Whether a uniform number whose first 64 bits are `word` is below exp(-γ).

    γ is the fraction (|y| 2⁵² - V a)² / (2V 2¹⁰⁴) of integers, with s = a / 2⁵².  MPFR gives its exponential
    within one unit of the last place, and 2⁻²⁰⁰ of itself is granted here; as many more bits of the uniform
    number are drawn as tell the two apart.
    """
    bits = _WORD_BITS
    with gmpy2.context(gmpy2.get_context(), precision=256):
        distance = abs(proposed) * 2**LOG2_DENOMINATOR - variance * slope
        gamma = gmpy2.mpfr(gmpy2.mpq(distance**2, 2 * variance * 4**LOG2_DENOMINATOR))
        slack = gmpy2.mpfr(2) ** -200
        # An error of 2⁻²⁵⁵ of γ moves the exponential by that times γ, of itself.
        probability, error = gmpy2.exp(-gamma), slack * (1 + gamma)
        while True:
            low, high = gmpy2.mpfr(word) / 2**bits, gmpy2.mpfr(word + 1) / 2**bits
            if high <= probability * (1 - error):
                return True
            if low >= probability * (1 + error):
                return False
            word = (word << _WORD_BITS) | int(random.words(1)[0])
            bits += _WORD_BITS
