"""The public numbers of a run: steps of gradients and hessians, the ring of their sums, what no sum exceeds.

A row adds a gradient of q steps and a hessian of h steps to one leaf, integers with

    (q / CK)² + (h / κK)² ≤ 1,  |q| ≤ ⌊CK⌋,  0 ≤ h ≤ ⌊κK⌋,

where K is the number of steps per unit, and C and κ are the loss's bounds (`lgb_dp.losses.loss`).
Both travel in one element of the ring of integers modulo 2^W, as q·2^S + h with S = W / 2.

*No sum wraps.*  Let n be at least the sum of the rows' weights, V the larger variance of a party's noise, and
K such that

    n·max(C, κ)·K + D + T < 2^(S-1),  D = ⌈6·√(2³¹)⌉,  T = ⌈12·√(2V)⌉.

Weights are at most 1.  A row of weight w adds at most wCK and wκK but for rounding, which a dither does with
that mean and variance 1/4 at most, so that over 2³¹ rows, the most there may be, it exceeds D with
probability e⁻⁷².  A discrete Gaussian of variance parameter V is subgaussian with V (Canonne, Kamath and
Steinke, NeurIPS 2020), the sum of two with 2V, and so exceeds T with probability 2·e⁻⁷² < 10⁻³⁰ at most.
Otherwise |G| and |H|, sums with both noises, are below 2^(S-1).

*They decode exactly.*  The opened element is x = G·2^S + H mod 2^W, hence x ≡ H mod 2^S, and H is the one
number in [-2^(S-1), 2^(S-1)) of this residue.  Then (x - H) mod 2^W = 2^S·(G mod 2^S), and likewise for G.

*No secret shapes them.*  n is the released number of rows and 12 standard deviations of its noise, so that
all here follows from releases and public settings.  If there were more rows than n after all, or noise beyond
T, sums could wrap; that costs accuracy and no privacy, for decoding is post-processing of what was opened.

*48 bits are enough* where rounding adds little to the noise.  The dither's variance is 1/4 at most and it is
independent between rows, so n rows add n / 4 at most to a sum's variance.  The noise of both parties has 2V.
48 bits are taken where n / 4 ≤ 2V / 16 holds for gradients and for hessians, so that rounding adds less than
3.1 percent to a standard deviation, and where both bounds have at least 8 steps; otherwise 64 bits.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gbdt_parties.errors import SumRangeError
from lgb_dp.accounting.shares import share_variance
from lgb_dp.checks import POSITIVE, checked_number
from lgb_dp.errors import InvalidArgumentError

TAIL = 12
"""Standard deviations that noise is allowed for."""

RINGS = (48, 64)
MAX_STEPS = 2**14
"""Steps per unit at most; the pooled trainer has as many."""

_MAX_ROUNDING = 6 * math.isqrt(2**31) + 6
"""D."""

_LEAST_STEPS = 8
"""Of both bounds, in any ring."""

_ROUNDING_SHARE = Fraction(1, 16)


@dataclass(frozen=True)
class PublicNumbers:
    """Numbers that both parties, and an auditor, work out from releases alone; `of` does.

    `max_rows` is n, at least the sum of the rows' weights; `bounds` are C and κ of the loss, in its units;
    `mu` is that of the release of one tree's sums. The ring has W = `ring_bits` bits, 48 or 64, and K =
    `steps` steps per unit.
    """

    max_rows: int
    bounds: tuple[float, float]
    mu: float
    ring_bits: int
    steps: int

    @classmethod
    def of(
        cls, released_rows: float, released_std: float, bounds: tuple[float, float], mu: float
    ) -> PublicNumbers:
        """Numbers of a run: the smallest ring that is not too coarse, and the most steps without a wrap.

        `released_rows` counts rows of the largest weight with noise, and may be negative; `released_std` is
        the deviation of its noise. C, κ and μ are positive. Raises InvalidArgumentError if a number is out of
        range, or there are too many rows for 64 bits.
        """
        checked_number("released_std", released_std, POSITIVE)
        checked_number("mu of a tree's sums", mu, POSITIVE)
        for name, bound in zip(("gradients", "hessians"), bounds, strict=True):
            checked_number(f"bound of {name}", bound, POSITIVE)
        if not math.isfinite(released_rows):
            raise InvalidArgumentError(f"released_rows={released_rows} must be finite")
        max_rows = max(1, math.ceil(Fraction(released_rows) + TAIL * Fraction(released_std)))
        for ring_bits in RINGS:
            found = bisect_left(
                range(1, MAX_STEPS + 1),
                True,
                key=lambda steps: cls(max_rows, bounds, mu, ring_bits, steps)._may_wrap,
            )
            numbers = cls(max_rows, bounds, mu, ring_bits, found)
            if min(numbers.limits) >= _LEAST_STEPS and (ring_bits == RINGS[-1] or numbers._is_fine):
                return numbers
        raise InvalidArgumentError(
            f"{max_rows:,} rows with bounds {bounds} at mu={mu:g} of a tree do not fit a ring of "
            f"{RINGS[-1]} bits: take fewer rows or trees, a larger epsilon, or a larger gradient_clip"
        )

    @property
    def limits(self) -> tuple[int, int]:
        """⌊CK⌋ and ⌊κK⌋: most steps of a row's gradient and hessian."""
        gradient, hessian = (math.floor(Fraction(bound) * self.steps) for bound in self.bounds)
        return gradient, hessian

    @property
    def variances(self) -> tuple[int, int]:
        """V of a party's noise in a sum of gradients and of hessians, in squared steps (`noise`)."""
        gradient, hessian = (self._variance(bound) for bound in self.bounds)
        return gradient, hessian

    def _variance(self, bound: float) -> int:
        return share_variance(Fraction(bound) * self.steps / Fraction(self.mu), 1, 0)

    @property
    def largest(self) -> tuple[int, int]:
        """Bounds of the sizes of opened sums, with the noise of both parties; of hessians, from above."""
        gradient, hessian = (
            math.ceil(self.max_rows * self.steps * Fraction(bound)) + _MAX_ROUNDING + self._tail(variance)
            for bound, variance in zip(self.bounds, self.variances, strict=True)
        )
        return gradient, hessian

    @staticmethod
    def _tail(variance: int) -> int:
        """T, in integers and not below."""
        return math.isqrt(2 * TAIL**2 * variance) + 1

    @property
    def _may_wrap(self) -> bool:
        return max(self.largest) >= 1 << self.ring_bits // 2 - 1

    @property
    def _is_fine(self) -> bool:
        return Fraction(self.max_rows, 4) <= _ROUNDING_SHARE * 2 * min(self.variances)

    @property
    def stds(self) -> tuple[float, float]:
        """Standard deviations of opened sums of gradients and of hessians, both noises together, in units."""
        gradient, hessian = (math.sqrt(2 * variance) / self.steps for variance in self.variances)
        return gradient, hessian

    @cached_property
    def hessian_room(self) -> NDArray[np.int64]:
        """Most steps of the hessian of a row whose gradient has so many steps, either way: int64, (⌊CK⌋ +
        1,).

        They are the largest integers h with (q / CK)² + (h / κK)² ≤ 1, in exact arithmetic.
        """
        squared_clip, squared_limit = ((Fraction(bound) * self.steps) ** 2 for bound in self.bounds)
        top = squared_limit.numerator * squared_clip.denominator
        bottom = squared_limit.denominator * squared_clip.numerator
        # (κK)² - (κK)² q² / (CK)², over one denominator.
        whole = squared_limit.numerator * squared_clip.numerator
        room = np.array(
            [math.isqrt((whole - top * q * q) // bottom) for q in range(self.limits[0] + 1)], dtype=np.int64
        )
        room.setflags(write=False)
        return room

    def packed(self, gradient: NDArray[np.int64], hessian: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Pairs of integers as elements of the ring: uint64 modulo 2^64, a multiple of the ring's modulus."""
        high = gradient.astype(np.uint64) << np.uint64(self.ring_bits // 2)
        return np.asarray(high + hessian.astype(np.uint64))

    def decoded(self, opened: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sums of gradients and of hessians, int64 in steps, of opened elements."""
        half = self.ring_bits // 2
        hessian = _signed(opened, half)
        return _signed((opened - hessian.astype(np.uint64)) >> np.uint64(half), half), hessian

    def to_bytes(self) -> bytes:
        """All of it."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> PublicNumbers:
        """Read what `to_bytes` wrote."""
        values = json.loads(data)
        return cls(**{**values, "bounds": tuple(values["bounds"])})

    def check_range(self, opened: Sequence[NDArray[np.uint64]]) -> None:
        """Refuse opened sums, of every tree of a round, that honest parties do not get.

        Raises SumRangeError if a sum of gradients exceeds that of all rows and the noise's tail, or one of
        hessians does or is below zero by more than the tail.
        """
        most, highest = self.largest
        lowest = -self._tail(self.variances[1])
        for words in opened:
            gradient, hessian = self.decoded(words)
            if (np.abs(gradient) > most).any() or (hessian > highest).any() or (hessian < lowest).any():
                raise SumRangeError(
                    f"opened sums are out of range: those of gradients must be within {most} steps of zero, "
                    f"and those of hessians from {lowest} to {highest}"
                )


def _signed(words: NDArray[np.uint64], bits: int) -> NDArray[np.int64]:
    """The lowest bits of words, as a number that is negative if the highest of them is set."""
    unused = np.uint64(64 - bits)
    return np.asarray((words << unused).astype(np.int64) >> np.int64(unused))
