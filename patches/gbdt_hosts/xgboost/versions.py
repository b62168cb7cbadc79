"""What differs between versions of XGBoost, one function per difference.

Other modules ask these functions, never for a version.  Each is tried out on the installed version by
``tests/gbdt_hosts/test_xgboost_versions.py``, and is a row of ``docs/versions.md``.
"""

from __future__ import annotations

import re

import xgboost


def _installed() -> tuple[int, int]:
    """Major and minor version; those of a development version too."""
    major, minor = re.findall(r"\d+", xgboost.__version__)[:2]
    return int(major), int(minor)


def draws_come_from_one_stream() -> bool:
    """Whether rows and columns are drawn from one stream of random numbers.

    Since 3.3 every booster has a stream of its own, from which each sample of rows and each sample of columns
    takes one number, in the order in which they are drawn.  Until 3.2, columns have a stream of their own,
    and the rows of a tree depend on its number alone.
    """
    return _installed() >= (3, 3)


def lowest_bounds_are_infinite() -> bool:
    """Whether the threshold of a split that sends only missing values to the left is −∞.

    Since 3.3; until 3.2 it is a number below the least value of the column.
    """
    return _installed() >= (3, 3)


def light_categories_have_weights() -> bool:
    """Whether categories are sorted by their weights whatever their hessians are.

    Since 3.4; until 3.3 a category with less hessian than `min_child_weight` is sorted as if it weighed 0.
    """
    return _installed() >= (3, 4)
