"""Collections that a party cannot use."""

import numpy as np

from dask_party import N_ACTIVE, X, chunked

VALUES = X[:, N_ACTIVE:].astype(np.float64)
BLOCKS = chunked(VALUES, (100, 200))
