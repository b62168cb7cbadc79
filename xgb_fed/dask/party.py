"""A passive party whose rows are on a Dask cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from distributed import Client

from gbdt_commons.tables.frames import types_of
from gbdt_hosts import dask as host
from gbdt_parties.errors import InvalidDataError
from xgb_fed.boosting.features import read_columns
from xgb_fed.dask.partitions import Partitions
from xgb_fed.dask.rows import DaskRows
from xgb_fed.errors import ArgumentTypeError, InvalidArgumentError
from xgb_fed.vertical.passive.explanations import NONE
from xgb_fed.vertical.passive.local_party import InProcessParty, arguments_of, check_name
from xgb_fed.vertical.protocol.row_names import RowNames

TIMEOUT = 60.0
"""Seconds."""


class DaskParty(InProcessParty):
    """A passive party whose columns lie on the workers of a cluster.

    Training gives the model that `LocalParty` gives, byte for byte, however rows are divided into partitions
    and whatever happens to workers.  Each worker cuts its rows into bins, keeps the ciphertexts of their
    gradients, and multiplies them into a histogram of its own; this process adds these up.  It keeps the
    ciphertexts of a tree, too, so that the rows of a worker that is lost are summed up elsewhere.

    Parameters
    ----------
    client : distributed.Client
    X : dask.array.Array or dask.dataframe.DataFrame, shape (n_rows, n_features)
        The party's columns of the rows, in the active party's order, in known chunks or divisions.  Blocks of
        an array may be sparse matrices.  Partitions must be the same whenever they are computed.
    name : str
        Unique among the parties.
    eval_sets : sequence of collections
        The party's columns of each evaluation set.
    allow_export : bool
        Whether the party consents to give its splits to `export_booster`.
    require_encryption : bool
        Whether the party refuses keys below 2048 bits, and training without encryption.
    allow_explanations : {"none", "per-party", "per-feature"}, default="none"
        See `LocalParty`.
    timeout : float
        Seconds: a worker or a scheduler that is silent for so long is taken to be lost.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If the client is closed, or something is not a collection.
    InvalidDataError
        If chunks or divisions are unknown, or a partition has other columns, other data types or values that
        cannot be used.
    ClusterError
        If no worker can compute a partition.

    Examples
    --------
    >>> client = Client("tls://scheduler:8786", security=security)  # doctest: +SKIP
    >>> bank = DaskParty(client, dask.dataframe.read_parquet("bank/", calculate_divisions=True), "bank")
    ... # doctest: +SKIP
    """

    def __init__(
        self,
        client: Client,
        X: Any,
        name: str = "passive",
        *,
        eval_sets: Sequence[Any] = (),
        allow_export: bool = False,
        require_encryption: bool = False,
        allow_explanations: str = NONE,
        timeout: float = TIMEOUT,
    ) -> None:
        check_name(name)
        check_client(client, timeout)
        collections = [X, *eval_sets]
        named = list(zip(collections, arguments_of(collections, name), strict=True))
        for collection, argument in named:
            check_collection(collection, argument)
        self._client: Client = client
        self._timeout: float = timeout
        self.held: list[Partitions] = []
        try:
            for collection, argument in named:
                self.held.append(partitions_of(client, collection, argument, timeout))
            row_names = [_row_names(*one) for one in zip(collections, self.held, strict=True)]
            rows = [DaskRows(held) for held in self.held]
            super().__init__(
                name, rows[0], rows[1:], row_names, allow_export, require_encryption, allow_explanations
            )
        except BaseException:
            self.close()
            raise

    def with_rows(self, X: Any) -> DaskParty:
        """The same party with its columns of other rows, to predict those with its splits of models.

        Parameters
        ----------
        X : dask.array.Array or dask.dataframe.DataFrame, shape (n_rows, n_features)
            The columns of training, in their order; the rows are in the active party's.

        Returns
        -------
        DaskParty
            With this one's consents and splits; close it, too.

        Raises
        ------
        InvalidDataError
            If it has another number of columns.
        """
        argument = f"X of party {self.name!r}"
        check_collection(X, argument)
        held = partitions_of(self._client, X, argument, self._timeout)
        try:
            other = self._of_rows(DaskRows(held), _row_names(X, held))
        except BaseException:
            held.close()
            raise
        other.held = [held]
        return other

    def close(self) -> None:
        """Make the workers forget the rows."""
        for held in self.held:
            held.close()

    def __enter__(self) -> DaskParty:
        """Return the party."""
        return self

    def __exit__(self, *_: object) -> None:
        """Make the workers forget the rows."""
        self.close()


def check_client(client: Any, timeout: Any) -> None:
    """Raise unless a client is connected and waits for its results, and its timeout is so many seconds."""
    host.check_client(
        client, timeout, "a party waits for its workers", ArgumentTypeError, InvalidArgumentError
    )


def check_collection(X: Any, argument: str) -> None:
    """Raise unless something is a dask array or data frame whose rows are known without computing them."""
    if not host.is_collection(X):
        raise ArgumentTypeError(
            f"{argument} must be a dask array or a dask data frame, got {type(X).__name__}"
        )
    if X.ndim != 2:
        raise InvalidDataError(f"{argument} has {X.ndim} dimensions; a matrix has 2")
    if host.is_frame(X) and not X.known_divisions:
        raise InvalidDataError(
            f"{argument} has unknown divisions, so that the order of its rows is unknown; read it with "
            "calculate_divisions=True, or sort it by set_index"
        )
    if host.is_array(X) and (host.known_lengths(X) is None or np.isnan(X.shape[1])):
        raise InvalidDataError(f"{argument} has chunks of unknown lengths; call its compute_chunk_sizes()")


def partitions_of(client: Client, X: Any, argument: str, timeout: float) -> Partitions:
    """Have the workers of a client load a collection."""
    made_up = host.made_up_rows(X)
    names = read_columns(made_up, argument).names
    held = Partitions(client, host.partitions_of(X), types_of(made_up, InvalidDataError), names, timeout)
    if not held.n_rows:
        held.close()
        raise InvalidDataError(f"{argument} has no rows")
    return held


def _row_names(X: Any, held: Partitions) -> RowNames | None:
    """The names of a data frame's rows; None for an array."""
    if not host.is_frame(X):
        return None
    labels = [label for of_partition in held.labels() for label in of_partition or ()]
    names = np.array(labels)
    is_default = names.dtype.kind in "iu" and np.array_equal(names, np.arange(len(names)))
    return RowNames(names, is_default)
