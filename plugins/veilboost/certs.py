"""The command ``certs``: a small authority, and certificates of parties."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from gbdt_parties.identity.certificates import AUTHORITY_FILE, make_authority, make_certificate
from veilboost.parsers import Parser


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
    add("--days", type=int, default=365, help="days until it expires (%(default)s)")
    parser.runs(_certs, "veilboost certs bank --authority certs/ca --out certs/bank")


def _certs(args: argparse.Namespace) -> None:
    authority = Path(args.authority)
    if not (authority / AUTHORITY_FILE).exists():
        make_authority(authority)
        print(
            f"authority: {authority} (its ca.key signs certificates that all parties trust: keep it offline)"
        )
    out = Path(args.out or Path("certs") / args.name)
    identity = make_certificate(out, authority, args.name, args.host, args.days)
    print(f"{args.name}: {out}, valid until {identity.expires:%Y-%m-%d}")
    print(f"  allow it by name ({identity.name}) or as sha256:{identity.fingerprint}")
