"""The service of the party with columns alone, in differentially private training with columns apart."""

from __future__ import annotations

from gbdt_parties.identity.certificates import TLS, Identity
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.vertical import ColumnLimits, ColumnParty, ColumnService, Consent
from veilboost.plans.declared import read_declared_columns, rows_to_align
from veilboost.plans.private_columns import PrivateColumnsServed
from veilboost.serving.server import SizedService, limits_of


def make_service(served: PrivateColumnsServed, tls: TLS) -> SizedService:
    """Read the party's file, and make its service."""
    declared = read_declared_columns(served.declared)
    rows = rows_to_align(declared, served.data, served.id, served)
    party = ColumnParty(
        rows.features,
        name=Identity.of(tls.certificate).name,
        folder=served.models,
        budget=served.epsilon_and_delta,
        ids=None if served.id is None else rows.ids,
        tls=tls,
        allowed=served.party,
        consent=Consent(models_per_row=served.models_per_row),
        auditable=served.auditable,
        **declared.arguments(),
    )
    if not party.has_budget:
        party.close()
        raise InvalidArgumentError(f"--budget is missing: no ledger in {served.models} has one")
    service = ColumnService(party, served.models, limits_of(ColumnLimits, served))
    return SizedService(service, rows.features.num_rows, len(declared.columns))
