"""Vertical training: the same rows, columns at several organisations (SecureBoost+).

From the lowest folder to the highest: `protocol`, `trees`, `growing` (the active party) and `explaining`,
`passive` (the passive party) and `model`, `training`, `estimators`.  Imports point downwards only.
"""

import gbdt_hosts.xgboost  # noqa: F401
