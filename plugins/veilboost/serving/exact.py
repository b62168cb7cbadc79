"""The service of a party in exact training."""

from __future__ import annotations

from typing import Any

from gbdt_parties.identity.certificates import TLS, Identity
from veilboost.plans.exact import ExactServed
from veilboost.plans.tables import read_table
from veilboost.serving.rows import horizontal_service, read_rows
from veilboost.serving.server import SizedService
from xgb_fed.horizontal.exact.terms import ExactTerms


def make_service(served: ExactServed, tls: TLS) -> SizedService:
    """Read the party's file, and make its service."""
    table, held_out = read_rows(served, label=served.label, id_column=served.id), []
    if served.valid is not None:
        how: dict[str, Any] = {"keep": served.columns, "drop": served.drop, "form": served}
        valid = read_table(served.valid, label=served.label, id_column=served.id, **how)
        held_out = [(valid.columns, valid.label)]
    terms = ExactTerms(
        min_rows_per_node=served.min_rows_per_node,
        min_parties=served.min_parties,
        cuts=served.cuts,
        max_bin=served.max_bin,
        held_out=held_out,
        tls=tls,
        allowed=served.party,
        max_samples=served.max_samples,
    )
    return horizontal_service(
        served, table, Identity.of(tls.certificate).name, exact=terms, auditable=served.auditable
    )
