"""Alignment of rows: beside private set intersection by openmined-psi in the same run, and over TLS.

    python benchmarks/vertical/alignment.py [--ids 100000] [--peer-ids 5000] [--json out/alignment.json]
    python benchmarks/vertical/alignment.py --quick

Both methods let both parties find out which of their ids are in common, of two sets that share half of their
ids.  ``openmined-psi`` (pip install openmined-psi; it has no wheels for Python 3.14) does so in two
intersections, one for each direction, and has no commitments; if it is not installed, it is named as missing.
Seconds are those of a clock, processor seconds those of all threads.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import xgb_fed
from gbdt_kernels.threads import available_threads
from gbdt_parties import messages
from gbdt_parties.identity.alignment import align
from gbdt_parties.identity.certificates import make_authority, make_certificate
from gbdt_parties.identity.intersector import Intersector

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.report import bytes_from, load_average, machine, print_table, say, write_json
from benchmarks.vertical.bank_process import Bank, write_csv

MIB = 1 << 20
ROUNDS = 3
"""Times that each method runs, in turn; the best is shown."""

PEER = "openmined-psi"


def ids_of(n_ids: int) -> tuple[list[str], list[str]]:
    """Two sets that share half of their ids."""
    ids = [f"customer-{k:09d}" for k in range(n_ids + n_ids // 2)]
    return ids[:n_ids], ids[n_ids - n_ids // 2 :][:n_ids]


class InProcess:
    """A party that answers in this process."""

    name = "bank"

    def __init__(self, ids: list[str]) -> None:
        self._intersector = Intersector(ids, len(ids), self.name)

    def handle(self, request: bytes) -> bytes:
        envelope = messages.read(request)
        answer, _ = self._intersector.answer(envelope.session, envelope.message)
        return messages.write(envelope.session, envelope.sequence, answer)


def ours(own: list[str], theirs: list[str]) -> int:
    return len(align([InProcess(theirs)], own).ids)


def openmined(own: list[str], theirs: list[str]) -> int:
    """Each party finds its ids in common: the active one of all, the passive one of those."""
    common = _intersection(own, theirs)
    return len(_intersection(theirs, common))


def _intersection(asking: list[str], answering: list[str]) -> list[str]:
    import private_set_intersection.python as psi

    client, server = psi.client.CreateWithNewKey(True), psi.server.CreateWithNewKey(True)
    request = client.CreateRequest(asking)
    setup = server.CreateSetupMessage(0.0, len(asking), answering, psi.DataStructure.RAW)
    return [asking[k] for k in client.GetIntersection(setup, server.ProcessRequest(request))]


def measured(method: Callable[[list[str], list[str]], int], n_ids: int) -> dict[str, float]:
    own, theirs = ids_of(n_ids)
    begin, processor = time.perf_counter(), time.process_time()
    assert method(own, theirs) == n_ids // 2
    return {"s": time.perf_counter() - begin, "processor s": time.process_time() - processor}


def beside_the_peer(n_ids: int) -> dict[str, Any]:
    """Both methods in turn, on the same ids."""
    methods = {"veilboost": ours}
    if find_spec("private_set_intersection"):
        methods[PEER] = openmined
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in methods}
    for _ in range(ROUNDS):
        for name, method in methods.items():
            runs[name].append(measured(method, n_ids))
    best = {name: {key: min(one[key] for one in some) for key in some[0]} for name, some in runs.items()}
    peer = best.get(PEER)
    ratios = None if peer is None else {key: best["veilboost"][key] / peer[key] for key in peer}
    rows = [
        [name, one["s"], one["processor s"], 1e3 * one["processor s"] / n_ids] for name, one in best.items()
    ]
    rows += [] if ratios is None else [["ratio", ratios["s"], ratios["processor s"], None]]
    head = ["both parties in one process", "s", "processor s", "processor ms per id of a side"]
    print_table(f"alignment of {n_ids} with {n_ids} ids (best of {ROUNDS})", head, rows)
    if ratios is None:
        say(f"missing: {PEER}, so there is no ratio")
    return {"ids": n_ids, "best": best, "ratio": ratios, "missing": [] if ratios else [PEER]}


def between_processes(n_ids: int) -> dict[str, Any]:
    """Over TLS, the passive party being a process of its own on the same processors."""
    own, theirs = ids_of(n_ids)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_authority(folder)
        for party in ("acme", "bank"):
            make_certificate(folder / party, folder, party, ["127.0.0.1"])
        file = write_csv(folder / "ids.parquet", np.zeros((n_ids, 1), dtype=np.float32), theirs)
        bank = Bank(folder, file, "--id", "id")
        try:
            traffic = xgb_fed.Traffic()
            before = bank.cpu_seconds() + time.process_time()
            begin = time.perf_counter()
            common = align([bank.party], own, traffic)
            seconds = time.perf_counter() - begin
            processor = bank.cpu_seconds() + time.process_time() - before
        finally:
            bank.close()
    result = {
        "ids": n_ids,
        "in common": len(common.ids),
        "s": seconds,
        "processor s": processor,
        "bytes sent per id": bytes_from(traffic, "active") / n_ids,
        "bytes received per id": bytes_from(traffic, "bank") / n_ids,
    }
    print_table("two processes over TLS", list(result), [list(result.values())])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ids", type=int, default=100_000, help="of each party between two processes")
    parser.add_argument("--peer-ids", type=int, default=5_000, help="of each party beside the peer")
    parser.add_argument("--json", type=Path, default=Path("out/alignment.json"))
    parser.add_argument("--quick", action="store_true", help="1000 ids beside the peer, 5000 over TLS")
    args = parser.parse_args()
    n_ids, n_peer = (5_000, 1_000) if args.quick else (args.ids, args.peer_ids)
    threads = available_threads()
    say(str(machine(threads)))
    results = {"beside the peer": beside_the_peer(n_peer), "two processes": between_processes(n_ids)}
    say(f"load average at the end: {load_average():.2f}")
    write_json(args.json, {"machine": machine(threads), **results})


if __name__ == "__main__":
    main()
