"""Private training with columns apart over TLS and links: a server of its own, and a relay as a slow link.

The party with columns alone is a process of its own, behind the package's server and certificates.  The last
flight of the round before is answered with choices, choices with nothing, and masked tables of some rows with
their corrections.  Requests do not wait for the answer to the one before, so that the link must take the
bytes of its busier direction over the bandwidth, and two round trips for each round.
"""

from __future__ import annotations

import math
import multiprocessing
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import numpy as np

import lgb_dp
from benchmarks.common.report import print_table, say
from benchmarks.common.slow_link import SlowLink
from gbdt_parties.identity.certificates import TLS, make_authority, make_certificate
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import Server
from lgb_dp.vertical import ColumnLimits, ColumnParty, ColumnService
from lgb_dp.vertical.train import TREES_PER_ROUND

BUDGET = (100.0, 1e-4)
"""Of all runs on made-up rows."""

SECONDS = 0.45
"""To reach for a tree of 50,000 rows at 100 Mbit/s and 40 ms."""


@dataclass(frozen=True)
class Link:
    """Each direction's bandwidth in 10^6 bits per second, and the time of a round trip in milliseconds."""

    name: str
    mbit: float = math.inf
    round_trip_ms: float = 0.0


LINKS = (
    Link("TLS, no link"),
    Link("1 Gbit/s, 10 ms", 1000, 10),
    Link("100 Mbit/s, 40 ms", 100, 40),
    Link("50 Mbit/s, 40 ms", 50, 40),
    Link("10 Mbit/s, 100 ms", 10, 100),
)


def serve(folder: Path, X: Any, caller: str, way: Connection) -> None:
    """The other party's process: says its port, and its processor time whenever it is asked."""
    tls = TLS.from_directory(folder / "bank")
    party = ColumnParty(
        X, name="bank", bounds=(-1, 1), folder=folder / "kept", budget=BUDGET, tls=tls, allowed=[caller]
    )
    service = ColumnService(party, folder / "kept", ColumnLimits())
    server = Server(service, "127.0.0.1:0", tls, ["labels"])
    way.send(server.port)
    while way.recv():
        way.send(time.process_time())
    server.stop(grace=0)
    service.close()


def trained(
    params: dict[str, Any], rows: lgb_dp.Dataset, n_trees: int, party: Any, delta: float, **deployment: Any
) -> lgb_dp.vertical.MaskedTraffic:
    """The traffic of a private training run with one other party, at ε = 1."""
    traffic = lgb_dp.vertical.MaskedTraffic()
    trainer = lgb_dp.NewtonBoost(1.0, delta)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", lgb_dp.NotPrivateWarning)
        lgb_dp.vertical.train(
            params, rows, n_trees, parties=[party], callbacks=[trainer], traffic=traffic, **deployment
        )
    return traffic


class Watched:
    """The other party, with the time in which requests are under way."""

    def __init__(self, party: RemoteParty) -> None:
        self._party, self.name, self.takes_parts = party, party.name, True
        self.waited, self.n_requests = 0.0, 0
        self._lock, self._begun, self._n_under_way = Lock(), 0.0, 0

    def handle(self, request: Any) -> bytes:
        return self.begin(request)()

    def begin(self, request: Any) -> Callable[[], bytes]:
        wait = self._party.begin(request)
        with self._lock:
            self._begun = self._begun if self._n_under_way else time.perf_counter()
            self._n_under_way += 1
            self.n_requests += 1

        def waited() -> bytes:
            try:
                return wait()
            finally:
                with self._lock:
                    self._n_under_way -= 1
                    if not self._n_under_way:
                        self.waited += time.perf_counter() - self._begun

        return waited


def measured(
    link: Link,
    port: int,
    folder: Path,
    run: Callable[[Any, int], lgb_dp.vertical.MaskedTraffic],
    busy: Callable[[], float],
    trees: tuple[int, int],
) -> dict[str, float]:
    """Figures of a tree over one link, from runs of two lengths."""
    relay = None if math.isinf(link.mbit) else SlowLink(port, link.mbit, link.round_trip_ms / 2)
    own = TLS.from_directory(folder / "labels")
    party = RemoteParty(f"127.0.0.1:{port if relay is None else relay.port}", own, "bank", timeout=60)
    ends = []
    try:
        for n_trees in trees:
            watched = Watched(party)
            begun = time.perf_counter(), busy()
            traffic = run(watched, n_trees)
            spent = time.perf_counter() - begun[0], watched.waited, watched.n_requests, busy() - begun[1]
            ends.append([*spent, traffic.bytes_from("labels"), traffic.bytes_from("bank")])
    finally:
        party.close()
        if relay is not None:
            relay.close()
    n_trees = trees[1] - trees[0]
    seconds, waited, n_requests, processors, there, back = (np.subtract(*ends[::-1]) / n_trees).tolist()
    on_the_link = max(there, back) * 8e-6 / link.mbit + 2 / TREES_PER_ROUND * link.round_trip_ms / 1000
    return {
        "s per tree": seconds,
        "processors' s": processors,
        "requests under way": waited,
        "the link must take": on_the_link,
        "requests per round": n_requests * TREES_PER_ROUND,
        "MB there": there / 1e6,
        "MB back": back / 1e6,
    }


def links_section(
    X: Any, y: Any, params: dict[str, Any], delta: float, trees: tuple[int, int]
) -> list[dict[str, Any]]:
    """One line per link, for the same rows; half of the columns are the other party's."""
    half = X.shape[1] // 2
    rows = lgb_dp.Dataset(X[:, :half], y, bounds=(-1, 1), max_bin=255).construct()
    results = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        make_authority(folder / "ca")
        prints = {
            who: f"sha256:{make_certificate(folder / who, folder / 'ca', who).fingerprint}"
            for who in ("labels", "bank")
        }
        context = multiprocessing.get_context("spawn")
        way, theirs = context.Pipe()
        process = context.Process(target=serve, args=(folder, X[:, half:], prints["labels"], theirs))
        process.start()
        try:
            port = way.recv()

            def busy() -> float:
                way.send(True)
                return time.process_time() + float(way.recv())

            def run(party: Any, n_trees: int) -> lgb_dp.vertical.MaskedTraffic:
                tls, allowed = folder / "labels", [prints["bank"]]
                return trained(params, rows, n_trees, party, delta, tls=tls, allowed=allowed)

            # Compiled code is loaded before anything is timed.
            measured(LINKS[0], port, folder, run, busy, (TREES_PER_ROUND, TREES_PER_ROUND + 1))
            for link in LINKS:
                results.append({"link": link.name, **measured(link, port, folder, run, busy, trees)})
        finally:
            way.send(False)
            process.join()
    title = f"{len(y):,} rows, a process for each party"
    print_table(title, list(results[0]), [list(one.values()) for one in results])
    say(f"to reach at 100 Mbit/s and 40 ms: {SECONDS} s for a tree of 50,000 rows")
    return results
