"""``veilboost serve private --spark``: a server's rows are those of Parquet files that Spark reads."""

from contextlib import closing

import pandas as pd
import pytest

import lgb_dp
import spark_training  # noqa: F401
from lgb_dp.federated import Party
from lgb_dp.spark.parquet import parquet_table

TOWNS = {"town": ["Oslo", "Turku"], "street": ["A"]}
COLUMNS = {"featuresCol": ["age", "town"], "labelCol": "ill", "weightCol": "w"}
DECLARED = {"bounds": {"age": (0, 100)}, "categories": {"town": ["Oslo", "Turku"]}, "weight_bound": 1.0}


def test_columns_of_parquet_files_are_a_partys_rows_and_undeclared_values_are_counted(spark, tmp_path):
    towns = ["Oslo", None, "Turku", "Bern"]
    rows = pd.DataFrame({"street": "A", "town": towns, "age": range(4), "ill": [0.0, 1.0] * 2, "w": 0.5})
    rows.to_parquet(tmp_path / "rows.parquet")
    table, n_rows, others = parquet_table("local[2]", str(tmp_path / "rows.parquet"), TOWNS, **COLUMNS)
    assert n_rows == 4
    assert others == {"town": 0.25, "street": 0.0}
    with closing(Party(table, name="ada", **DECLARED)) as party:
        assert not party.has_folder
    with pytest.raises(lgb_dp.InvalidArgumentError, match="weightCol='weight'"):
        parquet_table("local[2]", str(tmp_path / "rows.parquet"), {}, **{**COLUMNS, "weightCol": "weight"})
    with pytest.raises(lgb_dp.ClusterError, match="nothing"):
        parquet_table("local[2]", str(tmp_path / "nothing"), {}, **COLUMNS)
