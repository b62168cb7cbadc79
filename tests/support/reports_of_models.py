"""Reports of small models."""

from lgb_dp.accounting.ledger import Release
from lgb_dp.accounting.report import PrivacyReport
from small_training import binary_data

X, Y = binary_data()
DELTA = 1e-5


def release(epsilon, group, part):
    return Release("leaf values", "discrete Laplace", epsilon, group, part)


def report(**changes):
    values = {
        "epsilon": 1.5,
        "delta": 0.0,
        "private": True,
        "reasons": (),
        "notes": ("a note: with [brackets]",),
        "ledger": (
            {
                "group": 0,
                "release": "r",
                "mechanism": "m",
                "epsilon": 1.5,
                "count": 1,
                "disjoint_sets_of_rows": 1,
            },
        ),
    }
    return PrivacyReport(**{**values, **changes})
