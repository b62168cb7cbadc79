"""`lgb_dp.vertical.replay`: a party's side of a run, repeated to the byte from its folder and its rows."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.quoting import quoted
from gbdt_commons.store import Store
from gbdt_commons.store_file import StoreFile
from gbdt_kernels.trees import DenseCodes, SparseCodes
from gbdt_parties.errors import PartyError
from gbdt_parties.run.agreement import Agreement
from gbdt_parties.run.engine import Steps
from gbdt_parties.run.flights.driver import Exchange
from gbdt_parties.run.flights.kept import Charge, Kept
from gbdt_parties.run.flights.replay import compared
from gbdt_parties.run.flights.terms import Terms
from gbdt_parties.run.log import THIS_PROCESS, runs_of
from gbdt_parties.run.replay import Replay, chosen
from gbdt_parties.secure_sum.trust import AllowList
from gbdt_parties.two_party.life import Failures
from lgb_dp.data.arguments import checked_data
from lgb_dp.data.dataset import Dataset
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.federated.ledger import CHARGES, LEDGER_FILE, ROLE
from lgb_dp.vertical.columns import agreed_bins, declaration
from lgb_dp.vertical.replica import LEAF_SUMS, PartyRows, Replica
from lgb_dp.vertical.run import OWN_RUNS, digest_of_rows
from lgb_dp.vertical.task import ColumnTask, statement
from lgb_dp.vertical.train import checked_rows


def replay(
    folder: str | Path, rows: Any, *, run: str | None = None, allowed: Sequence[str] | None = None
) -> Replay:
    """Repeat one party's side of a training run, and compare every message with those that it sent.

    The party has trained with ``auditable=True``.  The auditor works with the party's folder, which has its
    seed, nonces, lists and messages, and with its rows, and asks no other party.  If the result `agrees`, the
    party has sent what an honest party with these rows sends, with noise of its seed and the set-up of each
    session, in every connection and attempt; the other party's signatures of the rounds are checked, too.

    **The folder is private.**  A seed that is kept makes the noise of the run
    repeatable: with it and the opened sums, the auditor can subtract this party's noise, and so reads exact
    sums of the rows beneath the other party's noise alone, and exact released counts.  The auditor must
    therefore be allowed to see this party's rows, and the folder must not leave the party.  Removing the
    model of a party with columns alone (``veilboost models --remove``) removes the run's seed and messages.

    Parameters
    ----------
    folder : path
        Of the party's ledger: `folder` of `ColumnParty` or `train`, or the `checkpoint` where there was none.
        It is only read.
    rows : Dataset, or ndarray, table or scipy sparse matrix
        The rows of the run in its order: aligned rows are those in common, sorted by id.  A Dataset, as given
        to `train`, at the party with the labels; columns at the other one.
    run : str, optional
        Number of the run in hexadecimal digits, the name of its model at the party with columns alone; by
        default the only one.
    allowed : sequence of str, optional
        ``sha256:`` and the fingerprint of the other party's certificate; without it, the record can be of a
        run with a party of its own making.

    Returns
    -------
    Replay
        Rounds, attempts, connections, messages and bytes that agree, whether the run has ended, and the name
        of the first difference.

    Raises
    ------
    InvalidArgumentError, PartyArgumentError
        If the folder has no such run, messages were not kept, `rows` have other columns, or this machine
        rounds functions otherwise than those of the run.
    StoreError
        If the folder's file is damaged, or in use.

    Examples
    --------
    >>> bank = ColumnParty(X, name="bank", bounds=bounds, folder="bank", auditable=True)  # doctest: +SKIP
    >>> report = lgb_dp.vertical.replay("bank", X)                          # doctest: +SKIP
    >>> report.agrees, report.rounds, report.difference                     # doctest: +SKIP
    (True, 50, None)
    """
    path = Path(folder) / LEDGER_FILE
    if not path.exists():
        raise InvalidArgumentError(f"folder={str(folder)!r} has no {LEDGER_FILE}: it is not a party's")
    with closing(StoreFile(path, ROLE, read_only=True)) as store:
        callers = THIS_PROCESS, *(one.name for one in Path(folder).iterdir() if one.is_dir())
        names = [OWN_RUNS] if isinstance(rows, Dataset) else callers
        log = chosen([runs_of(store, name) for name in names], run)
        past = _past(log.begun(), rows, AllowList(allowed))
        return past if isinstance(past, Replay) else _compared(past, log.store, store)


def _compared(replica: Replica, store: Store, ledger: Store) -> Replay:
    """Repeat a party's side of a run that is over, or was interrupted, and look for what it has cost."""
    kept, made = Kept(store, replica.terms), set[tuple[str, float, float]]()

    def charge(what: str, mu: float, close: float) -> None:
        """Charge for nothing: nothing leaves."""
        made.add((what, mu, close))

    def begin(other: Store) -> Exchange:
        return replica.side(other, Failures())

    def train(exchange: Exchange) -> Steps[object]:
        return replica.trained_over(exchange, charge)

    report, run = compared(kept, begin, train), replica.terms.run.hex()
    lines = [one for one in ledger.entries(CHARGES, "") if one["session"] == run and one["what"] == LEAF_SUMS]
    n_paid = sum((one["what"], one["mu"], one["closeness"]) in made for one in lines)
    if report.agrees and n_paid < len(kept.all(Charge)):
        missing = (
            f"the ledger has {n_paid} charges for {len(kept.all(Charge))} attempts that were charged for"
        )
        return replace(report, difference=missing, has_ended=False)
    return report


def _past(record: Any, given: Any, allowed: AllowList) -> Replica | Replay:
    """The run with the party's rows, or a report that says what is not the run's."""
    request, description = record["request"], record["description"]
    task = ColumnTask.from_json(request)
    task.check_here("the parties of the run")
    try:
        agreement = Agreement.past(record["agreement"], statement(request, description), allowed)
        Terms.of(agreement, task.n_rounds)
    except PartyError as error:
        return _not_begun(f"agreement of the parties: {error}")
    other = next(one.name for one in agreement.roster.introductions if one.name != task.name)
    bins = agreed_bins(task, description, other)
    codes: DenseCodes | SparseCodes
    label: NDArray[np.float64] | None
    if isinstance(given, Dataset):
        rows = checked_rows(given)
        if declaration(rows.bins) != task.columns:
            raise InvalidArgumentError("rows must have the columns, bounds and bins of the run")
        codes, label = rows.codes, rows.label
    else:
        codes, label = bins[1].transform(checked_data(given)), None
    if digest_of_rows(codes, label) != record["rows"]:
        return _not_begun(
            f"rows: those of party {quoted(other if label is None else task.name)!r} were others"
        )
    return Replica(task, PartyRows(codes, label, bins, other), agreement)


def _not_begun(difference: str) -> Replay:
    return Replay(0, 0, 0, 0, 0, False, difference)
