"""Machine code on disk: known before and after the first call, and never out of date."""

import importlib
import os
import pkgutil
import subprocess
import sys

import gbdt_kernels
import pytest
from numba.core.registry import CPUDispatcher

SCRIPT = """
import numpy as np
from gbdt_kernels.compilation import arithmetic_compiled_on_this_machine, compiled_on_this_machine
from gbdt_kernels.trees import BinLayout, DenseCodes, level_histograms
from gbdt_kernels.residues.modular import Modulus, chain_products
before = compiled_on_this_machine(), arithmetic_compiled_on_this_machine()
modulus = Modulus(101)
chain_products(modulus.one, np.zeros(2, int), np.array([0, 2]), modulus)
layout = BinLayout(np.array([1]), np.array([False]), np.zeros((0, 2), bool))
one = np.ones(1, dtype=np.int32)
level_histograms(DenseCodes(np.zeros((1, 1), np.uint8)), 0 * one, np.array([0, 1]), one, one, layout)
print(*before, compiled_on_this_machine(), arithmetic_compiled_on_this_machine())
"""


def test_compiled_only_after_the_first_call(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", SCRIPT]
    for expected in ("False False True True", "True True True True"):
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, check=True
        )
        assert result.stdout.split() == expected.split()


@pytest.mark.parametrize(
    "name", [module.name for module in pkgutil.walk_packages(gbdt_kernels.__path__, "gbdt_kernels.")]
)
def test_no_cached_kernel_calls_one_of_another_file(name):
    """numba's cache looks at the caller's file only: a change of the callee's would go unnoticed."""
    module = importlib.import_module(name)
    kernels = [value for value in vars(module).values() if isinstance(value, CPUDispatcher)]
    assert {kernel.py_func.__module__ for kernel in kernels} <= {module.__name__}
