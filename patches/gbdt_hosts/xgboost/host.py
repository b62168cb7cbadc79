"""XGBoost itself, loaded before anything else of this room is, so that errors say what is missing."""

from gbdt_hosts.loading import load_host

load_host("xgboost", at_least=(2, 0), below=4)
