"""Every job has a name, a tag and an end."""

import time

import pytest

import lgb_dp
from spark_training import NAMES, PUBLIC, Jobs, classifier, in_parts


def test_a_job_that_takes_too_long_is_cancelled_by_its_tag(spark):
    def slow(batches):
        time.sleep(40)
        yield from batches

    def work():
        return spark.range(1).mapInArrow(slow, "id long").toArrow()

    with pytest.raises(lgb_dp.ClusterError, match=r"'a b' .*timeout=3"):
        Jobs(spark, 3.0).result("a b", work)
    tracker, end = spark.sparkContext.statusTracker(), time.monotonic() + 60
    while tracker.getActiveJobsIds():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_failed_job_is_named_and_no_cell_is_quoted(spark):
    df = in_parts(spark, 1).selectExpr("*", "cast(concat('secret', a) as int) as broken")
    budget = lgb_dp.Budget(50.0, 1e-3)
    with pytest.raises(lgb_dp.ClusterError, match=r"'binning' failed \(CAST_INVALID_INPUT\)") as caught:
        classifier(random_state=None, featuresCol=[*NAMES, "broken"]).fit(df, budget=budget, **PUBLIC)
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert not budget.report().ledger


class StoppedSession:
    """A session that another thread has stopped."""

    def addTag(self, tag):
        raise ConnectionRefusedError("no server")


def test_a_session_that_is_stopped_is_a_named_error():
    with pytest.raises(lgb_dp.ClusterError, match=r"'trees 1 to 3' failed \(ConnectionRefusedError\)"):
        Jobs(StoppedSession(), 60.0).result("trees 1 to 3", list)
