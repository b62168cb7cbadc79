"""Public bins without values."""

import numpy as np


class Bins:
    """What splits need to know of public bins."""

    def __init__(self, n_bins, categorical=()):
        self.n_bins = np.array(n_bins)
        self.names = [f"Column_{f}" for f in range(len(n_bins))]
        self.is_categorical = np.isin(np.arange(len(n_bins)), categorical)
