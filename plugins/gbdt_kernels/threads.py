"""Run a GIL-free kernel over blocks of work on a few threads.

numba's own thread pool is not used: its layers abort the process when two
Python threads enter at once or after a fork, and both happen in a grid search.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache
from itertools import pairwise

_MAX_WAIT = 30.0
"""Seconds that an interrupted call waits for its other threads."""

MIN_BLOCK = 200_000
"""Elementary steps below which a second thread costs more than it saves."""


@lru_cache(maxsize=4)
def _pool(n_threads: int, _process_id: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads, thread_name_prefix="gbdt_kernels")


def available_threads() -> int:
    """Processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def blocks(n_items: int, n_threads: int, cost_per_item: int = 1) -> list[tuple[int, int]]:
    """Cut ``range(n_items)`` into at most `n_threads` contiguous blocks worth a thread each, one at least.

    No threads, 0, means all available processors. An item, a row or a node, takes `cost_per_item` elementary
    steps.
    """
    n_threads = n_threads if n_threads > 0 else available_threads()
    worth = max(1, (n_items * cost_per_item) // MIN_BLOCK)
    n_blocks = max(1, min(n_threads, worth, n_items))
    bounds = [n_items * i // n_blocks for i in range(n_blocks + 1)]
    return list(pairwise(bounds))


def run(work: Callable[[int, int, int], None], parts: list[tuple[int, int]]) -> None:
    """Call ``work(index, start, stop)`` for every block, on as many threads as there are blocks.

    The caller's thread works on the first block: waking another one takes longer than a small block.
    """
    finished = [False] * len(parts)

    def block(i: int) -> None:
        try:
            work(i, *parts[i])
        finally:
            finished[i] = True

    if len(parts) == 1:
        block(0)
        return
    pool, futures = _pool(len(parts), os.getpid()), []
    try:
        for i in range(1, len(parts)):
            futures.append(pool.submit(block, i))
        block(0)
        wait(futures)
    except BaseException as error:
        if not isinstance(error, Exception):
            _pool.cache_clear()  # an interrupt may leave the pool's locks held
        # No thread may go on while another one still writes.
        stop = time.monotonic() + _MAX_WAIT
        while not all(finished[1 : len(futures) + 1]) and time.monotonic() < stop:
            time.sleep(0.001)
        raise
    for future in futures:
        future.result()
