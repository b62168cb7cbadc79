"""Errors that private training raises when a cluster fails."""

from __future__ import annotations

from gbdt_hosts import dask as host
from lgb_dp import errors


def _wrong(index: int, kind: str, text: str) -> Exception:
    """The error of a partition, by the name of our own error if reading it raised one."""
    if not kind:
        return errors.PartitionError(f"partition {index} could not be read ({text})")
    error: Exception = getattr(errors, kind, errors.PartitionError)(f"partition {index}: {text}")
    return error


ERRORS = host.ClusterErrors(
    errors.ClusterError,
    errors.WorkersLostError,
    errors.SchedulerLostError,
    errors.PartitionError,
    _wrong,
    "; the trees trained so far are in the trainer's booster_",
)
