"""Whether the kernels were compiled on this machine before."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def _on_disk(kernel: Any) -> bool:
    name = f"{Path(kernel.py_func.__code__.co_filename).stem}.{kernel.py_func.__name__}"
    return any(Path(kernel.stats.cache_path).glob(f"{name}-*.nbi"))


def compiled_on_this_machine() -> bool:
    """Whether the kernels of plain data are on disk as machine code (the histogram stands for all)."""
    from gbdt_kernels.trees import histogram

    return _on_disk(histogram._accumulate_dense)


def arithmetic_compiled_on_this_machine() -> bool:
    """Whether those of modular arithmetic are (products of chains stand for all)."""
    from gbdt_kernels.residues import modular  # whoever asks about trees need not load it

    return _on_disk(modular.path_kernels().chains)
