"""Parquet files that a session of Spark reads, for a party that is served."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as spark

from gbdt_commons.errors import VeilboostError
from lgb_dp.errors import ClusterError
from lgb_dp.spark.rows import SparkTable, column


def parquet_table(
    address: str, path: str, categories: Mapping[str, Sequence[Any]], **columns: Any
) -> tuple[SparkTable, int, dict[str, float | None]]:
    """Rows of files that executors find at a path, their number, and shares of other values than categories.

    The address is that of a server of Spark Connect, `sc://…`, or a master.  The columns are arguments of
    `SparkTable`.  `ClusterError` if the files cannot be read.
    """
    builder = SparkSession.builder.appName("veilboost")
    is_server = address.startswith("sc://")
    session = (builder.remote(address) if is_server else builder.master(address)).getOrCreate()
    try:
        df = session.read.parquet(path)
        table = SparkTable(df, **columns)
        others = [
            spark.avg((column(name).isNotNull() & ~column(name).isin(list(values))).cast("double"))
            for name, values in categories.items()
        ]
        n_rows, *shares = df.agg(spark.count("*"), *others).collect()[0]
    except VeilboostError:
        raise
    except Exception as error:  # whose text may quote cells
        raise ClusterError(f"{path} cannot be read by Spark ({type(error).__name__})") from None
    return table, n_rows, dict(zip(categories, shares, strict=True))
