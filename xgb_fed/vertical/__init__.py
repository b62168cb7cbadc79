"""Vertical training: the same rows, columns at several organisations (SecureBoost+)."""

import gbdt_hosts.xgboost  # noqa: F401
