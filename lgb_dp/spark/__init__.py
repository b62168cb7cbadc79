"""Private training on the rows of a Spark data frame."""

from lgb_dp.errors import MissingDependencyError

try:
    import pyarrow as _pyarrow  # noqa: F401
    from pyspark.sql import SparkSession as _session

    _is_new = hasattr(_session, "addTag")
except ImportError:
    _is_new = False
if not _is_new:
    raise MissingDependencyError("lgb_dp.spark needs PySpark 4 and pyarrow: pip install 'veilboost[spark]'")

from lgb_dp.spark.estimators import SparkDPLGBMClassifier, SparkDPLGBMRegressor, SparkDPLGBMSurvival
from lgb_dp.spark.rows import SparkTable

__all__ = ["SparkDPLGBMClassifier", "SparkDPLGBMRegressor", "SparkDPLGBMSurvival", "SparkTable"]
