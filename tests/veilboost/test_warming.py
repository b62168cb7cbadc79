"""``veilboost warm``: after it, a first fit compiles nothing."""

import importlib
import re
import subprocess
import sys

import pytest

from gbdt_kernels import compilation
from gbdt_kernels.residues.paths import arithmetic_path
from lgb_dp.newton.releases import leaf_sums
from lgb_dp.newton.splits import distilled as distilled_splits
from veilboost import command_line as cli
from veilboost import warming

FITS = {
    "newton": """
X = np.random.default_rng(1).normal(size=(900, 5)).clip(-3, 3)
data = lgb_dp.Dataset(X, label=X[:, 0] > 0, bounds=(-3, 3), max_bin=255, spacing="mixed")
params = {"objective": "binary", "verbosity": -1}
booster = lightgbm.train(params, data, 30, callbacks=[lgb_dp.NewtonBoost(epsilon=1.0, delta=1e-5)])
booster.predict(X)
""",
    "newton, many rows": """
X = np.random.default_rng(1).normal(size=(20_000, 6)).clip(-3, 3)
for features in (X, scipy.sparse.csr_matrix(np.where(X > 1, X, 0))):
    data = lgb_dp.Dataset(features, label=X[:, 0] > 0, bounds=(-3, 3), max_bin=255)
    params = {"objective": "binary", "verbosity": -1, "max_depth": 9, "num_leaves": 512}
    booster = lightgbm.train(params, data, 30, callbacks=[lgb_dp.NewtonBoost(epsilon=20.0, delta=1e-5)])
    booster.predict(X)
""",
    "dpboost": """
X = np.random.default_rng(1).normal(size=(900, 5)).clip(-3, 3)
data = lgb_dp.Dataset(X, label=X[:, 0] > 0, bounds=(-3, 3))
params = {"objective": "binary", "verbosity": -1}
lightgbm.train(params, data, 5, callbacks=[lgb_dp.DPBoost(epsilon=1.0)])
""",
    "columns": """
X = np.random.default_rng(1).normal(size=(900, 5)).clip(-3, 3)
data = lgb_dp.Dataset(X[:, :2], label=X[:, 0] > 0, bounds=(-3, 3), max_bin=255, spacing="mixed")
party = lgb_dp.vertical.ColumnParty(X[:, 2:], name="bank", bounds=(-3, 3))
params, newton = {"objective": "binary", "verbosity": -1}, lgb_dp.NewtonBoost(epsilon=1.0, delta=1e-5)
booster = lgb_dp.vertical.train(params, data, 12, parties=[party], callbacks=[newton])
booster.predict(X)
""",
    "vertical": """
X = np.random.default_rng(1).normal(size=(90, 5))
model = xgb_fed.VerticalXGBClassifier(2, max_depth=3, max_bin=32)
model.fit(X[:, :2], X[:, 0] + X[:, 3] > 0, parties=[xgb_fed.LocalParty(X[:, 2:], "bank")])
""",
    "exact": """
X = np.random.default_rng(1).normal(size=(300, 5))
parts = [(X[k::3], (X[k::3, 0] > 0).astype(int)) for k in range(3)]
xgb_fed.HorizontalXGBClassifier(2, max_depth=3).fit(parties=parts)
""",
}
"""Fits as a user writes them, on other sizes than `warming` does, by the part that they belong to."""
FRESH = """
import sys, warnings
import lightgbm, numpy as np, scipy.sparse
import lgb_dp, lgb_dp.vertical, xgb_fed
from gbdt_kernels.compilation import recording_compilation
from veilboost.warming import warm
warnings.simplefilter("ignore")
part, fit = sys.argv[1:]
names = []
if fit:
    with recording_compilation() as names:
        exec(fit)
else:
    with recording_compilation() as names:
        assert warm(part)
print(*sorted(set(names)), sep="\\n")
"""


def compiled_in_a_process(folder, part, fit):
    """Functions that numba compiled, from a cache in a folder that nothing else uses."""
    command = [sys.executable, "-c", FRESH, part, fit]
    variables = {**compilation.os.environ, "NUMBA_CACHE_DIR": str(folder)}
    ran = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, ran.stderr
    # So says a cache that cannot be written or read; kernels would be compiled by the fit, too.
    assert not re.search("compiled anew|cannot be kept", ran.stderr), ran.stderr
    return ran.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize("fit", FITS)
def test_after_warming_a_first_fit_compiles_nothing(tmp_path, fit):
    part = fit.partition(",")[0]
    folder = tmp_path / "kernels"
    folder.mkdir(mode=0o700)
    compiled = compiled_in_a_process(folder, part, "")
    assert any(name.startswith("gbdt_kernels.") for name in compiled)
    # Numba compiles the texts of its own errors where an array is assigned to a slice: a loop costs nothing.
    assert [name for name in compiled if name.startswith("numba.cpython.unicode")] == []
    assert compiled_in_a_process(folder, part, FITS[fit]) == []


COVERAGE = """
import importlib, pkgutil, warnings
from numba.core.dispatcher import Dispatcher
import gbdt_kernels
from veilboost.warming import PARTS, warm
warnings.simplefilter("ignore")
for part in PARTS:
    warm(part)
for found in pkgutil.walk_packages(gbdt_kernels.__path__, "gbdt_kernels."):
    module = importlib.import_module(found.name)
    kernels = {k: v for k, v in vars(module).items() if isinstance(v, Dispatcher)}
    inner = {name for kernel in kernels.values() for name in kernel.py_func.__code__.co_names}
    for name, kernel in kernels.items():
        if name not in inner and kernel.py_func.__module__ == found.name and not kernel.signatures:
            print(f"{found.name}.{name}")
"""


@pytest.mark.slow
def test_warming_calls_every_kernel_that_a_fit_may_call():
    """Also those that depend on the rows or on what is drawn; explanations are no fits."""
    command = [sys.executable, "-c", COVERAGE]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert ran.returncode == 0, ran.stderr
    other_path = "gbdt_kernels.residues.montgomery" + ("_ifma" if arithmetic_path() == "portable" else "")
    missed = [name for name in ran.stdout.split() if name.rpartition(".")[0] != other_path]
    assert [name for name in missed if not name.startswith("gbdt_kernels.trees.contributions.")] == []


def test_warming_takes_the_branches_that_many_rows_take(monkeypatch):
    """Released histograms, structures fitted to them, and rows held out, of dense and of sparse columns."""
    called = []

    def recorded(module, name):
        function = getattr(module, name)

        def record(*args, **kwargs):
            called.append((name, type(args[0]).__name__))
            return function(*args, **kwargs)

        monkeypatch.setattr(module, name, record)

    recorded(leaf_sums, "feature_counts")
    recorded(leaf_sums, "row_tags")
    recorded(distilled_splits, "grow_structure")
    warming.warm("newton")
    both = {
        (name, kind) for name in ("feature_counts", "row_tags") for kind in ("DenseColumns", "SparseColumns")
    }
    assert both <= set(called)
    assert "grow_structure" in {name for name, _ in called}


def test_parts_are_trained_once_each(monkeypatch, capsys):
    trained = []
    monkeypatch.setattr(warming, "PARTS", {name: lambda name=name: trained.append(name) for name in "abc"})
    assert cli.main(["warm"]) == cli.OK
    assert cli.main(["warm", "b"]) == cli.OK
    assert trained == ["a", "b", "c", "b"]
    assert "b: 0 kernels compiled" in capsys.readouterr().out


def test_a_part_that_does_not_exist_is_refused(capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["warm", "forest"])
    assert caught.value.code == cli.WRONG_USE
    assert "there is no part 'forest'; there are newton, dpboost" in capsys.readouterr().err


def test_warming_in_vain_fails(monkeypatch, caplog):
    monkeypatch.setattr(warming, "cache_directory", lambda folder: None)
    assert cli.main(["warm", "newton"]) == cli.FAILED


def test_a_compiled_kernel_is_recorded(tmp_path, monkeypatch):
    """In a module of each run: a kernel of this file would be in the cache from the second run on."""
    (tmp_path / "tripled.py").write_text(
        "from gbdt_kernels import compilation\n\n\n@compilation.kernel\ndef triple(x):\n    return 3 * x\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("tripled")
    with compilation.recording_compilation() as names:
        assert module.triple(2) == 6
    assert [name for name in names if name.endswith("triple")]
