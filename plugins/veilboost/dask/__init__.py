"""``veilboost serve --dask``: the workers of a cluster read a party's file, and hold its rows."""

from __future__ import annotations

from atexit import register as at_exit
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from dask.delayed import delayed
from distributed import Client as _Client

from gbdt_commons.tables.frames import types_of
from gbdt_parties.errors import InvalidDataError
from veilboost.plans.file_forms import PLAIN, FileForm
from veilboost.plans.tables import Table, read_table
from xgb_fed.dask.partitions import Partitions
from xgb_fed.dask.rows import DaskRows
from xgb_fed.dask.worker_columns import digest_of_values
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.vertical.passive.held_rows import HeldRows

Client: Any = _Client
TIMEOUT = 60.0
"""Seconds after which silence means that a worker or the scheduler is lost."""


@dataclass(frozen=True)
class RowsOnCluster:
    """A table whose columns are on a cluster; see `xgb_fed.vertical.passive.service.NamedRows`."""

    columns: HeldRows
    ids: Sequence[str]
    has_ids: bool


@dataclass(frozen=True)
class _Reading:
    """How the party's file is read."""

    path: str
    id_column: str | None
    keep: Sequence[str] | None
    drop: Sequence[str]
    one_hot: Mapping[str, Sequence[str]]
    form: FileForm

    def part(self, start: int, stop: int) -> Any:
        """Values of some consecutive rows."""
        how: Any = {"keep": self.keep, "drop": self.drop, "one_hot": self.one_hot, "form": self.form}
        table = read_table(self.path, id_column=self.id_column, **how)
        return table.columns.data[start:stop]


def rows_on_cluster(
    address: str,
    path: str | Path,
    table: Table,
    id_column: str | None = None,
    keep: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    form: FileForm = PLAIN,
) -> RowsOnCluster:
    """Have the workers of a cluster read a file that this process has read as a `table`, each as many rows.

    `address` is the scheduler's; security settings are those of Dask's configuration. All workers find the
    file at `path`; other arguments are those of `read_table`. Raises InvalidArgumentError if the scheduler
    does not answer, InvalidDataError if the workers read other rows, ClusterError if they cannot read the
    file.
    """
    try:
        client = Client(address, timeout=TIMEOUT, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InvalidArgumentError(
            f"--dask {address}: the scheduler does not answer ({type(error).__name__})"
        ) from None
    columns = table.columns
    own_form = FileForm(separator=form.separator, decimal=form.decimal, encoding=form.encoding)
    reading = _Reading(str(Path(path).absolute()), id_column, keep, tuple(drop), table.categories, own_form)
    n_parts = min(columns.n_rows, max(1, len(client.scheduler_info()["workers"])))
    bounds = np.linspace(0, columns.n_rows, n_parts + 1).astype(int).tolist()
    parts = [delayed(reading.part)(start, stop) for start, stop in pairwise(bounds)]
    at_exit(client.close)
    held = Partitions(client, parts, types_of(columns.data[:1], InvalidArgumentError), columns.names, TIMEOUT)
    at_exit(held.close)  # before the client: what was registered last is called first
    own = [columns.take(np.arange(start, stop)) for start, stop in pairwise(bounds)]
    if held.digests != [digest_of_values(part) for part in own]:
        raise InvalidDataError(f"{path} holds other rows at the workers than here")
    return RowsOnCluster(DaskRows(held), table.ids, table.has_ids)
