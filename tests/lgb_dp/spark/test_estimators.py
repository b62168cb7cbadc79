"""The model of a Spark data frame is that of one process, byte for byte, however its rows are divided."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import lgb_dp
from spark_training import (
    FRAME,
    NAMES,
    PUBLIC,
    SETTINGS,
    SparkDPLGBMRegressor,
    SparkDPLGBMSurvival,
    X,
    Y,
    classifier,
    dataset,
    in_one_process,
    in_parts,
    trained,
)

pytestmark = pytest.mark.filterwarnings("ignore:random_state is for tests only")


@pytest.fixture(autouse=True)
def _scores_after_few_trees(monkeypatch):
    monkeypatch.setattr("lgb_dp.spark.leaf_sums.TREES_BETWEEN_SCORES", 3)


@pytest.mark.parametrize("n_partitions", [1, 4, pytest.param(25, marks=pytest.mark.slow)])
def test_partitions_do_not_change_the_model(spark, n_partitions):
    df = in_parts(spark, n_partitions)
    df = df.where("a > 9").union(df)  # with empty partitions
    model = classifier().fit(df, **PUBLIC)
    assert model.booster_.model_to_string() == in_one_process().model_to_string()
    assert model.privacy_.to_dict() == in_one_process().privacy.to_dict()


def test_a_round_of_one_tree_gives_the_estimator_of_one_process(spark):
    settings = {**SETTINGS, "n_estimators": 2}
    local = lgb_dp.DPLGBMClassifier(20.0, **settings).fit(FRAME[NAMES], Y, **PUBLIC)
    estimator = classifier(1, n_estimators=2)
    model = estimator.fit(in_parts(spark, 2), **PUBLIC)
    assert model.to_local().booster_.model_to_string() == local.booster_.model_to_string()
    assert model.to_local().get_params() == local.get_params()
    assert not hasattr(estimator, "booster_")


def test_blocks_that_move_between_jobs_are_each_counted_once(spark, monkeypatch):
    df, widths = in_parts(spark, 3), iter([2, 3, 1])
    monkeypatch.setattr(type(df), "persist", lambda self: self.repartition(next(widths)))
    assert classifier().fit(df, **PUBLIC).booster_.model_to_string() == in_one_process().model_to_string()


def test_a_table_with_persons_weights_categories_and_gaps_trains_as_in_one_process(spark):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"a": np.where(X[:, 0] > 2, np.nan, X[:, 0]), "b": X[:, 1].astype(np.float32)})
    frame["kind"] = np.where(Y > 0, "yes", np.where(X[:, 2] > 0, "no", None))
    frame["weight"], frame["person"] = np.linspace(0, 2, len(X)), np.repeat(np.arange(len(X) // 2), 2)
    frame["label"] = np.where(Y > 0, "sick", "well")
    known = {"bounds": (-3, 3), "categories": {"kind": ["no", "yes", "never"]}, "weight_bound": 2.0}
    persons = {"rows_per_group": 2, "group_weight": "mean"}
    names = ["a", "b", "kind"]
    data = dataset(frame[names], Y == 0, weight=frame["weight"], groups=frame["person"], **known, **persons)
    one = trained({"objective": "binary"}, data)
    df = spark.createDataFrame(frame.iloc[rng.permutation(len(frame))])
    estimator = classifier(featuresCol=names, weightCol="weight", groupsCol="person")
    model = estimator.fit(df, classes=["sick", "well"], **known, **persons)
    assert model.booster_.model_to_string() == one.model_to_string()
    told = model.transform(df.select(*names, "person")).toPandas()
    local = model.to_local()
    np.testing.assert_array_equal(told["prediction"], local.predict(told[names]))
    np.testing.assert_array_equal(np.stack(told["probability"]), local.predict_proba(told[names]))
    assert set(told["prediction"]) <= {"sick", "well"}


def test_vectors_of_one_column_are_the_features(spark):
    from pyspark.ml.feature import VectorAssembler

    rows = FRAME.rename(columns={"c.d": "c"})
    df = VectorAssembler(inputCols=["a", "b", "c", "e"], outputCol="features").transform(
        spark.createDataFrame(rows)
    )
    label = {"objective": "regression"}
    data = dataset(X, X[:, 0], bounds=(-3, 3), label_bounds=(-4, 4))
    estimator = SparkDPLGBMRegressor(20.0, labelCol="a", trees_per_round=3, **SETTINGS)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="label_bounds"):
        estimator.fit(df, bounds=(-3, 3))
    model = estimator.fit(df, bounds=(-3, 3), label_bounds=(-4, 4))
    assert model.booster_.model_to_string() == trained(label, data).model_to_string()
    told = model.transform(df.select("e", "features")).toPandas()
    values = np.stack([vector.toArray() for vector in told["features"]])
    np.testing.assert_array_equal(told["prediction"], model.to_local().predict(values))
    assert list(told) == ["e", "features", "prediction"]


def test_times_of_two_columns_train_as_in_one_process(spark):
    time = np.exp(X[:, 0])
    times = pd.DataFrame({"lower": time, "upper": np.where(Y > 0, time, np.inf)})
    times.loc[:9, "lower"], times.loc[10:19, "upper"] = 0.0, np.nan
    data = dataset(FRAME[NAMES], times, bounds=(-3, 3), label_bounds=(0.5, 8.0))
    one = trained({"objective": lgb_dp.AFT("normal")}, data)
    df = in_parts(spark, 4, pd.concat([FRAME[NAMES], times], axis=1))
    settings = {"featuresCol": NAMES, "trees_per_round": 3, **SETTINGS}
    estimator = SparkDPLGBMSurvival(20.0, delta=1e-5, distribution="normal", **settings)
    model = estimator.fit(df, bounds=(-3, 3), label_bounds=(0.5, 8.0))
    assert model.booster_.model_to_string() == one.model_to_string()
    told = model.transform(df).toPandas()
    np.testing.assert_array_equal(told["prediction"], model.to_local().predict(told[NAMES]))
    for name, settings, given in (
        ("label_bounds", {}, {}),
        ("eval_metric", {}, {"eval_metric": "auc"}),
        ("labelCol='lower'", {"labelCol": "lower"}, {"label_bounds": (0.5, 8.0)}),
    ):
        with pytest.raises(lgb_dp.PrivateTrainingError, match=name):
            SparkDPLGBMSurvival(20.0, featuresCol=NAMES, **settings).fit(df, bounds=(-3, 3), **given)


def test_public_rows_are_evaluated_here(spark):
    given = {"eval_set": [(FRAME[NAMES], Y)], "public_eval_set": True, "eval_metric": "auc"}
    model = classifier().fit(in_parts(spark, 1), **PUBLIC, **given)
    assert len(model.evals_result_["valid_0"]["auc"]) == SETTINGS["n_estimators"]


CONNECT = """
from pyspark.sql import SparkSession
from spark_training import PUBLIC, classifier, in_one_process, in_parts
spark = SparkSession.builder.remote("local[2]").getOrCreate()
model = classifier().fit(in_parts(spark, 2), **PUBLIC)
print(model.booster_.model_to_string() == in_one_process().model_to_string())
print(model.transform(in_parts(spark, 2)).toArrow().num_rows)
spark.stop()
"""


@pytest.mark.slow
def test_a_session_of_spark_connect_gives_the_same_model():
    for name in ("grpc", "grpc_status", "zstandard"):
        pytest.importorskip(name, reason="Spark Connect needs pyspark[connect]")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", CONNECT]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600)
    assert done.stdout.split() == ["True", "320"], done.stderr[-2000:]
