"""Machine code on disk: where it is kept, known before and after the first call, and never out of date."""

import errno
import importlib
import logging
import os
import pickle
import pkgutil
import shutil
import subprocess
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path

import numba
import numpy as np
import pytest
from numba.core.registry import CPUDispatcher

import gbdt_kernels
from gbdt_kernels import compilation
from gbdt_kernels.compilation import (
    announcing_compilation,
    cache_directory,
    is_compiled,
    kernel,
    part,
    recording_compilation,
)

ROOT = Path(__file__).parents[2]
SCRIPT = """
import numpy as np
from gbdt_kernels.compilation import announcing_compilation
from gbdt_kernels.residues import Modulus, arithmetic_is_compiled, chain_products
from gbdt_kernels.trees import BinLayout, DenseCodes, level_histograms
said = []
before = arithmetic_is_compiled()
modulus = Modulus(101)
chain_products(modulus.one, np.zeros(2, int), np.array([0, 2]), modulus)
layout = BinLayout(np.array([1]), np.array([False]), np.zeros((0, 2), bool))
one = np.ones(1, dtype=np.int32)
for _ in range(2):
    with announcing_compilation(lambda: said.append("compiling")):
        level_histograms(DenseCodes(np.zeros((1, 1), np.uint8)), 0 * one, np.array([0, 1]), one, one, layout)
print(before, arithmetic_is_compiled(), *said)
"""


def run(code, *arguments, **variables):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=True)


def test_a_process_knows_that_it_compiles(tmp_path):
    code = (
        "import numpy as np; from numba import njit\n"
        "from gbdt_kernels.compilation import is_compiling, announcing_compilation\n"
        "from gbdt_kernels.exponentials import _exponentials\n"
        "said = []\n"
        "with announcing_compilation(lambda: said.append(is_compiling())):\n"
        "    before = is_compiling()\n"
        "    _exponentials(np.zeros(1), np.zeros(1))\n"
        "print(before, *said, is_compiling())"
    )
    for expected in ("False True False", "False False"):
        assert run(code, NUMBA_CACHE_DIR=str(tmp_path)).stdout.split() == expected.split()


def test_kernels_are_plain_functions_where_numba_is_switched_off():
    """Before, the package could not be imported."""
    code = "from gbdt_kernels.trees import binning; print(type(binning._bin_dense).__name__)"
    assert run(code, NUMBA_DISABLE_JIT="1").stdout.split() == ["function"]


@pytest.mark.slow
def test_compiled_only_after_the_first_call(tmp_path):
    for expected in ("False True compiling", "True True"):
        assert run(SCRIPT, NUMBA_CACHE_DIR=str(tmp_path)).stdout.split() == expected.split()


LOAD = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("gbdt_kernels.small", sys.argv[1])
sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
"""


def module_of_kernel(folder, constant):
    """Write a module of one kernel, which tells what it knows when it is loaded."""
    text = (
        "from gbdt_kernels.compilation import kernel, is_compiled, announcing_compilation\n"
        f"@kernel\ndef add(x):\n    return x + {constant}\n"
        "before = is_compiled(add)\n"
        "said = []\n"
        "with announcing_compilation(lambda: said.append(1)):\n    value = add(1)\n"
        "print(before, len(said), value)\n"
    )
    path = folder / "small.py"
    if not path.exists() or path.read_text() != text:  # the oldest numba goes by the time of writing
        path.write_text(text)


@pytest.fixture
def loaded(monkeypatch, capsys, tmp_path):
    """What the module tells when it is loaded anew in this process, as `run` has it in one of its own."""
    path = tmp_path / "small.py"

    def load(cache_dir=""):
        monkeypatch.setattr(compilation.settings, "CACHE_DIR", str(cache_dir))
        monkeypatch.setattr(sys, "argv", ["-c", str(path)])
        monkeypatch.setitem(sys.modules, "gbdt_kernels.small", None)
        cache_directory.cache_clear()
        exec(LOAD, {})
        return capsys.readouterr().out.split()

    yield load
    cache_directory.cache_clear()


def test_machine_code_of_an_older_source_does_not_count(loaded, tmp_path):
    seen = []
    for constant in (10, 10, 2000):
        module_of_kernel(tmp_path, constant)
        seen.append(loaded())
    assert seen == [["False", "1", "11"], ["True", "0", "11"], ["False", "1", "2001"]]


def test_machine_code_for_another_processor_does_not_count(loaded, tmp_path):
    module_of_kernel(tmp_path, 1)
    assert loaded() == ["False", "1", "2"]
    other = run(LOAD, tmp_path / "small.py", NUMBA_CPU_NAME="generic", NUMBA_CPU_FEATURES="")
    assert other.stdout.split() == ["False", "1", "2"]


def test_processes_that_save_at_once_keep_their_machine_code_apart(choice, monkeypatch, private):
    monkeypatch.setattr(compilation.settings, "CACHE_DIR", str(private))
    cache_directory.cache_clear()
    mine, theirs = (kernel(double.py_func)._cache._cache_file for _ in range(2))
    Path(mine._cache_path).mkdir(exist_ok=True)
    they = threading.Thread(target=theirs.save, args=("their key", "theirs"))
    they_chose, i_chose = threading.Event(), threading.Event()

    def save_my_index(overloads, save=mine._save_index):
        they.start()
        they_chose.wait(0.3)  # in vain if they may not save before I have
        save(overloads)
        i_chose.set()

    def save_their_index(overloads, save=theirs._save_index):
        they_chose.set()
        i_chose.wait()
        save(overloads)

    def save_my_data(name, data, save=mine._save_data):
        they.join(0.3)
        save(name, data)

    mine._save_index, mine._save_data, theirs._save_index = save_my_index, save_my_data, save_their_index
    mine.save("my key", "mine")
    they.join()
    assert {mine.load("their key"), theirs.load("my key")} == {"theirs", "mine"}


@kernel
def double(x):
    return 2 * x


def test_other_packages_kernels_are_not_announced():
    said = []
    with announcing_compilation(lambda: said.append(1)), announcing_compilation(None):
        assert double(np.float32(3)) == 6
    assert said == []


@part
def _half(x):
    return x / 2.0


@kernel
def quarter(x):
    return _half(_half(x))


def test_a_part_is_compiled_with_its_kernel_and_not_alone():
    with recording_compilation() as names:
        again = kernel(quarter.py_func)
        again._cache.disable()
        assert again(2.0) == 0.5
    assert [name.rpartition(".")[2] for name in names if name.startswith(__name__)] == ["quarter"]


@pytest.fixture
def choice(monkeypatch, tmp_path, caplog):
    """`cache_directory` of a folder that cannot be written, with nothing remembered."""
    monkeypatch.setattr(compilation.settings, "CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    caplog.set_level(logging.WARNING, logger="gbdt_kernels")
    cache_directory.cache_clear()
    compilation.say_once.cache_clear()
    yield lambda: cache_directory(tmp_path / "package" / "folder")
    cache_directory.cache_clear()
    compilation.say_once.cache_clear()


@pytest.fixture
def private(tmp_path):
    folder = tmp_path / "private"
    folder.mkdir(mode=0o700)
    return folder


def test_beside_the_source_where_that_can_be_written(choice, tmp_path):
    (tmp_path / "package" / "folder").mkdir(parents=True)
    assert choice() == ""


def test_the_chosen_directory_comes_first(choice, monkeypatch, private, tmp_path):
    (tmp_path / "package" / "folder").mkdir(parents=True)
    monkeypatch.setattr(compilation.settings, "CACHE_DIR", str(private / "new" / "kernels"))
    assert choice() == str(private / "new" / "kernels")
    assert (private / "new" / "kernels").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_a_chosen_directory_that_others_can_write_is_not_used(choice, monkeypatch, private, caplog, mode):
    monkeypatch.setattr(compilation.settings, "CACHE_DIR", str(private))
    private.chmod(mode)
    assert choice() is None
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_then_the_user_cache_silently_then_temporary_files_with_a_warning(
    choice, monkeypatch, private, caplog
):
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    assert choice() == str(private / f"veilboost-kernels-{os.getuid()}")
    assert choice() == str(private / f"veilboost-kernels-{os.getuid()}")
    assert caplog.text.count("veilboost-kernels") == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(private))
    cache_directory.cache_clear()
    caplog.clear()
    assert choice() == str(private / "veilboost" / "kernels")
    assert caplog.text == ""


def test_a_temporary_directory_that_somebody_else_made_first_is_not_used(
    choice, monkeypatch, private, caplog
):
    monkeypatch.setattr(tempfile, "tempdir", str(private))
    other = os.getuid() + 1
    (private / f"veilboost-kernels-{other}").mkdir(mode=0o700)
    monkeypatch.setattr(os, "getuid", lambda: other)
    assert choice() is None
    assert "compiled anew in every process" in caplog.text


def test_a_directory_in_one_that_others_can_change_is_not_used(choice, monkeypatch, private):
    (private / "shared").mkdir()
    (private / "shared").chmod(0o777)
    monkeypatch.setattr(compilation.settings, "CACHE_DIR", str(private / "shared" / "own"))
    assert choice() is None
    (private / "shared").chmod(0o1777)  # nobody can rename another user's entries there
    cache_directory.cache_clear()
    assert choice() == str(private / "shared" / "own")


def test_links_are_judged_by_where_they_lead(choice, monkeypatch, private, tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (private / "link").symlink_to(tmp_path / "open")
    monkeypatch.setattr(compilation.settings, "CACHE_DIR", str(private / "link"))
    assert choice() is None


def test_kernels_without_any_cache_still_run(monkeypatch):
    monkeypatch.setattr(compilation, "cache_directory", lambda folder: None)

    @kernel
    def local(x):
        return x - 1

    assert not is_compiled(local)
    assert local(1) == 0
    assert is_compiled(local)


def test_a_source_that_no_cache_can_be_found_for_costs_a_warning(choice, private, monkeypatch, caplog):
    """As from a zip file; numba says ``cannot cache function: no locator available``."""
    monkeypatch.setattr(compilation.settings, "CACHE_DIR", str(private))
    names = {}
    exec(compile("def f(x):\n    return x + 2\n", "<string>", "exec"), names)
    compiled = kernel(names["f"])
    assert compiled(1) == 3
    assert caplog.text.count("compiled anew in every process") == 1


def test_a_cache_that_can_no_longer_be_written_costs_a_warning(choice, private, monkeypatch, caplog):
    monkeypatch.setattr(compilation.settings, "CACHE_DIR", str(private))
    cache_directory.cache_clear()
    compiled = kernel(double.py_func)

    def no_space(key, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    file = compiled._cache._cache_file
    file.save = partial(compilation.save_alone, Path(file._cache_path), no_space)
    assert compiled(2) == 4
    assert compiled(2.5) == 5.0
    assert caplog.text.count("No space left on device") == 1


def test_machine_code_beside_the_source_is_read_where_nothing_can_be_written(
    loaded, tmp_path, private, monkeypatch
):
    """As in an image: compiled while it was built, by a user who could write there."""
    module_of_kernel(tmp_path, 5)
    assert loaded() == ["False", "1", "6"]
    with monkeypatch.context() as read_only:
        read_only.setattr(os, "access", lambda path, mode: mode != os.W_OK)
        assert loaded(private) == ["True", "0", "6"]
    assert not list(private.rglob("*.nbc"))
    assert loaded(private) == ["False", "1", "6"]
    assert list(private.rglob("*.nbc"))


OTHER_NUMBA = pickle.dumps("0.0.1") + b"what that version wrote"
NO_MORE_THAN_A_VERSION = pickle.dumps(numba.__version__)[:-1]


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"\x80", b"cut off", OTHER_NUMBA, NO_MORE_THAN_A_VERSION])
def test_a_damaged_cache_or_one_of_another_numba_is_compiled_anew(
    choice, private, monkeypatch, kind, content, caplog
):
    monkeypatch.setattr(compilation.settings, "CACHE_DIR", str(private))
    cache_directory.cache_clear()
    assert kernel(double.py_func)(2) == 4
    (file,) = private.rglob(f"*.{kind}")
    good = file.read_bytes()
    file.write_bytes(content)
    again = kernel(double.py_func)
    assert again(2) == 4
    assert file.read_bytes() != content
    assert len(file.read_bytes()) > len(good) // 2
    third = kernel(double.py_func)
    assert is_compiled(third)
    assert third(2) == 4


USE = {
    "kernel": """
from gbdt_kernels.residues.limbs import add_rows
print(add_rows(np.zeros((1, 1), np.uint64), np.ones((1, 1), np.uint64), np.full(1, 3, np.uint64)).sum())
""",
    "training": """
X = np.arange(40.0).reshape(-1, 1) % 2
train = lgb_dp.Dataset(X, label=X[:, 0], bounds=([0.0], [1.0]))
params = {"objective": "binary", "verbosity": -1, "max_depth": 1}
print(lightgbm.train(params, train, 1, callbacks=[lgb_dp.NewtonBoost(epsilon=1.0, delta=1e-5)]).num_trees())
""",
}
AS_NOBODY = [
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
]
"""The interpreter may be in root's home: nobody may read it here, but write no more than elsewhere."""


def can_become_nobody():
    try:
        return subprocess.run([*AS_NOBODY, sys.executable, "-c", ""], capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize("use", ["kernel", "training"])
def test_no_home_and_a_read_only_copy(use):
    if not can_become_nobody():
        pytest.skip("only root can become another user")
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to others
        copy, temporary = Path(folder, "packages"), Path(folder, "tmp")
        for part in ("lgb_dp", "xgb_fed", "plugins", "patches"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        temporary.mkdir()
        for path in (Path(folder), *Path(folder).rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        temporary.chmod(0o1777)
        code = (
            f"import sys; sys.path[:0] = {[str(copy), str(copy / 'plugins'), str(copy / 'patches')]}\n"
            "import lgb_dp, xgb_fed, lightgbm, os, numpy as np\n"
            f"assert lgb_dp.__file__.startswith({str(copy)!r}) and os.getuid() == 65534\n{USE[use]}"
        )
        result = subprocess.run(
            [*AS_NOBODY, sys.executable, "-I", "-c", code],
            env={"TMPDIR": str(temporary), "PATH": os.environ.get("PATH", "")},
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert result.returncode == 0, result.stderr
        assert result.stdout.split() == ["1"]
        own = temporary / "veilboost-kernels-65534"
        assert result.stderr.count(str(own)) == 1
        assert own.stat().st_uid == 65534
        assert own.stat().st_mode & 0o777 == 0o700
        assert list(own.rglob("*.nbc"))


@pytest.mark.parametrize(
    "name", [module.name for module in pkgutil.walk_packages(gbdt_kernels.__path__, "gbdt_kernels.")]
)
def test_no_cached_kernel_calls_one_of_another_file(name):
    """numba's cache looks at the caller's file only: a change of the callee's would go unnoticed."""
    module = importlib.import_module(name)
    kernels = [value for value in vars(module).values() if isinstance(value, CPUDispatcher)]
    assert {kernel.py_func.__module__ for kernel in kernels} <= {module.__name__}
