"""A Spark session, rows in its data frames, and the model that one process trains on them, for tests."""

import os
import shutil
import subprocess
import sys
from functools import cache
from types import SimpleNamespace

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
import pyarrow as pa  # noqa: E402

import lgb_dp  # noqa: E402
from lgb_dp.data.bins import public_bins  # noqa: E402
from lgb_dp.losses.labels import LabelScale  # noqa: E402
from lgb_dp.losses.loss import NewtonLoss  # noqa: E402
from lgb_dp.newton.releases.partitions import RowRules  # noqa: E402
from lgb_dp.spark import (  # noqa: E402
    SparkDPLGBMClassifier,
    SparkDPLGBMRegressor,  # noqa: F401
    SparkDPLGBMSurvival,  # noqa: F401
    blocks,
)
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


def trained(params, data, trees_per_round=3, **held):
    """The booster of one process."""
    trainer = NewtonBoostInRounds(*BUDGET, trees_per_round=trees_per_round, random_state=4, **held)
    known = {"verbosity": -1, "lambda_l2": SETTINGS["reg_lambda"], **params}
    return lgb.train(known, data, SETTINGS["n_estimators"], callbacks=[trainer])


def dataset(table, label, **declared):
    return lgb_dp.Dataset(table, label, max_bin=16, spacing="mixed", label_overflow="clip", **declared)


@cache
def in_one_process():
    return trained({"objective": "binary"}, dataset(FRAME[NAMES], np.asarray(Y), bounds=(-3, 3)))


def binned(monkeypatch, frame, salt, rows_of_block=10**6, rows_of_batch=10**6, hold_out=None, persons=False):
    """The blocks of one partition as dictionaries, by the rules of `classifier`."""
    monkeypatch.setattr(blocks, "TaskContext", SimpleNamespace(get=lambda: SimpleNamespace(partitionId=int)))
    monkeypatch.setattr(blocks, "ROWS_OF_BLOCK", rows_of_block)
    bins = public_bins(FRAME[NAMES], NAMES, (-3, 3), 16, None, None, "mixed")
    scale, types = LabelScale("binary", 1, 0.0, 1.0), tuple(f"{name}: Float64" for name in NAMES)
    loss, of_person = NewtonLoss("binary", 1.0, 0.0), 2 if persons else None
    how = (None, of_person, "sum" if persons else None, 1.0, 1, None, hold_out)
    rules = RowRules(bins, types, scale, loss, "raise", *how)
    binning = blocks.Binning(rules, blocks.FrameColumns(4, tuple(NAMES), False, persons), salt)
    batches = pa.Table.from_pandas(frame, preserve_index=False).to_batches(rows_of_batch)
    return [row for batch in binning(batches) for row in batch.to_pylist()]


def in_parts(spark, n_partitions, frame=FRAME):
    return spark.createDataFrame(frame).repartition(n_partitions)
