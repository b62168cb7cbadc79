"""The two halves of a Flower app: a relay at each node, and the coordinator where Flower runs its server."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from gbdt_parties.channel import Party
from gbdt_parties.identity.certificates import TLS
from veilboost.flower.channel import Carrier, NodeParty, Nodes
from veilboost.flower.grid import GridCarrier, answered
from veilboost.flower.node import reply
from veilboost.plans.entries import PlanError
from veilboost.plans.plan import module_of, read_plan

METHODS = ("private", "exact")
"""Rows apart whose parties sign and mask what they send: the platform sees no more than a coordinator."""


def client_app() -> Any:
    """Make the `ClientApp` of a node whose configuration names a party's server (`node.ENTRIES`).

    Returns
    -------
    flwr.clientapp.ClientApp

    Raises
    ------
    ImportError
        Without ``flwr``, the extra ``veilboost[flower]``.
    """
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query()
    def query(message: Any, context: Any) -> Any:
        seconds = message.metadata.ttl
        return answered(message, lambda requests: reply(context.node_config, requests, seconds))

    return app


def server_app() -> Any:
    """Make the `ServerApp` of a run whose configuration has `plan`, the file of ``veilboost train``.

    Its entry `overwrite` says whether a model that is there is replaced.

    Returns
    -------
    flwr.serverapp.ServerApp

    Raises
    ------
    ImportError
        Without ``flwr``, the extra ``veilboost[flower]``.
    """
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Any, context: Any) -> None:
        settings = context.run_config
        train_over(GridCarrier(grid), str(settings["plan"]), overwrite=bool(settings.get("overwrite", False)))

    return app


def train_over(carrier: Carrier, plan_file: str, *, overwrite: bool = False) -> None:
    """Train by a plan with parties behind nodes, as ``veilboost train`` does with parties behind servers.

    Parameters
    ----------
    carrier : Carrier
    plan_file : str
        With ``method = "private"`` or ``"exact"``; the addresses of the parties are not used.
    overwrite : bool
        Whether a model that is there is replaced.

    Raises
    ------
    PlanError
        If the plan is of another method.
    """
    from veilboost.running.run import train  # with what a node has no use for

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
