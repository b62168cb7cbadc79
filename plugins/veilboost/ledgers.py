"""The command ``veilboost ledger``: what a party's answers in private training have cost."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from gbdt_commons.quoting import quoted
from lgb_dp.accounting.cost import pair_text
from lgb_dp.federated.ledger import read_ledger
from veilboost.parsers import Parser


def fill(parser: Parser, arguments: Sequence[str]) -> None:
    """Fill the command's parser."""
    parser.add_argument("folder", help="the party's folder (Party(folder=…))")
    parser.runs(_ledger, "veilboost ledger hospital/")


def _ledger(args: argparse.Namespace) -> None:
    try:
        sums = read_ledger(args.folder)
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            f"{args.folder} is not the folder of a party that has answered in private training: no ledger"
        ) from None
    print(f"{'run':8}  {'since (UTC)':25}  {'release':24}  {'answers':>7}  {'mu':>10}")
    for row in sums.rows:
        print(
            f"{quoted(row['run']):8}  {quoted(row['since']):25}  {quoted(row['release']):24}  "
            f"{row['answers']:>7}  {row['mu']:>10.6g}"
        )
    unit = "not used yet" if sums.neighbouring is None else sums.neighbouring
    print(f"budget: {pair_text(sums.epsilon, sums.delta)} ({unit})")
    print(
        f"spent: mu = {sums.spent_mu:.6g}, which is {pair_text(sums.spent_epsilon, sums.delta)} "
        "(information; the guarantee is the budget)"
    )
