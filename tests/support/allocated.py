"""The most that Python and NumPy allocate while something runs."""

import tracemalloc


def peak_of(work):
    """What `work` returns, and the most bytes that it allocated at once."""
    tracemalloc.start()
    try:
        result = work()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
