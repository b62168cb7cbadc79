"""Tasks that fail, die or come twice change no sum, and rows that change are noticed."""

import os
import signal
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lgb_dp
from lgb_dp.newton.releases.held_out_rows import HoldOut
from spark_training import (
    FRAME,
    NAMES,
    PUBLIC,
    binned,
    blocks,
    classifier,
    dataset,
    in_one_process,
    in_parts,
    trained,
)

pytestmark = pytest.mark.filterwarnings("ignore:random_state is for tests only")


def around_sums(monkeypatch, wrap):
    """Have workers run a function of the true task, its job's number and their batches."""
    numbers = iter(range(100))

    def make(*how):
        summing, number = blocks.Summing(*how), next(numbers)
        return lambda batches: wrap(summing, number, batches)

    monkeypatch.setattr("lgb_dp.spark.leaf_sums.Summing", make)


@pytest.fixture
def same_coins(monkeypatch):
    """All fits hold the same rows out, if they have the same blocks; none with another salt."""
    monkeypatch.setattr("lgb_dp.spark.leaf_sums.secrets.randbits", lambda n_bits: 11)


def held_here(monkeypatch, frame, share):
    """The model of one process that holds out the rows that one partition on Spark does."""
    (block,) = binned(monkeypatch, frame, 11, hold_out=HoldOut(share))
    data = dataset(frame[NAMES], frame["label"].to_numpy(), bounds=(-3, 3)).construct()
    labels = np.frombuffer(block["label"])
    left = Counter(
        (block["codes"][4 * k :][:4], labels[k]) for k, is_held in enumerate(block["held"]) if is_held
    )
    mask = np.zeros(len(frame), dtype=bool)
    for k, key in enumerate(zip(map(bytes, data.codes.codes), data.label, strict=True)):
        mask[k] = left[key] > 0
        left[key] -= 1
    assert mask.sum() == sum(block["held"])
    monkeypatch.setattr(HoldOut, "chosen", lambda *_: mask)
    monkeypatch.setattr("lgb_dp.boosting.run_rows.draw_words", lambda *_: None)
    return trained({"objective": "binary"}, data, validation_fraction=share)


@pytest.mark.usefixtures("same_coins")
def test_held_out_rows_stay_held_out_however_often_blocks_are_computed(spark, monkeypatch):
    """Nothing is persisted, and rows come in another order for every job."""
    from pyspark.sql import functions

    df = in_parts(spark, 1)
    place = functions.udf(lambda: os.urandom(8), "binary").asNondeterministic()
    shuffled = df.withColumn("place", place()).sortWithinPartitions("place")
    with monkeypatch.context() as forgetful:
        forgetful.setattr(type(df), "persist", lambda self: self)
        model = classifier(validation_fraction=0.3).fit(shuffled, **PUBLIC)
    one = held_here(monkeypatch, FRAME, 0.3)
    assert model.booster_.model_to_string() == one.model_to_string()
    assert model.evaluation_.to_dict() == one.evaluation.to_dict()


@pytest.mark.usefixtures("same_coins")
def test_a_row_in_another_block_would_have_another_coin_and_is_noticed(spark, monkeypatch):
    def moved(summing, number, batches):
        for batch in summing(batches):
            place = pa.array([7 if number else 0] * batch.num_rows, pa.int32())
            yield batch.set_column(1, "block", place)

    around_sums(monkeypatch, moved)
    classifier(n_estimators=1).fit(in_parts(spark, 1), **PUBLIC)
    around_sums(monkeypatch, moved)
    with pytest.raises(lgb_dp.PartitionError, match="partition 0"):
        classifier(validation_fraction=0.1).fit(in_parts(spark, 1), **PUBLIC)


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
