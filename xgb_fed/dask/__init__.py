"""A passive party of vertical training whose columns lie on the workers of a Dask cluster."""

from xgb_fed.errors import MissingDependencyError

try:
    import distributed as _distributed  # noqa: F401
except ImportError as error:
    raise MissingDependencyError(
        "xgb_fed.dask needs dask.distributed: pip install 'veilboost[dask]'"
    ) from error

from xgb_fed.dask.party import DaskParty

__all__ = ["DaskParty"]
