"""Horizontal training: the same columns, rows at several organisations (SimFL)."""
