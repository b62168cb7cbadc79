"""A message as frames: a header that says how long it is, then pieces of at most one MiB.

::

    magic "VBST" | version u16 | row sets u16 | bytes u64 | 32 bytes for each row set
    pieces of the message, all but the last of one MiB, none empty

A message of at most one piece that is there as a whole follows its header in the same frame: each frame
costs both sides about as much as all other work on a short message.  After a message, the same stream may
bring the next one.

Row sets name the rows that a request is about (see `alignment`); an answer has none.  Before the header of
an answer there may be empty frames: the party is alive and at work; or ``compiling``: it waits for the
compiler of its kernels.  A request has none: the caller sends its words, in pieces that are as long as they
can be, so that a time for each is a least rate.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from threading import Condition, Thread
from time import monotonic
from types import TracebackType

import numpy as np

from gbdt_parties.errors import ProtocolError
from gbdt_parties.messages import Parts

VERSION = 2
PIECE_BYTES = 1 << 20
MAX_ROW_SETS = 64
ROW_SET_BYTES = 32
METHOD = ("veilboost.Party", "Exchange")
"""Service and method; in one call, requests follow each other, and their answers in the same order."""

_MAGIC = b"VBST"
COMPILING = b"compiling"
HEADER = struct.Struct("<4sHHQ")
OPTIONS = [
    ("grpc.max_receive_message_length", PIECE_BYTES + 4096),
    ("grpc.max_send_message_length", PIECE_BYTES + 4096),
    # No compression: ciphertexts do not compress, and what is not decompressed cannot grow.
    ("grpc.default_compression_algorithm", 0),
    ("grpc.compression_enabled_algorithms_bitset", 1),
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.so_reuseport", 0),
]
"""Of both sides' connections."""

RowSets = tuple[bytes, ...]


def frames(
    message: bytes | Parts, row_sets: RowSets = (), fed: Callable[[], None] = lambda: None
) -> Generator[bytes, None, bool]:
    """Header and pieces; `fed` is called whenever the transport takes one.

    Of a message in parts, each piece is given as soon as the parts it consists of are there.  If the rest of
    the parts is given up, the frames end early; the generator returns whether all of them were given.
    """
    header = HEADER.pack(_MAGIC, VERSION, len(row_sets), len(message)) + b"".join(row_sets)
    if len(message) <= PIECE_BYTES and (not isinstance(message, Parts) or message.are_there):
        fed()
        yield b"".join((header, *(message if isinstance(message, Parts) else (message,))))
        return True
    yield header
    try:
        for piece in _pieces(message if isinstance(message, Parts) else (message,)):
            fed()
            yield piece
    except CancelledError:
        return False
    return True


def _pieces(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The bytes of all parts, cut into pieces of `PIECE_BYTES`; the last one may be shorter."""
    begun = b""
    for part in parts:
        view = memoryview(part)
        first = PIECE_BYTES - len(begun) if begun else 0
        if len(view) < first:
            begun += view
            continue
        if begun:
            yield begun + view[:first]
        last = first + (len(view) - first) // PIECE_BYTES * PIECE_BYTES
        for start in range(first, last, PIECE_BYTES):
            yield bytes(view[start : start + PIECE_BYTES])
        begun = bytes(view[last:])
    if begun:
        yield begun


def assemble(
    received: Iterable[bytes],
    max_bytes: int,
    fed: Callable[[], None] = lambda: None,
    *,
    heartbeats: bool,
    compiling: Callable[[], None] = lambda: None,
) -> tuple[memoryview, RowSets]:
    """The next message of a stream, and its row sets; nothing behind its last piece is read.

    The buffer is as long as the header says, at most `max_bytes`; pages that no piece reaches cost nothing.
    `fed` is called at each frame; empty ones before the header, and those that say that the party is
    `compiling`, are for answers only (`heartbeats`). Raises `ProtocolError` if the stream is anything but the
    result of `frames`, or announces too long a message.
    """
    buffer: memoryview | None = None
    row_sets: RowSets = ()
    at = 0
    for piece in received:
        fed()
        if buffer is None:
            if heartbeats and piece == COMPILING:
                compiling()
            elif piece or not heartbeats:
                total, row_sets, at = _read_header(piece, max_bytes)
                buffer = np.empty(total, dtype=np.uint8).data
                buffer[:at] = piece[len(piece) - at :]
        else:
            due = min(PIECE_BYTES, len(buffer) - at)
            if len(piece) > due:
                raise ProtocolError("a stream is longer than it announced")
            if len(piece) < due:
                raise ProtocolError("a stream comes in shorter pieces than it should")
            buffer[at : at + len(piece)] = piece
            at += len(piece)
        if buffer is not None and at == len(buffer):
            return buffer, row_sets
    raise ProtocolError("a stream ended before its message")


def _read_header(piece: bytes, max_bytes: int) -> tuple[int, RowSets, int]:
    """Length and row sets of a message, and how much of it follows in the same frame: nothing or all."""
    if len(piece) < HEADER.size:
        raise ProtocolError("a stream does not start with a header")
    magic, version, count, total = HEADER.unpack_from(piece)
    if magic != _MAGIC:
        raise ProtocolError("this stream is not veilboost's")
    if version != VERSION:
        raise ProtocolError(f"stream version {version}; this release speaks version {VERSION}")
    end = HEADER.size + count * ROW_SET_BYTES
    if count > MAX_ROW_SETS or len(piece) < end:
        raise ProtocolError("a stream's header is malformed")
    if total > max_bytes:
        raise ProtocolError(f"a message of {total} bytes was announced; {max_bytes} are accepted")
    n_here = len(piece) - end
    if n_here > total:
        raise ProtocolError("a stream is longer than it announced")
    if n_here not in (0, total):
        raise ProtocolError("a stream comes in shorter pieces than it should")
    sets = piece[HEADER.size : end]
    row_sets = tuple(sets[k * ROW_SET_BYTES : (k + 1) * ROW_SET_BYTES] for k in range(count))
    return total, row_sets, n_here


class Watchdog:
    """Calls a function once when it has not been fed for some `seconds`; used as a context.

    `on_silence` is called by the thread that watches for all, so it must not wait for anything; after
    `max_seconds` it is called however often the watchdog is fed.
    """

    def __init__(
        self, seconds: float, on_silence: Callable[[], object], max_seconds: float = math.inf
    ) -> None:
        self._seconds = seconds
        self.on_silence = on_silence
        self._fed_at = monotonic()
        self._last = self._fed_at + max_seconds
        self.fired = False

    @property
    def is_over(self) -> bool:
        """Whether the time is over that not even signs of life make longer."""
        return monotonic() >= self._last

    @property
    def due(self) -> float:
        """When it is to be called, on the clock `time.monotonic`."""
        return min(self._fed_at + self._seconds, self._last)

    def feed(self) -> None:
        """Report a sign of life."""
        self._fed_at = monotonic()

    def __enter__(self) -> Watchdog:
        """Start watching."""
        WATCH.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop watching."""
        WATCH.remove(self)


class _Watch:
    """One thread that watches for all: a thread of its own for each would cost more than most requests."""

    def __init__(self) -> None:
        self.changed = Condition()
        self._dogs: set[Watchdog] = set()
        self._wakes_at = math.inf
        self._thread: Thread | None = None

    def add(self, dog: Watchdog) -> None:
        """Watch for one more."""
        with self.changed:
            self._dogs.add(dog)
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._run, name="veilboost_watchdog", daemon=True)
                self._thread.start()
            elif dog.due < self._wakes_at:
                self.changed.notify()

    def remove(self, dog: Watchdog) -> None:
        """Watch for one less; its function is not called any more unless it is being called."""
        with self.changed:
            self._dogs.discard(dog)

    def _run(self) -> None:
        while True:
            with self.changed:
                now = monotonic()
                silent = [dog for dog in self._dogs if dog.due <= now]
                self._dogs.difference_update(silent)
                if not silent:
                    self._wakes_at = min((dog.due for dog in self._dogs), default=math.inf)
                    self.changed.wait(None if self._wakes_at == math.inf else self._wakes_at - now)
                    continue
            for dog in silent:
                dog.fired = True
                with suppress(Exception):
                    dog.on_silence()


WATCH = _Watch()
