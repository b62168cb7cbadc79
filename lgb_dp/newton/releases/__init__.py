"""Noised sums over the leaves of a tree: the only place where NewtonBoost reads private rows."""
