"""Computations of two parties on shares: oblivious transfers, shared lookups, sums over leaves.

Modules, from the ground up: `names`, `life` and `draws` (what keys are bound to, how long they serve, where
randomness comes from); `base_transfers`, `punctured_trees` and `extension` (transfers); `pads`, `lookups`
and `leaf_sums` (their uses); `session`, `layout`, `sides` and `rounds` (who says what when).  Each states its
functionality, its source and its proof.  `gbdt_parties.run.flights` has a party's side of a whole run.
"""
