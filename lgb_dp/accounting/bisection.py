"""One directed bisection: the answer is always on the safe side of the boundary that is looked for."""

from __future__ import annotations

import math
from collections.abc import Callable


def midpoint(a: float, b: float) -> float:
    """Arithmetic mean."""
    return (a + b) / 2


def geometric_mean(a: float, b: float) -> float:
    """Geometric mean, for boundaries known only to an order of magnitude."""
    return math.sqrt(a * b)


def last_safe(
    is_safe: Callable[[float], bool],
    safe: float,
    unsafe: float,
    *,
    middle: Callable[[float, float], float] = midpoint,
    tolerance: float = 1e-12,
    max_steps: int = 2000,
) -> float:
    """The safe number next to the boundary between safe and unsafe ones.

    Every number that is returned was `safe` from the start or has been seen to be safe, so that a search that
    ends early costs accuracy and never the guarantee.

    Parameters
    ----------
    is_safe : callable (float) -> bool
        Changes once between `safe` and `unsafe`.
    safe : float
        An end that is safe; taken on trust, so the caller must know it.
    unsafe : float
        The other end, above or below `safe`.  It may be safe after all; then the answer is close to it.
    middle : callable (float, float) -> float
        Where to look next: `midpoint` or `geometric_mean`.
    tolerance : float
        The search ends when both ends differ by this share of the larger one.
    max_steps : int
        The search ends after so many steps at the latest.

    Returns
    -------
    float
        The largest safe number found if `safe` lies below `unsafe`, else the smallest.
    """
    for _ in range(max_steps):
        if abs(unsafe - safe) <= tolerance * max(safe, unsafe):
            break
        between = middle(safe, unsafe)
        if is_safe(between):
            safe = between
        else:
            unsafe = between
    return safe
