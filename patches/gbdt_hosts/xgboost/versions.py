"""Differences between the supported versions of XGBoost: one function for each difference.

Code elsewhere asks these functions, and never for a version number.  Each names in its docstring since which
version XGBoost does what; docs/versions.md has the same as a table.
"""

from __future__ import annotations

import re
import warnings
from functools import cache

import xgboost

NEWEST_KNOWN = (3, 4)
"""The newest minor version whose trees were compared with ours."""


def installed() -> tuple[int, int]:
    """Major and minor version of the XGBoost that is installed."""
    major, minor = re.findall(r"\d+", xgboost.__version__)[:2]
    return int(major), int(minor)


def arithmetic() -> str:
    """Name of the arithmetic of gains, gradients and base scores: equal names, equal results.

    It is the minor version.  A difference between two of them for some parameters tells them apart.
    """
    return ".".join(map(str, installed()))


@cache
def warn_of_unknown_version(version: tuple[int, int]) -> None:
    """Warn, once, if a version is newer than those whose trees were compared with ours."""
    if version > NEWEST_KNOWN:
        known, given = (".".join(map(str, one)) for one in (NEWEST_KNOWN, version))
        warnings.warn(
            f"XGBoost {given} is newer than {known}, the newest version whose trees federated training was "
            "compared with; trees may differ from those of pooled training",
            UserWarning,
            stacklevel=2,
        )


def gains_are_those_of_weights() -> bool:
    """Whether a side's gain always follows from its rounded weight; since 3.4.

    The gain is then −(2·G·w + (H + λ)·w² + 2·α·|w|) in float64, for the float32 w that the side would weigh.

    Before, it is T(G)² / (H + λ) without `max_delta_step` and monotone constraints.  With any of them it is
    −(2·G·w + (H + λ)·w²) in float32, which leaves the penalty α out.
    """
    return installed() >= (3, 4)


def light_nodes_have_weight() -> bool:
    """Whether a node with less hessian than `min_child_weight` has the same weight as others; since 3.4.

    Before, it weighs 0.  Only a root can be that light, since splits leave no such side.
    """
    return installed() >= (3, 4)


def least_hessian_of_base_scores() -> float:
    """Sum of hessians that an estimated base score is divided by, at least: 1e-6 before 3.0, then none."""
    return 1e-6 if installed() < (3, 0) else 0.0


def leaves_are_quantiles() -> bool:
    """Whether ``reg:absoluteerror`` and ``reg:quantileerror`` make leaves quantiles of residuals; before 3.4.

    Since 3.4, they have smooth gradients and hessians, whose scale follows from the margins of all rows, and
    leaves weigh what follows from the sums of these, as those of other objectives.
    """
    return installed() < (3, 4)


def pairs_follow_seed() -> bool:
    """Whether ``lambdarank_pair_method="mean"`` draws pairs from the stream of `seed`; since 3.4.

    Every round then takes one random number of the stream, before the numbers that its trees take.  Before,
    pairs follow from the number of the round alone.
    """
    return installed() >= (3, 4)


def draws_come_from_one_stream() -> bool:
    """Whether rows and columns are drawn from one stream of random numbers; since 3.3.

    Every booster then has a stream of its own, from which each sample of rows and each sample of columns
    takes one number, in the order in which they are drawn.  Before, columns have a stream of their own,
    and the rows of a tree depend on its number alone.
    """
    return installed() >= (3, 3)


def lowest_bounds_are_infinite() -> bool:
    """Whether the threshold of a split that sends only missing values to the left is −∞; since 3.3.

    Before, it is a number below the least value of the column.
    """
    return installed() >= (3, 3)


def vector_leaves_share_hessians() -> bool:
    """Whether the hessian of a node with vector leaves is the mean over its classes; since 3.4.

    A split then needs at least `min_child_weight` of it on either side, and gains are float64 numbers.
    Before, it needs some hessian of every class, each class with less than `min_child_weight` weighs 0, and
    gains follow from float32 weights.
    """
    return installed() >= (3, 4)
