"""How kernels are compiled, and where their machine code is kept between processes.

`kernel` is the decorator of every kernel: numba compiles it at its first call, without the GIL, and stores
the result in a cache directory.  The directory is chosen here, once for each source folder: the first that
can be written of ``NUMBA_CACHE_DIR``, ``__pycache__`` beside the source, the user's cache directory, and a
private directory among the temporary files.  Where there is none, kernels are compiled in every process.
Machine code beside the source is also read where it can no longer be written: `veilboost warm` puts it there
while an image is built.

Cached machine code is executed, so that a directory that another user can write to is never read.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from numba import config as numba_config
from numba import njit
from numba.core.caching import IndexDataCacheFile
from numba.core.event import Listener, install_listener, register

logger = logging.getLogger("gbdt_kernels")
settings: Any = numba_config
_decorating = threading.Lock()


def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a kernel: compiled by numba, run without the GIL, and cached on disk if possible.

    The function's module must not use kernels of another file: numba's cache looks for changes in the
    kernel's own file only. Keywords are further options of `numba.njit`, as in
    ``@kernel(error_model="numpy")``.
    """
    if function is None:
        return partial(kernel, **options)
    # Without a wrapper for C, which would be compiled with every kernel and called by none.
    wanted: Any = {"nogil": True, "no_cfunc_wrapper": True, **options}
    compiled = njit(**wanted)(function)
    if compiled is function:  # ``NUMBA_DISABLE_JIT=1``, for debuggers
        return compiled
    directory = cache_directory(Path(function.__code__.co_filename).parent)
    if directory is not None:
        _keep(compiled, directory)
    return compiled


def part(function: Callable[..., Any]) -> Any:
    """Make a function part of the kernels of its file that call it.

    It is written into each of them before types are found, so that it is not compiled, wrapped for Python and
    cached on its own, which takes longer than most parts themselves. The kernel's options hold for it. It is
    called at one place or two of a kernel, since each compiles it again.
    """
    return njit(nogil=True, inline="always")(function)


def _keep(compiled: Any, directory: str) -> None:
    """Let a kernel's machine code be kept in a directory; a cache that fails costs a warning and no more."""
    # numba reads the setting while it enables the cache; other packages' functions keep theirs.
    with _decorating:
        before, settings.CACHE_DIR = settings.CACHE_DIR, directory
        try:
            compiled.enable_caching()
        except (RuntimeError, OSError) as error:  # "no locator available", or a source file that is gone
            say_once(f"kernels are compiled anew in every process: {error}")
            return
        finally:
            settings.CACHE_DIR = before
    file = compiled._cache._cache_file
    file.save = partial(save_alone, Path(file._cache_path), file.save)
    _guard(file)
    kept = compiled._cache._impl
    kept.rebuild = partial(_rebuild, compiled.__name__, kept.rebuild)
    compiled._shipped = None
    beside = Path(compiled.py_func.__code__.co_filename).parent / "__pycache__"
    if directory and not os.access(beside, os.W_OK):
        # Code compiled when an image was built lies there.
        compiled._shipped = IndexDataCacheFile(str(beside), kept.filename_base, file._source_stamp)
        _guard(compiled._shipped)
        file.load = partial(_load_first, file.load, compiled._shipped.load)


def _guard(file: Any) -> None:
    """Let what cannot be read of a cache count as missing."""
    place = Path(file._cache_path)
    file._load_index = partial(_read_index, place, file._load_index)
    file._load_data = partial(_read_data, place, file._load_data)


def _load_first(own: Callable[[Any], Any], shipped: Callable[[Any], Any], key: Any) -> Any:
    """A kernel's machine code from the own cache, or else from the one beside the source; or None."""
    found = own(key)
    return shipped(key) if found is None else found


def save_alone(directory: Path, save: Callable[[Any, Any], None], key: Any, data: Any) -> None:
    """Save machine code while no other process saves any in the same directory.

    numba numbers the files of a kernel's signatures after those that its index names.  Two processes that
    save different signatures at once would choose the same number, and the code of one would be run for both.
    """
    try:
        with open(directory / "veilboost-kernels.lock", "ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # released when the file is closed
            save(key, data)
    except OSError as error:  # a full disk, or a directory that can no longer be written
        say_once(f"compiled kernels cannot be kept in {directory}: {error.strerror}")


def _read_index(directory: Path, read: Callable[[], dict[Any, str]]) -> dict[Any, str]:
    """The index of a kernel's machine code, empty if it is damaged: saving then writes another."""
    try:
        return read()
    except Exception as error:  # unpickling raises nearly anything
        say_once(f"{directory} holds a damaged index ({type(error).__name__}): kernels are compiled anew")
        return {}


def _read_data(directory: Path, read: Callable[[str], Any], name: str) -> Any:
    """A kernel's machine code; `OSError` if it is damaged, which numba takes for a file that is gone."""
    try:
        return read(name)
    except FileNotFoundError:
        raise
    except Exception as error:  # as above
        say_once(f"{directory / name} is damaged ({type(error).__name__}): kernels are compiled anew")
        raise OSError(f"{name} is damaged") from error


def _rebuild(name: str, rebuild: Callable[[Any, Any], Any], context: Any, data: Any) -> Any:
    """A kernel from what the cache held; None, for none, if that is something else."""
    try:
        return rebuild(context, data)
    except Exception as error:
        say_once(f"the cache holds no machine code for {name} ({type(error).__name__}): it is compiled anew")
        return None


@lru_cache
def cache_directory(folder: Path) -> str | None:
    """The directory that keeps the machine code of the kernels in a source folder.

    Empty for ``__pycache__`` beside the source; None if there is no directory that this user alone can write
    to.
    """
    chosen = settings.CACHE_DIR
    if chosen:
        if _is_ours(Path(chosen)):
            return str(chosen)
        say_once(f"NUMBA_CACHE_DIR={chosen} is not used: it must be writable, and by this user only")
    # A user who can write there can change the bytecode, too.
    if _can_write(folder / "__pycache__"):
        return ""
    user_cache, temporary = _in_user_cache(), _in_temporary_files()
    if user_cache is not None and _is_ours(user_cache):
        return str(user_cache)
    if temporary is not None and _is_ours(temporary):
        say_once(f"compiled kernels are kept in {temporary}: no lasting place can be written")
        return str(temporary)
    say_once(
        "no cache directory can be written: kernels are compiled anew in every process "
        "(set NUMBA_CACHE_DIR to a directory of this user)"
    )
    return None


@lru_cache
def say_once(message: str) -> None:
    """Log a warning, each once in a process."""
    logger.warning(message)


def _in_user_cache() -> Path | None:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    # Relative if there is no home directory: then it would be below whatever the working directory is.
    return Path(base, "veilboost", "kernels") if os.path.isabs(base) else None


def _in_temporary_files() -> Path | None:
    try:
        base = tempfile.gettempdir()
    except FileNotFoundError:
        return None
    return Path(base, f"veilboost-kernels-{os.getuid()}")


def _can_write(directory: Path, mode: int = 0o777) -> bool:
    """Make a directory if there is none, and see whether it takes a file."""
    try:
        directory.mkdir(mode=mode, exist_ok=True)
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return False
    return True


def _is_ours(directory: Path) -> bool:
    """Whether a directory, made now if there is none, can be written by this user alone."""
    try:
        directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _can_write(directory, mode=0o700):
            return False
        real = directory.resolve(strict=True)
        return _is_private(real) and all(_keeps_entries(parent) for parent in real.parents)
    except OSError:
        return False


def _is_private(directory: Path) -> bool:
    found = directory.stat()
    return found.st_uid == os.getuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _keeps_entries(directory: Path) -> bool:
    """Whether no other user but the administrator can replace this user's entries of a directory."""
    found = directory.stat()
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
    return found.st_uid in (0, os.getuid()) and not shared


def is_compiled(compiled: Any) -> bool:
    """Whether a kernel's machine code, for its present source and this processor, need not be made.

    It is then in this process or in the cache. The kernel is a result of `kernel`, numba's dispatcher.
    """
    if compiled.signatures:
        return True
    file = getattr(compiled._cache, "_cache_file", None)
    if file is None:
        return False
    processor = compiled.targetctx.codegen().magic_tuple()
    # An index of another source, Python or numba reads as empty; a key is (signature, processor, function).
    files = [one for one in (file, compiled._shipped) if one is not None]
    return any(key[1] == processor for one in files for key in one._load_index())


class _Compiled(Listener):
    """Calls a function with every function that numba compiles, and does not load."""

    def __init__(self, note: Callable[[Callable[..., Any]], None]) -> None:
        self._note = note

    def on_start(self, event: Any) -> None:
        self._note(event.data["dispatcher"].py_func)

    def on_end(self, event: Any) -> None:
        """Nothing."""


@contextmanager
def announcing_compilation(say: Callable[[], None] | None) -> Iterator[None]:
    """Call ``say()``, unless it is None, once if a kernel is compiled meanwhile, not loaded from a cache."""
    pending = [say]

    def note(function: Callable[..., Any]) -> None:
        if function.__module__.startswith("gbdt_kernels.") and (first := pending[0]) is not None:
            pending[0] = None
            first()

    with install_listener("numba:compile", _Compiled(note)):
        yield


class _UnderWay(Listener):
    """Counts kernels that are being compiled; numba compiles one at a time, and kernels within kernels."""

    def __init__(self) -> None:
        self.n = 0

    def on_start(self, event: Any) -> None:
        self.n += 1

    def on_end(self, event: Any) -> None:
        self.n -= 1


_UNDER_WAY = _UnderWay()
register("numba:compile", _UNDER_WAY)


def is_compiling() -> bool:
    """Whether this process is compiling a kernel now, in any thread."""
    return _UNDER_WAY.n > 0


@contextmanager
def recording_compilation() -> Iterator[list[str]]:
    """Note the functions that numba compiles meanwhile, ours and its own, as ``module.function``."""
    names: list[str] = []
    with install_listener(
        "numba:compile",
        _Compiled(lambda function: names.append(f"{function.__module__}.{function.__name__}")),
    ):
        yield names
