"""Numba kernels for gradient boosting: arrays in, arrays out.

The package knows no LightGBM, no XGBoost, no party, no privacy budget, no
file, and draws no randomness: whoever needs a random choice passes the random
words in.  Every kernel releases the GIL and is cached on disk.

`trees` goes from binning to prediction, `draws` turns random words into noise
and selections, `residues` is modular arithmetic on many numbers at once,
`similarity` hashes rows and counts collisions.
"""
