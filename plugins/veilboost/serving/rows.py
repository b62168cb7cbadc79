"""The rows of a served party's file, and the service of a party that has labels, too."""

from __future__ import annotations

from typing import Any

from gbdt_parties.errors import InvalidDataError
from veilboost.plans.sections import ServedLabels, ServedTable
from veilboost.plans.tables import Table, read_table
from veilboost.serving.server import SizedService, limits_of
from xgb_fed.horizontal.common.rows import HorizontalLimits
from xgb_fed.horizontal.party import HorizontalParty
from xgb_fed.horizontal.service import HorizontalService


def read_rows(served: ServedTable, **how: Any) -> Table:
    """Read a party's file (`read_table`); `InvalidDataError` if unusable, or too many columns."""
    table = read_table(served.data, keep=served.columns, drop=served.drop, form=served, **how)
    n_features = table.columns.n_features
    if served.max_features is not None and n_features > served.max_features:
        raise InvalidDataError(
            f"{served.data} has {n_features} columns to use, --max-features {served.max_features}"
        )
    return table


def horizontal_service(served: ServedLabels, table: Table, name: str, **terms: Any) -> SizedService:
    """The service of a party with rows and labels, with arguments for one kind of training."""
    party = HorizontalParty(
        table.columns,
        table.label,
        name,
        categorical_labels=served.categorical_labels,
        max_rows=served.max_rows,
        max_rounds=served.max_rounds,
        accept_rows=served.accept_rows,
        directory=served.models,
        **terms,
    )
    service = HorizontalService(party, served.models, limits_of(HorizontalLimits, served))
    return SizedService(service, table.columns.n_rows, table.columns.n_features)
