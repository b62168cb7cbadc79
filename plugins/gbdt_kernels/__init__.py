"""Numba kernels for gradient boosting: arrays in, arrays out.

The package knows no LightGBM, no XGBoost, no party, no privacy budget, no
file, and draws no randomness: the caller passes in the words for a random choice. Every kernel releases the
GIL and is cached on disk.  Where a function takes `n_threads`, it works on as many threads at most, and 0
means all available processors.

`trees` goes from binning to prediction, `draws` turns random words into noise
and selections, `residues` is modular arithmetic on many numbers at once,
`similarity` hashes rows and counts collisions.
"""
