"""`DaskDataset`: rows in Dask collections, and what is publicly known about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from dask.delayed import delayed
from numpy.typing import NDArray

from gbdt_hosts import dask as host
from lgb_dp.accounting.report import checked_reports
from lgb_dp.checks import checked_flag
from lgb_dp.dask.leaf_sums import ERRORS, DaskLeafSums
from lgb_dp.data.dataset import Dataset
from lgb_dp.data.provenance import Provenance
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError, PartitionError, PrivateTrainingError
from lgb_dp.newton.releases.partitions import PublicPartition, RowRules, joined_codes, read_public_partition
from lgb_dp.newton.releases.rows_elsewhere import RowsElsewhere

_KINDS = "a dask array or a dask data frame"
_DECLARATIONS = frozenset(
    {
        "bounds",
        "label_bounds",
        "label_overflow",
        "max_bin",
        "spacing",
        "categories",
        "bin_edges",
        "weight_bound",
        "rows_per_group",
        "group_weight",
        "paid_for",
        "feature_name",
    }
)


class DaskDataset:
    """Training or evaluation rows in Dask collections, for `lgb_dp.dask.train`.

    Collections belong together partition by partition: the first partition of `y` has the labels of the first
    partition of `X`.  Nothing is computed before training.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame, shape (n_rows, n_features)
        Blocks of an array may be sparse matrices.  Partitions may be empty and of any lengths.
    y : dask.array.Array or dask.dataframe.Series, shape (n_rows,)
    weight, groups : dask.array.Array or dask.dataframe.Series, shape (n_rows,), optional
        As for `lgb_dp.Dataset`.  All rows of a group must be in one partition.
    public : bool
        For evaluation data: its rows are public.  They are binned by the workers and evaluated by the client,
        whose memory they take a byte per value.
    **declarations : object
        Public knowledge, as for `lgb_dp.Dataset`: `bounds`, which must be given here, `label_bounds`,
        `label_overflow`, `max_bin`, `spacing`, `categories`, `bin_edges`, `weight_bound`, `rows_per_group`,
        `group_weight`, `paid_for` and `feature_name`.

    Raises
    ------
    ArgumentTypeError
        If something is not a dask array or data frame.
    InvalidArgumentError
        If collections have different partitions, or a declaration is malformed or missing.
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        weight: Any = None,
        groups: Any = None,
        public: bool = False,
        **declarations: Any,
    ) -> None:
        unknown = sorted(declarations.keys() - _DECLARATIONS)
        if unknown:
            raise InvalidArgumentError(
                f"{unknown[0]} is not an argument of DaskDataset; accepted are "
                f"{', '.join(sorted(_DECLARATIONS))}"
            )
        self.public = checked_flag("public", public)
        self.X, self.y, self.weight, self.groups = X, y, weight, groups
        self.declarations = _read_once(declarations)
        if "paid_for" in declarations:
            self.declarations["paid_for"] = checked_reports(self.declarations["paid_for"])
        self.classes: NDArray[Any] | None = None
        self.provenance = Provenance()
        self._check_kinds()
        self.partitions = self._aligned_partitions()

    def _check_kinds(self) -> None:
        given = {"X": self.X, "y": self.y, "weight": self.weight, "groups": self.groups}
        for name, collection in given.items():
            if collection is None and name in ("weight", "groups"):
                continue
            if not host.is_collection(collection):
                raise ArgumentTypeError(f"{name} must be {_KINDS}, got {type(collection).__name__}")
            n_axes = 2 if name == "X" else 1
            widths = (1, 2) if name == "y" else (1,)  # times have two columns
            if collection.ndim != n_axes and not (collection.ndim == 2 and collection.shape[1] in widths):
                raise InvalidArgumentError(f"{name} must have {n_axes} axes, got {collection.ndim}")
        if host.is_array(self.X) and not np.isfinite(self.X.shape[1]):
            raise InvalidArgumentError("X must have a known number of columns; compute its chunk sizes")

    def _aligned_partitions(self) -> list[tuple[Any, ...]]:
        """X, y, weight and groups of every partition, delayed; None for each that was not given."""
        lengths = host.known_lengths(self.X)
        X = host.partitions_of(self.X)
        columns: list[list[Any]] = [X]
        for name, collection in {"y": self.y, "weight": self.weight, "groups": self.groups}.items():
            if collection is None:
                columns.append([None] * len(X))
                continue
            own = host.known_lengths(collection)
            if lengths is not None and own is not None and own != lengths and sum(own) == sum(lengths):
                collection, own = collection.rechunk({0: lengths}), lengths
            of_frames = host.is_frame(self.X) and host.is_frame(collection)
            known = of_frames and self.X.known_divisions and collection.known_divisions
            if known and self.X.divisions != collection.divisions:
                raise InvalidArgumentError(
                    f"{name} has other divisions than X; repartition one of them to those of the other"
                )
            parts = host.partitions_of(collection)
            if len(parts) != len(X) or (lengths is not None and own is not None and own != lengths):
                raise InvalidArgumentError(
                    f"{name} does not match X: its {len(parts)} partitions must have the rows of the "
                    f"{len(X)} partitions of X, one by one"
                )
            columns.append(parts)
        return list(zip(*columns, strict=True))


def _read_once(declared: Any) -> Any:
    """A copy that can be read as often as one likes, where a generator would be empty the second time."""
    if isinstance(declared, Mapping):
        return {name: _read_once(value) for name, value in declared.items()}
    return list(declared) if isinstance(declared, Iterator) else copy(declared)


class ClusterRows(RowsElsewhere):
    """The rows of a `DaskDataset` on workers; after `timeout` seconds of silence something is lost."""

    def __init__(self, rows: DaskDataset, client: Any, n_threads: int, timeout: float) -> None:
        self._rows, self._client, self._timeout = rows, client, timeout
        self._sums: list[DaskLeafSums] = []
        super().__init__(
            host.made_up_rows(rows.X),
            rows.declarations,
            rows.provenance,
            rows.classes,
            n_threads,
            has_weight=rows.weight is not None,
            has_groups=rows.groups is not None,
        )

    def summed(self, rules: RowRules) -> DaskLeafSums:
        """Load the rows, and sum them from then on; raises as `DaskLeafSums` does."""
        self._sums.append(DaskLeafSums(self._client, self._rows.partitions, rules, self._timeout))
        return self._sums[-1]

    def evaluation_set(self, rows: DaskDataset) -> PublicDataset:
        """Public rows in the bins of these, binned by the workers.

        `InvalidArgumentError` if they are not public, or do not match what was declared; `ClusterError` if no
        worker can compute them.
        """
        bins = self.declared.construct().bins
        if not rows.public:
            raise InvalidArgumentError("valid_sets must hold public rows: pass public=True to DaskDataset")
        cluster = host.Cluster(self._client, "", self._timeout, ERRORS)
        read = delayed(read_public_partition, pure=False)
        tasks = {
            i: read(bins, self._dtypes, rows.classes, X, y, weight)
            for i, (X, y, weight, _) in enumerate(rows.partitions)
        }

        def fail(index: int, future: Any) -> None:
            error = future.exception(timeout=self._timeout) if future.status == "error" else None
            if isinstance(error, PrivateTrainingError):
                raise type(error)(f"partition {index} of an evaluation set: {error}")
            raise PartitionError(f"partition {index} of an evaluation set could not be computed")

        parts = [part for part in cluster.gathered(list(cluster.compute(tasks, fail).values())) if part]
        if not parts:
            raise InvalidArgumentError("an evaluation set has no rows")
        return PublicDataset(self.declared, parts)

    def close(self) -> None:
        """Make the workers forget the rows."""
        for sums in self._sums:
            sums.close()


class PublicDataset(Dataset):
    """Evaluation rows that workers have binned, in one part at least."""

    def __init__(self, reference: Dataset, parts: Sequence[PublicPartition]) -> None:
        super().__init__(
            None,
            reference=reference,
            public=True,
            label_bounds=reference.label_bounds,
            label_overflow=reference.label_overflow,
        )
        self._parts = parts

    def _read_rows(self) -> None:
        reference = self.reference
        assert isinstance(reference, Dataset)
        codes, labels, weights = zip(*self._parts, strict=True)
        self._binned = reference.bins, joined_codes(codes)
        self.pandas_categorical = reference.pandas_categorical
        self.label = np.concatenate(labels)
        self.weight = None if weights[0] is None else np.concatenate(weights)
