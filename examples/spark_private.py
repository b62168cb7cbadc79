"""
Private training on a Spark data frame
======================================

This example starts Spark, which needs Java 17, so it is shown here without its output.  Run it with::

    python examples/spark_private.py

Spark bins the rows once, and answers each job with a few integers; the driver adds the noise, and collects no
row.  The model is that of one process, byte for byte, given the same noise.

.. image:: /pictures/spark.svg
   :alt: The driver sends a job for ten trees, executors answer integers
"""

# sphinx_gallery_thumbnail_path = "pictures/spark.svg"

import os
import sys
import warnings

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

import lgb_dp
from lgb_dp.spark import SparkDPLGBMClassifier

NAMES = [f"x{number}" for number in range(8)]


def made_rows(n_rows):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n_rows, len(NAMES)))
    y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n_rows) > 0).astype(float)
    return pd.DataFrame(X, columns=NAMES).assign(label=y)


def main():
    warnings.simplefilter("ignore", lgb_dp.PrivacyLeakWarning)
    warnings.simplefilter("ignore", FutureWarning)  # of PySpark, about pandas
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    rows = made_rows(20_000)
    df = spark.createDataFrame(rows).repartition(4)

    public = {"bounds": (-1, 1), "classes": [0, 1]}
    # The noise is fixed, so that two models can be compared; never do that with data that matters.
    settings = {"epsilon": 1.0, "delta": 1e-6, "n_estimators": 20, "random_state": 0}
    estimator = SparkDPLGBMClassifier(**settings, featuresCol=NAMES, trees_per_round=1)
    model = estimator.fit(df, **public)
    print(model.privacy_)
    model.transform(df).select("label", "prediction", "probability").show(5)

    local = lgb_dp.DPLGBMClassifier(**settings).fit(rows[NAMES], rows["label"], **public)
    same = model.booster_.model_to_string() == local.booster_.model_to_string()
    print(f"The same model as in one process, byte for byte: {same}")
    spark.stop()


if __name__ == "__main__":
    main()
