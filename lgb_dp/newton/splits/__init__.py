"""Splits that cost no privacy, or are drawn where earlier releases say: random, learned, distilled."""
