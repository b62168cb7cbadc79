"""A relay on this machine that forwards TCP connections as a slow link would: late, and at a limited rate.

    python benchmarks/common/slow_link.py --to 127.0.0.1:7001 --mbit 10 --one-way-ms 50

It prints the port it listens on, and ends with its standard input.  Each direction has the whole bandwidth,
which all connections share, and delays every byte by the one-way latency: a round trip takes twice as long.
What is on its way is not lost, TCP's own handshake and slow start are not imitated, and no privileges are
needed.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

READ_BYTES = 1 << 14
AHEAD = 0.02
"""Seconds of transmission that a direction accepts ahead of time, so that a late timer leaves no gap."""


class Direction:
    """One direction of the link: when what enters now arrives at the other end.

    Parameters
    ----------
    bytes_per_second : float
        Bandwidth; `math.inf` for no limit.
    latency : float
        Seconds.
    """

    def __init__(self, bytes_per_second: float, latency: float) -> None:
        self._seconds_per_byte = 1 / bytes_per_second
        self._latency = latency
        self._free_at = 0.0

    async def enter(self, n_bytes: int) -> float:
        """Wait until the link takes some bytes; when their last one arrives."""
        clock = asyncio.get_running_loop().time
        self._free_at = max(self._free_at, clock()) + n_bytes * self._seconds_per_byte
        arrival = self._free_at + self._latency
        # Without the rest of this wait a sender would not notice that the link is busy.
        if (early := self._free_at - AHEAD - clock()) > 0:
            await asyncio.sleep(early)
        return arrival


async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter, direction: Direction) -> None:
    """Carry one connection's bytes in one direction, up to its end."""
    under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def deliver() -> None:
        while True:
            arrival, data = await under_way.get()
            if (early := arrival - asyncio.get_running_loop().time()) > 0:
                await asyncio.sleep(early)
            if not data:
                sink.write_eof()
                return
            sink.write(data)
            await sink.drain()

    delivery = asyncio.create_task(deliver())
    with suppress(OSError):
        while data := await source.read(READ_BYTES):
            under_way.put_nowait((await direction.enter(len(data)), data))
    under_way.put_nowait((await direction.enter(0), b""))
    with suppress(OSError):
        await delivery


async def relay(host: str, port: int, bytes_per_second: float, latency: float) -> None:
    """Listen on a free port of this machine, print it, and forward until standard input ends."""
    there, back = Direction(bytes_per_second, latency), Direction(bytes_per_second, latency)
    connections = set()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(host, port)
        except OSError:
            writer.close()
            return
        task = asyncio.current_task()
        connections.add(task)
        try:
            with suppress(asyncio.CancelledError):
                await asyncio.gather(carry(reader, far_writer, there), carry(far_reader, writer, back))
        finally:
            connections.discard(task)
            writer.close()
            far_writer.close()

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    server.close()
    for task in list(connections):
        task.cancel()
    await asyncio.gather(*connections)


class SlowLink:
    """A relay in a process of its own.

    Parameters
    ----------
    port : int
        Where it leads to on this machine.
    mbit : float
        Bandwidth of each direction in 10^6 bits per second.
    one_way_ms : float
        Latency of each direction in milliseconds.

    Attributes
    ----------
    port : int
        Where it listens on this machine.
    """

    def __init__(self, port: int, mbit: float, one_way_ms: float) -> None:
        command = [sys.executable, str(Path(__file__)), "--to", f"127.0.0.1:{port}"]
        command += ["--mbit", str(mbit), "--one-way-ms", str(one_way_ms)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def close(self) -> None:
        """End the process and all connections."""
        self._process.communicate("", timeout=10)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--to", required=True, help="host:port")
    parser.add_argument("--mbit", type=float, default=float("inf"))
    parser.add_argument("--one-way-ms", type=float, default=0.0)
    args = parser.parse_args()
    host, _, port = args.to.rpartition(":")
    asyncio.run(relay(host, int(port), args.mbit * 1e6 / 8, args.one_way_ms / 1000))


if __name__ == "__main__":
    main()
