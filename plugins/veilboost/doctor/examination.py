"""All checks of a plan, or of a served party, in the order in which a run would stumble."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from cryptography import x509

import gbdt_kernels
from gbdt_commons.errors import VeilboostError
from gbdt_kernels.compilation import cache_directory, is_compiled
from gbdt_kernels.residues import arithmetic_is_compiled
from gbdt_parties import protocol
from gbdt_parties.identity.certificates import TLS, Identity
from gbdt_parties.transport import streams
from veilboost import __version__
from veilboost.doctor import findings, peers, rows
from veilboost.doctor.findings import Finding
from veilboost.plans.sections import Plan, Served

MAX_SECONDS = 10.0
"""Silence of a server after which a handshake ends."""

KERNELS = {
    "exact": "gbdt_kernels.trees.wide_sums:_add_rows",
    "private": "gbdt_kernels.trees.planes:_fill_planes",
    "private-columns": "gbdt_kernels.transfers.leaves:send_down",
    "simfl": "gbdt_kernels.similarity.collisions:_search",
}
"""A kernel of every run by a method, which stands for all; in vertical training, modular arithmetic does."""


def of_plan(plan: Plan[Any, Any]) -> Iterator[Finding]:
    """Findings about the plan of a run's initiator."""
    folder, now = str(plan.path(plan.tls)), datetime.now(timezone.utc)
    tls, own = _own(folder)
    yield own
    called = "" if tls is None else Identity.of(tls.certificate).name
    allowed = getattr(plan.data, "allowed", [])
    yield findings.names(called, [party.name for party in plan.parties], allowed)
    certificates, answers = _own_certificates(tls), list[Finding]()
    for party in plan.parties:
        peer = peers.Peer(party.name, party.address, party.server_name or party.name, allowed)
        found, shown = peers.examine(peer, tls, min(MAX_SECONDS, plan.training.timeout))
        answers += found
        certificates |= {} if shown is None else {party.name: shown}
    yield findings.clock(now, certificates)
    yield from answers
    yield from _of_files(lambda: rows.of_plan(plan))
    yield from _of_machine(plan.method, rows.folders_of_plan(plan))


def of_served(method: str, served: Served) -> Iterator[Finding]:
    """Findings about a party that ``serve`` will start."""
    now = datetime.now(timezone.utc)
    tls, own = _own(served.tls)
    yield own
    yield findings.names("", [], [*served.allow, *getattr(served, "party", [])])
    yield findings.clock(now, _own_certificates(tls))
    yield peers.listening(served.listen)
    yield from _of_files(lambda: rows.of_served(method, served))
    yield from _of_machine(method, rows.folders_of_served(served))


def _own(folder: str) -> tuple[TLS | None, Finding]:
    try:
        tls = TLS.from_directory(folder)
        return tls, findings.own_certificate(tls)
    except VeilboostError as error:
        return None, Finding("certificate", folder, str(error))


def _own_certificates(tls: TLS | None) -> dict[str, x509.Certificate]:
    if tls is None:
        return {}
    return {Identity.of(tls.certificate).name: x509.load_pem_x509_certificates(tls.certificate)[0]}


def _of_files(found: Any) -> Iterator[Finding]:
    try:
        files = found()
    except (VeilboostError, OSError) as error:
        yield Finding("declared", "columns that all parties declare", str(error))
        return
    for one in files:
        yield from rows.findings_of(one)


def _of_machine(method: str, folders: Sequence[Path]) -> Iterator[Finding]:
    yield findings.disk(folders)
    place = cache_directory(Path(gbdt_kernels.__path__[0]) / "trees")
    yield findings.kernels(method, place is not None, are_compiled(method))
    wire = f"messages {protocol.VERSION}, streams {streams.VERSION}"
    found = {"veilboost": __version__, "Python": platform.python_version()}
    yield findings.versions(
        {**found, **{name: installed_version(name) for name in findings.PACKAGES[method]}}, wire
    )


def are_compiled(method: str) -> bool:
    """Whether a kind of training finds its kernels compiled."""
    return is_compiled(resolve_name(KERNELS[method])) if method in KERNELS else arithmetic_is_compiled()


def installed_version(name: str) -> str | None:
    """The version of an installed package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None
