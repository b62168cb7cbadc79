"""Certificates, servers and parties that record, for tests of the deployment."""

import tempfile
import threading
import time
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path

from gbdt_commons.errors import StoreError
from gbdt_commons.store_file import StoreFile
from gbdt_parties.identity.certificates import TLS, make_authority, make_certificate
from gbdt_parties.run.log import RUNS, RunLog
from gbdt_parties.transport import streams
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import Server

_folder = tempfile.TemporaryDirectory(prefix="veilboost-certificates-")


@cache
def authority(which):
    directory = Path(_folder.name) / which
    make_authority(directory, f"veilboost test authority{which.removeprefix('ca')}")
    return directory


def certificates(name, which="ca", days=365):
    """A party's folder."""
    directory = Path(_folder.name) / f"{which}-{name}-{days}"
    if not directory.exists():
        make_certificate(directory, authority(which), name, days=days)
    return directory


def tls(name, which="ca", days=365):
    return TLS.from_directory(certificates(name, which, days))


def eventually(condition, seconds=60.0):
    """Wait until something is so, which a busy machine may delay."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def when_store_has(path, kind, n_entries, do):
    """Do something in another thread once the run in a store of another object has so many entries."""

    def wait():
        end = time.monotonic() + 300
        while time.monotonic() < end:
            with suppress(StoreError, OSError), closing(StoreFile(path, None, read_only=True)) as store:
                runs = [RunLog(store, bytes.fromhex(key)).store for key in store.keys(RUNS)]
                if sum(run.size(kind, "") for run in runs) >= n_entries:
                    do()
                    return
            time.sleep(0.002)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


class HandlerService:
    """One handler for whoever calls; remembers who that was and what was said."""

    def __init__(self, handler):
        self.handler = handler
        self.callers = []
        self.exchanges = []

    def handle(self, caller, row_sets, request):
        answer = self.handler.handle(request)
        self.callers.append((caller.name, row_sets))
        self.exchanges.append((bytes(request), bytes(answer)))
        return answer


class Recorder:
    """A party that remembers what was said to it and what it answered."""

    def __init__(self, party):
        self.party = party
        self.name = party.name
        self.exchanges = []

    def handle(self, request):
        answer = self.party.handle(request)
        self.exchanges.append((bytes(request), bytes(answer)))
        return answer


@contextmanager
def serving(service, name="bank", allowed=("acme",), **how):
    server = Server(service, "127.0.0.1:0", tls(name, **how), allowed)
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def connected(server, name="acme", which="ca", days=365, timeout=60.0, **how):
    party = RemoteParty(f"127.0.0.1:{server.port}", tls(name, which, days), "bank", timeout, **how)
    try:
        yield party
    finally:
        party.close()


@contextmanager
def raw_calls(server, name="acme", options=(), **how):
    """What a caller can do that is no `RemoteParty`: takes frames, gives frames."""
    import grpc

    own = tls(name)
    credentials = grpc.ssl_channel_credentials(own.authority, own.key, own.certificate)
    options = [("grpc.ssl_target_name_override", "bank"), *options]
    with grpc.secure_channel(f"127.0.0.1:{server.port}", credentials, options, **how) as channel:
        yield channel.stream_stream("/" + "/".join(streams.METHOD))
