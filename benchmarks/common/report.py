"""Tables, JSON files and plots of the benchmarks, and what is known of the machine."""

from __future__ import annotations

import csv
import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import lightgbm
import numba
import numpy as np
import scipy
import sklearn
from llvmlite.binding import get_host_cpu_features
from tqdm import tqdm

import lgb_dp
from gbdt_parties.traffic import Traffic

_INSTRUCTION_SETS = ("sse4.2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vbmi", "avx512ifma", "sve")
BUSY = 1.0
"""Load average from which the machine counts as busy."""


def bytes_from(traffic: Traffic, sender: str) -> int:
    """Bytes that left a party."""
    return sum(flow.bytes for (name, *_), flow in traffic.flows.items() if name == sender)


def yield_when_busy() -> None:
    """Start the program anew with sleeping OpenMP threads if other programs keep the processors busy.

    LightGBM's OpenMP threads wait for one another by spinning.  Beside another busy program that makes it
    slower by factors of 3 to 100, and every comparison with it worthless.
    """
    if load_average() > BUSY and "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "passive"
        os.execv(sys.executable, [sys.executable, *sys.argv])


def load_average() -> float:
    """Programs wanting a processor, mean of the last minute; 0 where the system does not say."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def machine(n_threads: int) -> dict[str, Any]:
    """Versions, processor and load: what a figure depends on."""
    libraries = {m.__name__: m.__version__ for m in (lgb_dp, lightgbm, numba, np, scipy, sklearn)}
    return {
        "python": platform.python_version(),
        "libraries": libraries,
        "processor": _processor(),
        "instruction_sets": [name for name in _INSTRUCTION_SETS if get_host_cpu_features().get(name)],
        "kernels_compiled_for": numba.config.CPU_NAME or "this processor",
        "processors": os.cpu_count(),
        "threads": n_threads,
        "load_average": load_average(),
        "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY", "default"),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor()


def say(line: str = "") -> None:
    """Print a line without tearing the progress bar."""
    tqdm.write(line, file=sys.stdout)


class _Copied:
    """A stream whose text also goes to a file."""

    def __init__(self, stream: Any, file: Any) -> None:
        self._streams = stream, file

    def write(self, text: str) -> int:
        return max(stream.write(text) for stream in self._streams)

    def flush(self) -> None:
        for stream in self._streams:
            stream.flush()


@contextmanager
def copied_to(path: Path) -> Iterator[None]:
    """Write whatever is printed meanwhile to a file too, which a page of the documentation includes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", buffering=1, encoding="utf-8") as file, redirect_stdout(_Copied(sys.stdout, file)):
        yield


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows under columns, the first column to the left and the others to the right."""
    cells = [[_text(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    say(f"\n{title}")
    for n, row in enumerate(cells):
        first, *others = (
            c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        )
        say("  ".join([first, *others]).rstrip())
        if n == 0:
            say("  ".join("-" * w for w in widths))


def _text(cell: Any) -> str:
    if cell is None:
        return "-"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Write results, making the folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, default=float) + "\n")
    say(f"\nwritten: {path}")


def write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Write a table as a file that a page of the documentation includes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, lineterminator="\n").writerows([columns, *rows])
    say(f"\nwritten: {path}")


def pyplot() -> Any:
    """matplotlib.pyplot drawing to files, None where matplotlib is missing."""
    try:
        import matplotlib
    except ImportError:
        return None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def save_panels(
    path: Path, panels: dict[str, dict[str, Any]], x_label: str, y_labels: dict[str, str]
) -> None:
    """Save one small plot per data set, one line per method.

    Parameters
    ----------
    path : Path
        PNG file.
    panels : dict
        Data set to {method: (x, y, standard deviation or None)}.
    x_label : str
    y_labels : dict
        Data set to label of its y axis, logarithmic if it ends with "(log)".
    """
    plt = pyplot()
    if plt is None or not panels:
        return
    n_columns = min(4, len(panels))
    n_rows = -(-len(panels) // n_columns)
    figure, axes = plt.subplots(n_rows, n_columns, figsize=(4 * n_columns, 3.2 * n_rows + 0.5), squeeze=False)
    # A method keeps its color in panels that lack others.
    colors = {
        method: f"C{k}" for k, method in enumerate(dict.fromkeys(m for p in panels.values() for m in p))
    }
    style: dict[str, Any] = {"marker": "o", "markersize": 3, "capsize": 2, "linewidth": 1.2}
    for axis, (name, lines) in zip(axes.flat, panels.items(), strict=False):
        for method, (x, y, sd) in lines.items():
            axis.errorbar(x, y, yerr=sd, label=method, color=colors[method], **style)
        axis.set(title=name, xlabel=x_label, ylabel=y_labels[name])
        axis.set_yscale("log" if y_labels[name].endswith("(log)") else "linear")
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    handles = {
        label: handle
        for axis in axes.flat
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    n_beside = max(2, int(2.2 * n_columns))
    figure.legend(handles.values(), handles, loc="lower center", ncols=n_beside, frameon=False)
    below = 0.1 + 0.2 * -(-len(handles) // n_beside)
    figure.tight_layout(rect=(0, below / figure.get_figheight(), 1, 1))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    tqdm.write(f"written: {path}", file=sys.stderr)
