"""A Spark data frame's columns, as an estimator names them, and what its schema says of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.ml.functions import vector_to_array
from pyspark.sql import DataFrame
from pyspark.sql import functions as spark
from pyspark.sql import types as kinds

from lgb_dp.checks import POSITIVE, checked_number
from lgb_dp.data.provenance import Provenance
from lgb_dp.errors import ArgumentTypeError, ClusterError, InvalidArgumentError
from lgb_dp.newton.releases.partitions import RowRules
from lgb_dp.newton.releases.rows_elsewhere import RowsElsewhere, TableElsewhere
from lgb_dp.spark.blocks import FrameColumns
from lgb_dp.spark.leaf_sums import SparkLeafSums

TIMEOUT = 3600.0
"""Seconds."""

_OF_ROWS = {"weightCol": "weight_bound", "groupsCol": "rows_per_group"}
"""Columns that need a public bound."""


def check_frame(frame: Any, columns: Mapping[str, Any]) -> None:
    """Raise unless something is a Spark data frame with the columns that arguments name."""
    if not isinstance(frame, DataFrame):
        kind = f"{type(frame).__module__}.{type(frame).__name__}"
        raise ArgumentTypeError(f"df must be a pyspark.sql.DataFrame of Spark 4, got {kind}")
    try:
        known = frame.columns
    except Exception:
        raise ClusterError(
            "df cannot be read: its session was stopped, or its server is lost; read it in a new session"
        ) from None
    names = [(argument, name) for argument, given in columns.items() for name in _names(argument, given)]
    label = columns.get("labelCol", "")
    if not isinstance(label, str) and len(label) != 2:
        raise InvalidArgumentError(f"labelCol={label!r} must be a column's name, or two of bounds of times")
    for place, (argument, name) in enumerate(names):
        if known.count(name) != 1:
            raise InvalidArgumentError(
                f"{argument}={name!r} must name one column of df, which has {known.count(name)} of this name"
            )
        if name in [other for _, other in names[:place]]:
            raise InvalidArgumentError(f"{argument}={name!r} is named twice; each column has one role")


def _names(argument: str, given: Any) -> list[str]:
    names = [given] if isinstance(given, str) else list(given) if isinstance(given, (list, tuple)) else None
    if not names or not all(isinstance(name, str) for name in names):
        raise ArgumentTypeError(f"{argument} must be a column's name, or a list of names, got {given!r}")
    return names


def column(name: str) -> Any:
    """A column by its whole name, which may have dots."""
    return spark.col("`" + name.replace("`", "``") + "`")


def numbered(columns: Sequence[Any]) -> list[Any]:
    """FrameColumns under plain names: PySpark takes dots in names for those of nested fields."""
    return [one.alias(f"c{place}") for place, one in enumerate(columns)]


def feature_columns(frame: Any, features: str | Sequence[str]) -> list[Any]:
    """The columns of the features: vectors become arrays, and a list of names one column each."""
    if not isinstance(features, str):
        return [column(name) for name in features]
    kind = frame.schema[features].dataType
    if kind.typeName() == "vectorudt":
        return [vector_to_array(column(features))]
    if isinstance(kind, kinds.ArrayType) and isinstance(kind.elementType, kinds.NumericType):
        return [column(features)]
    raise InvalidArgumentError(
        f"featuresCol={features!r} must be a column of vectors or of arrays of numbers, got "
        f"{kind.simpleString()}; give columns of numbers as a list of names"
    )


def width_of(frame: Any, features: str | Sequence[str], bounds: Any) -> int:
    """Number of features, by the names, the metadata of a column of vectors, or one bound for each."""
    if not isinstance(features, str):
        return len(features)
    known = frame.schema[features].metadata.get("ml_attr", {}).get("num_attrs")
    if known is None and isinstance(bounds, tuple) and len(bounds) == 2:
        known = np.size(bounds[0]) if np.ndim(bounds[0]) == 1 else None
    if known is None:
        raise InvalidArgumentError(
            f"bounds must be a pair of sequences, (lows, highs), since the schema does not say how many "
            f"numbers featuresCol={features!r} has"
        )
    return int(known)


class SparkRows(RowsElsewhere):
    """The rows of a data frame, whose jobs take at most `timeout` seconds each."""

    def __init__(
        self,
        frame: Any,
        roles: Mapping[str, Any],
        declarations: Mapping[str, Any],
        provenance: Provenance,
        classes: NDArray[Any] | None,
        n_threads: int,
        timeout: float,
    ) -> None:
        for given, argument in _OF_ROWS.items():
            if (declarations.get(argument) is None) != (given not in roles):
                raise InvalidArgumentError(
                    f"{argument}={declarations.get(argument)!r} and {given}={roles.get(given)!r} must be "
                    "given together"
                )
        features, label = roles["featuresCol"], roles["labelCol"]
        are_times = not isinstance(label, str)
        others = [*(label if are_times else [label]), *(roles[name] for name in _OF_ROWS if name in roles)]
        width = width_of(frame, features, declarations.get("bounds"))
        self.n_features = width
        names = None if isinstance(features, str) else tuple(features)
        self._columns = FrameColumns(width, names, "weightCol" in roles, "groupsCol" in roles, are_times)
        taken = numbered([*feature_columns(frame, features), *map(column, others)])
        self._frame = frame.select(*taken)
        self._timeout, self._sums = timeout, list[SparkLeafSums]()
        if "groupsCol" in roles:
            kind = frame.schema[roles["groupsCol"]].dataType
            if not isinstance(kind, (kinds.IntegralType, kinds.StringType)):
                raise InvalidArgumentError(
                    f"groupsCol={roles['groupsCol']!r} must hold integers or texts, got {kind.simpleString()}"
                )
            self._frame = self._frame.repartition(f"c{len(taken) - 1}")
        super().__init__(
            np.zeros((1, width)) if names is None else _made_up(frame, features),
            declarations,
            provenance,
            classes,
            n_threads,
            has_weight=self._columns.has_weight,
            has_groups=self._columns.has_groups,
        )

    def summed(self, rules: RowRules) -> SparkLeafSums:
        """Bin the rows, and sum them from then on; raises as `SparkLeafSums` does."""
        self._sums.append(SparkLeafSums(self._frame, self._columns, rules, self._timeout))
        return self._sums[-1]

    def close(self) -> None:
        """Make the executors forget the rows."""
        for sums in self._sums:
            sums.close()


class SparkTable(TableElsewhere):
    """Rows of a Spark data frame, as `X` of a `lgb_dp.federated.Party`.

    The party's answers are those of the same rows in its process.  It holds no rows out, and cannot be
    `auditable`.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
    featuresCol, labelCol, weightCol, groupsCol, timeout
        As for `SparkDPLGBMClassifier`; labels are numbers, or times as for `SparkDPLGBMSurvival`.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        Naming the argument that is not accepted.
    """

    def __init__(
        self,
        df: Any,
        *,
        featuresCol: str | Sequence[str] = "features",
        labelCol: str | Sequence[str] = "label",
        weightCol: str | None = None,
        groupsCol: str | None = None,
        timeout: float = TIMEOUT,
    ) -> None:
        given: dict[str, Any] = {
            "featuresCol": featuresCol,
            "labelCol": labelCol,
            "weightCol": weightCol,
            "groupsCol": groupsCol,
        }
        self._df, self._roles = df, {name: value for name, value in given.items() if value is not None}
        check_frame(df, self._roles)
        self._timeout = checked_number("timeout", timeout, POSITIVE)

    def rows(self, declarations: Mapping[str, Any]) -> SparkRows:
        """The rows for one run, with a party's declarations."""
        return SparkRows(self._df, self._roles, declarations, Provenance(), None, 1, self._timeout)


def _made_up(frame: Any, features: Sequence[str]) -> pa.Table:
    """A row without values, with the data types that workers get."""
    schema = frame.select(*numbered([column(name) for name in features])).limit(0).toArrow().schema
    return pa.table([pa.nulls(1, field.type) for field in schema], names=list(features))
