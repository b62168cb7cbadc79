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
from lgb_dp.spark.blocks import features
from lgb_dp.spark.rows import column, feature_columns, numbered

_TYPES = {"b": kinds.BooleanType(), "i": kinds.LongType(), "u": kinds.LongType(), "f": kinds.DoubleType()}


@dataclass(frozen=True)
class Predicting:
    """Batches to those with a local estimator's predictions in place of the features, which are first."""

    model: Any
    features: tuple[str, ...] | None
    names: tuple[str, ...]
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
            kept = batch.columns[len(self.features or (0,)) :]
            yield pa.RecordBatch.from_arrays([*kept, *found], list(self.names))

    def _predictions(self, batch: pa.RecordBatch) -> list[NDArray[Any]]:
        X = features(pa.Table.from_batches([batch]), self.features, self.model.n_features_in_)
        return [np.asarray(getattr(self.model, method)(X)) for method in self.methods]


def with_predictions(frame: Any, model: Any, given: Any, outputs: Mapping[str, str]) -> Any:
    """A frame with columns of predictions from the given features, `outputs` by the methods' names."""
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
    own = None if isinstance(given, str) else tuple(given)
    chosen = numbered([*feature_columns(frame, given), *map(column, frame.columns)])
    predicting = Predicting(model, own, tuple(field.name for field in fields), tuple(outputs))
    return frame.select(*chosen).mapInArrow(predicting, kinds.StructType(fields))
