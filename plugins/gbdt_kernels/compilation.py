"""Whether the kernels were compiled on this machine before."""

from __future__ import annotations

from pathlib import Path

from gbdt_kernels import histogram


def compiled_on_this_machine() -> bool:
    """Whether the kernels' machine code is on disk already (the histogram stands for all)."""
    kernel = histogram._accumulate_dense
    folder = Path(kernel.stats.cache_path)
    return any(folder.glob(f"histogram.{kernel.py_func.__name__}-*.nbi"))
