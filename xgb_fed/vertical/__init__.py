"""Vertical training: the same rows, columns at several organisations (SecureBoost+)."""
