"""A Spark session, rows in its data frames, and the model that one process trains on them, for tests."""

import os
import shutil
import subprocess
import sys
from functools import cache

import lightgbm as lgb
import numpy as np
import pytest

pytest.importorskip("pyspark", "4.0", reason="the tests of Spark need pyspark 4")


def java_version():
    java = shutil.which("java")
    said = subprocess.run([java, "-version"], capture_output=True, text=True).stderr if java else ""
    return int(said.split('"')[1].split(".")[0]) if '"' in said else 0


if java_version() < 17:
    pytest.skip("the tests of Spark need Java 17 or newer", allow_module_level=True)
os.environ["PYSPARK_PYTHON"] = sys.executable

import pandas as pd  # noqa: E402

import lgb_dp  # noqa: E402
from lgb_dp.spark import SparkDPLGBMClassifier, SparkDPLGBMRegressor, blocks  # noqa: E402, F401
from lgb_dp.spark.jobs import Jobs  # noqa: E402, F401
from lgb_dp.spark.training import NewtonBoostInRounds  # noqa: E402
from small_training import binary_data  # noqa: E402

X, Y = binary_data(320)
NAMES = ["a", "b", "c.d", "e"]
FRAME = pd.DataFrame(X, columns=NAMES).assign(label=Y)
PUBLIC = {"bounds": (-3, 3), "classes": [0, 1]}
BUDGET = (20.0, 1e-5)
SETTINGS = {"n_estimators": 6, "max_bin": 16, "random_state": 4, "reg_lambda": 0.5}


def classifier(trees_per_round=3, **changes):
    own = {"featuresCol": NAMES, **SETTINGS, "trees_per_round": trees_per_round}
    return SparkDPLGBMClassifier(BUDGET[0], delta=BUDGET[1], **{**own, **changes})


def trained(params, data, trees_per_round=3):
    """The booster of one process."""
    trainer = NewtonBoostInRounds(*BUDGET, trees_per_round=trees_per_round, random_state=4)
    known = {"verbosity": -1, "lambda_l2": SETTINGS["reg_lambda"], **params}
    return lgb.train(known, data, SETTINGS["n_estimators"], callbacks=[trainer])


def dataset(table, label, **declared):
    return lgb_dp.Dataset(table, label, max_bin=16, spacing="mixed", label_overflow="clip", **declared)


@cache
def in_one_process():
    return trained({"objective": "binary"}, dataset(FRAME[NAMES], np.asarray(Y), bounds=(-3, 3)))


def in_parts(spark, n_partitions, frame=FRAME):
    return spark.createDataFrame(frame).repartition(n_partitions)
