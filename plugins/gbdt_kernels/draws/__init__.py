"""Kernels that turn given random words into draws: discrete noise and private selection."""

from gbdt_kernels.draws.discrete import discrete_laplace_from_words
from gbdt_kernels.draws.selection import of_candidates, select
