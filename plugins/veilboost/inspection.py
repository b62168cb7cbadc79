"""The command ``inspect``: what a party sent and received, and who has signed a model."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from pathlib import Path

from gbdt_commons.files import SIGNATURES
from gbdt_commons.quoting import quoted
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.identity.record import check_chain, read_record
from gbdt_parties.secure_sum.roster import SignedEnd
from gbdt_parties.secure_sum.trust import fingerprint
from veilboost.parsers import Parser


def fill(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the command's parser."""
    parser.add_argument(
        "record", help="record.jsonl of a passive or an active party, or the .signatures beside a model"
    )
    parser.runs(_inspect, "veilboost inspect models/record.jsonl")


def signed_end(path: Path) -> tuple[SignedEnd, list[Path]]:
    """Who has signed the models beside a file of signatures; an error without one, or if it is another."""
    end = SignedEnd.from_json(path.read_text(encoding="utf-8", errors="replace"))
    end.check(len(end.roster.names) // 2 + 1)
    models = [one for one in map(path.with_suffix, (".json", ".txt")) if one.exists()]
    if not models:
        raise InvalidDataError(
            f"the model of {path} is missing: {path.stem}.json or {path.stem}.txt beside it"
        )
    for one in models:
        if one.is_dir():
            raise InvalidDataError(f"{one} is a folder, where the model of {path} was expected")
        if hashlib.sha256(one.read_bytes()).digest() != end.digests[0]:
            raise InvalidDataError(f"{path} has signatures of another model than {one}")
    return end, models


def _signed(path: Path) -> None:
    end, models = signed_end(path)
    for one in models:
        print(f"{one}: signed by {len(end.signers)} of {len(end.roster.names)} parties")
    for signer in end.signers:
        print(f"{quoted(signer.name)}  sha256:{fingerprint(signer.certificates).hex()}")


def _inspect(args: argparse.Namespace) -> None:
    if (path := Path(args.record)).suffix == SIGNATURES:
        _signed(path)
        return
    sums = read_record(args.record)
    print(sums.traffic)
    for when, receiver, reason in sums.refusals:
        print(f"{when}  refused to {receiver}: {reason}")
    if sums.damaged:
        print(f"{sums.damaged} lines are damaged and not counted")
    for fault in check_chain(args.record):
        print(f"of the earlier files of this record, {fault}")
