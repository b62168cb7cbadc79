"""Horizontal training: the same columns, rows at several organisations (SimFL)."""

import gbdt_hosts.xgboost  # noqa: F401
