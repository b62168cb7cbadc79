"""`lgb_dp.Budget`, a privacy filter: one (ε, δ) for many results, each paid for before it is computed.

Which results are computed, and what each may cost, can be decided in view of those before.  Three limits
are fixed when the budget is made: E for the sum of all ε of pure or (ε, δ)-DP results, D for the sum of
their δ, and M for Gaussian ones, Σ μ² ≤ M².  Each is a valid filter (Rogers, Roth, Ullman and Vadhan,
NeurIPS 2016, for sums; Smith and Thakurta, arXiv 2210.17520, for μ²), and together they are
(E + ε_M(δ'), D + δ')-DP, ε_M the curve of M-GDP.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

from gbdt_commons.html_tables import html_paragraph, html_table
from lgb_dp.accounting.cost import Cost, granted, lower_float, pair_text, printed, total_cost
from lgb_dp.accounting.gaussian import composed_mu, gaussian_epsilon, gaussian_mu
from lgb_dp.accounting.payments import Account, Book, FileAccount, Payment
from lgb_dp.accounting.plotting import plot_charges
from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.accounting.unit import ONE_ROW, Unit
from lgb_dp.checks import (
    Interval,
    checked_delta,
    checked_epsilon,
    checked_flag,
    checked_integer,
    checked_number,
)
from lgb_dp.errors import ArgumentTypeError, BudgetExceededError, InvalidArgumentError

_ROUNDING = 5e-10
"""Relative room above `gaussian_mu`, which leaves twice the slack that `gaussian_epsilon` needs."""


_WITH, _WITHOUT = "with Gaussian noise", "without Gaussian noise"


@dataclass(frozen=True)
class EqualShares:
    """Shares of a budget for equal models, seen to fit by composing all of them.

    Parameters
    ----------
    n_models : int
    epsilon, delta : float
        For each model with Gaussian noise, such as `NewtonBoost`; 0 if the budget has nothing for such.
    pure_epsilon, pure_delta : float
        For each result that is charged by its ε and δ, such as a model of `DPBoost`.  As many of these fit
        beside the others.
    total : Cost
        Of what was charged before and all of them.
    limit : Cost
        Of the budget; `total` does not exceed it.
    """

    n_models: int
    epsilon: float
    delta: float
    pure_epsilon: float
    pure_delta: float
    total: Cost
    limit: Cost

    def __str__(self) -> str:
        each = {_WITH: (self.epsilon, self.delta), _WITHOUT: (self.pure_epsilon, self.pure_delta)}
        lines = [f"{pair_text(*one, ROUND_FLOOR)} {kind}" for kind, one in each.items() if one[0]]
        proof = [
            f"{name} {printed(used, 10)} of {printed(whole, 10, ROUND_FLOOR)}"
            for name, used, whole in (
                ("mu", self.total.mu, self.limit.mu),
                ("epsilon", self.total.epsilon, self.limit.epsilon),
            )
            if whole
        ]
        return f"each of {self.n_models}: {' or '.join(lines)}; with what is spent, {', '.join(proof)}"


class Budget:
    """A privacy budget that trainers and metadata releases share, and that refuses what would exceed it.

    Pass it as ``budget=`` wherever private numbers are released.  A training run is charged with all that it
    is granted, once, when it starts: stopping it early gives nothing back.  The budget can be used by several
    threads.  One that `open` keeps in a file can be used by several processes, too, and pickles as its path;
    another one cannot be copied or pickled, since each copy could be spent.

    Parameters
    ----------
    epsilon : float
        Total ε in nats, of everything that is paid from the budget.
    delta : float
        Total δ.  At 0 only results of pure differential privacy can be paid.
    pure_epsilon : float
        Part of `epsilon` that is set aside for results without Gaussian noise (`DPBoost`, `MBoost`, …); all
        of it if `delta` is 0.
    approximate_delta : float
        Part of `delta` that is set aside for results that are charged as their (ε, δ): the training runs with
        secret samples (`subsample` below 1), whose ε comes from `pure_epsilon`.

    Attributes
    ----------
    id : str
        By which reports name the budget that paid for everything in them.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        Naming the argument that is not accepted.

    Examples
    --------
    >>> budget = lgb_dp.Budget(1.0, 1e-6)                                               # doctest: +SKIP
    >>> bounds, _ = lgb_dp.private_bounds(X, 0.2, 1e-6, budget=budget)                  # doctest: +SKIP
    >>> trainer = lgb_dp.NewtonBoost(0.7, 1e-6, budget=budget)                          # doctest: +SKIP
    """

    def __init__(
        self, epsilon: float, delta: float = 0.0, *, pure_epsilon: float = 0.0, approximate_delta: float = 0.0
    ) -> None:
        self.epsilon = checked_epsilon(epsilon)
        self.delta = 0.0 if delta == 0 and not isinstance(delta, bool) else checked_delta(delta)
        pure = checked_number("pure_epsilon", pure_epsilon, Interval(0, self.epsilon))
        approximate = checked_number("approximate_delta", approximate_delta, Interval(0, self.delta))
        if self.delta == 0:
            pure = self.epsilon
        rest = lower_float(Fraction(self.epsilon) - Fraction(pure))
        self._delta_of_mu = lower_float(Fraction(self.delta) - Fraction(approximate))
        has_mu = rest and self._delta_of_mu
        mu = gaussian_mu(rest, self._delta_of_mu) * (1 + _ROUNDING) if has_mu else 0.0
        self._limit = Cost(pure, approximate, mu)
        self._kept = Account()
        self.id = self._kept.id

    @classmethod
    def open(
        cls,
        path: str | PathLike[str],
        epsilon: float | None = None,
        delta: float = 0.0,
        *,
        pure_epsilon: float = 0.0,
        approximate_delta: float = 0.0,
        accept_copy: bool = False,
    ) -> Budget:
        """The budget that is kept in a file, such as that of a year.

        A charge is on the disk before anything is released, and a run that is killed stays charged.
        Processes and threads take turns.  The date of a charge is information: nothing is given back by time.

        Parameters
        ----------
        path : path
            Made if it is missing.
        epsilon, delta, pure_epsilon, approximate_delta
            As of a `Budget`; those of the file, which must exist, if `epsilon` is left out.
        accept_copy : bool
            Whether to go on with a file that was copied, restored or moved to another disk.  The budget gets
            a new `id`: models that were paid from the other file are charged for where others build on them.

        Returns
        -------
        Budget

        Raises
        ------
        InvalidArgumentError
            If the file has other limits, or `accept_copy` is given for a file that is no copy.
        StoreError
            If the file is a copy, damaged, of another release or purpose, in use for too long, or missing.
        OSError
            If the file cannot be read or written.
        """
        given = {"delta": delta, "pure_epsilon": pure_epsilon, "approximate_delta": approximate_delta}
        place = Path(path).absolute()
        if epsilon is None:
            if accept_copy or any(given.values()):
                raise InvalidArgumentError("epsilon must be given with delta and other limits, got None")
            return cls._of(FileAccount(place))
        asked = cls(epsilon, **given)
        limits = {"epsilon": asked.epsilon} | {name: float(value) for name, value in given.items()}
        return cls._of(FileAccount.begun(place, limits, accept_copy=checked_flag("accept_copy", accept_copy)))

    @classmethod
    def _of(cls, kept: FileAccount) -> Budget:
        budget = cls(**kept.limits)
        budget._kept, budget.id = kept, kept.id
        return budget

    @classmethod
    def _at(cls, path: str, id: str) -> Budget:
        """The same budget in another process."""
        return cls._of(FileAccount(Path(path), id))

    @property
    def limit(self) -> Cost:
        """The granted budget: E, D and M."""
        return self._limit

    @property
    def spent(self) -> Cost:
        """The cost charged so far."""
        return _spent(self._kept.read())

    @property
    def remaining(self) -> Cost:
        """The budget that is left; ``remaining.at(delta)`` is the same as (ε, δ)."""
        return self._remaining(self._kept.read())

    def _remaining(self, book: Book) -> Cost:
        limit, spent = self._limit, _spent(book)
        return Cost(
            max(0.0, lower_float(Fraction(limit.epsilon) - Fraction(spent.epsilon))),
            max(0.0, lower_float(Fraction(limit.delta) - Fraction(spent.delta))),
            math.sqrt(max(limit.mu**2 - spent.mu**2, 0.0)) * (1 - 1e-12),
        )

    @property
    def charges(self) -> list[dict[str, Any]]:
        """Rows of all charges: number, date (UTC), kind of result, objective of a model, and cost."""
        return _rows(self._kept.read())

    def charge(
        self, cost: Cost, what: str, *, unit: Unit = ONE_ROW, once: Hashable = None, objective: str = ""
    ) -> tuple[str, ...]:
        """Pay for a result before it is computed.

        Parameters
        ----------
        cost : Cost
            Without secret samples: those are charged as their (ε, δ).
        what : str
            For the table of `report`.
        unit : Unit
            The unit of the cost; all costs of a budget have the same.
        once : hashable, optional
            Stands for what is paid: nothing is charged a second time for it, at the same cost.  In a file, it
            is made of texts, numbers and tuples.
        objective : str
            Of a model, for the table of `charges`.

        Returns
        -------
        tuple of str
            Notes for the result's report: the charge that has paid, for a budget in a file.

        Raises
        ------
        ArgumentTypeError
            If `cost` is no cost.
        BudgetExceededError
            If the budget would be exceeded; nothing is charged then.
        InvalidArgumentError
            If the unit is another than that of earlier charges, or the cost than that of the same `once`.
        ForkedProcessError
            In a forked process, unless the budget is in a file: it would spend the same a second time.
        StoreError, OSError
            If the file cannot be used; nothing is charged then.
        """
        if not isinstance(cost, Cost):
            remedy = ": pass report.cost" if isinstance(cost, PrivacyReport) else ""
            raise ArgumentTypeError(
                f"cost must be a Cost, got {type(cost).__name__}{remedy}; trainers with budget= charge by "
                "themselves"
            )
        if cost.sampled:
            raise InvalidArgumentError(f"cost must be without samples, got {cost}")
        key, today = self._kept.key_of(once), datetime.now(timezone.utc).date().isoformat()
        new = Payment(str(what), cost, unit, key, str(objective), today)
        book = self._kept.change(lambda book: self._charged(book, new))
        if self._kept.path is None:
            return ()
        number = next(n for n, one in enumerate(book.charges, 1) if one is new or (key and one.once == key))
        return (f"charge {number} of the budget {self.id} has paid for it",)

    def _charged(self, book: Book, new: Payment) -> Book:
        """The book with one more charge, or as it is if that was paid before."""
        unit, cost = _covered(book), new.cost
        if book.charges and unit != new.unit:
            raise InvalidArgumentError(
                f"the budget covers {unit.neighbouring!r}; {new.what} is under {new.unit.neighbouring!r}"
            )
        paid = [one.cost for one in book.charges if new.once is not None and one.once == new.once]
        if paid and paid != [cost]:
            raise InvalidArgumentError(f"once={new.once!r} has paid for {paid[0]}; {new.what} costs {cost}")
        if paid:
            return book
        if math.isinf(cost.epsilon) or not self._fits(book, [cost]):
            raise BudgetExceededError(f"{new.what} costs {self._shortfall(book, cost)}")
        return replace(book, charges=(*book.charges, new))

    def _shortfall(self, book: Book, cost: Cost) -> str:
        """A cost that does not fit, beside the part of the budget that it would be paid from."""
        if cost.mu and cost.mu > self._remaining(book).mu:
            kind, asked = _WITH, Cost(mu=cost.mu).at(self._delta_of_mu)
            remedy = "leave epsilon and delta for it, beside pure_epsilon and approximate_delta"
        else:
            kind, asked = _WITHOUT, (cost.epsilon, cost.delta)
            remedy = "set some of it apart by Budget(..., pure_epsilon=...)"
        whole, left = pair_text(self.epsilon, self.delta), self._left(book)
        if kind in left:
            most = f"ask for at most {pair_text(*left[kind], ROUND_FLOOR)}"
            remedy = most if left[kind][0] > 0 else "nothing is left for it"
        return f"{pair_text(*asked)} {kind}; of the budget of {whole} not as much is left: {remedy}"

    def _left(self, book: Book) -> dict[str, tuple[float, float]]:
        """(ε, δ) that may still be asked for, by whether the noise is Gaussian."""
        left, limit, found = self._remaining(book), self._limit, {}
        if limit.mu:
            # The nearest of four digits, such as the whole of an unspent budget, unless it costs too much.
            epsilon = gaussian_epsilon(left.mu, self._delta_of_mu)
            nearest, below = (float(printed(epsilon, 4, how)) for how in (ROUND_HALF_EVEN, ROUND_FLOOR))
            fits = nearest > 0 and gaussian_mu(nearest, self._delta_of_mu) <= left.mu
            found[_WITH] = (nearest if fits else below, self._delta_of_mu)
        if limit.epsilon:
            found[_WITHOUT] = (left.epsilon, left.delta)
        return found

    def _fits(self, book: Book, more: list[Cost]) -> bool:
        costs, limit = [*(one.cost for one in book.charges), *more], self._limit
        return (
            sum(Fraction(one.epsilon) for one in costs) <= Fraction(limit.epsilon)
            and sum(Fraction(one.delta) for one in costs) <= Fraction(limit.delta)
            and composed_mu([one.mu for one in costs]) <= limit.mu
        )

    def plan(self, n_models: int) -> EqualShares:
        """The equal shares of several models in the rest of the budget.

        The figures have been seen to fit: all models are composed with what was charged before.  Gaussian
        ones compose by the squares of μ, so that the ε of each is above an n-th of what is left.

        Parameters
        ----------
        n_models : int

        Returns
        -------
        EqualShares

        Raises
        ------
        ArgumentTypeError, InvalidArgumentError
            If `n_models` is no number from 1 to 100,000.
        BudgetExceededError
            If nothing is left, or too little for so many.
        """
        n, book = checked_integer("n_models", n_models, 1, 100_000), self._kept.read()
        left, delta = self._remaining(book), self._delta_of_mu
        epsilon, pure = 0.0, (left.epsilon / n, left.delta / n)
        each = Cost(granted(pure[0]), granted(pure[1]))
        if left.mu:
            # Room for the rounding of a run's plan, a hundredth of what a budget allows for it.
            epsilon = gaussian_epsilon(left.mu / math.sqrt(n) * (1 - 10 * _ROUNDING), delta)
            mu = gaussian_mu(epsilon, delta) * (1 + _ROUNDING) if epsilon else 0.0
            epsilon, each = epsilon if mu else 0.0, replace(each, mu=mu)
        if not epsilon and not pure[0]:
            raise BudgetExceededError(
                f"n_models={n} is too many for what is left of {pair_text(self.epsilon, self.delta)}"
            )
        assert self._fits(book, [each] * n)
        whole = total_cost([_spent(book), *[each] * n])
        return EqualShares(n, epsilon, delta if epsilon else 0.0, *pure, whole, self._limit)

    def void(self, reasons: Iterable[str]) -> None:
        """Record why a result that was paid from this budget is not private; `report` says so.

        Parameters
        ----------
        reasons : iterable of str
            None of them can be taken back.
        """
        if given := tuple(reasons):
            self._kept.change(
                lambda book: replace(book, reasons=tuple(dict.fromkeys((*book.reasons, *given))))
            )

    def report(self) -> PrivacyReport:
        """The guarantee of everything that was and will be paid from this budget."""
        book = self._kept.read()
        rows = tuple(
            {
                "group": number,
                "release": one.what,
                "mechanism": "from the budget",
                "epsilon": one.cost.epsilon,
                "delta": one.cost.delta,
                "mu": one.cost.mu,
                "probability": 1.0,
                "count": 1,
                "disjoint_sets_of_rows": 1,
            }
            for number, one in enumerate(book.charges)
        )
        return PrivacyReport(
            epsilon=self.epsilon,
            delta=self.delta,
            private=not book.reasons,
            reasons=book.reasons,
            notes=("what single results do not cover is in their own reports",),
            ledger=rows,
            unit=_covered(book),
            cost=self._limit,
            spent=_spent(book).at(self._delta_of_mu),
            budget=self.id,
        )

    def plot(self, *, ax: Any = None) -> Any:
        """Staircase of what is spent and left, by the dates of the charges.

        Gaussian charges compose by squares, so that their shares are shares of μ²; others are shares of ε.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        InvalidArgumentError
            If nothing was charged.
        MissingDependencyError
            If matplotlib is not installed.
        """
        title = f"budget of {pair_text(self.epsilon, self.delta)}"
        return plot_charges(self.charges, self._limit, title=title, ax=ax)

    def __copy__(self) -> Budget:
        return self

    def __deepcopy__(self, memo: Any) -> Budget:
        return self

    def __reduce__(self) -> Any:
        if self._kept.path is not None:
            return type(self)._at, (str(self._kept.path), self.id)
        raise ArgumentTypeError(
            "a Budget in memory cannot be pickled: each copy could be spent; open it from a file that "
            "processes share: lgb_dp.Budget.open(path, epsilon, delta)"
        )

    def _summary(self, book: Book) -> str:
        left = " and ".join(
            f"{pair_text(*pair, ROUND_FLOOR)} {kind}" for kind, pair in self._left(book).items()
        )
        place = f" in {str(self._kept.path)!r}" if self._kept.path else ""
        return f"Budget of {pair_text(self.epsilon, self.delta)}{place}; left {left}"

    def _told(self, book: Book) -> list[dict[str, Any]]:
        """Charges for a reader, each with the cost that it has alone."""
        return [
            {
                "charge": row["charge"],
                "date": row["date"],
                "what": ", ".join(filter(None, (row["what"], row["objective"]))),
                "cost alone": pair_text(*one.cost.at(self._delta_of_mu)),
            }
            for row, one in zip(_rows(book), book.charges, strict=True)
        ]

    def __repr__(self) -> str:
        book = self._kept.read()
        lines = ["  ".join(map(str, row.values())) for row in self._told(book)]
        return "\n  ".join([f"<{self._summary(book)}>", *lines])

    def _repr_html_(self) -> str:
        """The same for a notebook."""
        book = self._kept.read()
        return html_paragraph(self._summary(book)) + html_table(self._told(book))


def _spent(book: Book) -> Cost:
    return total_cost([one.cost for one in book.charges])


def _covered(book: Book) -> Unit:
    """The unit of what was paid, one row before anything was."""
    return book.charges[-1].unit if book.charges else ONE_ROW


def _rows(book: Book) -> list[dict[str, Any]]:
    return [
        {"charge": number, "date": one.date, "what": one.what, "objective": one.objective}
        | {"epsilon": one.cost.epsilon, "delta": one.cost.delta, "mu": one.cost.mu}
        for number, one in enumerate(book.charges, 1)
    ]


def checked_budget(budget: Any) -> Budget | None:
    """A Budget, or None."""
    if budget is not None and not isinstance(budget, Budget):
        is_path = isinstance(budget, (str, PathLike))
        remedy = f"; lgb_dp.Budget.open({str(budget)!r}) opens it from its file" if is_path else ""
        raise ArgumentTypeError(f"budget must be an lgb_dp.Budget, got {type(budget).__name__}{remedy}")
    return budget


def chargeable(cost: Cost, delta: float) -> Cost:
    """The cost as a budget takes it: with secret samples, all of it as the (ε, δ) at `delta`."""
    return Cost(*cost.at(granted(delta))) if cost.sampled else cost
