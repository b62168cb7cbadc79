"""The server of a party, for any kind of training; modules of these names make the services of parties."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from gbdt_commons.files import locked_folder, make_folder
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.identity.certificates import TLS
from gbdt_parties.transport.server import Server, Service, raise_descriptor_limit
from gbdt_parties.transport.service import QUOTA_FILES
from veilboost.plans.sections import Served

logger = logging.getLogger(__name__)

SERVER_LOCK = ".server"
"""A folder in the models folder that the server holds the lock of."""


class Answering(NamedTuple):
    """A service, and the size of the table that it answers about."""

    service: Service
    n_rows: int
    n_features: int


class Kind(Protocol):
    """A module for one kind of training."""

    def make_service(self, served: Any, tls: TLS) -> Answering:
        """Read the party's file, and make its service."""


def serve(method: str, served: Served, *, reset_questions: bool) -> None:
    """Serve a party until the process is asked to stop.

    Parameters
    ----------
    method : str
        The kind of training.
    served : Served
        Its settings.
    reset_questions : bool
        Whether it forgets how often callers asked in the last hour.
    """
    # Before gRPC is loaded: its core writes a line of its own for every connection that shows no certificate.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    tls = TLS.from_directory(served.tls)
    kind: Kind = import_module(f"veilboost.serving.{method}")
    with _only_server_of(make_folder(served.models)):
        if reset_questions:
            for path in Path(served.models).glob("for-*/*.json"):
                if path.name in QUOTA_FILES:
                    path.unlink()
        service, n_rows, n_features = kind.make_service(served, tls)
        raise_descriptor_limit()
        server = Server(service, served.listen, tls, served.allow)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: server.stop(grace=5))
        logger.info("%d rows, %d columns; allowed: %s", n_rows, n_features, ", ".join(served.allow))
        host = served.listen.rpartition(":")[0]
        print(f"listening at {host}:{server.port}", flush=True)
        server.wait()
    logger.info("stopped")


@contextmanager
def _only_server_of(models: Path) -> Iterator[None]:
    """Keep other servers out of a folder: quotas are counted in each process, and kept there."""
    path = models / SERVER_LOCK
    path.mkdir(exist_ok=True)
    with locked_folder(path) as is_ours:
        if not is_ours:
            raise InvalidDataError(f"--models {models} is in use by another server; give each one a folder")
        yield
