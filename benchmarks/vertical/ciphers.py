"""Ciphers side by side: phe, raw gmpy2, ours portable, ours vectorised, one thread and two.

    python benchmarks/vertical/ciphers.py            # everything, some minutes
    python benchmarks/vertical/ciphers.py --quick    # 2048-bit keys, fewer rounds, a tenth of the gradients

All variants of an operation run in turn within each round, so that a busy machine slows all of them;
figures are medians over the rounds, in microseconds an item, and ratios are medians of each round's
ratios.  A table is printed; the same numbers go to out/ciphers.json.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import gmpy2
import numpy as np
import phe

from gbdt_kernels import residues
from gbdt_kernels.residues import Modulus
from gbdt_kernels.residues.bin_chains import NO_BIN, bin_chains, bin_counts
from gbdt_kernels.residues.lanes import has_ifma
from gbdt_kernels.residues.paths import PORTABLE_VARIABLE
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.ciphers.paillier import Paillier
from xgb_fed.vertical.passive.histogram import build_histograms
from xgb_fed.vertical.protocol.packing import GHPacking, MultiClassPacking, joined, sums_from_plaintexts

PATHS = ("portable", "ifma") if has_ifma() else ("portable",)
OURS = [(path, n_threads) for path in PATHS for n_threads in (1, 2)]
BEST = f"{PATHS[-1]} x1"


def choose_path(path: str) -> None:
    """Make later calls use one path."""
    os.environ[PORTABLE_VARIABLE] = "1" if path == "portable" else "0"
    residues.arithmetic_path.cache_clear()


SHORTEST_MEASUREMENT = 0.01
"""Seconds; quicker work is repeated, so that changing the path and the caches does not count."""


def seconds(work: Callable[[], Any], repetitions: int = 1) -> float:
    """Time of one call."""
    start = time.perf_counter()
    for _ in range(repetitions):
        work()
    return (time.perf_counter() - start) / repetitions


class Table:
    """Rows of measurements, printed as they come."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self.rows: list[dict[str, Any]] = []

    def measure(self, operation: str, variants: dict[str, tuple[Callable[[], Any], int]], base: str) -> None:
        """Time ``{variant: (work, items)}`` in turn; ratios are against the variant `base`."""
        repetitions = {}
        for name, (work, _) in variants.items():
            work()
            repetitions[name] = max(1, round(SHORTEST_MEASUREMENT / seconds(work)))
        runs: dict[str, list[float]] = {name: [] for name in variants}
        for _ in range(self.rounds):
            for name, (work, items) in variants.items():
                runs[name].append(seconds(work, repetitions[name]) / items * 1e6)
        row = {
            "operation": operation,
            "microseconds": {name: median(times) for name, times in runs.items()},
            "times_faster_than": base,
            "ratios": {
                name: median(b / t for b, t in zip(runs[base], times, strict=True))
                for name, times in runs.items()
            },
        }
        self.rows.append(row)
        cells = [
            f"{name} {us:.4g} us ({row['ratios'][name]:.2f}x)" for name, us in row["microseconds"].items()
        ]
        print(f"{operation:34s} " + "  ".join(cells), flush=True)

    def of(self, operation: str, variant: str) -> float:
        """Microseconds measured before."""
        return next(r["microseconds"][variant] for r in self.rows if r["operation"] == operation)


def on_paths(work: Callable[[int], Any], items: int) -> dict[str, tuple[Callable[[], Any], int]]:
    """Our variants of an operation that takes a number of threads."""

    def variant(path: str, n_threads: int) -> Callable[[], Any]:
        def run() -> None:
            choose_path(path)
            work(n_threads)

        return run

    return {f"{path} x{n}": (variant(path, n), items) for path, n in OURS}


def modular_products(table: Table, bits: int) -> None:
    """``a·b mod n`` on arrays, and histograms of them."""
    value = secrets.randbits(bits) | 1 | 1 << (bits - 1)
    modulus = Modulus(value)
    count = 1024
    pairs = [(secrets.randbelow(value), secrets.randbelow(value)) for _ in range(count)]
    a, b = (residues.encode([pair[k] for pair in pairs], modulus) for k in (0, 1))
    out = np.empty_like(a)
    objects, n = [(gmpy2.mpz(x), gmpy2.mpz(y)) for x, y in pairs], gmpy2.mpz(value)
    variants = {"gmpy2": (lambda: [x * y % n for x, y in objects], len(objects))}
    variants |= on_paths(lambda threads: residues.multiply(a, b, modulus, threads, out), count)
    table.measure(f"product mod {bits} bits", variants, "gmpy2")

    rng = np.random.default_rng(0)
    codes = rng.integers(0, 32, (count, 4)).astype(np.uint8)
    rows, starts, offsets = np.arange(count), np.array([0, count]), 32 * np.arange(5)
    items = 4 * (count - 32)
    complete = np.full((1, 4), NO_BIN)

    def histogram(threads: int) -> Any:
        counts = bin_counts(codes, rows, starts, offsets)
        order, chains = bin_chains(codes, rows, starts, offsets, np.arange(4), counts, complete)
        return residues.chain_products(a, order, chains, modulus, n_threads=threads)

    variants = {}
    for name, (work, _) in on_paths(
        lambda threads: residues.multiply(a, b, modulus, threads, out), 0
    ).items():
        variants[f"products {name}"] = (work, count)
    for name, (work, _) in on_paths(histogram, 0).items():
        variants[f"histogram {name}"] = (work, items)
    table.measure(f"histogram mod {bits} bits", variants, f"products {BEST}")


def paillier(table: Table, bits: int) -> None:
    """Our Paillier against phe and raw gmpy2."""
    stored = Paillier(bits).generate()
    keys = {n: type(stored).from_private_bytes(stored.private_bytes(), n_threads=n) for n in (1, 2)}
    theirs = stored.to_phe()
    public = theirs.public_key
    n, square = gmpy2.mpz(public.n), gmpy2.mpz(public.nsquare)
    count = 512
    plain = [secrets.randbelow(public.n) for _ in range(count)]
    rows = stored.encrypt(plain)
    others = rows[::-1].copy()
    numbers = residues.decode(rows[:32], stored.public.modulus)
    few = plain[:4]

    def raw_gmpy2() -> None:
        for m in few:
            (1 + m * n) * gmpy2.powmod(secrets.randbelow(public.n), n, square) % square

    variants = {"phe": (lambda: [public.raw_encrypt(m) for m in few], 4), "gmpy2": (raw_gmpy2, 4)}
    variants |= on_paths(lambda threads: keys[threads].encrypt(plain), count)
    table.measure(f"Paillier-{bits} encrypt", variants, "phe")

    p, q = (gmpy2.mpz(x) for x in (theirs.p, theirs.q))
    variants = {
        "phe": (lambda: [theirs.raw_decrypt(c) for c in numbers[:8]], 8),
        "gmpy2": (
            lambda: [(gmpy2.powmod(c, p - 1, p * p), gmpy2.powmod(c, q - 1, q * q)) for c in numbers[:8]],
            8,
        ),
    }
    variants |= on_paths(lambda threads: keys[threads].decrypt(rows[:128]), 128)
    table.measure(f"Paillier-{bits} decrypt", variants, "phe")

    encrypted = [phe.EncryptedNumber(public, c) for c in numbers]
    objects = [gmpy2.mpz(c) for c in numbers]
    variants = {
        "phe": (lambda: [x + y for x in encrypted[:8] for y in encrypted], 8 * 32),
        "gmpy2": (lambda: [x * y % square for x in objects[:8] for y in objects], 8 * 32),
    }
    variants |= on_paths(lambda threads: keys[threads].public.add(rows, others), count)
    table.measure(f"Paillier-{bits} add", variants, "gmpy2")
    table.measure(
        f"Paillier-{bits} rerandomise",
        {"phe": (lambda: [public.get_random_lt_n() and public.raw_encrypt(0) for _ in few], 4)}
        | on_paths(lambda threads: keys[threads].public.rerandomise(rows[:16]), 16),
        "phe",
    )


def okamoto_uchiyama(table: Table, bits: int) -> None:
    """Okamoto–Uchiyama against our Paillier of the same key length."""
    stored = OkamotoUchiyama(bits).generate()
    keys = {n: type(stored).from_private_bytes(stored.private_bytes(), n_threads=n) for n in (1, 2)}
    rival = Paillier(bits, n_threads=1).generate()
    count = 1024
    plain = [secrets.randbelow(stored.public.plaintext_limit) for _ in range(count)]
    rows, rival_rows = stored.encrypt(plain), rival.encrypt(plain)
    others, rival_others = rows[::-1].copy(), rival_rows[::-1].copy()

    def against(work: Callable[[], Any], items: int) -> dict[str, tuple[Callable[[], Any], int]]:
        def run() -> None:
            choose_path(PATHS[-1])
            work()

        return {f"Paillier {BEST}": (run, items)}

    base = f"Paillier {BEST}"
    table.measure(
        f"OU-{bits} encrypt",
        against(lambda: rival.encrypt(plain[:512]), 512)
        | on_paths(lambda threads: keys[threads].encrypt(plain), count),
        base,
    )
    table.measure(
        f"OU-{bits} decrypt",
        against(lambda: rival.decrypt(rival_rows[:128]), 128)
        | on_paths(lambda threads: keys[threads].decrypt(rows[:256]), 256),
        base,
    )
    table.measure(
        f"OU-{bits} add",
        against(lambda: rival.public.add(rival_rows, rival_others), count)
        | on_paths(lambda threads: keys[threads].public.add(rows, others), count),
        base,
    )
    table.measure(
        f"OU-{bits} rerandomise",
        against(lambda: rival.public.rerandomise(rival_rows[:16]), 16)
        | on_paths(lambda threads: keys[threads].public.rerandomise(rows[:16]), 16),
        base,
    )


def whole_life(scheme: Any, n_rows: int, n_features: int = 10, n_bins: int = 32) -> dict[str, Any]:
    """Packed gradients from encryption to decrypted split statistics, on all processors."""
    choose_path(PATHS[-1])
    rng = np.random.default_rng(0)
    key = scheme.generate()
    public = key.public
    g, h = rng.uniform(-1, 1, n_rows), rng.uniform(0, 0.25, n_rows)
    codes = rng.integers(0, n_bins, (n_rows, n_features)).astype(np.uint8)
    rows, starts, offsets = np.arange(n_rows), np.array([0, n_rows]), n_bins * np.arange(n_features + 1)
    packing = GHPacking(n_rows, h_max=0.25)
    of_one_class = MultiClassPacking(packing, 1, public.plaintext_limit)
    counts = np.concatenate([np.bincount(column, minlength=n_bins) for column in codes.T])
    per = packing.per_ciphertext(public.plaintext_limit)
    stages: dict[str, float] = {}

    def stage(name: str, work: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = work()
        stages[name] = time.perf_counter() - start
        return result

    plaintexts = stage("pack", lambda: of_one_class.encode(g[:, None], h[:, None])[0])
    ciphertexts = stage("encrypt", lambda: key.encrypt(plaintexts))
    sent = stage("to bytes", lambda: public.to_bytes(ciphertexts))
    received = stage("from bytes", lambda: public.from_bytes(sent))
    built = stage("histogram", lambda: build_histograms(public, [received], codes, rows, starts, offsets))
    histogram = built.sums[0][0]
    half = stage("subtract", lambda: public.subtract(histogram, histogram[::-1]))
    packed = stage("compress", lambda: public.compress(histogram, packing.bits, per))
    fresh = stage("rerandomise", lambda: public.rerandomise(packed))
    values = stage("decrypt", lambda: key.decrypt(fresh))
    sums = stage("unpack", lambda: sums_from_plaintexts(of_one_class, [values], per, counts))
    total = np.ldexp(joined(sums[0])[0], -packing.precision).reshape(n_features, n_bins).sum(axis=1)
    assert np.allclose(total, g.sum()), "the decrypted histogram is wrong"
    assert half.shape == histogram.shape
    name = f"{type(scheme).__name__}-{scheme.key_length}"
    sizes = {"sent bytes": len(sent), "returned bytes": len(public.to_bytes(fresh)), "per ciphertext": per}
    print(f"\nwhole life, {name}, {n_rows} rows x {n_features} features x {n_bins} bins, all processors")
    for what, time_taken in stages.items():
        print(f"  {what:12s} {time_taken:9.4f} s")
    print(f"  {'sum':12s} {sum(stages.values()):9.4f} s   {sizes}", flush=True)
    return {"scheme": name, "rows": n_rows, "seconds": stages, **sizes}


def main() -> None:
    """Run everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("out"))
    arguments = parser.parse_args()
    table = Table(rounds=5 if arguments.quick else 11)
    sizes = [2048] if arguments.quick else [2048, 3072]
    print(f"paths: {', '.join(PATHS)}; {os.cpu_count()} processors; times faster than the base in brackets")
    for bits in (2048, 4096, 6144):
        modular_products(table, bits)
    for bits in sizes:
        paillier(table, bits)
    for bits in sizes:
        okamoto_uchiyama(table, bits)
    n_rows = 10_000 if arguments.quick else 100_000
    lives = [whole_life(scheme(bits), n_rows) for bits in sizes for scheme in (Paillier, OkamotoUchiyama)]
    bytes_each = {
        f"{scheme.__name__}-{bits}": 8 * scheme(bits).generate().public.modulus.width
        for bits in sizes
        for scheme in (Paillier, OkamotoUchiyama)
    }
    print(f"\nbytes a ciphertext: {bytes_each}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    path = arguments.out / "ciphers.json"
    path.write_text(json.dumps({"table": table.rows, "lives": lives, "bytes": bytes_each}, indent=1) + "\n")
    print(f"written to {path}")


if __name__ == "__main__":
    main()
