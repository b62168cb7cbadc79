"""The service of a party in differentially private horizontal training."""

from __future__ import annotations

from gbdt_parties.identity.certificates import TLS, Identity
from lgb_dp import federated
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.federated.service import FederatedLimits, FederatedService
from veilboost.plans.declared import read_declared
from veilboost.plans.private import PrivateServed
from veilboost.serving.server import SizedService, limits_of


def make_service(served: PrivateServed, tls: TLS) -> SizedService:
    """Read the party's file, and make its service."""
    declared = read_declared(served.declared)
    rows = declared.table_of(served.data, form=served)
    party = federated.Party(
        rows.features,
        rows.label,
        name=Identity.of(tls.certificate).name,
        folder=served.models,
        budget=served.epsilon_and_delta,
        min_parties=served.min_parties,
        colluding=served.colluding,
        parties_per_person=served.parties_per_person,
        tls=tls,
        allowed=served.party,
        auditable=served.auditable,
        **declared.arguments(),
        **rows.own,
    )
    if not party.has_budget:
        party.close()
        raise InvalidArgumentError(f"--budget is missing: no ledger in {served.models} has one")
    service = FederatedService(party, served.models, limits_of(FederatedLimits, served))
    return SizedService(service, rows.features.num_rows, len(declared.columns))
