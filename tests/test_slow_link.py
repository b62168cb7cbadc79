"""The relay that the benchmarks use as a slow link has the bandwidth and the latency that it is asked for."""

import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

RELAY = Path(__file__).parent.parent / "benchmarks" / "slow_link.py"


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
            with socket.create_connection(("127.0.0.1", relay), timeout=20) as near:
                far, _ = listening.accept()
                far.settimeout(20)
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                with far:
                    yield near, far
        finally:
            process.communicate("", timeout=10)
    assert process.returncode == 0


def receive(end, n_bytes):
    while n_bytes:
        data = end.recv(min(n_bytes, 1 << 16))
        assert data
        n_bytes -= len(data)


def seconds_between_first_and_last(sender, receiver, n_bytes):
    thread = Thread(target=sender.sendall, args=(bytes(n_bytes + 1),))
    thread.start()
    receive(receiver, 1)
    start = time.perf_counter()
    receive(receiver, n_bytes)
    seconds = time.perf_counter() - start
    thread.join()
    return seconds


@pytest.mark.parametrize("mbit", [10, 50, 100])
def test_bandwidth_is_within_a_tenth_in_each_direction(mbit):
    n_bytes = int(mbit * 1e6 / 8 * 0.3)
    with connection(mbit, 5) as (near, far):
        for sender, receiver in ((near, far), (far, near)):
            seconds = min(seconds_between_first_and_last(sender, receiver, n_bytes) for _ in range(2))
            assert 0.27 < seconds < 0.33


def test_both_directions_have_the_whole_bandwidth_and_connections_share_it():
    n_bytes = 250_000
    with connection(10, 1) as (near, far):
        start = time.perf_counter()
        thread = Thread(target=seconds_between_first_and_last, args=(near, far, n_bytes))
        thread.start()
        seconds_between_first_and_last(far, near, n_bytes)
        thread.join()
        assert 0.18 < time.perf_counter() - start < 0.3
        with socket.create_connection(near.getpeername(), timeout=20) as other:
            # A connection that nobody reads from keeps its share of the link busy while its buffers fill.
            thread = Thread(target=other.sendall, args=(bytes(n_bytes),))
            thread.start()
            assert seconds_between_first_and_last(near, far, n_bytes) > 0.33
            thread.join()


@pytest.mark.parametrize("one_way_ms", [0, 10, 50])
def test_a_round_trip_takes_twice_the_latency(one_way_ms):
    with connection(100, one_way_ms) as (near, far):
        times = []
        for _ in range(6):
            start = time.perf_counter()
            near.sendall(b"x")
            receive(far, 1)
            there = time.perf_counter() - start
            far.sendall(b"x")
            receive(near, 1)
            times.append((time.perf_counter() - start, there))
    assert min(times)[0] == pytest.approx(2 * one_way_ms / 1000, abs=0.01)
    assert min(there for _, there in times) == pytest.approx(one_way_ms / 1000, abs=0.006)


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
