"""A party's ledger: what its answers have cost, over all runs, and the budget beyond which it refuses.

Costs are μ of Gaussian differential privacy.  With M fixed beforehand, Σ μ² ≤ M² is a valid filter whatever
is asked and however it is chosen (Smith and Thakurta, arXiv 2210.17520).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
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
    epsilon, delta : float
        Budget of a new ledger.

    Raises
    ------
    InvalidArgumentError
        If the ledger in the folder has another budget.
    PartyArgumentError
        If it is damaged, or in use.
    """

    def __init__(self, folder: Path | None, epsilon: float, delta: float) -> None:
        about = {"epsilon": epsilon, "delta": delta}
        self.journal = AnswerJournal(None if folder is None else folder / LEDGER_FILE, about)
        if dict(self.journal.about) != about:
            kept = self.journal.about
            self.journal.close()
            raise InvalidArgumentError(
                f"the ledger in the party's folder has the budget epsilon = {kept['epsilon']:g}, delta = "
                f"{kept['delta']:g}, not epsilon = {epsilon:g}, delta = {delta:g}; a budget does not change"
            )
        self.epsilon, self.delta = epsilon, delta
        less = 1 - CLOSENESS_SHARE
        self._limit = Fraction(gaussian_mu(epsilon * less, delta * less) * (1 + _ROUNDING)) ** 2
        self._lock = Lock()
        self._spent, self._closeness = Fraction(), 0.0
        self._neighbouring: str | None = None
        self._spent_by: dict[str, Fraction] = defaultdict(Fraction)
        for answered in self.journal.answered:
            self._count(answered.session, answered.note)

    @classmethod
    def of_folder(cls, folder: Path) -> PartyLedger:
        """The ledger that is in a folder, with the budget that it has."""
        about, _ = read_answered(folder / LEDGER_FILE)
        return cls(folder, about["epsilon"], about["delta"])

    def check_run(self, run: bytes, mu: float, neighbouring: str) -> None:
        """Check that all that a run may cost is left, beside what it has cost already.

        Raises
        ------
        BudgetExceededError
            If it is not.
        InvalidArgumentError
            If the ledger is of another unit.
        """
        self._check_unit(neighbouring)
        others = self._spent - self._spent_by[run.hex()]
        if others + Fraction(mu) ** 2 > self._limit:
            left = float(self._limit - others)
            raise BudgetExceededError(
                f"the run may cost mu = {mu:.6g}; of the party's budget (epsilon = {self.epsilon:g}, delta = "
                f"{self.delta:g}) mu = {max(left, 0.0) ** 0.5:.6g} is left.  A party's budget is that of its "
                "first run unless it is given one"
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
        make: Callable[[], bytes],
    ) -> bytes:
        """The answer to an attempt, which is charged before it is given, and only once.

        Parameters
        ----------
        run : bytes
        number : int
        asked : bytes
            Everything that is asked.
        note : mapping
            With `mu`, the cost, `closeness` and `neighbouring`.
        granted : float
            μ that all answers of the run may cost together.
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
            if self._spent + cost > self._limit:
                raise BudgetExceededError("the party's budget is spent")
            check_closeness(self._closeness + note["closeness"], self.epsilon)
            return note

        made: list[bytes] = []

        def make_new() -> bytes:
            made.append(make())
            return made[0]

        with self._lock:
            answer = self.journal.once(run, number, asked, prepare, make_new)
            if made:
                self._count(run.hex(), note)
        return answer

    def _count(self, run: str, note: Mapping[str, Any]) -> None:
        cost = Fraction(note["mu"]) ** 2
        self._spent += cost
        self._spent_by[run] += cost
        self._closeness += note["closeness"]
        self._neighbouring = note["neighbouring"]


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
            "run": run[:8],
            "since": of_kind[0].note["time"],
            "release": what,
            "answers": len(of_kind),
            "mu": composed_mu([one.note["mu"] for one in of_kind]),
        }
        for (run, what), of_kind in kinds.items()
    ]
    return LedgerSums(
        about["epsilon"],
        about["delta"],
        composed_mu([one.note["mu"] for one in answered]),
        answered[0].note["neighbouring"] if answered else None,
        rows,
    )
