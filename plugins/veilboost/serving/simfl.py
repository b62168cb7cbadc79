"""The service of a party in training by SimFL."""

from __future__ import annotations

from gbdt_parties.identity.certificates import TLS, Identity
from veilboost.plans.simfl import SimFLServed
from veilboost.serving.rows import horizontal_service, read_rows
from veilboost.serving.server import SizedService


def make_service(served: SimFLServed, tls: TLS) -> SizedService:
    """Read the party's file, and make its service."""
    table = read_rows(served, label=served.label, id_column=served.id)
    name = served.name or Identity.of(tls.certificate).name
    terms = {"min_similar": served.min_similar, "known_features": served.known_features}
    return horizontal_service(served, table, name, **terms)
