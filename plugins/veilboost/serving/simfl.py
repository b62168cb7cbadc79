"""The service of a party in training by SimFL."""

from __future__ import annotations

from gbdt_parties.identity.certificates import TLS, Identity
from veilboost.plans.simfl import SimFLServed
from veilboost.serving.rows import limits_of, read_rows
from veilboost.serving.server import Answering
from xgb_fed.horizontal.party import HorizontalParty
from xgb_fed.horizontal.service import HorizontalService


def make_service(served: SimFLServed, tls: TLS) -> Answering:
    """Read the party's file, and make its service."""
    table = read_rows(served, label=served.label)
    party = HorizontalParty(
        table.columns,
        table.label,
        served.name or Identity.of(tls.certificate).name,
        categorical_labels=served.categorical_labels,
        min_similar=served.min_similar,
        known_features=served.known_features,
        max_rows=served.max_rows,
        max_rounds=served.max_rounds,
        directory=served.models,
    )
    service = HorizontalService(party, served.models, limits_of(served))
    return Answering(service, table.columns.n_rows, table.columns.n_features)
