"""Private training on the rows of a Dask cluster."""

from lgb_dp.errors import MissingDependencyError

try:
    import distributed as _distributed  # noqa: F401
except ImportError as error:
    raise MissingDependencyError(
        "lgb_dp.dask needs dask.distributed: pip install 'veilboost[dask]'"
    ) from error

from lgb_dp.dask.dataset import DaskDataset
from lgb_dp.dask.estimators import DaskDPLGBMClassifier, DaskDPLGBMRegressor, DaskDPLGBMSurvival
from lgb_dp.dask.training import train

__all__ = ["DaskDPLGBMClassifier", "DaskDPLGBMRegressor", "DaskDPLGBMSurvival", "DaskDataset", "train"]
