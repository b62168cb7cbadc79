"""The command as processes of their own, forked off one that has imported what they need.

Starting an interpreter for each takes seconds of imports; a command knows no difference.  Run as
``python forked_commands.py DESCRIPTOR`` it is the process that forks.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import warnings
from functools import cache

IMPORTED = (
    "lightgbm",
    "xgboost",
    "sklearn",
    "pyarrow.csv",
    "yaml",
    "lgb_dp.vertical",
    "lgb_dp.federated",
    "veilboost.serving.server",
    *(f"veilboost.serving.{kind}" for kind in ("vertical", "exact", "private", "private_columns", "simfl")),
)
"""But not gRPC, for which a server prepares its process."""

_asking = threading.Lock()


class Command:
    """``veilboost ARGUMENTS`` in a folder, as `subprocess.Popen` shows a process.

    Parameters
    ----------
    arguments : list of str
    cwd : Path
    stderr : file
        What takes the standard error.

    Attributes
    ----------
    stdout : text file
    pid : int
    returncode : int or None
        As that of `subprocess.Popen`.
    """

    def __init__(self, arguments, *, cwd, stderr):
        reading, writing = os.pipe()
        self._ended, ended = os.pipe()
        request = {
            "arguments": arguments,
            "cwd": str(cwd),
            "environment": {**os.environ, "OMP_NUM_THREADS": "1"},
        }
        _send(_forker()[0], request, [writing, stderr.fileno(), ended])
        os.close(writing)
        os.close(ended)
        self.stdout = os.fdopen(reading)
        self.pid, self.returncode = int(_line(self._ended)), None

    def send_signal(self, number):
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        """End the process at once."""
        self.send_signal(signal.SIGKILL)

    def poll(self):
        """The return code, or None while the process runs."""
        return self.returncode if self.returncode is not None else self._after(0)

    def wait(self, timeout=None):
        """The return code, once the process has ended."""
        if self.returncode is None and self._after(timeout) is None:
            raise subprocess.TimeoutExpired("veilboost", timeout)
        return self.returncode

    def _after(self, timeout):
        if select.select([self._ended], [], [], timeout)[0]:
            self.returncode = os.waitstatus_to_exitcode(int(_line(self._ended)))
            os.close(self._ended)
            self.stdout.close()
        return self.returncode


def _line(descriptor):
    text = b""
    while not text.endswith(b"\n"):
        text += os.read(descriptor, 1) or b"\n"
    return text


@cache
def _forker():
    """The way to the process that forks, and this process, which ends with the way."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, __file__, str(theirs.fileno())]
        return ours, subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)


def _send(channel, request, descriptors):
    text = json.dumps(request).encode()
    socket.send_fds(channel, [len(text).to_bytes(8, "little")], descriptors)
    channel.sendall(text)


def _serve(channel):
    """Fork a command for each request."""
    while True:
        size, descriptors, _, _ = socket.recv_fds(channel, 8, 3)
        if not size:
            return
        text = b""
        while len(text) < int.from_bytes(size, "little"):
            text += channel.recv(1 << 16)
        watcher = _fork()
        if watcher == 0:
            channel.close()
            _watch(json.loads(text), *descriptors)
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)


def _load_numba():
    """Call a kernel: the first one of a process waits for half a second, until numba knows its own types."""
    import numpy as np

    from gbdt_kernels.exponentials import exponentials

    exponentials(np.zeros(1, dtype=np.float32))


def _fork():
    with warnings.catch_warnings():
        # From Python 3.12 on it warns of threads; those of libraries for linear algebra are idle.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _watch(request, stdout, stderr, ended):
    """Fork the command, tell its number, and tell how it ended."""
    child = _fork()
    if child == 0:
        os.close(ended)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        _run(request)
    os.close(stdout)
    os.write(ended, b"%d\n" % child)
    os.write(ended, b"%d\n" % os.waitpid(child, 0)[1])


def _run(request):
    from veilboost.command_line import main

    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    code = main(request["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    for name in IMPORTED:
        __import__(name)
    _load_numba()
    with socket.socket(fileno=int(sys.argv[1])) as parent:
        _serve(parent)
