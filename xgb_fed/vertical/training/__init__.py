"""A vertical training run, round by round, with its checkpoint and continuation."""
