"""Bounds and bin edges that an estimator buys with a share of its budget.

Half of the share pays for `private_bounds` of the columns that have no public ones, the rest for
`private_quantile_edges` of all numeric columns; where all bounds are public, edges get the whole share.

Gaussian releases compose by μ², and so that is what is shared where the trainer's own releases are Gaussian:
share · μ² for the bins and (1 - share) · μ² for the trees add up to the μ of the (ε, δ) that was granted.
Trainers of pure differential privacy get (1 - share) · ε, and the bins (share · ε, δ).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gbdt_commons.tables.frames import is_table, kinds_of
from lgb_dp.accounting.budget import Budget
from lgb_dp.accounting.gaussian import gaussian_epsilon, gaussian_mu
from lgb_dp.checks import PROPER_SHARE, checked_delta, checked_epsilon, checked_number
from lgb_dp.data.bins import (
    Bounds,
    Categories,
    bounds_by_feature,
    categorical_features,
    check_for_lightgbm,
    feature_names,
    numeric_features,
    refuse_ranges_of_categories,
)
from lgb_dp.data.private_metadata import private_bounds, private_quantile_edges
from lgb_dp.data.tables import as_frame, numeric_matrix
from lgb_dp.errors import InvalidArgumentError

MAX_EDGES = 64
"""Bins of a column at most: more would be told apart by noise alone."""

_ROUNDING = 1e-9
"""Relative room below μ, so that rounding ε up does not add up to more than was granted."""


@dataclass(frozen=True)
class SharedBudget:
    """(ε, δ) divided between bins, which get the `share` in (0, 1), and trees.

    `is_gaussian` says whether the trainer's releases are. ArgumentTypeError or InvalidArgumentError names the
    argument.
    """

    epsilon: float
    delta: float
    share: float
    is_gaussian: bool

    def __post_init__(self) -> None:
        if self.epsilon == np.inf:
            raise InvalidArgumentError(
                "epsilon must be finite where auto_bounds takes a share of it, got inf"
            )
        checked_epsilon(self.epsilon)
        checked_delta(self.delta)
        checked_number("auto_bounds", self.share, PROPER_SHARE)

    @property
    def of_trees(self) -> float:
        """The trainer's ε."""
        if not self.is_gaussian:
            return self.epsilon * (1 - self.share) * (1 - _ROUNDING)
        return self._epsilon(gaussian_mu(self.epsilon, self.delta) * np.sqrt(1 - self.share))

    def of_release(self, part: float) -> float:
        """ε of one release of the bins, which gets `part` of their share."""
        whole = self.epsilon * (1 if self.is_gaussian else self.share)
        squared = part * (self.share if self.is_gaussian else 1)
        return self._epsilon(gaussian_mu(whole, self.delta) * np.sqrt(squared))

    def _epsilon(self, mu: float) -> float:
        return gaussian_epsilon(float(mu) * (1 - _ROUNDING), self.delta)


def automatic_bins(
    X: Any,
    shared: SharedBudget,
    max_bin: int,
    *,
    bounds: Bounds | None = None,
    categories: Categories | None = None,
    budget: Budget | None = None,
    **persons: Any,
) -> dict[str, Any]:
    """Bounds, bin edges and what they cost, as arguments of `lgb_dp.Dataset`.

    A column gets `max_bin` bins at most, and no more than `MAX_EDGES`. Columns with public bounds or
    categories need not be given others. The `budget` pays for the releases; `persons` are `groups` and
    `rows_per_group`. Raises InvalidArgumentError if a column holds objects: one missing cell makes objects of
    truth values, which need no edges, so that what is bought would depend on that cell.
    """
    names = feature_names(X, None)
    check_for_lightgbm(names)
    categorical = categorical_features(X, names, categories)
    refuse_ranges_of_categories(names, categorical, bounds=bounds)  # before anything is paid
    given = {} if bounds is None else bounds_by_feature(bounds, names)
    known = {f: pair for f, pair in given.items() if f not in categorical}
    numeric = numeric_features(X, names, categories)
    _refuse_objects(X, names, numeric)
    if not numeric:
        return {"bounds": dict(known)}
    matrix = _columns(X, numeric)
    of_persons = {name: persons.get(name) for name in ("groups", "rows_per_group")}
    unknown = [k for k, f in enumerate(numeric) if f not in known]
    low, high = (np.array([known.get(f, (0.0, 0.0))[side] for f in numeric]) for side in (0, 1))
    paid_for = []
    if unknown:
        (low[unknown], high[unknown]), report = private_bounds(
            matrix[:, unknown], shared.of_release(0.5), shared.delta, budget=budget, **of_persons
        )
        paid_for.append(report)
    edges, report = private_quantile_edges(
        matrix,
        (low, high),
        shared.of_release(0.5 if unknown else 1.0),
        shared.delta,
        max_bin=min(max_bin, MAX_EDGES),
        budget=budget,
        **of_persons,
    )
    found = {f: (float(low[k]), float(high[k])) for k, f in enumerate(numeric)}
    return {
        "bounds": {**known, **found},
        "bin_edges": {numeric[k]: values for k, values in edges.items()},
        "paid_for": [*paid_for, report],
    }


def _refuse_objects(X: Any, names: Sequence[str], numeric: Sequence[int]) -> None:
    kinds = kinds_of(as_frame(X)) if is_table(X) else []
    refused = [names[f] for f in numeric if kinds and kinds[f] == "object"]
    if refused:
        raise InvalidArgumentError(
            f"auto_bounds takes columns whose data type is of numbers, truth values or times; {refused} hold "
            "objects: convert them, or declare their categories"
        )


def _columns(X: Any, numeric: list[int]) -> NDArray[np.float64]:
    if is_table(X):
        return numeric_matrix(as_frame(X)[:, numeric])
    return np.asarray(X.tocsc()[:, numeric].toarray() if scipy.sparse.issparse(X) else X[:, numeric])
