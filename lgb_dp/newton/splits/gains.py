"""How much candidate splits explain, estimated from what earlier trees released.

The estimates are post-processing of released sums and cost no privacy.

A node splits into children with released sums G and hessians H of noise σ√l, l the leaves below each.  With
A = H_L + 4σ√l and B likewise, the contrast x = G_L/A - G_R/B has noise of variance n² = σ² l (1/A² + 1/B²),
is about e = (H_L/A + H_R/B) / 2 times the true difference δ of Newton values, and explains h x² of loss with
h = AB / (A + B).  Over the nodes whose split came from one cell of candidates there are two estimates:

- of what they explain with the *same* δ everywhere: δ is averaged with its sign before it is squared,
  δ̂ = Σ(e x / n²) / Σ(e² / n²), and δ̂² - 1 / Σ(e² / n²) is unbiased for δ².  Where single contrasts drown in
  noise, this finds a signal that the squares do not: over N nodes its noise falls with N, theirs with √N.
- of what they explain on average, each in its own way: the mean of h (x² - n²), of standard deviation
  √(2 Σ(h n²)²) / N by noise alone.

The second is what is wanted.  The first is taken where it is within two standard deviations of the second;
otherwise, the nearest value that is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

REGULARISATION = 4.0
"""Standard deviations of a child's noise that are added to its hessian."""

_STDS_OF_DOUBT = 2.0
_TINY = 1e-100

_Release = tuple[NDArray[np.int64], NDArray[np.uint8], NDArray[np.float64], NDArray[np.float64], float]
"""Cells, sides, leaf sums and noise of a tree that has not been looked at yet."""


class SplitGains:
    """Running estimates for cells of candidate splits.

    A cell of subsets has `n_categories`, which is 0 for a cell of neighbouring thresholds; `follows` says
    whether a cell's thresholds continue those of the cell before.
    """

    def __init__(self, n_categories: NDArray[np.int64], follows: NDArray[np.bool_]) -> None:
        self._n_categories = n_categories
        self._beside_left, self._beside_right = follows, np.append(follows[1:], False)
        # Signs of a subset's categories take the place of a threshold's one sign: one slot each.
        self._first_slot = np.concatenate([[0], np.cumsum(np.maximum(n_categories, 1))])
        self._releases: list[_Release] = []
        self._signed = self._precision = self._explained = self._doubt = np.zeros(0)
        self._exposure = self._tried = np.zeros(0)

    def note(
        self,
        cell: NDArray[np.int64],
        goes_left: NDArray[np.uint8],
        gradient: NDArray[np.float64],
        hessian: NDArray[np.float64],
        std: float,
    ) -> None:
        """Keep a complete tree's sums, (n_nodes + 1, n_outputs), with their noise σ > 0, for `estimate`."""
        self._releases.append((cell, goes_left, gradient, hessian, std))

    def estimate(self) -> NDArray[np.float64]:
        """Average gain of a cell's splits, not negative, neighbouring thresholds counted half."""
        if self._releases:
            self._add_releases()
        if not len(self._tried):
            return np.zeros(len(self._n_categories))
        tried = np.maximum(self._with_neighbours(self._tried), _TINY)[:, None]
        same = self._same_everywhere() * self._with_neighbours(self._exposure) / tried
        apart = self._with_neighbours(self._explained) / tried
        doubt = np.sqrt(self._with_neighbours(self._doubt, 0.25)) / tried
        band = _STDS_OF_DOUBT * doubt
        return np.asarray(np.maximum(np.clip(same, apart - band, apart + band), 0.0).sum(axis=1))

    def _same_everywhere(self) -> NDArray[np.float64]:
        """Unbiased δ² of each cell and output, or 0 where that is negative."""
        by_slot = np.add.reduceat(self._signed**2, self._first_slot[:-1], axis=0)
        precision = np.maximum(self._precision, _TINY)
        n_slots = np.maximum(self._n_categories, 1)[:, None]
        squared = by_slot / precision**2 - n_slots / precision
        is_threshold = self._n_categories == 0
        signed = np.where(is_threshold[:, None], self._signed[self._first_slot[:-1]], 0.0)
        shared = np.maximum(self._with_neighbours(precision), _TINY)
        mean = self._with_neighbours(signed) / shared
        smooth = mean**2 - self._with_neighbours(precision, 0.25) / shared**2
        return np.asarray(np.maximum(np.where(is_threshold[:, None], smooth, squared), 0.0))

    def _with_neighbours(self, values: NDArray[np.float64], share: float = 0.5) -> NDArray[np.float64]:
        one_column = values.reshape(len(values), -1)
        left = np.where(self._beside_left[:, None], np.roll(one_column, 1, axis=0), 0.0)
        right = np.where(self._beside_right[:, None], np.roll(one_column, -1, axis=0), 0.0)
        return np.asarray((one_column + share * (left + right)).reshape(values.shape))

    def _add_releases(self) -> None:
        """Bring the sums over all nodes so far up to date."""
        cells, goes_left, gradient, hessian, std = map(np.stack, zip(*self._releases, strict=True))
        hessian, noise = np.maximum(hessian, 0.0), std[:, None, None]
        self._releases.clear()
        if not len(self._tried):
            n_cells, n_outputs = len(self._n_categories), gradient.shape[2]
            self._signed = np.zeros((self._first_slot[-1], n_outputs))
            self._precision, self._explained, self._doubt, self._exposure = np.zeros((4, n_cells, n_outputs))
            self._tried = np.zeros(n_cells)
        while gradient.shape[1] > 1:
            n_nodes = gradient.shape[1] // 2
            level = slice(n_nodes - 1, 2 * n_nodes - 1)
            self._add_level(cells[:, level], goes_left[:, level], gradient, hessian, noise)
            gradient = gradient[:, 0::2] + gradient[:, 1::2]
            hessian = hessian[:, 0::2] + hessian[:, 1::2]
            noise = noise * np.sqrt(2.0)

    def _add_level(
        self,
        cells: NDArray[np.int64],
        goes_left: NDArray[np.uint8],
        gradient: NDArray[np.float64],
        hessian: NDArray[np.float64],
        noise: NDArray[np.float64],
    ) -> None:
        """Add the nodes whose children have the given sums, each with noise of standard deviation `noise`."""
        regularised = hessian + REGULARISATION * noise
        a, b = regularised[:, 0::2], regularised[:, 1::2]
        contrast = gradient[:, 0::2] / a - gradient[:, 1::2] / b
        by_noise = noise**2 * (1 / a**2 + 1 / b**2)
        kept = (hessian[:, 0::2] / a + hessian[:, 1::2] / b) / 2
        height = a * b / (a + b)
        weight = kept / by_noise

        cell = cells.ravel()

        def flat(values: NDArray[np.float64]) -> NDArray[np.float64]:
            return values.reshape(len(cell), -1)

        np.add.at(self._precision, cell, flat(weight * kept))
        np.add.at(self._explained, cell, flat(height * (contrast**2 - by_noise)))
        np.add.at(self._doubt, cell, flat(2 * (height * by_noise) ** 2))
        np.add.at(self._exposure, cell, flat(kept**2 * height))
        np.add.at(self._tried, cell, 1.0)
        signed, n_categories = flat(weight * contrast), self._n_categories[cell]
        first = self._first_slot[cell]
        threshold = n_categories == 0
        np.add.at(self._signed, first[threshold], signed[threshold])
        sides = goes_left.reshape(len(cell), -1)
        for node in np.flatnonzero(~threshold):
            n = n_categories[node]
            sign = 2.0 * sides[node, :n] - 1.0
            self._signed[first[node] : first[node] + n] += sign[:, None] * signed[node]
