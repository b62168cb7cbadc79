"""Releases, their cost, and the report of it."""
