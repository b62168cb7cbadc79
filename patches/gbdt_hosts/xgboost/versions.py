"""What differs between versions of XGBoost, one function per difference.

Other modules ask these functions, never for a version.  Each is tried out on the installed version by
``tests/gbdt_hosts/test_xgboost_versions.py``, and is a row of ``docs/versions.md``.
"""

from __future__ import annotations

import re

import xgboost


def installed() -> tuple[int, int]:
    """Major and minor version of the XGBoost that is installed."""
    major, minor = re.findall(r"\d+", xgboost.__version__)[:2]
    return int(major), int(minor)


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
