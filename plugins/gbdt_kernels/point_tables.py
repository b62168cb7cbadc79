"""Tables of packed gradients and hessians of rows at public points of the other party's score.

An entry is q·2^S + h modulo 2^64, with q and h whole steps: products of the loss's gradient and hessian, the
row's weight and the number of steps, rounded by a dither and cut to bounds.  The cuts come last and are
integer comparisons, so that every entry keeps to its bounds whatever the numbers before are, also if they are
infinite or no numbers.
"""

from __future__ import annotations

import math

import numpy as np

from gbdt_kernels.compilation import kernel, part


@part
def _rounded(value, dither, most):
    """Whole steps, cut to ±most; NaN, which compares false, becomes one of these."""
    steps = np.floor(value + dither)
    steps = steps if steps < most else most
    return steps if steps > -most else -most


@part
def _dithers(bits):
    """Numbers between 0 and 1 for a row's gradients and hessians."""
    high = (np.float64(bits >> np.uint32(16)) + 0.5) * (1.0 / 65536.0)
    return high, (np.float64(bits & np.uint32(65535)) + 0.5) * (1.0 / 65536.0)


@part
def _steps(gradient, hessian, scale, dithers, bounds, room):
    """Whole steps of a gradient, and of a hessian cut to κ √(1 - (g / C)²), or 0."""
    ratio = gradient / bounds[0]
    rest = 1.0 - ratio * ratio
    free = bounds[1] * math.sqrt(rest if rest > 0.0 else 0.0)
    most = (hessian if hessian < free else free) * scale
    own = _rounded(gradient * scale, dithers[0], np.float64(len(room) - 1))
    return own, _rounded(most, dithers[1], np.float64(room[0]))


@part
def _pack(gradient, hessian, room, half, out):
    """Pack a row's steps, hessians cut to what the bound leaves beside the gradients as they are now."""
    for j in range(len(out)):
        own, other = np.int64(gradient[j]), np.int64(hessian[j])
        space = room[abs(own)]
        other = other if other > 0 else 0
        other = other if other < space else space
        out[j] = (np.uint64(own) << half) + np.uint64(other)


@kernel(error_model="numpy")
def logistic_tables(score, points, target, weight, clip, bounds, steps, dither, room, half, out):
    """Logistic loss: p - y cut to `clip`, and |p - y| (1 - |p - y|).

    `score`, `target` (0 or 1), `weight` (in [0, 1]) and `dither` (uint32) have a number for each row; 16 of
    the dither's uniform bits are for gradients, 16 for hessians. Points are added to a row's score. `bounds`
    are C and κ: hessians are at most κ √(1 - (g / C)²). `steps` are K; `room` has the most steps of a hessian
    for 0, 1, … steps of a gradient's size, with none beyond the last. `half` is S. Writes `out`, uint64 of
    shape (n, n_points).
    """
    g, h = np.empty(points.size), np.empty(points.size)
    factors = np.exp(-points)
    for i in range(score.size):
        margin = math.exp(-score[i])
        y, scale = target[i], weight[i] * steps
        dithers = _dithers(dither[i])
        for j in range(points.size):
            gradient = 1.0 / (1.0 + margin * factors[j]) - y
            size = abs(gradient)
            hessian = size * (1.0 - size)
            gradient = gradient if gradient > -clip else -clip
            gradient = gradient if gradient < clip else clip
            g[j], h[j] = _steps(gradient, hessian, scale, dithers, bounds, room)
        _pack(g, h, room, half, out[i])


@kernel(error_model="numpy")
def residual_tables(score, points, target, weight, loss, bounds, steps, dither, room, half, out):
    """Losses of a residual r = (F - y) / T cut to [-1, 1]: slope·r + shift, and a curvature where |r| < 1.

    `loss` has 1 / T, slope, shift and curvature; the other arguments are those of `logistic_tables`.
    """
    g, h = np.empty(points.size), np.empty(points.size)
    slope, inner, shift, curvature = loss[0], loss[1], loss[2], loss[3]
    for i in range(score.size):
        residual, scale = score[i] - target[i], weight[i] * steps
        dithers = _dithers(dither[i])
        for j in range(points.size):
            r = (residual + points[j]) * slope
            hessian = curvature if abs(r) < 1.0 else 0.0
            r = r if r > -1.0 else -1.0
            gradient = inner * (r if r < 1.0 else 1.0) + shift
            g[j], h[j] = _steps(gradient, hessian, scale, dithers, bounds, room)
        _pack(g, h, room, half, out[i])


@kernel(error_model="numpy")
def log_link_tables(score, points, target, weight, loss, bounds, steps, dither, room, half, out):
    """Losses of m = exp(F): m^(1-ρ) (m - y) / clip cut to [-1, 1], and m^(2-ρ) / clip.

    `loss` has ρ, the smallest score and 1 / clip; the largest score is 0. The other arguments are those of
    `logistic_tables`.
    """
    g, h = np.empty(points.size), np.empty(points.size)
    power, lowest, inverse = 1.0 - loss[0], loss[1], loss[2]
    factors, others = np.exp(points), np.exp(power * points)
    least, largest = math.exp(lowest), math.exp(power * lowest)
    for i in range(score.size):
        scale, y = weight[i] * steps, target[i]
        start, other = math.exp(score[i]), math.exp(power * score[i])
        dithers = _dithers(dither[i])
        for j in range(points.size):
            mean, factor = start * factors[j], other * others[j]
            mean = mean if mean > least else least
            mean = mean if mean < 1.0 else 1.0
            factor = factor if factor > 1.0 else 1.0
            factor = (factor if factor < largest else largest) * inverse
            hessian = factor * mean
            gradient = factor * (mean - y)
            gradient = gradient if gradient > -1.0 else -1.0
            gradient = gradient if gradient < 1.0 else 1.0
            g[j], h[j] = _steps(gradient, hessian, scale, dithers, bounds, room)
        _pack(g, h, room, half, out[i])
