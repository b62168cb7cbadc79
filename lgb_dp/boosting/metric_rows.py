"""The labels and weights that LightGBM's metrics are given.

LightGBM's own code ends a metric with an error that quotes a label and its row on the standard error stream,
whatever the verbosity, and reads beyond its arrays if a label is none of the classes.  So labels are made to
fit first, row by row, and a metric that could still refuse some is refused by public facts alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lgb_dp.errors import UnsupportedParameterError
from lgb_dp.losses.labels import LabelScale

_OF_PROBABILITIES = frozenset({"cross_entropy", "xentropy", "kullback_leibler", "kldiv"})
_OF_POSITIVE_LABELS = frozenset({"gamma", "gamma_deviance", "gamma-deviance"})
_OF_POSITIVE_WEIGHTS = frozenset({"cross_entropy_lambda", "xentlambda"})


def check_metrics(params: Mapping[str, Any], scale: LabelScale) -> None:
    """Raise an UnsupportedParameterError if a metric could refuse a label, or a weight, of private rows.

    `params` are those of the metrics; all labels that reach one keep to the scale's public bounds.
    """
    low, high = (float(np.float32(end)) for end in scale.metric_range)  # LightGBM's labels are float32
    # Where none is named, LightGBM takes the objective's own.
    for name in sorted(_names(params.get("metric")) or {scale.objective}):
        if name in _OF_PROBABILITIES and not 0 <= low <= high <= 1:
            needs = "label_bounds within [0, 1]"
        elif name in _OF_POSITIVE_LABELS and not low > 0:
            needs = "positive label_bounds"
        elif name in _OF_POSITIVE_WEIGHTS:
            needs = "positive weights, and rows that do not count have none"
        else:
            continue
        raise UnsupportedParameterError(
            f"metric={name!r} is not supported on rows that are not public: it needs {needs}"
        )


def rows_for_metrics(
    label: Any, weight: Any, scale: LabelScale, *, is_public: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """Labels and weights that every metric of LightGBM accepts.

    Targets of private rows beyond their bounds become the nearer bound, as in training; those of public rows
    stay.  Rows that do not count, since their label is missing or none of the classes, weigh nothing.
    """
    if getattr(label, "dtype", None) == np.float32:  # a label of a plain Dataset of LightGBM's
        scale = replace(scale, low=float(np.float32(scale.low)), high=float(np.float32(scale.high)))
    label = np.asarray(label, dtype=np.float64)
    fitting, counts = scale.clipped(label)
    if is_public and scale.is_regression:
        return label, weight
    if scale.is_binary:
        fitting = (fitting == scale.high).astype(np.float64)
    if not counts.all():
        weight = np.where(counts, 1.0 if weight is None else np.asarray(weight, dtype=np.float64), 0.0)
    # Weights that sum to nothing are refused, too; what all rows weigh then does not matter.
    return fitting, None if weight is None or not np.any(weight) else weight


def _names(metric: Any) -> set[str]:
    """Everything that LightGBM could read as a name: it joins lists, splits texts and lowers letters."""
    return set() if metric is None else set(re.findall(r"[\w-]+", str(metric).lower()))
