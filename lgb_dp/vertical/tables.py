"""Gradients and hessians of a row at every public point where the other party's part of its score may be.

The score of a row is F = F_A + F_B.  A, which has labels and F_A, makes a table of what the row adds to a
leaf if F_B is at each of some points; B looks one entry up, at a point near F_B that it draws.

*Every entry keeps to the bound of the noise*, (q / CK)² + (h / κK)² ≤ 1 in whole steps, |q| ≤ ⌊CK⌋ and h ≥ 0,
whatever scores, labels, weights and dithers are: rounded gradients are cut to ±⌊CK⌋, and rounded hessians
then to `PublicNumbers.hessian_room` of these, by integer comparisons at the very end.  So the other party may
look up any entry, and a row's sensitivity rests on no floating-point number (`noise`).

*Rounding is unbiased*: x steps become ⌊x + u⌋, u uniform, of mean x; but for the cut of hessians, and for
2⁻¹⁷ of a step, as u has 16 bits.  u has a value for a row's gradients and another one for its hessians, the
same at all points: a row is looked up once.

*Rounding keeps the sign* of a gradient: ⌊x + u⌋ is at least 0 for x ≥ 0, and at most 0 for x ≤ 0, as u < 1.

*Points are drawn so that entries are interpolated*: F_B between two points becomes one of them, with the
probability that keeps the mean of e^(aF_B), where a is the loss's `interpolation_exponent`, or of F_B if that
is 0.  The expected entry is the table's interpolation at F_B by functions b + c·e^(aF); beyond the points, it
is that of the last one.  Between kinks, gradients of residual losses (straight lines) and of Poisson's and
the gamma loss are such functions, which interpolation leaves as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from lgb_dp.errors import InvalidArgumentError
from lgb_dp.losses.loss import STEPS, Loss
from lgb_dp.vertical.numbers import PublicNumbers

Words = NDArray[np.uint64]

N_POINTS = 16

_LEAST_WIDTH = 2.0**-10
"""Of the points on either side of 0, over the reach."""

_MIDDLE = 1 / 3
"""Share of the range that sets how much closer points are near 0."""


def loss_bounds(loss: Loss) -> tuple[float, float]:
    """C and κ: half axes of the ellipse that a row's gradient and hessian keep to, in units of the sums.

    With a share s set aside for hessians, C is over √(1 - s), as the noise's standard deviation is.
    """
    gradient, hessian = loss.stds(1.0)
    return gradient / STEPS, hessian / STEPS


@dataclass(frozen=True)
class PointTables:
    """Tables of the rows of one training run, for a loss of one output and numbers made with its
    `loss_bounds`.

    `target` is what the loss's `targets` gives, `weight` that over the largest one, in [0, 1]; both of shape
    (n_rows,). Raises InvalidArgumentError if the loss has several outputs, or a shape or weight is not
    accepted.
    """

    loss: Loss
    numbers: PublicNumbers
    target: NDArray[np.float64] = field(repr=False)
    weight: NDArray[np.float64] = field(repr=False)

    def __post_init__(self) -> None:
        self.loss.table_kernel(1.0)  # raises an error for several outputs
        if loss_bounds(self.loss) != self.numbers.bounds:
            raise InvalidArgumentError(
                f"bounds={self.numbers.bounds} of the public numbers must be those of the loss, "
                f"{loss_bounds(self.loss)}"
            )
        if self.weight.shape != self.target.shape:
            raise InvalidArgumentError(
                f"weight of shape {self.weight.shape} must have that of target, {self.target.shape}"
            )
        if not ((self.weight >= 0) & (self.weight <= 1)).all():
            raise InvalidArgumentError("weight must be in [0, 1], over the largest weight")

    def at(
        self,
        score: NDArray[np.float64],
        points: Sequence[float],
        dither: NDArray[np.uint32],
        clip: float = 1.0,
    ) -> Callable[[int, int], Words]:
        """Tables of one round: a function that gives those of rows `first` to `last`, uint64 (n, n_points,
        1).

        `score` is F_A with the prior, shape (n_rows,), and the ascending `points` have its unit, the loss's.
        `dither` is uniform, uint32 of shape (n_rows,), from a stream that serves nothing else; `clip` is that
        of the loss's `start`.
        """
        where = np.array(points, dtype=np.float64)
        half = np.uint64(self.numbers.ring_bits // 2)
        room, fill, given = self.numbers.hessian_room, *self.loss.table_kernel(clip)
        bounds, steps = np.array(self.numbers.bounds), float(self.numbers.steps)

        def tables(first: int, last: int) -> Words:
            rows = slice(first, last)
            out = np.empty((last - first, len(where)), dtype=np.uint64)
            own = (score[rows], where, self.target[rows], self.weight[rows])
            fill(*own, given, bounds, steps, dither[rows], room, half, out)
            return out[:, :, None]

        return tables


def round_points(reach: float, low: float, high: float, n_points: int = N_POINTS) -> tuple[float, ...]:
    """Points of a round, ascending: over all values that F_B can have by now, but within `reach` of 0.

    F_B is between `low` and `high`, the sums of the smallest and of the largest leaf values of B's trees,
    which are public. Points that begin close together interpolate better than those of the whole range;
    without any tree of B, F_B is 0 but for next to nothing. Hardly any row is in the smallest or largest leaf
    of all trees, so that points p are closer near 0: p / (s + |p|) are at equal distances, s being `_MIDDLE`
    of the range. They are quotients and sums of public numbers, hence the same to the last bit at both
    parties.
    """
    first = max(-reach, min(low, -_LEAST_WIDTH * reach))
    last = min(reach, max(high, _LEAST_WIDTH * reach))
    middle = _MIDDLE * (last - first)
    start, stop = (end / (middle + abs(end)) for end in (first, last))
    inner = (start + (stop - start) * k / (n_points - 1) for k in range(1, n_points - 1))
    return first, *(middle * place / (1.0 - abs(place)) for place in inner), last


def to_points(
    score: NDArray[np.float64], points: Sequence[float], dither: NDArray[np.uint32], exponent: float
) -> NDArray[np.uint8]:
    """Numbers of points near scores, uint8, drawn so that the mean of e^(aF), or of the score itself, is
    kept.

    `score` is F_B, shape (n_rows,); the `points`, 2 to 256, ascend, and the last one either way serves scores
    beyond it. `dither` is uniform, uint32 of the same shape, from a stream that serves nothing else.
    `exponent` is a; 0 keeps the mean of the score.
    """
    where = np.array(points, dtype=np.float64)
    inside = np.clip(score, where[0], where[-1])
    left = np.clip(np.searchsorted(where, inside, side="right") - 1, 0, len(where) - 2)
    way, whole = inside - where[left], where[left + 1] - where[left]
    share = np.expm1(exponent * way) / np.expm1(exponent * whole) if exponent else way / whole
    return np.asarray(left + ((dither + 0.5) * 2.0**-32 < share), dtype=np.uint8)
