"""LightGBM itself, loaded before anything else of this room is, so that errors say what is missing."""

from gbdt_hosts.loading import load_host

load_host("lightgbm", at_least=(4, 2), below=5)
