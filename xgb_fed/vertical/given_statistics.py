"""How much an active party has been told about the columns of a passive one, over all its training runs.

Each node with statistics tells the active party, which knows the node's rows and their gradients, three exact
sums over the rows of every bin: their number, and their sums of g and h.  They are linear equations for the
same unknown: which rows are in the bin.  About as many equations as rows solve for it, however many rows each
bin and each node has.  Nothing exact in fixed bins avoids this, so it is counted, said and limited on demand.
"""

from __future__ import annotations

import logging
import math
from pathlib import Path
from threading import Lock

from gbdt_parties._sealed import read_sealed, write_sealed
from gbdt_parties.errors import InvalidDataError, ProtocolError

logger = logging.getLogger(__name__)

SUMS_PER_NODE = 3
"""Sums of each bin of a node, for each ciphertext of a row.

A ciphertext that packs the gradients of several classes has two further sums per class, which nobody but the
active party sees: the count is then a lower bound.
"""

TELLING = 0.5
"""Equations per row from which on the log warns; with 1.3, 87 to 96 % of the cells' bins were found."""

_STEP = 0.01
"""What is written ahead, so that the file changes rarely and is never behind."""


class GivenStatistics:
    """The equations per row that one active party has got, never less than that after a crash.

    Parameters
    ----------
    limit : float
        Equations per row beyond which statistics are refused.
    path : Path, optional
        File that keeps the number; in memory only by default.

    Raises
    ------
    InvalidDataError
        If the file is damaged.
    """

    def __init__(self, limit: float = math.inf, path: Path | None = None) -> None:
        self._limit, self._path, self._lock = limit, path, Lock()
        self.per_row = self._written = 0.0
        if path is not None and path.exists():
            try:
                self.per_row = self._written = float(read_sealed(path)["per_row"])
            except (KeyError, TypeError, ValueError):
                logger.error("%s does not hold what an active party was told", path)
                raise InvalidDataError("what the active party was told before cannot be read") from None

    def add(self, n_nodes: int, n_ciphertexts: int, n_rows: int) -> None:
        """Count statistics before they are given.

        Parameters
        ----------
        n_nodes : int
            Nodes with statistics.
        n_ciphertexts : int
            Ciphertexts per row, each with gradients.
        n_rows : int
            Rows of the training run.  Runs on parts of the rows count as if they were on the same ones.

        Raises
        ------
        ProtocolError
            If they are more than the limit.
        """
        with self._lock:
            before = self.per_row
            after = before + SUMS_PER_NODE * n_nodes * n_ciphertexts / n_rows
            if not after <= self._limit:  # nor under a limit that is not a number
                raise ProtocolError(
                    f"this party has given {before:.2f} statistics per row in all training runs, and gives "
                    f"at most {self._limit:g}"
                )
            self.per_row = after
            if self._path is not None and self.per_row > self._written:
                self._written = self.per_row + _STEP
                write_sealed(self._path, {"per_row": self._written})
        if before < TELLING <= after:
            logger.warning(
                "%.2f statistics per row were given in all training runs: from about one per row on, the "
                "active party can compute the bins of most values (--max-statistics limits them)",
                after,
            )
