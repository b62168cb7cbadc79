"""A party's ledger: what its answers have cost, over all runs, and the budget beyond which it refuses.

Costs are μ of Gaussian differential privacy.  With M fixed beforehand, Σ μ² ≤ M² is a valid filter whatever
is asked and however it is chosen (Smith and Thakurta, arXiv 2210.17520).  Of a run, a row is held out or not,
by a coin that it keeps: what is released of held-out rows and of the others costs the larger of both.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timezone
from decimal import ROUND_FLOOR
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

from gbdt_commons.key_stream import this_process
from gbdt_commons.quoting import quoted
from gbdt_commons.store import MemoryStore, Store, json_kind
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyArgumentError, ProtocolError
from lgb_dp.accounting.cost import pair_text
from lgb_dp.accounting.gaussian import composed_mu, gaussian_epsilon, gaussian_mu
from lgb_dp.accounting.shares import CLOSENESS_SHARE, check_closeness
from lgb_dp.accounting.unit import HELD_OUT, Unit
from lgb_dp.checks import NOT_NEGATIVE, POSITIVE, PROPER_SHARE, Interval
from lgb_dp.errors import BudgetExceededError, InvalidArgumentError

LEDGER_FILE, ROLE = "ledger.store", "a private party"

BUDGET, CHARGES = json_kind("budget"), json_kind("charges")
"""Records of a ledger's budget, and of all charges in their order."""

_LARGEST = Fraction(sys.float_info.max)
_ROUNDING = 5e-10
"""Relative room above `gaussian_mu`, as a `Budget` has it."""


class PartyLedger:
    """Ledger of one party: its limits, and the charges for all that has left it.

    The `folder` is the party's; None keeps the ledger in memory. A new ledger has the `budget` (ε, δ), or
    takes that of the first run that is charged for. With `read_only`, a ledger that may be in use is read, if
    there is one; nothing is written, and `budget` only compared. The `store` is that of the ledger and of all
    else in the folder.

    Raises `InvalidArgumentError` if the ledger has another budget or covers several units, `StoreError` if
    its file is damaged or in use, and `PartyArgumentError` if its content is no ledger.
    """

    def __init__(
        self, folder: Path | None, budget: tuple[float, float] | None = None, *, read_only: bool = False
    ) -> None:
        if folder is None or (read_only and not (folder / LEDGER_FILE).exists()):
            self.store: Store = MemoryStore()
        else:
            self.store = StoreFile(folder / LEDGER_FILE, ROLE, read_only=read_only)
        self._process, self._is_read_only, self._sums = this_process(), read_only, _Sums()
        try:
            kept = self.budget
            if budget is not None and kept is None and not read_only:
                self.store.put(BUDGET, "", _about(budget))
            elif budget is not None and kept is not None and budget != kept:
                raise InvalidArgumentError(
                    f"the ledger in the party's folder has the budget {_text(kept)}, not {_text(budget)}; a "
                    "budget does not change"
                )
            self._counted()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file; another process can use it then, and this ledger charges for nothing more."""
        self._process = (-1, None)
        self.store.close()

    @property
    def budget(self) -> tuple[float, float] | None:
        """ε and δ, as the store has them; None until a run is charged for, unless they were given."""
        return _kept_budget(self.store)

    def charges(self) -> list[Mapping[str, Any]]:
        """All charges, in their order."""
        return list(self.store.entries(CHARGES, ""))

    def difference_from(self, kept: Store) -> str | None:
        """The first charge of this ledger that a party's store has not; it may have more."""
        known = set(map(_without_time, kept.entries(CHARGES, "")))
        for charge in self.charges():
            if _without_time(charge) not in known:
                return f"the charge for {charge['what']!r} of attempt {charge['number']} is not in the ledger"
        return None

    def check_run(self, run: bytes, mu: float, unit: Unit, budget: tuple[float, float]) -> None:
        """Check that all that a run may cost, μ at most, is left, beside what it has cost already.

        A ledger without a budget will take that of the run. Raises InvalidArgumentError if the ledger is of
        another unit, and BudgetExceededError if it is not left. Its text is for the party that asks for the
        run: it does not say how much is left, which others have spent. A dozen requests of different costs
        still find it: a run that is admitted, and does not begin, costs nothing.
        """
        sums, budget = self._counted(), self.budget or budget
        sums.check_unit(unit)
        if Fraction(mu) ** 2 > sums.left(run, budget):
            delta = budget[1]
            raise BudgetExceededError(
                f"the run may cost {pair_text(gaussian_epsilon(mu, delta), delta)}, and of "
                f"the party's budget ({_text(budget)}) not as much is left. A party's budget is that of its "
                "first run unless it is given one"
            )

    def check_own_run(self, mu: float, unit: Unit, budget: tuple[float, float]) -> None:
        """As `check_run` for a new run of the party whose ledger it is: the text says how much is left."""
        try:
            self.check_run(b"", mu, unit, budget)
        except BudgetExceededError as error:
            limits = self.budget or budget
            left = gaussian_epsilon(
                float(max(self._counted().left(b"", limits), Fraction())) ** 0.5, limits[1]
            )
            most = pair_text(left, limits[1], ROUND_FLOOR)
            raise BudgetExceededError(f"{error}; ask for at most {most}") from None

    def charge(
        self, run: bytes, note: Mapping[str, Any], granted: float, budget: tuple[float, float]
    ) -> None:
        """Charge for something that leaves once, in the transaction that keeps the thing itself.

        The charge is kept if that transaction is, and does not count if it fails. `run` is the digest of the
        run's roster, which stands for it: its number is the coordinator's choice. The `note` has, with it,
        number, `time`, `what`, `mu`, the cost, `closeness` and `neighbouring`. `granted` is μ that all
        charges of the run may cost together; a ledger without a budget takes that of the run, ε and δ.

        Raises BudgetExceededError if the budget, or the run's part of it, would be exceeded,
        InvalidArgumentError if the ledger is of another unit, PartyArgumentError if it cannot have the note,
        and ProtocolError after `close` or in a forked process, which would spend the same budget a second
        time.
        """
        if self._process != this_process():
            raise ProtocolError("a party cannot answer in a forked process: its parent answers, too")
        charge = {**note, "session": run.hex()}
        entry = _entry(charge)
        with self.store.transaction():
            sums, kept = self._counted(), self.budget
            # Once more: two runs may have begun before either of them was charged for.
            sums.check_unit(entry.unit)
            more = sums.more(entry)
            if sums.of_run[entry.session] + more > Fraction(granted) ** 2:
                raise BudgetExceededError(
                    f"the run was granted mu = {granted:.6g}, and has spent it: too many attempts failed"
                )
            if sums.spent + more > _limit(kept or budget):
                raise BudgetExceededError("the party's budget is spent")
            check_closeness(sums.closeness + entry.closeness, (kept or budget)[0])
            if kept is None:
                self.store.put(BUDGET, "", _about(budget))
            self.store.append(CHARGES, "", charge)

    def _counted(self) -> _Sums:
        """Sums of all charges that are kept: they are read once, and anew if a transaction has failed."""
        # One thread at a time.
        with nullcontext() if self._is_read_only else self.store.transaction(sync=False):
            n_kept = self.store.size(CHARGES, "")
            if self._sums.n > n_kept:
                self._sums = _Sums()
            for place in range(self._sums.n, n_kept):
                self._sums.add(_entry(self.store.get(CHARGES, "", place)))
            return self._sums


@dataclass(frozen=True)
class Charges:
    """The charges of one run, named by its roster's digest, which may cost μ of `granted` together."""

    ledger: PartyLedger
    run: bytes
    granted: float
    budget: tuple[float, float]
    unit: Unit

    def __call__(self, what: str, mu: float, close: float, **more: Any) -> None:
        """Charge for something that is about to leave, in the transaction that keeps it."""
        note = {
            "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "run": self.run.hex(),
            "what": what,
            "mu": mu,
            "closeness": close,
            "neighbouring": self.unit.neighbouring,
        }
        self.ledger.charge(self.run, note | more, self.granted, self.budget)


@dataclass
class _Sums:
    """Sums of the first charges of a ledger."""

    n: int = 0
    spent: Fraction = Fraction()
    closeness: float = 0.0
    unit: Unit | None = None
    of_run: defaultdict[str, Fraction] = field(default_factory=lambda: defaultdict(Fraction))
    of_side: defaultdict[tuple[str, bool], Fraction] = field(default_factory=lambda: defaultdict(Fraction))

    def add(self, entry: _Entry) -> None:
        self.check_unit(entry.unit)
        self.unit, self.n = entry.unit, self.n + 1
        more = self.more(entry)
        self.spent += more
        self.of_run[entry.session] += more
        self.of_side[entry.session, entry.is_of_held_out] += entry.cost
        self.closeness += entry.closeness

    def more(self, entry: _Entry) -> Fraction:
        """μ² that a charge adds to its run: as far as its side of the rows becomes the dearer one."""
        side = self.of_side[entry.session, entry.is_of_held_out] + entry.cost
        return max(side - self.of_run[entry.session], Fraction())

    def is_counted(self, entry: _Entry) -> bool:
        """Whether a charge is of the dearer side of its run's rows."""
        is_held = entry.is_of_held_out
        own, other = (self.of_side[entry.session, side] for side in (is_held, not is_held))
        return own > other or (own == other and not is_held)

    def left(self, run: bytes, budget: tuple[float, float]) -> Fraction:
        """μ² that is left for all of a run, what it has cost already included."""
        return _limit(budget) - (self.spent - self.of_run[run.hex()])

    def check_unit(self, unit: Unit) -> None:
        if self.unit is not None and self.unit != unit:
            raise InvalidArgumentError(
                f"the party's ledger covers {self.unit.neighbouring!r}, the run {unit.neighbouring!r}"
            )


@dataclass(frozen=True)
class _Entry:
    """Charge of a ledger."""

    session: str
    run: str
    time: str
    what: str
    unit: Unit
    mu: float
    closeness: float

    @property
    def is_of_held_out(self) -> bool:
        """Whether rows are read that train nothing."""
        return self.what == HELD_OUT

    @property
    def cost(self) -> Fraction:
        """μ² without an error of rounding."""
        return Fraction(self.mu) ** 2


def _entry(charge: Any) -> _Entry:
    if not isinstance(charge, dict):
        raise _damaged("charge", charge, "a table of names and values")
    session, run, time, what, neighbouring = (
        _text_in(charge, name) for name in ("session", "run", "time", "what", "neighbouring")
    )
    mu, closeness = (_number_in(charge, name, NOT_NEGATIVE) for name in ("mu", "closeness"))
    try:
        unit = Unit.of_relation(neighbouring)
    except ValueError:
        raise _damaged("neighbouring", neighbouring, "a neighbouring relation of this version") from None
    return _Entry(session, run, time, what, unit, mu, closeness)


def _without_time(charge: Mapping[str, Any]) -> str:
    return json.dumps({**charge, "time": ""}, sort_keys=True)


def _kept_budget(store: Store) -> tuple[float, float] | None:
    """ε and δ of a ledger; None if nothing is in it."""
    about = store.get(BUDGET, "")
    if about is None and not store.size(CHARGES, ""):
        return None
    if not isinstance(about, dict):
        # The first run to come would choose it.
        raise _damaged("budget", about, "a table of names and values")
    budget = _number_in(about, "epsilon", POSITIVE), _number_in(about, "delta", PROPER_SHARE)
    _limit(budget)  # so that all readers refuse one of which no μ is known
    return budget


def _number_in(kept: Mapping[str, Any], name: str, accepted: Interval) -> float:
    value: Any = kept.get(name)
    # An integer that is no float would be an overflow: it is compared as it is.
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not abs(value) <= sys.float_info.max or value not in accepted:
        raise _damaged(name, value, f"a number that is {accepted}")
    return float(value)


def _text_in(kept: Mapping[str, Any], name: str) -> str:
    value = kept.get(name)
    if not isinstance(value, str):
        raise _damaged(name, value, "a text")
    return value


def _damaged(name: str, value: Any, accepted: str) -> PartyArgumentError:
    return PartyArgumentError(
        f"the party's ledger is damaged: {name}={quoted(repr(value))} must be {accepted}"
    )


def _about(budget: tuple[float, float]) -> dict[str, float]:
    return dict(zip(("epsilon", "delta"), budget, strict=True))


def _text(budget: tuple[float, float]) -> str:
    return pair_text(*budget)


@lru_cache(maxsize=64)
def _limit(budget: tuple[float, float]) -> Fraction:
    """μ² that a budget allows."""
    less = 1 - CLOSENESS_SHARE
    return Fraction(gaussian_mu(budget[0] * less, budget[1] * less) * (1 + _ROUNDING)) ** 2


@dataclass(frozen=True)
class LedgerSums:
    """Totals of a party's ledger.

    Parameters
    ----------
    epsilon, delta : float
        The budget.
    spent_mu : float
        μ of all answers together.
    neighbouring : str or None
        Unit of the guarantee; None if nothing was answered.
    rows : list of dict
        For each run and kind of release, how many answers were given and what they cost.
    steps : list of (str, float)
        For each answer, when it was given, and the share of the budget's μ² that was spent then.
    """

    epsilon: float
    delta: float
    spent_mu: float
    neighbouring: str | None
    rows: list[dict[str, Any]]
    steps: list[tuple[str, float]]

    @property
    def spent_epsilon(self) -> float:
        """ε of all answers at the budget's δ: information, the guarantee is the budget."""
        return gaussian_epsilon(self.spent_mu, self.delta)


def read_ledger(folder: str | Path) -> LedgerSums:
    """Sum up the ledger in a party's folder, which may be in use.

    Parameters
    ----------
    folder : path
        As of `Party`.

    Returns
    -------
    LedgerSums
        The budget, the sum over all answers, and a line for each kind of release of each run.

    Raises
    ------
    StoreError
        If its file is damaged.
    PartyArgumentError
        If what is in it is not a ledger.
    InvalidArgumentError
        If it covers several units.
    OSError
        If it cannot be read.
    """
    with closing(StoreFile(Path(folder) / LEDGER_FILE, ROLE, read_only=True)) as store:
        budget, sums, kinds = _kept_budget(store), _Sums(), defaultdict[tuple[str, str], list[_Entry]](list)
        spent = list[tuple[str, Fraction]]()
        for charge in store.entries(CHARGES, ""):
            entry = _entry(charge)
            sums.add(entry)
            kinds[entry.session, entry.what].append(entry)
            spent.append((entry.time, sums.spent))
    if budget is None:
        raise PartyArgumentError(f"{str(folder)!r} has no party's ledger, or nothing is in it")
    rows = [
        {
            "run": of_kind[0].run[:8],
            "since": of_kind[0].time,
            "release": what,
            "answers": len(of_kind),
            "mu": composed_mu([entry.mu for entry in of_kind]),
        }
        for (_, what), of_kind in kinds.items()
    ]
    return LedgerSums(
        *budget,
        composed_mu([entry.mu for entries in kinds.values() for entry in entries if sums.is_counted(entry)]),
        None if sums.unit is None else sums.unit.neighbouring,
        rows,
        [(time, float(min(so_far / _limit(budget), _LARGEST))) for time, so_far in spent],
    )
