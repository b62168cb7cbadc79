"""Un-noised sums, and values of rows, are in no log, task key, event, file, exception or pickle."""

import logging
import pickle
import re

import dask
import numpy as np
import pytest
from distributed import Client

import lgb_dp
import lgb_dp.dask
from dask_training import PUBLIC, X, Y, collections, even, local_cluster, pinned
from lgb_dp.mechanisms.noise import observed
from newton_training import QUIET

pytestmark = pytest.mark.filterwarnings("ignore:random_state is for tests only")
MARK = 2.718281828  # a value of one row, which no log may quote


class Lines(logging.Handler):
    """Keeps all log records, with their tracebacks."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.lines = []

    def emit(self, record):
        self.lines.append(self.format(record))


@pytest.fixture
def logged():
    handler, loggers = Lines(), [logging.getLogger(name) for name in ("distributed", "lgb_dp", "lightgbm")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    yield handler.lines
    for logger, level in zip(loggers, levels, strict=True):
        logger.removeHandler(handler)
        logger.setLevel(level)


def marks_of(sums):
    """How an integer vector would look in a text or in bytes."""
    large = [int(v) for v in np.ravel(sums) if abs(int(v)) > 10**5]
    texts = {rb"(?<![0-9a-f.])%d(?![0-9a-f])" % v for v in large}
    return texts | {re.escape(np.int64(v).tobytes()) for v in large} | {re.escape(sums.tobytes())}


def run_and_its_traces(logged, folder, fails):
    """Sums that a training run adds noise to, and all texts that it leaves about."""
    logged.clear()
    marked = X.copy()
    marked[7, 2] = MARK
    label = np.where(np.arange(len(Y)) == 9, MARK, Y) if fails else Y
    private = []

    def observe(values, release):
        private.append(values.values)
        return release()

    with (
        dask.config.set({"temporary-directory": str(folder), "distributed.admin.log-length": 10**5}),
        local_cluster(2) as cluster,
        Client(cluster) as client,
    ):
        data = lgb_dp.dask.DaskDataset(*collections(even(5), marked, label), **PUBLIC)
        trainer = pinned()
        texts = []
        with observed(observe):
            try:
                booster = lgb_dp.dask.train(client, QUIET, data, 6, callbacks=[trainer])
                texts.append(pickle.dumps(booster))
                texts.append(booster.model_to_string().encode())
            except lgb_dp.InvalidArgumentError as error:
                assert fails
                texts += [str(error).encode(), repr(error).encode()]
        scheduler = cluster.scheduler
        texts += [repr(list(scheduler.tasks)).encode(), repr(list(scheduler.transition_log)).encode()]
        texts += [repr(scheduler.get_events()).encode(), repr(scheduler.identity()).encode()]
        for worker in cluster.workers.values():
            texts.append(repr([*worker.state.log, *worker.state.stimulus_log, *worker.state.tasks]).encode())
            texts.append(repr(dict(worker.data)).encode())
        texts += [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    texts.append("\n".join(logged).encode())
    assert len(logged) > 50  # logs were kept
    assert bool(private) != fails
    return private, texts


def found_in(marks, texts):
    return {mark for mark in marks if any(re.search(mark, text) for text in texts)}


@pytest.mark.parametrize("fails", [False, True])
def test_marked_values_are_nowhere(logged, tmp_path, fails):
    private, texts = run_and_its_traces(logged, tmp_path, fails)
    marks = set().union(*map(marks_of, private)) | {
        re.escape(repr(MARK).encode()),
        re.escape(np.float64(MARK).tobytes()),
    }
    if not fails:
        assert len(marks) > 30
    assert found_in(marks_of(np.array([123456])), [b"sums=[123456]"])
    found = found_in(marks, texts)
    if found:
        # Dask tells bytes per second and the like, one of which may have the digits of a sum, but not twice.
        _, texts = run_and_its_traces(logged, tmp_path, fails)
        found = found_in(found, texts)
    assert not found
