"""Exact horizontal training: one party's copy of the run, its questions, and the coordinator's side.

Does not import `xgb_fed.horizontal.simfl`.
"""
