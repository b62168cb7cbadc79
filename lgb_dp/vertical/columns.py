"""The columns of both parties as the features of one model: the active party's first, then the other's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gbdt_commons.quoting import quoted
from gbdt_kernels.trees import DenseCodes
from gbdt_kernels.trees.layout import MAX_BINS
from gbdt_parties.agreed import read_json
from lgb_dp.boosting.run_rows import RunRows
from lgb_dp.data.arguments import checked_label_bounds
from lgb_dp.data.bins import PublicBins, as_written
from lgb_dp.data.provenance import Provenance
from lgb_dp.data.tables import TIMES, TableColumns
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.vertical.task import ColumnTask

MAX_FEATURES = 1 << 16
"""Of one party."""


def joined_bins(own: PublicBins, other: PublicBins, name: str) -> PublicBins:
    """Bins of both parties, side by side; all of it is public.

    Columns without names keep LightGBM's ``Column_i`` of their place. A name of the other party's column that
    this party has, too, gets the other party's `name` and a dot before it.
    """
    n_own, both = len(own.names), len(own.names) + len(other.names)
    if own.columns.names is None and other.columns.names is None:
        names, of_table = tuple(f"Column_{f}" for f in range(both)), None
    else:
        known = set(map(as_written, own.names))
        theirs = tuple(f"{name}.{one}" if as_written(one) in known else one for one in other.names)
        names = of_table = own.names + theirs

    def joined(which: str) -> dict[int, Any]:
        behind = {f + n_own: value for f, value in getattr(other.columns, which).items()}
        return {**getattr(own.columns, which), **behind}

    return PublicBins(
        names,
        own.values + other.values,
        np.concatenate([own.is_categorical, other.is_categorical]),
        own.ranges + other.ranges,
        TableColumns(of_table, joined("categories"), joined("codes"), joined("times")),
        own.provenance.joined(other.provenance),
    )


def bins_of_owner(bins: PublicBins, owned: range) -> PublicBins:
    """The same features, with one bin for those of the other party, so that no tree splits on them."""
    nothing = np.empty(0)
    values = tuple(one if f in owned else nothing for f, one in enumerate(bins.values))
    is_owned = np.isin(np.arange(len(values)), owned)
    # A categorical feature without categories would have no bin at all.
    return replace(bins, values=values, is_categorical=bins.is_categorical & is_owned)


def declaration(bins: PublicBins) -> dict[str, Any]:
    """Bins of one party in JSON's types, for the other one; all of it is public."""
    return {
        "names": list(bins.names),
        "values": [values.tolist() for values in bins.values],
        "is_categorical": bins.is_categorical.tolist(),
        "ranges": [None if bounds is None else list(bounds) for bounds in bins.ranges],
        "columns": bins.columns.to_dict(),
    }


def declared_bins(declared: Any) -> PublicBins:
    """Read another party's `declaration`; InvalidArgumentError if it is anything else."""
    try:
        names, values, flags, ranges = (declared[k] for k in ("names", "values", "is_categorical", "ranges"))
        if len(values) > MAX_FEATURES:  # before an array is made of each
            raise ValueError
        columns = TableColumns.from_dict(declared["columns"])
        arrays = tuple(np.asarray(one, dtype=np.float64) for one in values)
        found = PublicBins(
            tuple(names),
            arrays,
            np.array(flags, dtype=bool),
            tuple(None if one is None else (float(one[0]), float(one[1])) for one in ranges),
            columns,
            Provenance(),
        )
        is_whole = declaration(found) == declared and _is_consistent(found)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError):
        is_whole = False
    if not is_whole:
        raise InvalidArgumentError("the declarations of the other party's columns are malformed")
    return found


def agreed_bins(task: ColumnTask, description: str, other: str) -> tuple[PublicBins, PublicBins]:
    """Bins of both parties; raises an InvalidArgumentError for malformed ones, and if a party cannot split.

    Both grow trees: a run with one that cannot would fail after label counts were released.
    """
    try:
        declared = read_json(description)
    except ValueError:
        raise InvalidArgumentError(f"the declarations of party {other!r} are malformed") from None
    bins = declared_bins(task.columns), declared_bins(declared)
    for name, of_party in zip((task.name, other), bins, strict=True):
        if not (of_party.n_bins > 1).any():
            raise InvalidArgumentError(
                f"party {quoted(name)!r} has no feature with two bins, so that there is nothing to split"
            )
    return bins


def _is_consistent(bins: PublicBins) -> bool:
    """Whether bins are such as `public_bins` makes."""
    n, columns = len(bins.names), bins.columns
    lengths = {len(bins.values), len(bins.is_categorical), len(bins.ranges)}
    if lengths != {n} or not 1 <= n <= MAX_FEATURES or not all(isinstance(one, str) for one in bins.names):
        return False
    if len(set(bins.names)) < n or (columns.names is not None and len(columns.names) != n):
        return False
    for f, (values, is_categorical, bounds) in enumerate(
        zip(bins.values, bins.is_categorical, bins.ranges, strict=True)
    ):
        ascends = values.ndim == 1 and np.isfinite(values).all() and (np.diff(values) > 0).all()
        if not ascends or len(values) + (not is_categorical) > MAX_BINS:
            return False
        if is_categorical:
            known = columns.categories.get(f, ()), columns.codes.get(f, ())
            is_known = len(values) in {len(one) for one in known if one}
            if not is_known or bounds is not None or (values < 0).any() or (values % 1 != 0).any():
                return False
        elif bounds is None or not -np.inf < bounds[0] <= bounds[1] < np.inf:
            return False
    of_features = {*columns.categories, *columns.codes, *columns.times}
    return all(0 <= f < n for f in of_features) and set(columns.times.values()) <= set(TIMES)


def joint_rows(bins: PublicBins, label_bounds: tuple[float, float] | None, provenance: Provenance) -> RunRows:
    """The columns of both parties, and none of the rows, for a trainer that sees what both know.

    `bins` are joined; `provenance` is the cost of the declarations of the party with the labels.
    """
    return RunRows(
        bins=bins,
        codes=DenseCodes(np.empty((0, len(bins.names)), dtype=np.uint8)),
        label=np.empty(0),
        label_bounds=checked_label_bounds(label_bounds),
        label_overflow="clip",
        max_bin=32,
        provenance=bins.provenance.joined(provenance),
        feature_name=list(bins.names),
        pandas_categorical=[list(known) for known in bins.columns.categories.values()] or None,
    )
