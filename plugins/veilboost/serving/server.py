"""The server of a party, for any kind of training; modules of these names make the services of parties."""

from __future__ import annotations

import logging
import os
import signal
from contextlib import closing
from dataclasses import fields
from typing import Any, NamedTuple, Protocol, TypeVar

from gbdt_kernels.compilation import announcing_compilation
from gbdt_parties.identity.certificates import TLS
from gbdt_parties.quota import CallerLimits
from gbdt_parties.transport.server import Server, raise_descriptor_limit
from gbdt_parties.transport.service import RowService
from veilboost.plans.plan import module_of
from veilboost.plans.sections import Served
from veilboost.serving.changes import POLL, Changes

logger = logging.getLogger(__name__)
L = TypeVar("L", bound=CallerLimits)
COMPILING = "compiling kernels for this machine (once; they are cached)"


class SizedService(NamedTuple):
    """A service, and the size of the table that it answers about."""

    service: RowService[Any]
    n_rows: int
    n_features: int


def limits_of(kind: type[L], served: Served) -> L:
    """The limits of a service that the settings of a served party say, by the names that they share."""
    names = [f.name for f in fields(kind) if hasattr(served, f.name)]
    given = {name: getattr(served, name) for name in names}
    return kind(**{**given, "max_memory": int(served.max_memory * 2**30)})


class ServiceKind(Protocol):
    """A module for one kind of training."""

    def make_service(self, served: Any, tls: TLS) -> SizedService:
        """Read the party's file, and make its service."""


def serve(method: str, served: Served, *, reset_questions: bool, file: str | None = None) -> None:
    """Serve a party of a `method` until the process is asked to stop.

    With `reset_questions` it forgets how often callers asked in the last hour; a list that changes in the
    `file` of the settings is taken up.
    """
    # Before gRPC is loaded: its core writes a line of its own for every connection that shows no certificate.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    tls = TLS.from_directory(served.tls)
    tls.check_dates()
    kind: ServiceKind = module_of(method, "veilboost.serving")
    service, n_rows, n_features = kind.make_service(served, tls)
    with closing(service), announcing_compilation(lambda: logger.info(COMPILING)):
        if reset_questions:
            service.reset_questions()
        raise_descriptor_limit()
        server = Server(service, served.listen, tls, served.allow)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: server.stop(grace=5))
        logger.info("%d rows, %d columns; allowed: %s", n_rows, n_features, ", ".join(served.allow))
        host = served.listen.rpartition(":")[0]
        print(f"listening at {host}:{server.port}", flush=True)
        changes = Changes(server, service.trust, served, file)
        while server.wait(POLL):
            changes.look()
    logger.info("stopped")
