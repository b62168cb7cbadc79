"""The command ``status``: its parser, and its report as lines or JSON."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gbdt_commons.quoting import quoted
from veilboost.parsers import Parser

if TYPE_CHECKING:
    from veilboost.doctor.places import Place

NEEDS_A_PERSON = 1
"""Exit code if a finding has a remedy."""


def fill(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the command's parser."""
    parser.add_argument(
        "paths",
        nargs="*",
        default=["."],
        metavar="FOLDER",
        help="folder of a party or a coordinator, or its file of settings or plan, which says its limits (.)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for monitoring")
    parser.runs(_status, "veilboost status bank.toml /srv/acme --json")


def _status(args: argparse.Namespace) -> int:
    # Loaded when it is needed, with the libraries of certificates and stores.
    from veilboost.doctor.places import places_of

    places = [place for path in args.paths for place in places_of(path)]
    is_fine = not any(finding.mend for place in places for finding in place.findings)
    if args.json:
        print(json.dumps({"fine": is_fine, "places": [_as_dict(place) for place in places]}, indent=1))
    else:
        for place in places:
            _print(place)
        print("fine" if is_fine else "something needs a person: see MEND")
    return 0 if is_fine else NEEDS_A_PERSON


def _as_dict(place: Place) -> dict[str, object]:
    findings = [
        {"check": one.check, "seen": one.seen, "mend": one.mend, **dict(one.values)} for one in place.findings
    ]
    return {"path": place.path, "what": place.what, "findings": findings}


def _print(place: Place) -> None:
    print(f"{quoted(place.path, 300)} ({place.what})")
    for finding in place.findings:
        print(f"  {'MEND' if finding.mend else 'ok':4}  {finding.check}: {finding.seen}")
        if finding.mend:
            print(f"        {finding.mend}")
