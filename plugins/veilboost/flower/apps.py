"""The two halves of a Flower app: a relay at each node, and the coordinator where Flower runs its server."""

from __future__ import annotations

from typing import Any

from veilboost.flower.grid import GridCarrier, answered
from veilboost.flower.node import reply


def client_app() -> Any:
    """Make the `ClientApp` of a node whose configuration names a party's server (``veilboost[flower]``)."""
    from flwr.clientapp import ClientApp

    app = ClientApp()

    @app.query()
    def query(message: Any, context: Any) -> Any:
        seconds = message.metadata.ttl
        return answered(message, lambda requests: reply(context.node_config, requests, seconds))

    return app


def server_app() -> Any:
    """Make the `ServerApp` of a run whose configuration has `plan`, the file of ``veilboost train``.

    Its entry `overwrite` says whether a model that is there is replaced. Needs ``veilboost[flower]``.
    """
    from flwr.serverapp import ServerApp

    app = ServerApp()

    @app.main()
    def main(grid: Any, context: Any) -> None:
        from veilboost.flower.training import train_over  # with what a node has no use for

        settings = context.run_config
        train_over(GridCarrier(grid), str(settings["plan"]), overwrite=bool(settings.get("overwrite", False)))

    return app
