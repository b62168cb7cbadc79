"""Ports of servers that tests start again are theirs alone."""

import socket
import subprocess
import sys

import pytest

import free_ports
from free_ports import FIRST, LAST, free_port

OTHER = "import free_ports\nfree_ports.FIRST, free_ports.LAST = {0}, {0}\nprint(free_ports.free_port())"


def asked_by_another_process(port):
    command = [sys.executable, "-c", OTHER.format(port)]
    return subprocess.run(
        command, cwd=free_ports.__file__.rpartition("/")[0], capture_output=True, text=True, check=False
    )


def test_a_port_is_given_once_and_is_free_for_a_server():
    ports = [free_port() for _ in range(20)]
    assert len(set(ports)) == 20
    assert all(FIRST <= port <= LAST for port in ports)
    for _ in range(2):
        socket.create_server(("127.0.0.1", ports[0])).close()


def test_no_other_process_is_given_a_port_that_has_no_server_yet():
    assert "no port is free" in asked_by_another_process(free_port()).stderr


def test_a_port_with_a_server_is_not_given(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        for end in ("FIRST", "LAST"):
            monkeypatch.setattr(free_ports, end, server.getsockname()[1])
        with pytest.raises(OSError, match="port is free"):
            free_port()
