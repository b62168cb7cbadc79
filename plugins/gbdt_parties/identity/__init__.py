"""Identities of the parties, their common rows, and the record of their exchange."""
