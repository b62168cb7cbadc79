"""The description of a run in its model's text, by which it can be repeated on made-up rows.

It holds public settings, and what was released in any case: the number of rows, and histograms of features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from lgb_dp.checks import NOT_NEGATIVE, POSITIVE, checked_integer, checked_number
from lgb_dp.data.bins import PublicBins, Spacing, spaced_edges
from lgb_dp.data.provenance import Provenance
from lgb_dp.data.tables import TableColumns
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.newton.splits.feature_histograms import FeatureHistograms

REPEATED = ("binary", "multiclass", "regression")
"""Objectives whose labels can be made up from predictions."""

SETTINGS = ("epsilon", "delta", "structure", "hessian_share", "gradient_clip", "subsample")
"""Settings of `NewtonBoost` that a run is repeated with, and its depth."""

_PARAMS = {"objective", "lambda_l2", "num_class", "monotone_constraints", "learning_rate"}  # no threads
MAX_ROWS, _MAX_ROUNDS, _MAX_COSTS = 20_000_000, 1_000_000, 1_000_000
_LARGEST, _MOST_REPEATED = 1e300, 8


@dataclass(frozen=True, eq=False)
class RunDescription:
    """A run, as it can be repeated.

    `settings` are of `NewtonBoost`, `params` of LightGBM; `n_rounds` were planned. A unit costs `row_costs`
    times what a row does. The released number of rows is in rows of the largest weight. Raw scores F became
    a F + b after the run, (a, b) of `moved`. Trees of a round share gradients.
    """

    settings: Mapping[str, Any]
    params: Mapping[str, Any]
    n_rounds: int
    row_costs: int
    label_bounds: tuple[float, float] | None
    n_rows: float
    bins: PublicBins
    histograms: FeatureHistograms
    moved: tuple[float, float] = (1.0, 0.0)
    trees_per_round: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Everything but names and columns, which a model has anyway, in types that JSON has."""
        of_bins = zip(self.bins.values, self.bins.ranges, self.histograms.counts, strict=True)
        return {
            "settings": dict(self.settings),
            "params": dict(self.params),
            "n_rounds": self.n_rounds,
            "row_costs": self.row_costs,
            "label_bounds": None if self.label_bounds is None else list(self.label_bounds),
            "n_rows": self.n_rows,
            **({} if self.trees_per_round == 1 else {"trees_per_round": self.trees_per_round}),
            "std": self.histograms.std,
            "features": [
                {
                    "range": bounds,
                    "values": _values_told(values, bounds),
                    "counts": [float(f"{one:.5g}") for one in count.tolist()] if count.any() else None,
                }
                for values, bounds, count in of_bins
            ],
        }

    @classmethod
    def from_dict(
        cls, told: Mapping[str, Any], names: Sequence[str], columns: TableColumns
    ) -> RunDescription:
        """Read back a `to_dict`, perhaps from a foreign file; anything else raises an error."""
        ranges = [None if one["range"] is None else _pair(one["range"]) for one in told["features"]]
        listed = [one["values"] for one in told["features"]]
        values = [
            spaced_edges(bounds[0], bounds[1], checked_integer("values", given[1], 2, 255), given[0])
            if bounds is not None and given and given[0] in get_args(Spacing)
            else _moderate(given)
            for given, bounds in zip(listed, ranges, strict=True)
        ]
        is_categorical = np.array([bounds is None for bounds in ranges], dtype=np.bool_)
        bins = PublicBins(tuple(names), tuple(values), is_categorical, tuple(ranges), columns, Provenance())
        counts = [
            np.zeros(n + 1) if one["counts"] is None else _moderate(one["counts"])
            for one, n in zip(told["features"], bins.n_bins.tolist(), strict=True)
        ]
        is_ordered = all((np.diff(one) > 0).all() for one in values)
        is_shaped = [len(one) for one in counts] == (bins.n_bins + 1).tolist()
        is_shaped &= len(names) == len(ranges) == len(columns.names or names)
        is_shaped &= told["params"].keys() <= _PARAMS
        if not (is_ordered and is_shaped and bins.n_bins.max() <= 255):
            raise InvalidArgumentError("the description of a run has ascending values and a count for each")
        return cls(
            settings={name: told["settings"][name] for name in (*SETTINGS, "depth")},
            params=dict(told["params"]),
            n_rounds=checked_integer("n_rounds", told["n_rounds"], 1, _MAX_ROUNDS),
            row_costs=checked_integer("row_costs", told["row_costs"], 1, _MAX_COSTS),
            label_bounds=None if told["label_bounds"] is None else _pair(told["label_bounds"]),
            n_rows=checked_number("n_rows", told["n_rows"], POSITIVE),
            bins=bins,
            histograms=FeatureHistograms(counts, checked_number("std", told["std"], NOT_NEGATIVE)),
            moved=_pair(told.get("moved", (1.0, 0.0))),
            trees_per_round=checked_integer(
                "trees_per_round", told.get("trees_per_round", 1), 1, _MAX_ROUNDS
            ),
        )


def _values_told(values: NDArray[np.float64], bounds: Any) -> list[Any]:
    """A feature's thresholds or categories, or in short by which rule its bounds give them."""
    n = len(values)
    if bounds is not None and bounds[1] > bounds[0]:
        for spacing in get_args(Spacing):
            for n_bins in range(max(n + 1, 2), min(n + 1 + _MOST_REPEATED, 256)):
                if np.array_equal(spaced_edges(bounds[0], bounds[1], n_bins, spacing), values):
                    return [spacing, n_bins]
    return list(values.tolist())


def _moderate(given: Any) -> NDArray[np.float64]:
    found = np.array(given, dtype=np.float64)
    if found.ndim != 1 or not (np.abs(found) <= _LARGEST).all():
        raise InvalidArgumentError("the description of a run has finite numbers")
    return found


def _pair(given: Any) -> tuple[float, float]:
    low, high = _moderate(given).tolist()
    return low, high
