"""Runs of parties under one seeded scheduler, as ``make simulate`` plays them."""

import argparse
import logging
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "support")]

from simulated_modes import MODES  # noqa: E402
from simulated_world import NAMED, Violation, World  # noqa: E402

IN_MEMORY = Path("/dev/shm")


def simulated(seed, *, only=None):
    """Carry out the run of a seed; what came of it, and the trace of all that happened.

    A Violation names the promise that was not kept, the seed and the trace.
    """
    modes = MODES if only is None else [mode for mode in MODES if mode.name == only]
    mode_of = modes[seed % len(modes)]
    if hasattr(mode_of, "reference") and not mode_of.reference:
        mode_of.reference.update(played(mode_of, 0, is_calm=True)[1])
    return played(mode_of, seed)[0]


def played(mode_of, seed, *, is_calm=False):
    folder = Path(tempfile.mkdtemp(dir=IN_MEMORY if IN_MEMORY.exists() else None))
    world = World(seed, folder, is_calm)
    try:
        with world.going_on(f"seed {seed}"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mode = mode_of(world)
            with mode.watched():
                try:
                    result = mode.play()
                except NAMED as error:
                    result = error
                mode.check(result)
        outcome = "refused" if isinstance(result, Exception) else "finished"
        return (mode.name, outcome, world.trace), getattr(mode, "reference", {})
    except Exception as error:
        line = f"make simulate FIRST={seed} SEEDS=1"
        raise Violation(f"{mode_of.name}: {error!r}\n  {world.trace}\n  {line}") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    """Carry out many seeds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    given = parser.parse_args()
    logging.disable()
    counts, begun, failed = Counter(), time.perf_counter(), 0
    for seed in range(given.first, given.first + given.seeds):
        try:
            mode, outcome, trace = simulated(seed)
        except Violation as violation:
            failed += 1
            print(f"seed {seed}: {violation}", flush=True)
            continue
        if given.seeds == 1:
            print(*trace, sep="\n")
        counts[mode, outcome] += 1
    for (mode, outcome), n in sorted(counts.items()):
        print(f"{mode:12} {outcome:10} {n}")
    seconds = time.perf_counter() - begun
    print(f"{given.seeds} seeds, {failed} failed, {given.seeds / seconds:.1f} a second")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
