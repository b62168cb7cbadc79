"""Losses with bounded gradients: the sensitivity of a row, and the released label counts."""
