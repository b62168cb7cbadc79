"""Callers that call as fast as they can, on many connections: an allowed party must not notice much."""

import os
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import grpc
import pytest

from deployment import HandlerService, certificates, connected, eventually, serving
from gbdt_parties.errors import AuthenticationError
from gbdt_parties.transport import server as module
from served_parties import Echo

FLOODER = Path(__file__).parents[2] / "support" / "flooding.py"


@contextmanager
def flood(server, name, n_connections):
    """A process of its own that floods the server."""
    arguments = [sys.executable, FLOODER, certificates(name), str(server.port), str(n_connections)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        try:
            assert process.stdout.readline() == "flooding\n"
            yield
        finally:
            process.kill()


@pytest.mark.parametrize(
    "flooders",
    [*(pytest.param([name], marks=pytest.mark.slow) for name in ("eve", "umbrella")), ["eve", "umbrella"]],
)
def test_a_flood_of_40_connections_takes_no_place_of_an_allowed_party(flooders, caplog):
    """Eve is not listed, umbrella is."""
    with ExitStack() as stack, serving(HandlerService(Echo()), allowed=["acme", "umbrella"]) as server:
        party = stack.enter_context(connected(server, timeout=120.0))
        for name in flooders:
            stack.enter_context(flood(server, name, 40))
        begun = time.monotonic()
        for number in range(8):
            request = bytes([number]) * 1000
            assert party.handle(request) == request
        assert time.monotonic() - begun < 100
    # A hundred thousand refusals, a handful of lines.
    lines = [line for line in caplog.records if line.name.startswith("gbdt_parties")]
    assert len(lines) < 10 * len(flooders)


def test_idle_connections_are_closed_and_come_back(monkeypatch):
    monkeypatch.setattr(module, "IDLE", 1.0)
    monkeypatch.setattr(module, "LINGER", 0.1)
    with serving(HandlerService(Echo())) as server:
        states = []
        with connected(server) as party:
            party.handle(b"w")
            party.connection.channel.subscribe(states.append)
            assert party.handle(b"x") == b"x"
            ready, idle = grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.IDLE
            eventually(lambda: ready in states and idle in states[states.index(ready) :])
            assert party.handle(b"y") == b"y"
        with connected(server, name="eve") as eve, pytest.raises(AuthenticationError):
            eve.handle(b"x")
