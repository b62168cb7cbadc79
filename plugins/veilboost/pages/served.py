"""The server of the live page: on this machine alone, to requests that have its token, and read-only.

A page of another site cannot read it: its requests have no token, and a name of its own that leads to this
machine is refused by its Host.  Nothing is written, and nothing is executed by the browser.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import sys
import time
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timezone
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Condition, Lock, Thread
from typing import Any

from gbdt_commons.errors import VeilboostError
from gbdt_commons.quoting import quoted
from gbdt_parties.errors import InvalidDataError
from veilboost.doctor.findings import Finding
from veilboost.doctor.peers import Peer, examine
from veilboost.doctor.places import Place, places_of
from veilboost.pages.markup import PAGE_STYLE
from veilboost.pages.overview import overview

HOST = "127.0.0.1"
OLD, WAIT = 3.0, 0.1
"""Seconds after which folders are looked at again, and for which a request waits for that at most.

Long looks are taken more rarely: a page costs at most a tenth of a processor."""

BUSY, IDLE, REACH = 5, 60, 30.0
"""Seconds after which browsers ask again, with a run under way and without, and addresses are tried again."""

MOST = 32
"""Connections at a time; with one more, the oldest one ends: slow ones keep nobody out."""

_STYLE_HASH = b64encode(hashlib.sha256(PAGE_STYLE.encode()).digest()).decode()
_HEADERS = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Watched:
    """Folders at some paths, which are looked at when they are asked for, by one thread at a time."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._paths, self._changed, self._is_looking = paths, Condition(), False
        self._reached: dict[str, tuple[float, str]] = {}
        self._look()
        Thread(target=self._reach, daemon=True).start()  # addresses that are silent take a second each

    def newest(self) -> tuple[list[Place], datetime]:
        """The places as they were last seen, and when; new ones are waited for a moment."""
        with self._changed:
            if time.monotonic() > self._due and not self._is_looking:
                self._is_looking = True
                Thread(target=self._renew, daemon=True).start()
            self._changed.wait_for(lambda: not self._is_looking, WAIT)
            return self._places, self._when

    def reached(self, address: str) -> str:
        """Whether a server answered at an address when it was last tried."""
        return self._reached.get(address, (0.0, "not tried yet"))[1]

    def _renew(self) -> None:
        self._look()
        self._reach()

    def _look(self) -> None:
        began = time.monotonic()
        try:
            when = datetime.now(timezone.utc)
            places = [one for path in self._paths for one in _seen(path)]
            with self._changed:
                self._places, self._when = places, when
        finally:
            with self._changed:
                self._is_looking, now = False, time.monotonic()
                self._due = now + max(OLD, 10 * (now - began))
                self._changed.notify_all()

    def _reach(self) -> None:
        rows = (row for place in self._places for finding in place.findings for row in finding.rows)
        for address in {str(row["address"]) for row in rows if "address" in row}:
            if time.monotonic() - self._reached.get(address, (-REACH, ""))[0] >= REACH:
                (found, *_), _ = examine(Peer("", address, ""), None, 1.0)
                self._reached[address] = time.monotonic(), found.seen if found.mend else "yes"


class PageServer(ThreadingHTTPServer):
    """The server of one page, whose `address` has its token; port 0 stands for any that is free.

    An InvalidDataError says that the port is in use, or not this user's.
    """

    daemon_threads = True

    def __init__(self, watched: Watched, port: int) -> None:
        self.watched, self.token = watched, secrets.token_urlsafe(24)
        self._open, self._guard = list[Any](), Lock()
        try:
            super().__init__((HOST, port), _Answering)
        except OSError as error:
            raise InvalidDataError(
                f"--port={port} cannot be used: {error.strerror}; give another one, or none at all"
            ) from None
        self.hosts = {f"{name}:{self.server_port}" for name in (HOST, "localhost")}
        self.address = f"http://{HOST}:{self.server_port}/{self.token}/"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; the oldest of too many connections ends."""
        with self._guard:
            self._open.append(request)
            oldest = self._open[:-MOST]
        for one in oldest:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """End a connection."""
        with self._guard, suppress(ValueError):
            self._open.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Leave out browsers that went away."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class _Answering(BaseHTTPRequestHandler):
    """The answer to one request."""

    server: PageServer
    timeout = 5.0
    server_version, sys_version = "veilboost", ""

    def do_GET(self) -> None:
        """Send the page, or say what the address lacks."""
        place = f"/{self.server.token}/"
        if self.headers.get("Host") not in self.server.hosts:
            self.send_error(
                HTTPStatus.MISDIRECTED_REQUEST, "the page is this machine's: open it as 127.0.0.1"
            )
        elif self.path == "/favicon.ico":
            self._send(HTTPStatus.NO_CONTENT, "")
        elif not hmac.compare_digest(self.path.removesuffix("still").encode(), place.encode()):
            self.send_error(
                HTTPStatus.FORBIDDEN, "the token is missing: open the address that veilboost page has printed"
            )
        else:
            is_still = self.path.endswith("/still")
            places, when = self.server.watched.newest()
            pause = ("Renew this page by itself", place) if is_still else ("Stop renewing", f"{place}still")
            page = overview(places, self.server.watched.reached, when, pause)
            seconds = BUSY if any(_is_busy(one) for one in places) else IDLE
            self._send(HTTPStatus.OK, page, {} if is_still else {"Refresh": str(seconds)})

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Say what is wrong as plain text, which shows nothing of the request."""
        self._send(HTTPStatus(code), message or HTTPStatus(code).phrase, kind="text/plain")

    def _send(
        self, code: HTTPStatus, text: str, more: dict[str, str] | None = None, kind: str = "text/html"
    ) -> None:
        content = text.encode()
        self.send_response(code)
        length = {"Content-Type": f"{kind}; charset=utf-8", "Content-Length": str(len(content))}
        for name, value in {**_HEADERS, **length, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: lines would have the token."""


def _is_busy(place: Place) -> bool:
    return any(dict(one.values).get("runs") for one in place.findings)


def _seen(path: str) -> list[Place]:
    """The places at a path; one that cannot be read, such as a file removed meanwhile, says so."""
    try:
        return [*places_of(path)]
    except (VeilboostError, OSError, ValueError) as error:
        mend = "the next look may find it; else veilboost status names the file"
        return [Place(str(path), "unreadable", [Finding("path", quoted(str(error)), mend)])]
