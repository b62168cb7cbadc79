"""Vertical training on Dask clusters: a passive party's columns, and the active party's encryption."""

from xgb_fed.errors import MissingDependencyError

try:
    import distributed as _distributed  # noqa: F401
except ImportError as error:
    raise MissingDependencyError(
        "xgb_fed.dask needs dask.distributed: pip install 'veilboost[dask]'"
    ) from error

from xgb_fed.dask.encryption import ClusterCipher
from xgb_fed.dask.party import DaskParty

__all__ = ["ClusterCipher", "DaskParty"]
