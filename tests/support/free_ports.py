"""Ports for servers that are stopped and started again at the same address."""

import contextlib
import random
import socket

FIRST, LAST = 20_000, 29_999
"""Below the range from which systems give a port to whatever asks for any."""

_claims = []


def free_port():
    """A port of 127.0.0.1 that stays free until this process ends, whatever other tests run meanwhile.

    Each process that asks holds the UDP port of the same number, which one process can do at a time, and
    which leaves the TCP port to the server.

    Returns
    -------
    int
    """
    ports = range(FIRST, LAST + 1)
    first = random.SystemRandom().randrange(len(ports))
    for port in (*ports[first:], *ports[:first]):
        claim = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with contextlib.suppress(OSError), socket.socket() as one:
            claim.bind(("127.0.0.1", port))
            one.bind(("127.0.0.1", port))
            _claims.append(claim)
            return port
        claim.close()
    raise OSError("no port is free")
