"""Peak memory of one training over its input; run by `dp_training_time.py` in a process of its own.

Everything beyond the input counts: the libraries, the compiled kernels, the binned matrix, the scores.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

import numpy as np

N_TREES = 50


def resident() -> int:
    """Bytes resident now, or at the most so far where the system does not say."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if statm.exists() else peak()


def peak() -> int:
    """Bytes resident at the most.

    Linux's getrusage passes the parent's peak on to the program a child starts, so its own is read first.
    """
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    own = [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")]
    unit = 1 if sys.platform == "darwin" else 1024
    return own[0] if own else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def train(kind: str, X: Any, y: Any) -> None:
    """Bin and train, with libraries loaded only now."""
    import lightgbm

    params = {"objective": "binary", "max_depth": 6, "num_leaves": 64, "num_threads": 2, "verbosity": -1}
    if kind == "stock":
        dataset = lightgbm.Dataset(X, y, params={"max_bin": 32, "num_threads": 2, "verbosity": -1})
        lightgbm.train(params, dataset, N_TREES)
        return
    import lgb_dp

    dataset = lgb_dp.Dataset(X, y, bounds=(0, 1))
    trainer = lgb_dp.SequentialBoost(1.0) if kind == "sequential" else lgb_dp.DPBoost(1.0)
    lightgbm.train(params, dataset, N_TREES, callbacks=[trainer])


def main() -> None:
    """Print the bytes as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("private", "sequential", "stock"))
    parser.add_argument("rows", type=int)
    parser.add_argument("features", type=int)
    options = parser.parse_args()
    random = np.random.default_rng(0)
    X = random.random((options.rows, options.features), dtype=np.float32)
    y = (X[:, 0] > 0.5).astype(np.float64)
    before = resident()
    train(options.kind, X, y)
    print(json.dumps({"input": X.nbytes + y.nbytes, "over_input": peak() - before}))


if __name__ == "__main__":
    main()
