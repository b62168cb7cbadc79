"""A training run by a plan, with parties behind nodes."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from gbdt_parties.channel import Party
from gbdt_parties.identity.certificates import TLS
from veilboost.flower.carrier import Carrier
from veilboost.flower.channel import NodeParty, Nodes
from veilboost.plans.entries import PlanError
from veilboost.plans.plan import module_of, read_plan
from veilboost.running.run import train

METHODS = ("private", "exact")
"""Rows apart whose parties sign and mask what they send: the platform sees no more than a coordinator."""


def train_over(carrier: Carrier, plan_file: str, *, overwrite: bool = False) -> None:
    """Train by a plan with parties behind nodes, as ``veilboost train`` does with parties behind servers.

    The plan has ``method = "private"`` or ``"exact"`` (`PlanError` otherwise); its addresses are not used,
    and `overwrite` says whether a model that is there is replaced.
    """
    plan = read_plan(plan_file)
    if plan.method not in METHODS:
        raise PlanError(
            f"{plan_file}: method={plan.method!r} must be one of {list(METHODS)} for a Flower app"
        )
    nodes = Nodes(carrier, plan.training.timeout)
    authority = TLS.from_directory(plan.path(plan.tls)).authority

    def behind_nodes(_plan: Any, _stack: ExitStack, _row_sets: Any) -> Sequence[Party]:
        return [NodeParty(nodes, party.name, authority) for party in plan.parties]

    train(
        module_of(plan.method, "veilboost.running"),
        plan,
        Namespace(plan=plan_file, overwrite=overwrite),
        behind_nodes,
    )
