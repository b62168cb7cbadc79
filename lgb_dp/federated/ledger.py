"""A party's ledger: what its answers have cost, over all runs, and the budget beyond which it refuses.

Costs are μ of Gaussian differential privacy.  With M fixed beforehand, Σ μ² ≤ M² is a valid filter whatever
is asked and however it is chosen (Smith and Thakurta, arXiv 2210.17520).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

from gbdt_parties.secure_sum.answers import Answered, AnswerJournal, read_answered
from lgb_dp.accounting.gaussian import composed_mu, gaussian_epsilon, gaussian_mu
from lgb_dp.accounting.shares import CLOSENESS_SHARE, check_closeness
from lgb_dp.errors import BudgetExceededError, InvalidArgumentError

LEDGER_FILE = "ledger"
_ROUNDING = 5e-10
"""Relative room above `gaussian_mu`, as a `Budget` has it."""


class PartyLedger:
    """What one party may answer, and has answered.

    Parameters
    ----------
    folder : Path or None
        The party's; None keeps the ledger in memory.
    budget : (float, float), optional
        ε and δ of a new ledger, which otherwise takes those of the first run that is answered.

    Raises
    ------
    InvalidArgumentError
        If the ledger in the folder has another budget, or covers several units.
    PartyArgumentError
        If it is damaged, or in use.
    """

    def __init__(self, folder: Path | None, budget: tuple[float, float] | None = None) -> None:
        about = None if budget is None else _about(budget)
        self.journal = AnswerJournal(None if folder is None else folder / LEDGER_FILE, about)
        self._lock = Lock()
        self._spent, self._closeness = Fraction(), 0.0
        self._neighbouring: str | None = None
        self._spent_by: dict[str, Fraction] = defaultdict(Fraction)
        try:
            kept = self.budget
            if budget is not None and kept is not None and budget != kept:
                raise InvalidArgumentError(
                    f"the ledger in the party's folder has the budget {_text(kept)}, not {_text(budget)}; a "
                    "budget does not change"
                )
            for answered in self.journal.answered:
                self._check_unit(answered.note["neighbouring"])
                self._count(answered.session, answered.note)
        except BaseException:
            self.journal.close()
            raise

    @property
    def budget(self) -> tuple[float, float] | None:
        """ε and δ; None until a run is answered, unless it was given."""
        about = self.journal.about
        return None if about is None else (float(about["epsilon"]), float(about["delta"]))

    def check_run(self, run: bytes, mu: float, neighbouring: str, budget: tuple[float, float]) -> None:
        """Check that all that a run may cost is left, beside what it has cost already.

        Parameters
        ----------
        run : bytes
        mu : float
            What it may cost.
        neighbouring : str
            Its unit.
        budget : (float, float)
            Its ε and δ, which a ledger without a budget will take.

        Raises
        ------
        BudgetExceededError
            If it is not.
        InvalidArgumentError
            If the ledger is of another unit.
        """
        self._check_unit(neighbouring)
        budget = self.budget or budget
        left = _limit(budget) - (self._spent - self._spent_by.get(run.hex(), Fraction()))
        if Fraction(mu) ** 2 > left:
            raise BudgetExceededError(
                f"the run may cost mu = {mu:.6g}; of the party's budget ({_text(budget)}) mu = "
                f"{max(float(left), 0.0) ** 0.5:.6g} is left.  A party's budget is that of its first run "
                "unless it is given one"
            )

    def _check_unit(self, neighbouring: str) -> None:
        if self._neighbouring not in (None, neighbouring):
            raise InvalidArgumentError(
                f"the party's ledger covers {self._neighbouring!r}, the run {neighbouring!r}"
            )

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
            With `run`, its number, `mu`, the cost, `closeness` and `neighbouring`.
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
        ProtocolError
            If the attempt was answered before, and asked something else.
        """

        def prepare() -> Mapping[str, Any]:
            # Once more: two runs may have begun before either of them was answered.
            self._check_unit(note["neighbouring"])
            cost = Fraction(note["mu"]) ** 2
            if self._spent_by[run.hex()] + cost > Fraction(granted) ** 2:
                raise BudgetExceededError(
                    f"the run was granted mu = {granted:.6g}, all of which is spent: too many attempts failed"
                )
            kept = self.budget or budget
            if self._spent + cost > _limit(kept):
                raise BudgetExceededError("the party's budget is spent")
            check_closeness(self._closeness + note["closeness"], kept[0])
            return note

        def make_counted() -> bytes:
            answer = make()
            # Before it is written: whatever interrupts this process then, no answer goes uncounted.
            self._count(run.hex(), note)
            return answer

        with self._lock:
            before = self._spent, self._spent_by[run.hex()], self._closeness, self._neighbouring
            try:
                return self.journal.once(run, number, asked, prepare, make_counted, _about(budget))
            except Exception:
                # It could not be written, and so was not given.
                self._spent, self._spent_by[run.hex()], self._closeness, self._neighbouring = before
                raise

    def _count(self, run: str, note: Mapping[str, Any]) -> None:
        cost = Fraction(note["mu"]) ** 2
        self._spent += cost
        self._spent_by[run] += cost
        self._closeness += note["closeness"]
        self._neighbouring = note["neighbouring"]


def _about(budget: tuple[float, float]) -> dict[str, float]:
    return dict(zip(("epsilon", "delta"), budget, strict=True))


def _text(budget: tuple[float, float]) -> str:
    return f"epsilon = {budget[0]:g}, delta = {budget[1]:g}"


@lru_cache(maxsize=64)
def _limit(budget: tuple[float, float]) -> Fraction:
    """μ² that a budget allows."""
    less = 1 - CLOSENESS_SHARE
    return Fraction(gaussian_mu(budget[0] * less, budget[1] * less) * (1 + _ROUNDING)) ** 2


@dataclass(frozen=True)
class LedgerSums:
    """What a party's ledger says.

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

    Raises
    ------
    PartyArgumentError
        If there is none, or it is damaged.
    OSError
        If it cannot be read.
    """
    about, answered = read_answered(Path(folder) / LEDGER_FILE)
    kinds: dict[tuple[str, str], list[Answered]] = defaultdict(list)
    for one in answered:
        kinds[one.session, one.note["what"]].append(one)
    rows = [
        {
            "run": of_kind[0].note["run"][:8],
            "since": of_kind[0].note["time"],
            "release": what,
            "answers": len(of_kind),
            "mu": composed_mu([one.note["mu"] for one in of_kind]),
        }
        for (_, what), of_kind in kinds.items()
    ]
    return LedgerSums(
        about["epsilon"],
        about["delta"],
        composed_mu([one.note["mu"] for one in answered]),
        answered[0].note["neighbouring"] if answered else None,
        rows,
    )
