"""Predictions of new rows by two parties, of which one asks; none of it is part of ε.

Modules, from the ground up: `answers` (points, and tables of answers at them) and `consent` (what is
answered, and how often).
"""
