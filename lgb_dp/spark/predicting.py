"""Predictions of a fitted model in Spark's Python workers, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import types as kinds

from gbdt_commons.errors import VeilboostError
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.spark.blocks import matrix
from lgb_dp.spark.rows import column, feature_columns

_TYPES = {"b": kinds.BooleanType(), "i": kinds.LongType(), "u": kinds.LongType(), "f": kinds.DoubleType()}


@dataclass(frozen=True)
class Predicting:
    """Batches to the same with predictions, by methods of a local estimator.

    The features are columns of these names, or the last one, which leaves the batch then.
    """

    model: Any
    features: tuple[str, ...] | None
    methods: tuple[str, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches with a column for each method."""
        for batch in batches:
            if not batch.num_rows:
                continue
            try:
                found = [pa.array(list(values)) for values in self._predictions(batch)]
            except VeilboostError:
                raise
            except Exception as error:  # whose text may quote cells
                raise RuntimeError(f"a batch could not be predicted: {type(error).__name__}") from None
            kept = batch.columns if self.features else batch.columns[:-1]
            names = batch.schema.names[: len(kept)]
            yield pa.RecordBatch.from_arrays([*kept, *found], [*names, *self.methods])

    def _predictions(self, batch: pa.RecordBatch) -> list[NDArray[Any]]:
        if self.features is None:
            X: Any = matrix(batch.column(batch.num_columns - 1), self.model.n_features_in_)
        else:
            X = pa.Table.from_batches([batch]).select(list(self.features))
        return [np.asarray(getattr(self.model, method)(X)) for method in self.methods]


def with_predictions(frame: Any, model: Any, features: Any, outputs: Mapping[str, str]) -> Any:
    """A frame with columns of predictions: `outputs` has the name of the column of each method."""
    taken = [name for name in outputs.values() if name in frame.columns]
    if taken:
        raise InvalidArgumentError(f"df has a column {taken[0]!r} already; drop it, or name another")
    fields = list(frame.schema.fields)
    for method, name in outputs.items():
        labels = getattr(model, "classes_", np.zeros(1))
        kind = _TYPES.get(labels.dtype.kind, kinds.StringType())
        if method == "predict_proba":
            kind = kinds.ArrayType(kinds.DoubleType())
        fields.append(kinds.StructField(name, kind))
    is_matrix = isinstance(features, str)
    given = [column(name) for name in frame.columns]
    chosen = frame.select(*given, *(feature_columns(frame, features) if is_matrix else ()))
    predicting = Predicting(model, None if is_matrix else tuple(features), tuple(outputs))
    return chosen.mapInArrow(predicting, kinds.StructType(fields))
