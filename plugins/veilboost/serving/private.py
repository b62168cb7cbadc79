"""The service of a party in differentially private horizontal training."""

from __future__ import annotations

from importlib import import_module
from typing import Any

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
    own: dict[str, Any]
    if served.spark is None:
        rows = declared.table_of(served.data, form=served)
        own, n_rows = {"X": rows.features, "y": rows.label, **rows.own}, rows.features.num_rows
    else:
        columns: dict[str, Any] = {"featuresCol": declared.columns, "labelCol": declared.label}
        columns |= {"weightCol": declared.weight, "groupsCol": declared.groups}
        read = import_module("lgb_dp.spark.parquet").parquet_table
        table, n_rows, undeclared = read(served.spark, served.data, declared.looked_at, **columns)
        declared.check_shares(undeclared, served.data)
        own = {"X": table}
    party = federated.Party(
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
        **own,
    )
    if not party.has_budget:
        party.close()
        raise InvalidArgumentError(f"--budget is missing: no ledger in {served.models} has one")
    service = FederatedService(party, served.models, limits_of(FederatedLimits, served))
    return SizedService(service, n_rows, len(declared.columns))
