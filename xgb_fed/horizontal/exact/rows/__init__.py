"""Rows that sums of exact training are over, chosen so that no combination of sums is about few of them.

The lowest folder of `xgb_fed.horizontal.exact`.
"""
