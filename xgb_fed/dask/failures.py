"""Errors that a party raises when a cluster fails."""

from __future__ import annotations

from gbdt_hosts import dask as host
from gbdt_parties.errors import InvalidDataError
from xgb_fed import errors


def _wrong(index: int, kind: str, text: str) -> Exception:
    """The error of a partition: of its data if reading it said what is wrong with them."""
    if kind:
        return InvalidDataError(f"partition {index}: {text}")
    return errors.PartitionError(f"partition {index} could not be read ({text})")


ERRORS = host.ClusterErrors(
    errors.ClusterError,
    errors.WorkersLostError,
    errors.SchedulerLostError,
    errors.PartitionError,
    _wrong,
)
