"""NewtonBoost on Spark of this machine beside one process; `dask_scale.py` has Dask.

It says the seconds of a whole fit of each, the largest resident memory of the driver's Python, and the median
time of a job beside that of an empty ``mapInArrow(...).toArrow()`` in the same session, which take turns.

    python benchmarks/private/spark_scale.py --quick
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import sys
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as spark_functions

import lgb_dp
from lgb_dp.spark import SparkDPLGBMClassifier
from lgb_dp.spark.jobs import Jobs

NAMES = [f"x{k}" for k in range(20)]


def made_rows(spark: Any, n_rows: int) -> Any:
    """Rows that Spark makes: the driver has none."""
    columns = [(spark_functions.rand(seed=k) * 2 - 1).alias(name) for k, name in enumerate(NAMES)]
    rows = spark.range(0, n_rows, numPartitions=4).select(*columns)
    label = spark_functions.expr("cast(x0 + x1 * x2 > 0 as double)")
    return rows.withColumn("label", label).persist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", type=int, default=10**6)
    parser.add_argument("--trees", type=int, default=1000)
    parser.add_argument("--trees-per-round", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="10^5 rows and 100 trees")
    options = parser.parse_args()
    if options.quick:
        options.rows, options.trees = 10**5, 100
    warnings.simplefilter("ignore")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    df = made_rows(spark, options.rows)
    df.count()
    empty = spark.range(0, 4, numPartitions=4).persist()
    seconds: dict[str, list[float]] = {"job": [], "empty": []}
    result = Jobs.result

    def timed(jobs: Jobs, name: str, work: Any) -> Any:
        start = time.perf_counter()
        answer = result(jobs, name, work)
        if name.startswith("trees"):
            middle = time.perf_counter()
            empty.mapInArrow(lambda batches: batches, "id long").toArrow()
            seconds["job"].append(middle - start)
            seconds["empty"].append(time.perf_counter() - middle)
        return answer

    Jobs.result = timed  # type: ignore[method-assign]
    public = {"bounds": (-1, 1), "classes": [0, 1]}
    settings = {"epsilon": 1.0, "delta": 1e-7, "n_estimators": options.trees}
    estimator = SparkDPLGBMClassifier(**settings, featuresCol=NAMES, trees_per_round=options.trees_per_round)
    start = time.perf_counter()
    estimator.fit(df, **public)
    whole = time.perf_counter() - start - sum(seconds["empty"])
    told: dict[str, Any] = {
        "rows": options.rows,
        "trees": options.trees,
        "Spark, s": whole,
        "driver, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "job, ms": 1e3 * statistics.median(seconds["job"]),
        "empty job, ms": 1e3 * statistics.median(seconds["empty"]),
    }
    spark.stop()

    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(-1, 1, size=(options.rows, len(NAMES))), columns=NAMES)
    label = (frame["x0"] + frame["x1"] * frame["x2"] > 0).astype(float)
    start = time.perf_counter()
    lgb_dp.DPLGBMClassifier(**settings, n_jobs=2).fit(frame, label, **public)
    told["one process, s"] = time.perf_counter() - start
    told["load average"] = os.getloadavg()[0]
    print(json.dumps(told, indent=1))


if __name__ == "__main__":
    main()
