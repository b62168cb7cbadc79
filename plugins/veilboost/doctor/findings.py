"""Checks of certificates, the clock, names, disks, kernels and versions: each gives one line."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from cryptography import x509

from gbdt_commons.quoting import quoted
from gbdt_parties.errors import AuthenticationError
from gbdt_parties.identity.certificates import TLS, Identity, is_pin

MIN_FREE = 1 << 30
"""Bytes that a run needs: the files of its record take up to a quarter, models and journals the rest."""

PARTS = {
    "vertical": "vertical",
    "exact": "exact",
    "private": "newton",
    "private-columns": "columns",
    "simfl": "simfl",
}
"""Parts that ``veilboost warm`` compiles, by the kind of training."""

PACKAGES = {
    "vertical": ("xgboost", "grpcio", "pyarrow", "pynacl"),
    "exact": ("xgboost", "grpcio", "pyarrow"),
    "private": ("lightgbm", "grpcio", "pyarrow"),
    "private-columns": ("lightgbm", "grpcio", "pyarrow", "pynacl"),
    "simfl": ("xgboost", "grpcio", "pyarrow"),
}
"""Distributions that the command needs, by the kind of training."""

_PIN = re.compile(r"(key-)?sha256:([0-9A-Fa-f]{2}:?){31}[0-9A-Fa-f]{2}")


class Curve(NamedTuple):
    """A curve to draw, as `veilboost.pages.drawings.chart` takes it."""

    label: str
    points: Sequence[tuple[float, float]]
    ends: tuple[str, str]
    is_staircase: bool = False
    limit: float | None = None


class Finding(NamedTuple):
    """The result of a check: its name, the facts `seen`, and a remedy to `mend` them, empty if none is
    needed.

    `values` are figures of the facts, for monitoring; a page shows the `rows` as details and draws the
    `curve`.
    """

    check: str
    seen: str
    mend: str = ""
    values: tuple[tuple[str, float], ...] = ()
    rows: tuple[Mapping[str, object], ...] = ()
    curve: Curve | None = None


def dates_of(certificate: x509.Certificate) -> str:
    """The dates of a certificate, as a text."""
    begins, ends = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return f"valid {begins:%Y-%m-%d} to {ends:%Y-%m-%d}"


def own_certificate(tls: TLS) -> Finding:
    """The name and the dates of this side's certificate, and of the authorities that it trusts."""
    own = x509.load_pem_x509_certificates(tls.certificate)[0]
    holder = Identity.of(tls.certificate)
    seen = f"{quoted(holder.name)}, {dates_of(own)}, sha256:{holder.fingerprint}"
    try:
        tls.check_dates()
    except AuthenticationError as error:
        return Finding("certificate", seen, str(error))
    ending = tls.ending()
    return Finding("certificate", f"{seen}; {ending}" if ending else seen)


def clock(now: datetime, certificates: Mapping[str, x509.Certificate]) -> Finding:
    """Compare this machine's clock with the beginnings of all certificates seen, which are by holder.

    A handshake does not tell the time of the other side: TLS 1.3 has no field for it, and gRPC sends no date.
    """
    seen = f"{now:%Y-%m-%d %H:%M} UTC"
    late = {name: one.not_valid_before_utc - now for name, one in certificates.items()}
    name = max(late, key=late.__getitem__, default=None)
    if name is None or late[name].total_seconds() <= 0:
        return Finding("clock", f"{seen}; certificates seen have begun; a party's own time is not told")
    hours = late[name].total_seconds() / 3600
    return Finding(
        "clock",
        f"{seen}; the certificate of {quoted(name)} begins {hours:.1f} hours later",
        "set this machine's clock, or issue that certificate again on a machine whose clock is right",
    )


def names(own: str, parties: Sequence[str], allowed: Sequence[str]) -> Finding:
    """Names that must differ, and entries of an allow-list: names and pins. `own` is empty without a
    certificate.
    """
    seen = ", ".join(map(quoted, [*parties, *(one[:15] for one in allowed)]))
    twice = next((name for k, name in enumerate(parties) if name in parties[:k]), None)
    if twice is not None:
        return Finding("names", seen, f"two parties are called {quoted(twice)}: rename one")
    if own in parties:
        return Finding(
            "names", seen, f"{quoted(own)} is the name in this side's certificate, too: rename the party"
        )
    wrong = [one for one in allowed if is_pin(one) and not _PIN.fullmatch(one)]
    if wrong:
        return Finding(
            "names", seen, f"{quoted(wrong[0])} is no pin: sha256: or key-sha256:, and 64 hexadecimal digits"
        )
    return Finding("names", seen)


def disk(folders: Sequence[Path], free: Callable[[Path], int] | None = None) -> Finding:
    """The room of the folders that a run writes to, which need not exist yet, by free bytes."""
    free = free or (lambda folder: shutil.disk_usage(folder).free)
    places = list(dict.fromkeys(_nearest(folder) for folder in folders))
    room, place = min((free(place), place) for place in places)
    seen = f"{room / 2**30:.1f} GiB free at {place}"
    if room < MIN_FREE:
        mend = f"free at least {MIN_FREE >> 30} GiB there, or choose another folder"
        return Finding("disk", seen, mend, (("free_bytes", room),))
    return Finding("disk", seen, values=(("free_bytes", room),))


def _nearest(folder: Path) -> Path:
    """A folder, or the nearest above it that exists."""
    folder = folder.absolute()
    return next(one for one in (folder, *folder.parents) if one.exists())


def kernels(method: str, are_kept: bool, are_compiled: bool) -> Finding:
    """Whether the first tree waits for the compiler: compiled kernels need a directory, and to be in it."""
    if not are_kept:
        return Finding("kernels", "cannot be kept", "set NUMBA_CACHE_DIR to a directory of this user")
    if not are_compiled:
        mend = f"run veilboost warm {PARTS[method]}, so that the other side need not wait for the compiler"
        return Finding("kernels", "not compiled", mend)
    return Finding("kernels", "compiled for this processor")


def versions(found: Mapping[str, str | None], wire: str) -> Finding:
    """The versions of this side, to compare with the other side's line: a handshake does not tell them.

    Those `found` are by distribution, None where it is not installed; `wire` has those of the protocol.
    """
    shown = ", ".join(f"{name} {version}" for name, version in found.items() if version is not None)
    missing = [name for name, version in found.items() if version is None]
    seen = f"{shown}; {wire}; the other side's line must show the same, or messages of a neighbour"
    if missing:
        return Finding("versions", seen, f"{', '.join(missing)} missing: pip install 'veilboost[remote]'")
    return Finding("versions", seen)
