"""The two halves of a Flower app: a party at each node, and the coordinator where Flower runs its server."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from gbdt_parties.channel import Party
from veilboost.flower.channel import Carrier, NodeParty, Nodes
from veilboost.flower.grid import GridCarrier, answered
from veilboost.plans.entries import PlanError
from veilboost.plans.plan import module_of, read_plan
from veilboost.plans.private import PrivatePlan

MAX_MESSAGE_BYTES = 1 << 30
"""Half of what Flower's messages may have."""

_MAX_AUTOMATIC_DEPTH = 9
_HEAD_BYTES = 512
"""Of a contribution and its message, at most, beside its values."""


def client_app() -> Any:
    """Make the `ClientApp` of a node whose configuration has `plan`, the file of ``veilboost serve``.

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
        from veilboost.flower.node import reply  # with all that a party needs

        plan = str(context.node_config.get("plan", ""))
        return answered(message, lambda requests: reply(plan, requests))

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
        With ``method = "private"``; the addresses of the parties are not used.
    overwrite : bool
        Whether a model that is there is replaced.

    Raises
    ------
    PlanError
        If the plan is of another method, or its last messages would be too long for Flower.
    """
    from veilboost.running.run import train  # with what a node has no use for

    plan = read_plan(plan_file)
    if plan.method != "private":
        raise PlanError(f"{plan_file}: method={plan.method!r} must be 'private' for a Flower app")
    n_bytes = largest_message(plan)
    if n_bytes > MAX_MESSAGE_BYTES:
        raise PlanError(
            f"{plan_file}: messages would have up to {n_bytes} bytes, and Flower takes {MAX_MESSAGE_BYTES}; "
            "training.rounds, max_depth or the number of parties must be smaller"
        )
    nodes = Nodes(carrier, plan.training.timeout)

    def behind_nodes(_plan: Any, _stack: ExitStack, _row_sets: Any) -> Sequence[Party]:
        return [NodeParty(nodes, party.name) for party in plan.parties]

    train(
        module_of(plan.method, "veilboost.running"),
        plan,
        Namespace(plan=plan_file, overwrite=overwrite),
        behind_nodes,
    )


def largest_message(plan: PrivatePlan) -> int:
    """Bytes of a run's last messages, at most: all sums so far, each of all parties' contributions.

    A contribution has 8 bytes for each gradient and hessian of a leaf, twice if rows are held out.

    Raises
    ------
    InvalidArgumentError, UnsupportedParameterError
        If the plan's parameters are not those of private training.
    """
    from lgb_dp.boosting.params import training_parameters  # with LightGBM, which a node has no use for yet

    training, n_parties = plan.training, len(plan.parties) + (plan.data.file is not None)
    # As every party reads them, by whatever names; `max_bin` is compared there.
    known = training_parameters({**plan.parameters, "max_bin": None}, None)
    depth = known.depth if "max_depth" in known.given else _MAX_AUTOMATIC_DEPTH
    values = training.rounds * 4 * known.n_outputs * 2**depth
    return int(n_parties * (8 * values + _HEAD_BYTES * (training.rounds + 2)))
