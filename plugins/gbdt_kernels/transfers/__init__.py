"""Arithmetic of oblivious transfers on many rows: bit matrices, GF(2^128), masked tables, sums down a tree.

Arrays in, arrays out: keys, streams and hashes come from the caller.  No kernel of this folder branches on a
secret or uses one as an index: secrets enter sums, exclusive ors, and masks that are all ones or all zeros.
`gbdt_parties.two_party` calls them.
"""
