"""Digests of floating-point functions, by which both parties know that they will work out the same trees.

Either party works out every tree by itself, from the same releases and opened sums.  Additions, products,
quotients and square roots are those of IEEE 754 everywhere.  Other functions are rounded as a library does
it, which may choose its code by the processor: exponentials differ in the last bit with and without fused
products, and products of vectors add in another order.  A difference in a last bit can become another split.

So a run's settings, which both sign, have a digest of every such function's values at fixed arguments, and a
party whose digests differ refuses the run before anything of its rows leaves.

*No false alarm*: a party with the same libraries and kind of processor computes the same values.
*Missed*: two versions that agree at all `N` arguments.  Versions that round independently in a share
of s of all cases agree there with probability (1 - s)^N: below 10⁻⁷ for s = 0.001.  Beyond that, the sums
that were opened before a round, and the model, are compared as they were.

A model's text depends on more than its trees: LightGBM writes its own version's parameters into it, and this
package a report.  So the settings have both versions, which must be the same, too.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, expit, log_ndtr, ndtri, softmax
from scipy.stats import chi2

from gbdt_commons._version import __version__
from gbdt_commons.quoting import quoted
from lgb_dp.errors import InvalidArgumentError

N = 1 << 14
"""Arguments of every function."""

_DIGITS = 32
"""Hexadecimal, of a digest."""

MAX_VERSION = 40
"""Characters of a version that errors quote."""

Values = NDArray[np.float64]


def _each(function: Callable[[float], float]) -> Callable[[Values], Values]:
    """A function of one number, for all numbers of an array."""
    return lambda x: np.array([function(one) for one in x.tolist()])


def _powers(x: Values) -> Values:
    """Powers of Python's numbers, with the exponents of losses and of automatic settings."""
    return np.array([one ** (k % 64 / 32) for k, one in enumerate(x.tolist())])


def _dots(x: Values) -> Values:
    """Products of vectors of every length up to 128."""
    return np.array([x[:k] @ x[-k:] for k in range(1, 129)])


FUNCTIONS: Mapping[str, Callable[[Values], Values]] = {
    "math.exp": _each(lambda x: math.exp(60.0 * x - 50.0)),
    "math.expm1": _each(lambda x: math.expm1(20.0 * x - 19.0)),
    "math.hypot": _each(lambda x: math.hypot(x, 1.0 - x, 0.3)),
    "math.log": _each(lambda x: math.log(1e-9 + 1e3 * x)),
    "math.sinh": _each(lambda x: math.sinh(4.0 * x)),
    "numpy.convolve": lambda x: np.convolve(x[:1024], x[-9:], mode="valid"),
    "numpy.exp": lambda x: np.exp(60.0 * x - 50.0),
    "numpy.expm1": lambda x: np.expm1(20.0 * x - 19.0),
    "numpy.interp": lambda x: np.interp(x, np.linspace(0.0, 1.0, 65), x[:65]),
    "numpy.log": lambda x: np.log(1e-9 + 1e3 * x),
    "numpy.log2": lambda x: np.log2(1.0 + 1e6 * x),
    "products of vectors": _dots,
    "powers of numbers": _powers,
    "powers of arrays": lambda x: np.concatenate(
        [(1e3 * x[k::4]) ** y for k, y in enumerate((0.1, 0.5, 1.3, 3))]
    ),
    "scipy.special.erfcx": lambda x: erfcx(30.0 * x - 5.0),
    "scipy.special.expit": lambda x: expit(60.0 * x - 30.0),
    "scipy.special.log_ndtr": lambda x: log_ndtr(40.0 * x - 35.0),
    "scipy.special.ndtri": lambda x: ndtri(x),
    "scipy.special.softmax": lambda x: softmax(20.0 * x.reshape(-1, 4), axis=1).ravel(),
    "scipy.stats.chi2": lambda x: chi2.ppf(1.0 - 0.05 * x[:64], 1.0 + 50.0 * x[-64:]),
    "sums": lambda x: np.array([x[:k].sum() for k in range(1, 1025)]),
}
"""All functions that a party's copy of a run applies to public numbers and that may be rounded in several
ways, at arguments made of numbers in (0, 1)."""


def arguments() -> Values:
    """`N` numbers in (0, 1), made by integers alone, shape (N,)."""
    words = np.arange(1, N + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52)


@cache
def digests() -> Mapping[str, str]:
    """Digests of this process's functions, by their names."""
    x, found = arguments(), {}
    for name, function in FUNCTIONS.items():
        content = np.ascontiguousarray(function(x), dtype="<f8").tobytes()
        found[name] = hashlib.sha256(content).hexdigest()[:_DIGITS]
    return found


def check_digests(theirs: Any, whose: str) -> None:
    """Refuse, by an `InvalidArgumentError` that names them, a party that rounds functions otherwise.

    `theirs` are `digests` of the other party, which has sent them; `whose` names it, for errors.
    """
    own = digests()
    if not isinstance(theirs, Mapping) or set(theirs) != set(own):
        raise InvalidArgumentError(f"arithmetic of {whose} must have a digest for each of {sorted(own)}")
    differ = [name for name, digest in own.items() if theirs[name] != digest]
    if differ:
        raise InvalidArgumentError(
            f"{whose} and this one round {', '.join(differ)} differently, and would not work out the "
            "same trees: run both with the same NumPy and SciPy on the same kind of processor"
        )


def versions() -> dict[str, str]:
    """Versions of everything that writes a model's text, by their names."""
    return {"LightGBM": lightgbm.__version__, "veilboost": __version__}


def check_versions(theirs: Any, whose: str) -> None:
    """Refuse, by `InvalidArgumentError`, a party that would write another text of the same model.

    `theirs` are `versions` of the other party, which has sent them; `whose` names it, for errors.
    """
    own = versions()
    if not isinstance(theirs, Mapping) or set(theirs) != set(own):
        raise InvalidArgumentError(f"versions of {whose} must be those of {sorted(own)}")
    differ = [
        f"{name} {quoted(str(theirs[name]), MAX_VERSION)} and {version}"
        for name, version in own.items()
        if theirs[name] != version
    ]
    if differ:
        raise InvalidArgumentError(
            f"{whose} and this one have {', '.join(differ)}, and would not write the same model: run both "
            "with the same versions"
        )
