"""Refuse trees so deep, or so many, that the model would not fit the machine's memory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from lgb_dp.errors import InvalidArgumentError

_BYTES_PER_SPLIT = 270
"""A byte per bin code that says where it goes, and the feature: while training, of all trees."""

_BYTES_PER_LEAF = 350
"""Values and counts, and a leaf's and a split's part of the model's text, with its copies."""

_LIMITS_OF_GROUP = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def memory_limit() -> int | None:
    """Bytes of memory that this process may use at most, None where the system does not say."""
    limits = []
    with suppress(AttributeError, OSError, ValueError):  # raised where the system is not a POSIX one
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for file in _LIMITS_OF_GROUP:
        with suppress(OSError, ValueError):  # there is no such file, or it says "max"
            limits.append(int(file.read_text()))
    return min(limits, default=None)


def model_bytes(depth: int, n_rounds: int, n_outputs: int) -> int:
    """Bytes of complete trees while they are trained and written; parameters as of `check_model_fits`."""
    return int(n_rounds * 2**depth * (_BYTES_PER_SPLIT + n_outputs * _BYTES_PER_LEAF))


def check_model_fits(depth: int, n_rounds: int, n_outputs: int) -> None:
    """Refuse, by `InvalidArgumentError`, complete trees that take more memory than the machine has.

    That is while they are trained and written. There are `depth` levels of splits, `n_rounds` structures, and
    `n_outputs` trees per structure.
    """
    limit, needed = memory_limit(), model_bytes(depth, n_rounds, n_outputs)
    if limit is not None and needed > limit:
        raise InvalidArgumentError(
            f"max_depth={depth} does not fit memory: {n_rounds} rounds × {2**depth} leaves × "
            f"{model_bytes(0, 1, n_outputs)} bytes = {needed / 1e9:.1f} GB, and there are "
            f"{limit / 1e9:.1f} GB; choose a smaller max_depth or fewer rounds"
        )
