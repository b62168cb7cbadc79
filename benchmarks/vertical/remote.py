"""Two processes over TLS beside one process: a tree, memory of a stream, prediction, SHAP values.

    python benchmarks/vertical/remote.py [--rows 150000] [--trees 2]
                                [--only tree stream predict explain]
    python benchmarks/vertical/remote.py --links [--trees 5] [--json build/links.json]

The passive party is a process of its own (``veilboost serve``) on this machine.  With ``--links`` there are
slow links between the two; see `links`.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import xgboost

import xgb_fed
from gbdt_commons.store_file import StoreFile
from gbdt_parties.identity.certificates import TLS, make_authority, make_certificate
from gbdt_parties.transport.server import Server
from gbdt_parties.transport.service import STORE_FILE, part_of
from xgb_fed.vertical.passive.service import ROLE, KeptSplits

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.common.report import bytes_from, machine, print_table, say, yield_when_busy
from benchmarks.vertical.bank_process import Bank, Made, write_csv
from benchmarks.vertical.links import measure_links
from benchmarks.vertical.vertical_data import give_credit

PARAMS = {"objective": "binary:logistic", "max_depth": 5, "max_bin": 32, "base_score": 0.5}
SECTIONS = ("tree", "stream", "predict", "explain")
STREAM_BYTES = 1 << 30
MESSAGE_BYTES = 8 << 20
MIB = 1 << 20


def tree_times(folder: Path, n_rows: int, n_trees: int) -> None:
    """Time of a tree, in process and over TLS, in turn."""
    problem = give_credit().rows(slice(0, n_rows))
    bank = Bank(folder, write_csv(folder / "bank.parquet", problem.passive))
    local = xgb_fed.LocalParty(problem.passive, "bank")
    data = xgb_fed.ActiveData(problem.active, problem.y)
    rows = []
    before = bank.peak()
    # In ascending order of what a ciphertext takes: the peak is the last scheme's.
    for name, scheme in (("OU-2048", xgb_fed.OkamotoUchiyama), ("Paillier-2048", xgb_fed.Paillier)):
        key = Made(scheme(2048))
        seconds: dict[str, list[float]] = {"local": [], "remote": []}
        for place, party in (("local", local), ("remote", bank.party)) * 2:
            start = time.perf_counter()
            model = xgb_fed.train(PARAMS, data, [party], n_trees, cipher=key, verbose_eval=False)
            seconds[place].append((time.perf_counter() - start) / n_trees)
        depths = sum(
            flow.messages for (_, _, kind), flow in model.traffic.flows.items() if kind == "FindSplits"
        )
        asked = depths + sum(
            flow.messages for (_, _, kind), flow in model.traffic.flows.items() if kind == "SplitNodes"
        )
        best = {place: min(times) for place, times in seconds.items()}
        array = 8 * n_rows * key.generate().public.modulus.width / MIB
        memory = bank.peak() - before - array
        rows.append(
            [name, best["local"], best["remote"], best["remote"] / best["local"], asked / depths, memory]
        )
    bank.close()
    head = ["cipher", "in process s", "over TLS s", "ratio", "round trips a level"]
    head.append("passive MiB above start and ciphertexts")
    print_table(f"a tree of depth 5 on {problem.title}, {n_rows} rows (better of 2)", head, rows)


class Sink:
    """Keeps what comes in one buffer, and gives it back in one answer."""

    def __init__(self) -> None:
        self.kept = np.ones(STREAM_BYTES, dtype=np.uint8)
        self.at = 0
        self.before = _peak()

    def handle(self, caller: Any, row_sets: Any, request: bytes) -> bytes:
        if len(request) == 1:
            return self.kept.data if bytes(request) == b"?" else str(_peak() - self.before).encode()
        self.kept[self.at : self.at + len(request)] = np.frombuffer(request, dtype=np.uint8)
        self.at += len(request)
        return b"ok"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def serve_sink(folder: str) -> None:
    tls = TLS.from_directory(Path(folder) / "bank")
    server = Server(Sink(), "127.0.0.1:0", tls, ["acme"])  # type: ignore[arg-type]
    print(server.port, flush=True)
    server.wait(600)


def stream_memory(folder: Path) -> None:
    """1 GiB there in messages as training sends them, and back in one."""
    command = [sys.executable, __file__, "--serve-sink", str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    party = xgb_fed.RemoteParty(f"127.0.0.1:{int(process.stdout.readline())}", folder / "acme", "bank", 60)
    piece = np.random.default_rng(0).bytes(MESSAGE_BYTES)
    before, start = _peak(), time.perf_counter()
    for _ in range(STREAM_BYTES // MESSAGE_BYTES):
        party.handle(piece)
    there, sent = time.perf_counter() - start, _peak() - before
    server_above = int(bytes(party.handle(b"!")))
    start = time.perf_counter()
    back = party.handle(b"?")
    seconds, received = time.perf_counter() - start, _peak() - before - len(back)
    both = int(bytes(party.handle(b"!")))
    party.close()
    process.kill()
    process.wait()
    rows = [
        ["there, in messages of 8 MiB", there, 1024 / there, sent / MIB, server_above / MIB],
        ["back, in one message", seconds, 1024 / seconds, received / MIB, both / MIB],
    ]
    head = ["1 GiB", "s", "MiB/s", "caller's MiB above payload", "server's"]
    print_table("streaming over TLS", head, rows)


def prediction(folder: Path, n_rows: int) -> None:
    """25 trees, trained on a part of the rows, predict all."""
    problem = give_credit().rows(slice(0, n_rows))
    bank = Bank(folder, write_csv(folder / "bank.parquet", problem.passive))
    some = np.arange(min(3000, n_rows))
    data = xgb_fed.ActiveData(problem.active[some], problem.y[some], rows=some)
    how: dict[str, Any] = {"cipher": xgb_fed.OkamotoUchiyama(2048), "verbose_eval": False}
    model = xgb_fed.train(PARAMS, data, [bank.party], 25, **how)
    local = xgb_fed.LocalParty(problem.passive, "bank")
    with closing(StoreFile(folder / "bank-models" / STORE_FILE, ROLE, read_only=True)) as store:
        local._splits_by_model[model.model_id] = KeptSplits(part_of(store, "acme"))[model.model_id]
    rows = []
    for name, party in (("in process", local), ("over TLS", bank.party)):
        times = []
        for _ in range(3):
            start = time.perf_counter()
            model.predict(problem.active, [party])
            times.append(time.perf_counter() - start)
        rows.append([name, min(times), max(times)])
    bank.close()
    print_table(f"prediction of {n_rows} rows, 25 trees", ["", "best s", "worst s"], rows)


def explanation(folder: Path, n_rows: int) -> None:
    """SHAP values of 25 trees of depth 6 over TLS, beside those of XGBoost on the pooled columns."""
    problem = give_credit().rows(slice(0, n_rows))
    bank = Bank(
        folder, write_csv(folder / "bank.parquet", problem.passive), "--allow-explanations", "per-feature"
    )
    params = {**PARAMS, "max_depth": 6}
    how: dict[str, Any] = {"cipher": xgb_fed.OkamotoUchiyama(2048), "verbose_eval": False}
    model = xgb_fed.train(params, xgb_fed.ActiveData(problem.active, problem.y), [bank.party], 25, **how)
    matrix = xgboost.QuantileDMatrix(problem.X, label=problem.y, max_bin=PARAMS["max_bin"])
    pooled, matrix = xgboost.train(params, matrix, 25), xgboost.DMatrix(problem.X)
    ours = theirs = np.empty(0)
    rows = []
    for name in ("predict", "predict, paths hidden", "SHAP values", "pooled XGBoost's"):
        traffic = xgb_fed.Traffic()
        times = []
        for _ in range(3):
            start = time.perf_counter()
            if name.startswith("predict"):
                model.predict(problem.active, [bank.party], hide_paths="hidden" in name, traffic=traffic)
            elif name == "SHAP values":
                ours = model.predict(problem.active, [bank.party], pred_contribs=True, traffic=traffic)
            else:
                theirs = pooled.predict(matrix, pred_contribs=True)
            times.append(time.perf_counter() - start)
        rows.append([name, min(times), max(times), bytes_from(traffic, "bank") / 3 / MIB])
    bank.close()
    head = ["", "best s", "worst s", "MiB from the bank"]
    print_table(f"explanation of {n_rows} rows of {problem.title}, 25 trees of depth 6", head, rows)
    scale = np.maximum(1, np.abs(pooled.predict(matrix, output_margin=True)))[:, None]
    worst = float(np.max(np.abs(ours - theirs) / scale))
    say(f"largest difference of contributions, relative to max(1, |margin|): {worst:.2g}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=150_000)
    parser.add_argument("--trees", type=int, help="2 by default, 5 with --links")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS)
    parser.add_argument("--links", action="store_true", help="time of 100 trees over slow links, and no more")
    parser.add_argument("--json", type=Path, help="where to write the figures of --links")
    parser.add_argument("--serve-sink", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve_sink:
        serve_sink(args.serve_sink)
        return
    yield_when_busy()
    say(str(machine(2)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_authority(folder / "ca")
        for who in ("acme", "bank"):
            make_certificate(folder / who, folder / "ca", who)
        if args.links:
            measure_links(folder, 5 if args.trees is None else args.trees, args.json)
            return
        if "stream" in args.only:
            stream_memory(folder)
        if "predict" in args.only:
            prediction(folder, args.rows)
        if "explain" in args.only:
            explanation(folder, min(args.rows, 10_000))
        if "tree" in args.only:
            tree_times(folder, args.rows, 2 if args.trees is None else args.trees)


if __name__ == "__main__":
    main()
