"""The command ``certs``: a small authority, and certificates of parties."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Sequence
from pathlib import Path

from gbdt_parties.identity.certificates import (
    AUTHORITY_FILE,
    OF_CERTIFICATE,
    OF_KEY,
    Identity,
    make_authority,
    make_certificate,
    renew_certificate,
)
from veilboost.parsers import Parser
from veilboost.plans.entries import PlanError


def fill(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the command's parser."""
    add = parser.add_argument
    add("name", help="the party's name; goes into its certificate")
    add("--authority", default="certs/ca", help="the authority's folder, made if there is none (%(default)s)")
    add("--out", help="the party's folder (certs/NAME)")
    add(
        "--host",
        action="append",
        default=[],
        help="further name or address that the certificate is for; repeatable",
    )
    add("--days", type=int, default=365, help="days until it expires, at least 1 (%(default)s)")
    add(
        "--renew",
        action="store_true",
        help="make a new certificate for the key of the one in the party's folder; the key need not be there",
    )
    parser.runs(_certs, "veilboost certs bank --authority certs/ca --out certs/bank")


def _certs(args: argparse.Namespace) -> None:
    if args.days < 1:
        raise PlanError(f"--days={args.days} must be at least 1; the certificate would have expired at once")
    authority = Path(args.authority)
    out = Path(args.out or Path("certs") / args.name)
    if args.renew:
        _renew(out, authority, args)
        return
    if not (authority / AUTHORITY_FILE).exists():
        # TLS tells authorities apart by their names, where parties trust a former one, too.
        make_authority(authority, f"veilboost test authority {secrets.token_hex(4)}")
        print(
            f"authority: {authority} (its ca.key signs certificates that all parties trust: keep it offline)"
        )
    identity = make_certificate(out, authority, args.name, args.host, args.days)
    _print_folder(identity, out)
    print(f"  allow it by name ({identity.name}) or as {OF_CERTIFICATE}{identity.fingerprint}")
    print(f"  or, so that a renewed one is allowed, too, as {OF_KEY}{identity.key}")


def _print_folder(identity: Identity, out: Path) -> None:
    print(f"{identity.name}: {out}, valid until {identity.expires:%Y-%m-%d}")


def _renew(out: Path, authority: Path, args: argparse.Namespace) -> None:
    identity, former = renew_certificate(out, authority, args.name, args.host, args.days)
    _print_folder(identity, out)
    print(f"  for the same key; the former certificate: {former}")
    print(f"  where it is allowed by name ({identity.name}) or as {OF_KEY}{identity.key}: nothing to do")
    print(f"  where it is allowed by fingerprint: add {OF_CERTIFICATE}{identity.fingerprint} first")
    print("  party.pem belongs into the party's folder; a running server takes it up within seconds")
