"""The command ``estimate``: how long a training run takes over a line, from bytes, round trips and work.

Bytes follow from the messages, as upper bounds for trees whose nodes are all there; a test compares them with
runs.  Processor time is that of ``docs/experiments/vertical.md`` and ``docs/horizontal-exact.md``.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from veilboost.parsers import Parser
from veilboost.plans.entries import PlanError

PLAINTEXT_BITS = {"okamoto-uchiyama": 1 / 3, "paillier": 1.0}
CIPHERTEXT_BITS = {"okamoto-uchiyama": 1, "paillier": 2}
GRADIENT_BITS = {"okamoto-uchiyama": 0.72, "paillier": 2}
"""Shares and multiples of the key's length; ciphertexts of gradients may be sent in short form."""

WORK = {"okamoto-uchiyama": 1.0, "paillier": 5.0}
"""Processor time of all of a tree, by Okamoto–Uchiyama's (give_credit in ``vertical-seconds.csv``)."""

BITS_OF_A_BIN = 155
"""Of packed sums of gradients and hessians: 4 fit into a plaintext of Okamoto–Uchiyama with 2048 bits."""

ENCRYPT, ADD, COMPRESS, OPEN = 18e-6, 0.3e-6, 33e-6, (665 + 115) * 1e-6
"""Seconds with 2048 bits, AVX-512 IFMA: a row; a row and column; a bin; a ciphertext of bins."""

GRADIENTS_AT_ONCE = 8 << 20
"""Bytes of a message of gradients."""

SUM = 0.3 / 17 / 3
"""Processor seconds of a party for a sum over TLS: three servers took 0.3 s for a round of 17 sums."""

CELL = 0.04e-6
"""Processor seconds of a party for a value and a tree, from the table of exact training."""

SET_UP_TRIPS = 16
"""Round trips of a run of secure sums before its first tree."""

SUM_BYTES = 120
"""Beside the numbers in a party's answer: its signature, and the header."""


class Load(NamedTuple):
    """Bytes, round trips and work of the run's initiator, whose line is the busiest.

    There are `once` bytes before the first tree, sent and received, and `each` per tree; round trips that
    follow each other likewise; and `work`, seconds per tree on one processor.
    """

    once: float
    each: float
    trips_once: float
    trips_each: float
    work: float

    def seconds(self, trees: int, mbit: float, latency: float) -> tuple[float, float, float]:
        """Seconds for bytes, round trips and work.

        `mbit` is the bandwidth in each direction, in 10⁶ bits per second, and `latency` the seconds that a
        message takes one way.
        """
        sent = (self.once + trees * self.each) * 8 / (mbit * 1e6)
        return sent, (self.trips_once + trees * self.trips_each) * 2 * latency, trees * self.work


class RunSize(NamedTuple):
    """The size of a training run.

    In vertical training, `rows` are those in common, and `columns` the other parties'; else all rows, and the
    columns of every party. A tree is grown on the share `sampled` of the rows.
    """

    rows: int
    columns: int
    depth: int = 6
    bins: int = 256
    parties: int = 2
    sampled: float = 1.0
    cipher: str = "paillier"
    key_length: int = 2048


def vertical(run: RunSize) -> Load:
    """Training with columns apart: a ciphertext per row, packed sums of bins, and sides of rows.

    Of every split one child's sums are sent, so that a tree needs those of 2^(depth - 1) nodes.
    """
    rows = run.rows * run.sampled
    ciphertext = run.key_length * CIPHERTEXT_BITS[run.cipher] / 8
    packed = max(1, int(run.key_length * PLAINTEXT_BITS[run.cipher]) // BITS_OF_A_BIN)
    gradients = rows * run.key_length * GRADIENT_BITS[run.cipher] / 8
    sums = run.columns * run.bins * 2.0 ** (run.depth - 1)
    others = run.parties - 1
    statistics = sums * (ciphertext / packed + 4)
    sides = others * run.depth * rows / 8
    # Half of a node's rows, at most, are in the child whose sums are computed.
    added = rows * run.columns * (1 + (run.depth - 1) / 2)
    work = rows * ENCRYPT + added * ADD + sums * (COMPRESS + OPEN / packed)
    trips = math.ceil(gradients / GRADIENTS_AT_ONCE) + 2 * run.depth + 2
    scale = WORK[run.cipher] * (run.key_length / 2048) ** 2
    return Load(0.0, others * gradients + statistics + sides, 3, trips, work * scale)


def exact(run: RunSize) -> Load:
    """Rows apart, exact: masked histograms of 128-bit numbers, forwarded to all parties.

    Rows cost no bytes.  Cuts are found first, by five digits of four bits for each of them.
    """
    prefixes = sum(min(16**digit, run.bins - 1) for digit in range(5))
    cuts = run.columns * prefixes * 16 * 8 + 10 * SUM_BYTES
    trips = 3 * run.depth - 1
    nodes = 2.0 ** (run.depth - 1)
    answers = nodes * run.columns * run.bins * 32 + 2**run.depth * 16 + trips * SUM_BYTES
    work = trips * SUM + run.rows * run.sampled / run.parties * run.columns * CELL
    return _forwarded(run, cuts, answers, trips, work)


def private(run: RunSize) -> Load:
    """Rows apart, private: noised sums of leaves, and at most one histogram of every column."""
    leaves = 2**run.depth * 16 + SUM_BYTES
    work = SUM + run.rows / run.parties * run.columns * CELL
    return _forwarded(run, run.columns * run.bins * 8 + SUM_BYTES, leaves, 1, work)


def _forwarded(run: RunSize, once: float, each: float, trips: float, work: float) -> Load:
    """The load of a coordinator that is a party: an answer of each other one, and all answers to each."""
    copies = (run.parties - 1) * (1 + run.parties)
    n = run.parties  # keys and ciphertexts of ML-KEM-768 have 1184 and 1088 bytes, their digests 32
    keys = 1184 * (n + 1) + 1088 * (n - 1) + n * (64 + 16 * (n - 1))
    set_up = (n - 1) * (4300.0 + 72 * n + keys)  # with the signatures of the end
    return Load(set_up + copies * once, copies * each, SET_UP_TRIPS, trips, work)


METHODS: dict[str, Callable[[RunSize], Load]] = {"vertical": vertical, "exact": exact, "private": private}
PARTIES = {"vertical": 2, "exact": 3, "private": 3}


DEFAULTS: Mapping[str, Any] = {
    "trees": 100,
    **{name: value for name, value in RunSize._field_defaults.items() if name != "parties"},
}
"""Sizes that neither an option nor a plan says; the number of parties depends on the method."""

_NOT_IN_PLANS = "neither the plan nor a file beside it says how many there are"


def fill(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the command's parser."""
    parser.usage = "veilboost estimate [METHOD | PLAN] --mbit MBIT [--rows ROWS --columns COLUMNS] [options]"
    add = parser.add_argument
    add("of", nargs="?", metavar="METHOD | PLAN", help=f"{', '.join(METHODS)} (all three), or a plan file")
    add("--rows", type=int, help="rows; in vertical training, those in common")
    add("--columns", type=int, help="columns; in vertical training, those of the others")
    add("--mbit", type=float, required=True, help="bandwidth of the initiator's line, in Mbit/s")
    add("--latency", type=float, default=20.0, help="milliseconds one way (%(default)s)")
    add("--trees", type=int, help="trees (100)")
    add("--depth", type=int, help="levels of a tree (6)")
    add("--bins", type=int, help="bins of a column (256)")
    add("--parties", type=int, help="parties, with the initiator (2 in vertical training, else 3)")
    add("--sampled", type=float, help="share of rows per tree (1.0; GOSS 0.3)")
    add("--cipher", choices=WORK, help="of vertical training (paillier)")
    add("--key-length", type=int, help="its bits (2048)")
    parser.runs(_estimate, "veilboost estimate --rows 45000 --columns 8 --mbit 50")


LEAST = {"rows": 1, "columns": 1, "trees": 1, "depth": 1, "bins": 2, "parties": 2, "key_length": 1024}


def _check(sizes: Mapping[str, Any], mbit: float, latency: float) -> None:
    for name, least in LEAST.items():
        value = sizes.get(name, least)
        if not (isinstance(value, int) and least <= value <= 10**12):
            raise PlanError(f"--{name.replace('_', '-')} {value} must be {least} or more, up to 1e12")
    if sizes["depth"] > 30:
        raise PlanError(f"--depth {sizes['depth']} must be 1 to 30")
    if not (0 < mbit <= 1e9 and 0 <= latency <= 1e6 and 0 < sizes["sampled"] <= 1):
        raise PlanError(
            f"--mbit {mbit:g} must be above 0, --latency {latency:g} at least 0, and --sampled "
            f"{sizes['sampled']:g} above 0, up to 1"
        )


def _planned(of: str | None) -> tuple[list[str], dict[str, Any]]:
    """Methods to estimate, and the sizes that a plan says."""
    if of is None or of in METHODS:
        return ([of] if of else list(METHODS)), {}
    # Here, so that an estimate without a plan loads no library of tables.
    from veilboost.plans.plan import read_plan
    from veilboost.plans.sizes import sizes_of

    if not Path(of).is_file():
        raise PlanError(f"{of} is neither a plan file nor one of {', '.join(METHODS)}")
    plan = read_plan(of)
    if plan.method not in METHODS:
        raise PlanError(
            f"{of}: there is no estimate of method={plan.method!r}; there is one of {', '.join(METHODS)}"
        )
    return [plan.method], sizes_of(plan)


def _estimate(args: argparse.Namespace) -> None:
    methods, planned = _planned(args.of)
    asked = {name: getattr(args, name) for name in (*RunSize._fields, "trees")}
    given = {name: value for name, value in asked.items() if value is not None}
    sizes = {**DEFAULTS, **planned, **given}
    for name in ("rows", "columns"):
        if name not in sizes:
            raise PlanError(f"--{name} is missing; {_NOT_IN_PLANS if planned else 'or pass a plan file'}")
    _check(sizes, args.mbit, args.latency)
    if planned:
        print(f"{args.of}: {', '.join(f'{name} {value}' for name, value in sizes.items())}")
    trees = sizes.pop("trees")
    print(f"{'':8}  {'MB once':>9}  {'MB a tree':>9}  {'trips a tree':>12}  {trees} trees")
    for method in methods:
        run = RunSize(**{"parties": PARTIES[method], **sizes})
        load = METHODS[method](run)
        parts = load.seconds(trees, args.mbit, args.latency / 1000)
        shares = ", ".join(
            f"{name} {shown(part)}"
            for name, part in zip(("bytes", "round trips", "processor"), parts, strict=True)
        )
        print(
            f"{method:8}  {load.once / 1e6:>9.3g}  {load.each / 1e6:>9.3g}  {load.trips_each:>12.0f}  "
            f"{shown(sum(parts))} ({shares})"
        )


def shown(seconds: float) -> str:
    """A duration in the unit that a person would use."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
