"""The command ``veilboost ledger``: what a party's answers in private training have cost."""

from __future__ import annotations

import argparse
from typing import Any

from gbdt_commons.quoting import quoted
from lgb_dp.federated.ledger import read_ledger
from veilboost.parsers import add_command


def add_ledger(commands: Any) -> None:
    """Add the command."""
    add = add_command(
        commands,
        "ledger",
        _ledger,
        "show what a party has answered in private training, and what is left of its budget",
        "veilboost ledger hospital/",
    ).add_argument
    add("folder", help="the party's folder (Party(folder=…))")


def _ledger(args: argparse.Namespace) -> None:
    sums = read_ledger(args.folder)
    print(f"{'run':8}  {'since (UTC)':25}  {'release':24}  {'answers':>7}  {'mu':>10}")
    for row in sums.rows:
        print(
            f"{quoted(row['run']):8}  {quoted(row['since']):25}  {quoted(row['release']):24}  "
            f"{row['answers']:>7}  {row['mu']:>10.6g}"
        )
    unit = "not used yet" if sums.neighbouring is None else quoted(sums.neighbouring)
    print(f"budget: epsilon = {sums.epsilon:g}, delta = {sums.delta:g} ({unit})")
    print(
        f"spent: mu = {sums.spent_mu:.6g}, which is epsilon = {sums.spent_epsilon:.6g} at that delta "
        "(information; the guarantee is the budget)"
    )
