"""The relay that the benchmarks use as a slow link has the bandwidth and the latency that it is asked for."""

import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

RELAY = Path(__file__).parent.parent / "benchmarks" / "common" / "slow_link.py"


@contextmanager
def connection(mbit, one_way_ms):
    """Both ends of a connection through a relay process."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        command = [sys.executable, str(RELAY), "--to", f"127.0.0.1:{port}"]
        command += ["--mbit", str(mbit), "--one-way-ms", str(one_way_ms)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            relay = int(process.stdout.readline())
            with socket.create_connection(("127.0.0.1", relay), timeout=60) as near:
                far, _ = listening.accept()
                far.settimeout(60)
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with far:
                    yield near, far
        finally:
            process.communicate("", timeout=60)
    assert process.returncode == 0


def receive(end, n_bytes):
    while n_bytes:
        data = end.recv(min(n_bytes, 1 << 16))
        assert data
        n_bytes -= len(data)


def assert_some(low, high, measure, *args):
    """One of many measurements is within bounds; a busy machine delays the begin or the end of others."""
    seen, end = [], time.monotonic() + 120
    while not seen or not low < seen[-1] < high:
        assert time.monotonic() < end, seen
        seen.append(measure(*args))


def seconds_between_first_and_last(sender, receiver, n_bytes):
    thread = Thread(target=sender.sendall, args=(bytes(n_bytes + 1),))
    thread.start()
    receive(receiver, 1)
    start = time.perf_counter()
    receive(receiver, n_bytes)
    seconds = time.perf_counter() - start
    thread.join()
    return seconds


@pytest.mark.parametrize("mbit", [*(pytest.param(mbit, marks=pytest.mark.slow) for mbit in (10, 50)), 100])
def test_bandwidth_is_within_a_tenth_in_each_direction(mbit):
    n_bytes = int(mbit * 1e6 / 8 * 0.3)
    with connection(mbit, 5) as (near, far):
        for sender, receiver in ((near, far), (far, near)):
            assert_some(0.27, 0.33, seconds_between_first_and_last, sender, receiver, n_bytes)


def seconds_in_both_directions(near, far, n_bytes):
    start = time.perf_counter()
    thread = Thread(target=seconds_between_first_and_last, args=(near, far, n_bytes))
    thread.start()
    seconds_between_first_and_last(far, near, n_bytes)
    thread.join()
    return time.perf_counter() - start


def seconds_beside_another(near, far, n_bytes):
    with socket.create_connection(near.getpeername(), timeout=20) as other:
        # A connection that nobody reads from keeps its share of the link busy while its buffers fill.
        thread = Thread(target=other.sendall, args=(bytes(n_bytes),))
        thread.start()
        seconds = seconds_between_first_and_last(near, far, n_bytes)
        thread.join()
    return seconds


def test_both_directions_have_the_whole_bandwidth_and_connections_share_it():
    n_bytes = 250_000
    with connection(10, 1) as (near, far):
        assert_some(0.18, 0.3, seconds_in_both_directions, near, far, n_bytes)
        assert_some(0.33, 0.6, seconds_beside_another, near, far, n_bytes)


def seconds_there(sender, receiver):
    start = time.perf_counter()
    sender.sendall(b"x")
    receive(receiver, 1)
    return time.perf_counter() - start


def seconds_there_and_back(near, far):
    return seconds_there(near, far) + seconds_there(far, near)


@pytest.mark.parametrize("one_way_ms", [0, 10, 50])
def test_a_round_trip_takes_twice_the_latency(one_way_ms):
    with connection(100, one_way_ms) as (near, far):
        seconds = one_way_ms / 1000
        assert_some(seconds - 0.006, seconds + 0.006, seconds_there, near, far)
        assert_some(2 * seconds - 0.01, 2 * seconds + 0.01, seconds_there_and_back, near, far)


def test_the_end_of_a_stream_arrives_after_its_bytes():
    with connection(10, 20) as (near, far):
        start = time.perf_counter()
        near.sendall(bytes(50_000))
        near.shutdown(socket.SHUT_WR)
        receive(far, 50_000)
        assert far.recv(1) == b""
        assert time.perf_counter() - start > 0.055
        far.sendall(b"still open this way")
        receive(near, 19)
