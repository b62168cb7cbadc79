"""XGBoost's transformations of margins and base scores, without trees."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import xgboost

from gbdt_hosts.xgboost.targets import Vector

_QUIET = {"verbosity": 0, "nthread": 1}
_PLACE = re.compile(r"^\[[^]]*\] \S+:\d+: (Check failed: )?")


def words_of(error: ValueError) -> str:
    """XGBoost's words on an error, without the place in its source."""
    lines = str(error).splitlines() or [""]
    return _PLACE.sub("", lines[0]).strip()


def _rows(n_rows: int) -> xgboost.DMatrix:
    """Rows of labels 0: some objectives take their number of outputs from labels."""
    zeros = np.zeros((n_rows, 1), dtype=np.float32)
    return xgboost.DMatrix(zeros, label=zeros[:, 0], nthread=1)


def margins_of(params: Mapping[str, Any], base_score: Vector) -> Vector:
    """Margins of base scores, shape (n,), by the objective in `params`, which has one margin per row.

    `ValueError` has XGBoost's words, if the objective has no margin for one of them.
    """
    data = _rows(1)
    margins = []
    for score in base_score:
        # All digits of the double: 2.0 reads shorter texts as a neighbouring float.
        booster = xgboost.Booster({**params, **_QUIET, "base_score": float(score)}, cache=[data])
        margins.append(booster.predict(data, output_margin=True)[0])
    return np.array(margins, dtype=np.float32)


def predictions_of(params: Mapping[str, Any], margin: Vector) -> Vector:
    """Predictions of rows by their margins, shape (n_rows, n_classes), and the objective in `params`."""
    if not len(margin):
        # XGBoost predicts no empty sets.
        return predictions_of(params, np.zeros((1, margin.shape[1]), dtype=np.float32))[:0]
    data = _rows(len(margin))
    data.set_base_margin(np.ascontiguousarray(margin).reshape(-1))
    booster = xgboost.Booster({**params, **_QUIET, "base_score": 0.5}, cache=[data])
    return np.asarray(booster.predict(data))


def objective_config(params: Mapping[str, Any]) -> dict[str, Any]:
    """The objective as XGBoost writes it; `ValueError`, in its words, for a refused value."""
    data = _rows(1)
    booster = xgboost.Booster({**params, **_QUIET}, cache=[data])
    config: dict[str, Any] = json.loads(booster.save_config())["learner"]["objective"]
    return config
