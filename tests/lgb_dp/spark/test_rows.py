"""A party whose rows are in Spark gives the sums of a party that has them in its process."""

import numpy as np
import pytest

import lgb_dp
import spark_training  # noqa: F401
from federated_training import X as ROWS
from federated_training import Y as LABELS
from federated_training import party, rows_of, train
from lgb_dp.federated import run
from lgb_dp.spark import SparkTable
from lgb_dp.spark.leaf_sums import SparkLeafSums
from spark_training import FRAME, NAMES, pd

COLUMNS = ["a", "b", "c.d"]
PERSONS = {"weight_bound": 2.0, "rows_per_group": 2}


def own_frame(place=0):
    rows = rows_of(place, 2)
    frame = pd.DataFrame(ROWS[rows], columns=COLUMNS).assign(label=LABELS[rows])
    return frame.assign(weight=np.linspace(0, 2, len(rows)), person=np.arange(len(rows)) // 2)


def here(place, **settings):
    frame = own_frame(place)
    own = {"X": frame[COLUMNS], "y": frame["label"]}
    return party(place, **own, weight=frame["weight"], groups=frame["person"], **PERSONS, **settings)


def table(spark, place=0):
    df = spark.createDataFrame(own_frame(place).sample(frac=1, random_state=1)).repartition(2)
    return SparkTable(df, featuresCol=COLUMNS, weightCol="weight", groupsCol="person")


def on_spark(spark, place=0, **settings):
    return party(place, X=table(spark, place), y=None, **PERSONS, **settings)


def without_noise(monkeypatch, members, **settings):
    """The sums of all parties, the model without the run's number, and charges, of one public seed."""
    sums, replica, share_of = [], run.train_replica, run.release_share

    def share(own, *_):
        sums.append(own.tobytes())
        return own

    monkeypatch.setattr(run, "release_share", share)
    monkeypatch.setattr(
        run, "train_replica", lambda rows, task, n, seed, key: replica(rows, task, n, bytes(32), key)
    )
    booster = train(members, 4, trees_per_round=2, **settings)
    monkeypatch.setattr(run, "release_share", share_of)
    monkeypatch.setattr(run, "train_replica", replica)
    return sums, booster.model_to_string(), [one["mu"] for one in members[0].ledger.charges()]


def test_a_party_on_spark_answers_as_one_with_the_same_rows_here(spark, monkeypatch):
    expected = without_noise(monkeypatch, [here(0), here(1)])
    assert len(expected[0]) >= 6
    member, forgotten = on_spark(spark), []
    forget = SparkLeafSums.close
    with monkeypatch.context() as watched:
        watched.setattr(SparkLeafSums, "close", lambda own: forgotten.append(own) or forget(own))
        told = without_noise(watched, [member, here(1)])
    assert told == expected
    assert len(forgotten) == 1


def test_what_a_party_on_spark_does_not_take_is_named(spark):
    for name, given in (("auditable", True), ("weight", np.ones(3)), ("y", np.ones(3))):
        with pytest.raises(lgb_dp.InvalidArgumentError, match=name):
            party(X=table(spark), **{"y": None, **PERSONS, name: given})
    with pytest.raises(lgb_dp.InvalidArgumentError, match="weightCol='weight'"):
        party(X=table(spark), y=None)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="labelCol"):
        SparkTable(spark.createDataFrame(FRAME), featuresCol=NAMES, labelCol="none")
