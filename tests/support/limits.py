"""A process that runs out of what the system gives it."""

import resource
from contextlib import contextmanager


@contextmanager
def no_more_descriptors():
    """What is open stays open; nothing else can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
