"""Fits on Spark of this machine during which a Python worker is killed at a random moment.

All must end in the model of a fit that is left alone, or in one of the library's own errors, within the time
limit of a job.

    python benchmarks/private/spark_kills.py --runs 50
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

import lgb_dp
from lgb_dp.spark import SparkDPLGBMClassifier

NAMES = [f"x{k}" for k in range(6)]
TIMEOUT = 120.0


def workers() -> list[int]:
    """Numbers of the processes that Spark's daemon of Python workers, below this process, has forked."""
    parents, texts = dict[int, int](), dict[int, str]()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            texts[int(path.name)] = (path / "cmdline").read_text()
        except OSError:
            continue  # it has ended
    daemons = {one for one in parents if "pyspark.daemon" in texts[one] and _is_below(one, parents)}
    return [one for one in daemons if parents[one] in daemons]


def _is_below(process: int, parents: dict[int, int]) -> bool:
    while process in parents and process != os.getpid():
        process = parents[process]
    return process == os.getpid()


def kill_after(seconds: float, is_over: threading.Event, killed: list[int]) -> None:
    """Kill a worker, once there is one, unless the fit is over before."""
    if is_over.wait(seconds):
        return
    while not is_over.is_set() and not killed:
        for one in random.sample(found := workers(), min(1, len(found))):
            os.kill(one, signal.SIGKILL)
            killed.append(one)
        time.sleep(0.01)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--trees", type=int, default=12)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2, 4]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.log.level", "OFF").getOrCreate()
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.uniform(-1, 1, size=(options.rows, len(NAMES))), columns=NAMES)
    df = spark.createDataFrame(frame.assign(label=(frame["x0"] + frame["x1"] > 0).astype(float))).repartition(
        2
    )
    settings: dict[str, Any] = {"n_estimators": options.trees, "trees_per_round": 3, "random_state": 1}
    estimator = SparkDPLGBMClassifier(1.0, delta=1e-7, featuresCol=NAMES, timeout=TIMEOUT, **settings)

    def fitted() -> str:
        return str(estimator.fit(df, bounds=(-1, 1), classes=[0, 1]).booster_.model_to_string())

    fitted()
    start = time.perf_counter()
    expected = fitted()
    usual = time.perf_counter() - start
    ends, n_killed, longest = Counter[str](), 0, 0.0
    for run in range(options.runs):
        is_over, killed = threading.Event(), list[int]()
        killer = threading.Thread(target=kill_after, args=(random.uniform(0, usual), is_over, killed))
        killer.start()
        start = time.perf_counter()
        try:
            end = "the same model" if fitted() == expected else "ANOTHER MODEL"
        except lgb_dp.PrivateTrainingError as error:
            end = type(error).__name__
        is_over.set()
        killer.join()
        seconds = time.perf_counter() - start
        longest, usual = max(longest, seconds), min(usual, seconds)
        n_killed += len(killed)
        ends[end] += 1
        print(f"{run + 1}: {end}, {len(killed)} killed", file=sys.stderr, flush=True)
    spark.stop()
    told = {"runs": options.runs, "killed": n_killed, "ends": ends, "usual, s": usual, "longest, s": longest}
    print(json.dumps({**told, "load average": os.getloadavg()[0]}, indent=1))


if __name__ == "__main__":
    main()
