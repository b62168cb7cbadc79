"""Estimators on a cluster of this process."""

SETTINGS = {"epsilon": 5.0, "n_estimators": 6, "max_bin": 16, "random_state": 1}
