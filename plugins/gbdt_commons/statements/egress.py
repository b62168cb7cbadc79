"""Facts for the exit of a research environment: the limits of attacks, and the structure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gbdt_commons.files import write_atomically
from gbdt_commons.statements.statement import Statement

FALSE_ALARMS = (0.001, 0.01, 0.1)
"""False positive rates at which attacks are compared."""

RELEASE, KEEP = "Proceed to next step of checking", "Do not allow release"
"""SACRO-ML's words."""

STRUCTURE = "trees", "splits", "leaf values", "columns", "smallest count of a leaf, noised"
"""Facts of a statement's model."""


def egress(statement: Statement) -> dict[str, Any]:
    """The facts of a model that an output checker asks for, as SACRO-ML keeps them.

    An entry of the list that ``sacroml.attacks.target.Target.add_safemodel_results`` takes.  No attack that
    errs about a share α of those outside of the data finds more than T(α) of those within: T is the
    statement's attack curve.  For Gaussian releases alone it is 1 - Φ(Φ⁻¹(1 - α) - μ) (Dong, Roth and Su,
    "Gaussian Differential Privacy", JRSS B 2022), for a pure ε at most e^ε α.  Where another person stands
    in for one that is left out, as among as many members and others, it is T(T(α)) (theorem 2.14).  Rates are
    rounded up, and 1 without a guarantee.

    Parameters are counted as SACRO-ML does: a column and a threshold of each split, the leaf values, and a
    weight of each tree.

    Parameters
    ----------
    statement : Statement

    Returns
    -------
    dict
        In types that JSON has.
    """
    found = statement.to_dict()
    model: Mapping[str, Any] = statement.model
    reasons = {
        "guarantee": (),
        "weak": ("the guarantee limits hardly anything",),
        "void": statement.reasons,
        "none": ("no noise was added in training",),
    }[statement.verdict]
    return {
        "model_type": statement.title,
        "details": statement.headline,
        "recommendation": KEEP if reasons else RELEASE,
        **({"reason": "; ".join(reasons)} if reasons else {}),
        "guarantee": found["guarantee"],
        "true_positive_rate_at_most": {f"{fpr:g}": _rate(statement, fpr) for fpr in FALSE_ALARMS},
        "true_positive_rate_at_most_replacing_one": {
            f"{fpr:g}": _rate(statement, _rate(statement, fpr)) for fpr in FALSE_ALARMS
        },
        "structure": {
            **{name: model[name] for name in STRUCTURE if name in model},
            "parameters": 2 * model["splits"] + model["leaf values"] + model["trees"],
        },
        "notes": list(statement.notes),
        "sha256": model["SHA-256"],
    }


def save_egress(statement: Statement, path: str | Path) -> Path:
    """Write `egress` of a statement beside its other files, for which see `Statement.save`."""
    file = Path(str(path).removesuffix(".html") + ".egress.json")
    write_atomically(
        file, json.dumps([egress(statement)], indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    )
    return file


def _rate(statement: Statement, false_positive_rate: float) -> float:
    """The curve's true positive rate, rounded up to four digits behind the point."""
    if not statement.attack_curve:
        return 1.0
    rate = float(np.interp(false_positive_rate, *np.transpose(statement.attack_curve)))
    return min(math.ceil(rate * 10_000) / 10_000, 1.0)
