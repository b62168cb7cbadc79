"""Runs on a small data set, of which one argument is refused."""

from small_training import binary_data

X, Y = binary_data(60)
