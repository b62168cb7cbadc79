"""Locality-sensitive hashing, and counts of colliding hashes."""
