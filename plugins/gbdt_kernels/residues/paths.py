"""Which of the two implementations of modular arithmetic this process runs on, and whether it is compiled.

`montgomery_ifma` needs AVX-512 IFMA; `montgomery` runs on any vector unit, or if the environment variable
``VEILBOOST_PORTABLE`` is ``1``.  Both give the same bytes.
"""

from __future__ import annotations

import os
from functools import lru_cache
from types import ModuleType

from gbdt_kernels.compilation import is_compiled
from gbdt_kernels.residues import montgomery, montgomery_ifma
from gbdt_kernels.residues.lanes import has_ifma

PORTABLE_VARIABLE = "VEILBOOST_PORTABLE"
"""Environment variable that forces the portable path."""


@lru_cache(maxsize=1)
def arithmetic_path() -> str:
    """``"ifma"`` or ``"portable"``: what the kernels run on, chosen at the first call."""
    portable = os.environ.get(PORTABLE_VARIABLE, "0") not in ("", "0")
    return "ifma" if has_ifma() and not portable else "portable"


def path_kernels() -> ModuleType:
    """The module of kernels that the path has."""
    return montgomery_ifma if arithmetic_path() == "ifma" else montgomery


def arithmetic_is_compiled() -> bool:
    """Whether the kernels of this process's path need no compilation (`chains` stands for all)."""
    return is_compiled(path_kernels().chains)
