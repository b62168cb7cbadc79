"""The ground everything stands on: errors, the version, files, the key stream, quoting, tables.

Every other package may import it; it imports none of them.
"""
