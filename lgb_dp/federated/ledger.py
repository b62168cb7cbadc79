"""A party's ledger: what its answers have cost, over all runs, and the budget beyond which it refuses.

Costs are μ of Gaussian differential privacy.  With M fixed beforehand, Σ μ² ≤ M² is a valid filter whatever
is asked and however it is chosen (Smith and Thakurta, arXiv 2210.17520).
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import ROUND_FLOOR
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from gbdt_commons.quoting import quoted
from gbdt_commons.store import MemoryStore, Store
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyArgumentError
from gbdt_parties.secure_sum.answers import ROLE, Answered, AnswerJournal, read_answered
from lgb_dp.accounting.cost import pair_text
from lgb_dp.accounting.gaussian import composed_mu, gaussian_epsilon, gaussian_mu
from lgb_dp.accounting.shares import CLOSENESS_SHARE, check_closeness
from lgb_dp.accounting.unit import Unit
from lgb_dp.checks import NOT_NEGATIVE, POSITIVE, PROPER_SHARE, Interval
from lgb_dp.errors import BudgetExceededError, InvalidArgumentError

LEDGER_FILE = "ledger.store"

_ROUNDING = 5e-10
"""Relative room above `gaussian_mu`, as a `Budget` has it."""


class PartyLedger:
    """Ledger of one party: its limits, and the answers that it has given.

    Parameters
    ----------
    folder : Path or None
        The party's; None keeps the ledger in memory.
    budget : (float, float), optional
        ε and δ of a new ledger, which otherwise takes those of the first run that is answered.
    read_only : bool
        Read a ledger that may be in use, if there is one; nothing is written, and `budget` only compared.

    Raises
    ------
    InvalidArgumentError
        If the ledger in the folder has another budget, or covers several units.
    StoreError
        If its file is damaged, or in use.
    PartyArgumentError
        If what is in it is not a ledger.

    Attributes
    ----------
    store : Store
        Of the ledger, and of whatever else the party keeps in its folder.
    """

    def __init__(
        self, folder: Path | None, budget: tuple[float, float] | None = None, *, read_only: bool = False
    ) -> None:
        about = None if budget is None or read_only else _about(budget)
        if folder is None or (read_only and not (folder / LEDGER_FILE).exists()):
            self.store: Store = MemoryStore()
        else:
            self.store = StoreFile(folder / LEDGER_FILE, ROLE, read_only=read_only)
        self.journal = AnswerJournal(self.store, about)
        self._lock = Lock()
        self._forget()
        try:
            kept = self.budget
            if budget is not None and kept is not None and budget != kept:
                raise InvalidArgumentError(
                    f"the ledger in the party's folder has the budget {_text(kept)}, not {_text(budget)}; a "
                    "budget does not change"
                )
            self._recount()
        except BaseException:
            self.journal.close()
            raise

    @property
    def budget(self) -> tuple[float, float] | None:
        """ε and δ; None until a run is answered, unless it was given."""
        about = self.journal.about
        return None if about is None else _budget(about)

    def check_run(self, run: bytes, mu: float, unit: Unit, budget: tuple[float, float]) -> None:
        """Check that all that a run may cost is left, beside what it has cost already.

        Parameters
        ----------
        run : bytes
        mu : float
            Limit of its cost.
        unit : Unit
        budget : (float, float)
            Its ε and δ, which a ledger without a budget will take.

        Raises
        ------
        BudgetExceededError
            If it is not.  The text is for the party that asks for the run: it does not say how much is left,
            which others have spent.  A dozen requests of different costs still find it: a run that is
            admitted, and does not begin, costs nothing.
        InvalidArgumentError
            If the ledger is of another unit.
        """
        self._check_unit(unit)
        budget = self.budget or budget
        if Fraction(mu) ** 2 > self._left(run, budget):
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
            left = gaussian_epsilon(float(max(self._left(b"", limits), Fraction())) ** 0.5, limits[1])
            most = pair_text(left, limits[1], ROUND_FLOOR)
            raise BudgetExceededError(f"{error}; ask for at most {most}") from None

    def _left(self, run: bytes, budget: tuple[float, float]) -> Fraction:
        """μ² that is left for all of a run, what it has cost already included."""
        return _limit(budget) - (self.spent - self._spent_by.get(run.hex(), Fraction()))

    def charge(
        self, run: bytes, note: Mapping[str, Any], granted: float, budget: tuple[float, float]
    ) -> None:
        """Charge for something that leaves once, in the transaction that keeps the thing itself.

        The charge is kept if that transaction is, and does not count if it fails.

        Parameters
        ----------
        run, note, granted, budget
            As of `answer`.

        Raises
        ------
        BudgetExceededError, InvalidArgumentError, PartyArgumentError
            As of `answer`.
        """
        entry = _entry(note)
        with self.store.transaction(), self._lock:
            if self.journal.n_kept != self._n_counted:
                # A transaction with a charge has failed since.
                self._forget()
                self._recount()
            self._check(run, entry, granted, budget)
            self.journal.note(run, note)
            self.journal.about_from_now(_about(budget))
            self._count(run.hex(), entry)

    def _forget(self) -> None:
        self.spent, self._closeness, self._n_counted = Fraction(), 0.0, 0
        self._unit: Unit | None = None
        self._spent_by: dict[str, Fraction] = defaultdict(Fraction)

    def _recount(self) -> None:
        for answered, entry in _parsed(self.journal.read()):
            self._count(answered.session, entry)

    def _check(self, run: bytes, entry: _Entry, granted: float, budget: tuple[float, float]) -> None:
        # Once more: two runs may have begun before either of them was answered.
        self._check_unit(entry.unit)
        if self._spent_by[run.hex()] + entry.cost > Fraction(granted) ** 2:
            raise BudgetExceededError(
                f"the run was granted mu = {granted:.6g}, and has spent it: too many attempts failed"
            )
        kept = self.budget or budget
        if self.spent + entry.cost > _limit(kept):
            raise BudgetExceededError("the party's budget is spent")
        check_closeness(self._closeness + entry.closeness, kept[0])

    def _check_unit(self, unit: Unit) -> None:
        _check_same_unit(self._unit, unit)

    def answer(
        self,
        run: bytes,
        number: int,
        asked: bytes,
        note: Mapping[str, Any],
        granted: float,
        budget: tuple[float, float],
        make: Callable[[], bytes],
    ) -> bytes:
        """The answer to an attempt, which is charged before it is given, and only once.

        Parameters
        ----------
        run : bytes
            The digest of its roster, which stands for it: its number is the coordinator's choice.
        number : int
        asked : bytes
            Everything that is asked.
        note : mapping
            With `run`, its number, `time`, `what`, `mu`, the cost, `closeness` and `neighbouring`.
        granted : float
            μ that all answers of the run may cost together.
        budget : (float, float)
            ε and δ of the run, which a ledger without a budget takes.
        make : callable
            Makes the answer.

        Raises
        ------
        BudgetExceededError
            If the budget, or the run's part of it, would be exceeded.
        InvalidArgumentError
            If the ledger is of another unit.
        PartyArgumentError
            If the note is not one that a ledger can have.
        ProtocolError
            If the attempt was answered before, and asked something else.
        """
        entry = _entry(note)

        def prepare() -> Mapping[str, Any]:
            self._check(run, entry, granted, budget)
            return note

        def make_counted() -> bytes:
            answer = make()
            # Before it is written: whatever interrupts this process then, no answer goes uncounted.
            self._count(run.hex(), entry)
            return answer

        with self._lock:
            before = self._state(run)
            try:
                return self.journal.once(run, number, asked, prepare, make_counted, _about(budget))
            except Exception:
                # What could not be written was not given; what was written is given when it is asked again.
                if not self.journal.has_answered(run, number):
                    self.spent, self._spent_by[run.hex()], self._closeness, self._unit, self._n_counted = (
                        before
                    )
                raise

    def _state(self, run: bytes) -> tuple[Fraction, Fraction, float, Unit | None, int]:
        return self.spent, self._spent_by[run.hex()], self._closeness, self._unit, self._n_counted

    def _count(self, run: str, entry: _Entry) -> None:
        self.spent += entry.cost
        self._spent_by[run] += entry.cost
        self._closeness += entry.closeness
        self._unit = entry.unit
        self._n_counted += 1


@dataclass(frozen=True)
class _Entry:
    """Entry of a ledger about one answer."""

    run: str
    time: str
    what: str
    unit: Unit
    mu: float
    closeness: float

    @property
    def cost(self) -> Fraction:
        """μ² without an error of rounding."""
        return Fraction(self.mu) ** 2


def _parsed(answered: Iterable[Answered]) -> list[tuple[Answered, _Entry]]:
    """The attempts of a ledger with what it notes about them, all of one unit."""
    parsed = list[tuple[Answered, _Entry]]()
    unit: Unit | None = None
    for one in answered:
        entry = _entry(one.note)
        _check_same_unit(unit, entry.unit)
        unit = entry.unit
        parsed.append((one, entry))
    return parsed


def _entry(note: Mapping[str, Any]) -> _Entry:
    run, time, what, neighbouring = (_text_in(note, name) for name in ("run", "time", "what", "neighbouring"))
    mu, closeness = (_number_in(note, name, NOT_NEGATIVE) for name in ("mu", "closeness"))
    try:
        unit = Unit.of_relation(neighbouring)
    except ValueError:
        raise _damaged("neighbouring", neighbouring, "a neighbouring relation of this version") from None
    return _Entry(run, time, what, unit, mu, closeness)


def _budget(about: Mapping[str, Any]) -> tuple[float, float]:
    """ε and δ of a ledger, from its first entry."""
    return _number_in(about, "epsilon", POSITIVE), _number_in(about, "delta", PROPER_SHARE)


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


def _check_same_unit(unit: Unit | None, other: Unit) -> None:
    if unit is not None and unit != other:
        raise InvalidArgumentError(
            f"the party's ledger covers {unit.neighbouring!r}, the run {other.neighbouring!r}"
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
    """

    epsilon: float
    delta: float
    spent_mu: float
    neighbouring: str | None
    rows: list[dict[str, Any]]

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
    about, answered = read_answered(Path(folder) / LEDGER_FILE)
    epsilon, delta = _budget(about)
    entries = _parsed(answered)
    kinds: dict[tuple[str, str], list[_Entry]] = defaultdict(list)
    for one, entry in entries:
        kinds[one.session, entry.what].append(entry)
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
        epsilon,
        delta,
        composed_mu([entry.mu for _, entry in entries]),
        entries[0][1].unit.neighbouring if entries else None,
        rows,
    )
