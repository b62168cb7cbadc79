"""A passive party on a Dask cluster of this machine against one in the active party's process.

Both train on give_credit in turn, with as many threads: one worker of one thread per processor beside the
active party's process, and two threads of that process.  A ratio is the median over pairs.  The processors'
time of all processes is counted besides, since other programs do not change it much.

    python benchmarks/vertical/dask_party.py [--rows 150000] [--trees 2] [--repeats 3]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import dask.array as da
from distributed import Client, LocalCluster

import xgb_fed
from xgb_fed.dask import DaskParty

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.report import load_average, print_table, say, yield_when_busy
from benchmarks.vertical.bank_process import Made
from benchmarks.vertical.vertical_data import give_credit

PARAMS = {"objective": "binary:logistic", "max_depth": 5, "max_bin": 32, "base_score": 0.5}
SCHEMES = {"OU-2048": xgb_fed.OkamotoUchiyama, "Paillier-2048": xgb_fed.Paillier}


def processor_seconds(client: Client) -> float:
    """What this process and the workers have used so far."""
    return time.process_time() + sum(client.run(time.process_time).values())


def timed(client: Client, data: Any, party: Any, key: Any, n_trees: int) -> tuple[float, float, str]:
    """Seconds and processors' seconds of a training run, and the model without its number."""
    used, start = processor_seconds(client), time.perf_counter()
    model = xgb_fed.train(PARAMS, data, [party], n_trees, cipher=key, verbose_eval=False)
    seconds = time.perf_counter() - start
    return seconds, processor_seconds(client) - used, model.to_json().replace(model.model_id.hex(), "")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--trees", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ciphers", nargs="+", choices=SCHEMES, default=list(SCHEMES))
    options = parser.parse_args()
    yield_when_busy()
    problem = give_credit().rows(slice(0, options.rows))
    data = xgb_fed.ActiveData(problem.active, problem.y)
    local = xgb_fed.LocalParty(problem.passive, "bank")
    cluster = LocalCluster(
        n_workers=options.workers,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address="127.0.0.1:0",
        memory_limit=0,
    )
    chunk = -(-len(problem.y) // (2 * options.workers))
    blocks = da.from_array(problem.passive, chunks=(chunk, problem.passive.shape[1]))
    table = []
    with cluster, Client(cluster) as client, DaskParty(client, blocks, "bank") as bank:
        for name in options.ciphers:
            key = Made(SCHEMES[name](2048))
            timed(client, data, bank, key, 1)  # compiles
            pairs = []
            for _ in range(options.repeats):
                pairs.append([timed(client, data, party, key, options.trees) for party in (local, bank)])
                say(f"{name}: {pairs[-1][0][0]:.2f} s, {pairs[-1][1][0]:.2f} s, load {load_average():.1f}")
            assert len({text for pair in pairs for *_, text in pair}) == 1, "models differ"
            columns = [[one[k] / options.trees for one, _ in pairs] for k in (0, 1)]
            columns += [[many[k] / options.trees for _, many in pairs] for k in (0, 1)]
            ratios = [statistics.median(many[k] / one[k] for one, many in pairs) for k in (0, 1)]
            table.append([name, *map(statistics.median, columns), *ratios])
    head = [
        "cipher",
        "in process s",
        "processors' s",
        "cluster s",
        "processors' s",
        "ratio",
        "of processors'",
    ]
    print_table(f"a tree of depth 5 on {problem.title}, {len(problem.y)} rows", head, table)


if __name__ == "__main__":
    main()
