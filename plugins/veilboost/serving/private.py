"""The options of ``serve --private``, and the party of private horizontal training that they describe."""

from __future__ import annotations

import argparse
from typing import Any

from gbdt_parties.identity.certificates import TLS, Identity
from lgb_dp import federated
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.federated.service import FederatedLimits, FederatedService
from veilboost.plans.declared import read_declared

OPTIONS: dict[str, Any] = {"budget": None, "colluding": 1, "parties_per_person": 1}
"""Options that are for private training alone, by the names of their values, with their defaults."""

UNUSED: dict[str, Any] = {
    "columns": None,
    "drop": [],
    "name": None,
    "max_rows": None,
    "max_features": None,
    "max_bin": 256,
    "max_depth": 10,
    "questions_per_hour": 120,
    "max_memory": 8.0,
}
"""Options of the other kinds of training, with their defaults: here declarations and ledger decide."""


def add_options(group: Any) -> None:
    """Add the options."""
    add = group.add_argument
    add(
        "--private",
        metavar="DECLARED",
        help="train privately on the columns that this TOML or YAML file declares, the same at all parties",
    )
    add(
        "--budget",
        nargs=2,
        type=float,
        metavar=("EPSILON", "DELTA"),
        help="of all that these rows answer, in all runs together; needed unless the ledger has one",
    )
    add(
        "--colluding",
        type=int,
        default=1,
        help="parties that may pool what they know, which a run must assume at least (%(default)s)",
    )
    add(
        "--parties-per-person",
        type=int,
        default=1,
        help="parties that may have rows of one person, which a run must assume at least (%(default)s)",
    )


def make_service(args: argparse.Namespace, tls: TLS) -> tuple[FederatedService, int, int]:
    """The service of a party, and the numbers of its rows and columns."""
    declared = read_declared(args.private)
    rows = declared.table_of(args.data)
    party = federated.Party(
        rows.features,
        rows.label,
        name=Identity.of(tls.certificate).name,
        folder=args.models,
        budget=None if args.budget is None else tuple(args.budget),
        min_parties=args.min_parties,
        colluding=args.colluding,
        parties_per_person=args.parties_per_person,
        tls=tls,
        allowed=args.party,
        **declared.arguments(),
        **rows.own,
    )
    if not party.has_budget:
        party.close()
        raise InvalidArgumentError(f"--private needs --budget: no ledger in {args.models} has one")
    limits = FederatedLimits(sessions_per_hour=args.sessions_per_hour, max_models=args.max_models)
    return FederatedService(party, args.models, limits), rows.features.num_rows, len(declared.columns)
