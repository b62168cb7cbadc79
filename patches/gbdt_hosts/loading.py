"""How a host library is loaded: if it cannot be, the error says what this machine lacks.

LightGBM and XGBoost are compiled with OpenMP, and their wheels do not all bring its runtime along. The
message of the loader of shared libraries then does not name the package to install.
"""

from __future__ import annotations

import platform
import re
from importlib import import_module

from gbdt_commons.errors import VeilboostError

_OPENMP = re.compile(r"lib(?:gomp|omp|iomp5)\b|vcomp\d*\.dll")


class HostLibraryError(VeilboostError, ImportError):
    """LightGBM or XGBoost is installed, but cannot be loaded here or has a version that is not supported."""


def load_host(name: str, at_least: tuple[int, int], below: int) -> None:
    """Import a host library, ``"lightgbm"`` or ``"xgboost"``, for all that import it later.

    Raises `ModuleNotFoundError` if it is not installed. `HostLibraryError` says that its machine code cannot
    be loaded, or that its version is older than `at_least`, major and minor, or of the major version `below`
    or a newer one.
    """
    try:
        module = import_module(name)
    except ImportError:
        raise
    # LightGBM lets the loader's OSError pass, and XGBoost wraps it in a ValueError of its own.
    except Exception as error:
        raise HostLibraryError(_why_not(name, str(error))) from error
    version = str(module.__version__)
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or not at_least <= (int(numbers[1]), int(numbers[2])) < (below, 0):
        oldest = ".".join(map(str, at_least))
        raise HostLibraryError(
            f"{name} {version} is installed, but {oldest} or newer, below {below}, is needed: "
            f"pip install '{name}>={oldest},<{below}'"
        )


def _why_not(name: str, said: str) -> str:
    # XGBoost lists what may be missing anywhere before it quotes the loader.
    said = said.partition("Error message(s):")[2] or said
    if missing := _OPENMP.search(said):
        return (
            f"{name} cannot be loaded because this machine has no OpenMP runtime ({missing[0]}): install it, "
            "for example with 'apt-get install libgomp1' (Debian, Ubuntu), 'dnf install libgomp' (Fedora) or "
            "'brew install libomp' (macOS)"
        )
    first_line = said.strip().partition("\n")[0]
    return (
        f"{name} is installed, but its library cannot be loaded on this machine ({platform.machine()}): "
        f"{first_line}; install the wheel for this machine with 'pip install --force-reinstall {name}'"
    )
