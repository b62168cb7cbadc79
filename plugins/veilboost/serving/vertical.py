"""The service of a passive party."""

from __future__ import annotations

import logging
from importlib import import_module
from pathlib import Path

from gbdt_commons.files import make_folder
from gbdt_commons.sealed import write_sealed
from gbdt_parties.identity.certificates import TLS, Identity
from veilboost.kept_files import read_json
from veilboost.plans.tables import Table, log_unseen
from veilboost.plans.vertical import VerticalServed
from veilboost.serving.rows import read_rows
from veilboost.serving.server import SizedService, limits_of
from xgb_fed.vertical.passive.service import Limits, NamedRows, PassiveService

logger = logging.getLogger(__name__)

CATEGORIES_FILE = "categories.json"
"""In a passive party's models folder: values of its one-hot encoded columns."""


def make_service(served: VerticalServed, tls: TLS) -> SizedService:
    """Read the party's file, and make its service."""
    table = table_of(served)
    rows: NamedRows = table
    if served.dask is not None:
        # Loaded where it is asked for: Dask is optional.
        on_cluster = import_module("veilboost.dask").rows_on_cluster
        rows = on_cluster(served.dask, served.data, table, served.id, served.columns, served.drop, served)
    name = served.name or Identity.of(tls.certificate).name
    service = PassiveService(rows, served.models, name, limits_of(Limits, served), served.auditable)
    return SizedService(service, table.columns.n_rows, table.columns.n_features)


def table_of(served: VerticalServed) -> Table:
    """Read the file, with the values of categories of the first start: models depend on them."""
    kept = Path(served.models) / CATEGORIES_FILE
    known = read_json(kept) if kept.exists() else {}
    one_hot, categorical = (
        {name: known[name] for name in columns} if set(columns) <= set(known) else columns
        for columns in (served.one_hot, served.categorical)
    )
    table = read_rows(served, id_column=served.id, one_hot=one_hot, categorical=categorical)
    log_unseen(table, served.data, logger)
    values = {**table.categories, **table.categorical}
    if values and values != known:
        make_folder(kept.parent)
        write_sealed(kept, values)
    return table
