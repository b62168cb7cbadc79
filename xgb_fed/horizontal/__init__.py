"""Horizontal training: the same columns, rows at several organisations (exact by secure sums, or SimFL).

`exact` and `simfl` are the two methods; they share `common` and do not import each other.  The modules beside
these folders are above both: the party, its service, the calls and the estimators.
"""

import gbdt_hosts.xgboost  # noqa: F401
