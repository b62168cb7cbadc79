"""Connections of one certificate that call a server as fast as they can.

Run as ``python flooding.py FOLDER PORT CONNECTIONS``.
"""

import sys
import threading
from contextlib import suppress
from pathlib import Path

import grpc

from gbdt_parties.identity.certificates import TLS
from gbdt_parties.transport import streams


def flood(folder, port, n_connections):
    """Call until this process is ended."""
    own = TLS.from_directory(Path(folder))
    credentials = grpc.ssl_channel_credentials(own.authority, own.key, own.certificate)
    options = [
        ("grpc.ssl_target_name_override", "bank"),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_reconnect_backoff_ms", 100),
    ]

    def call_for_ever():
        channel = grpc.secure_channel(f"127.0.0.1:{port}", credentials, options)
        exchange = channel.stream_stream("/" + "/".join(streams.METHOD))
        while True:
            with suppress(grpc.RpcError):
                list(exchange(streams.frames(b"flood"), timeout=60))
            started.set()

    started = threading.Event()
    for _ in range(n_connections):
        threading.Thread(target=call_for_ever, daemon=True).start()
    assert started.wait(120)
    print("flooding", flush=True)
    threading.Event().wait(300)


if __name__ == "__main__":
    flood(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
