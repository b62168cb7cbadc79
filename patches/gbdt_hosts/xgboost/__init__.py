"""XGBoost's undocumented surface: model trees, one tree at a time, metrics of given margins."""

import gbdt_hosts.xgboost.host
