"""The command ``inspect``: what a party sent and received."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from gbdt_parties.identity.record import check_chain, read_record
from veilboost.parsers import Parser


def fill(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the command's parser."""
    parser.add_argument("record", help="record.jsonl of a passive or an active party")
    parser.runs(_inspect, "veilboost inspect models/record.jsonl")


def _inspect(args: argparse.Namespace) -> None:
    sums = read_record(args.record)
    print(sums.traffic)
    for when, receiver, reason in sums.refusals:
        print(f"{when}  refused to {receiver}: {reason}")
    if sums.damaged:
        print(f"{sums.damaged} lines are damaged and not counted")
    for fault in check_chain(args.record):
        print(f"of the earlier files of this record, {fault}")
