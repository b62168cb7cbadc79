"""Tasks that fail, die or come twice change no sum, and rows that change are noticed."""

import os
import signal
from pathlib import Path

import pyarrow as pa
import pytest

import lgb_dp
from spark_training import PUBLIC, blocks, classifier, in_one_process, in_parts

pytestmark = pytest.mark.filterwarnings("ignore:random_state is for tests only")


def around_sums(monkeypatch, wrap):
    """Have workers run a function of the true task, its job's number and their batches."""
    numbers = iter(range(100))

    def make(*how):
        summing, number = blocks.Summing(*how), next(numbers)
        return lambda batches: wrap(summing, number, batches)

    monkeypatch.setattr("lgb_dp.spark.leaf_sums.Summing", make)


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_worker_that_dies_and_a_task_that_fails_are_repeated(spark, monkeypatch, tmp_path, is_killed):
    marker = str(tmp_path / "happened")

    def once(summing, number, batches):
        if number == 1 and not Path(marker).exists():
            Path(marker).touch()
            if is_killed:
                os.kill(os.getpid(), signal.SIGKILL)
            next(iter(batches))
            raise OSError("of one attempt")
        yield from summing(batches)

    around_sums(monkeypatch, once)
    model = classifier().fit(in_parts(spark, 2), **PUBLIC)
    assert Path(marker).exists()
    assert model.booster_.model_to_string() == in_one_process().model_to_string()
    assert model.privacy_.to_dict() == in_one_process().privacy.to_dict()


def test_a_block_that_comes_twice_or_not_at_all_is_noticed(spark, monkeypatch):
    def twice(summing, number, batches):
        for batch in summing(batches):
            yield pa.concat_batches([batch, batch]) if number else batch

    def never(summing, number, batches):
        yield from list(summing(batches))[: 0 if number else None]

    for wrap in (twice, never):
        around_sums(monkeypatch, wrap)
        with pytest.raises(lgb_dp.PartitionError, match="'trees 1 to 3'"):
            classifier().fit(in_parts(spark, 1), **PUBLIC)


def test_a_table_that_changes_between_jobs_is_noticed(spark, monkeypatch):
    from pyspark.sql import functions

    df = in_parts(spark, 1)
    df = df.withColumn("a", functions.udf(lambda: float.fromhex(f"0x{os.urandom(1).hex()}p-9"), "double")())
    monkeypatch.setattr(type(df), "persist", lambda self: self)
    with pytest.raises(lgb_dp.PartitionError, match="partition 0 has other rows"):
        classifier().fit(df, **PUBLIC)
