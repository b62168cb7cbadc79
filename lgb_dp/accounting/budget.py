"""`lgb_dp.Budget`, a privacy filter: one (ε, δ) for many results, each paid for before it is computed.

Which results are computed, and what each may cost, can be decided in view of those before.  Three limits
are fixed when the budget is made: E for the sum of all ε of pure or (ε, δ)-DP results, D for the sum of
their δ, and M for Gaussian ones, Σ μ² ≤ M².  Each is a valid filter (Rogers, Roth, Ullman and Vadhan,
NeurIPS 2016, for sums; Smith and Thakurta, arXiv 2210.17520, for μ²), and together they are
(E + ε_M(δ'), D + δ')-DP, ε_M the curve of M-GDP.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Hashable, Iterable
from decimal import ROUND_FLOOR, ROUND_HALF_EVEN
from fractions import Fraction
from threading import Lock
from typing import Any, NoReturn

from gbdt_commons.key_stream import this_process
from lgb_dp.accounting.cost import Cost, granted, lower_float, pair_text, printed, total_cost
from lgb_dp.accounting.gaussian import composed_mu, gaussian_epsilon, gaussian_mu
from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.accounting.unit import ONE_ROW, Unit
from lgb_dp.checks import Interval, checked_delta, checked_epsilon, checked_number
from lgb_dp.errors import ArgumentTypeError, BudgetExceededError, ForkedProcessError, InvalidArgumentError

_ROUNDING = 5e-10
"""Relative room above `gaussian_mu`, which leaves twice the slack that `gaussian_epsilon` needs."""


class Budget:
    """A privacy budget that trainers and metadata releases share, and that refuses what would exceed it.

    Pass it as ``budget=`` wherever private numbers are released.  A training run is charged with all that it
    is granted, once, when it starts: stopping it early gives nothing back.  The budget can be used by several
    threads; it cannot be copied or pickled, since each copy could be spent.

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
        self._charged: list[tuple[str, Cost, Hashable]] = []
        self._reasons: dict[str, None] = {}
        self._unit: Unit | None = None
        self._lock = Lock()
        self._process = this_process()
        self.id = secrets.token_hex(8)

    @property
    def limit(self) -> Cost:
        """The granted budget: E, D and M."""
        return self._limit

    @property
    def spent(self) -> Cost:
        """The cost charged so far."""
        return total_cost([cost for _, cost, _ in tuple(self._charged)])

    @property
    def remaining(self) -> Cost:
        """The budget that is left; ``remaining.at(delta)`` is the same as (ε, δ)."""
        limit, spent = self._limit, self.spent
        return Cost(
            max(0.0, lower_float(Fraction(limit.epsilon) - Fraction(spent.epsilon))),
            max(0.0, lower_float(Fraction(limit.delta) - Fraction(spent.delta))),
            math.sqrt(max(limit.mu**2 - spent.mu**2, 0.0)) * (1 - 1e-12),
        )

    def charge(self, cost: Cost, what: str, *, unit: Unit = ONE_ROW, once: Hashable = None) -> None:
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
            Stands for what is paid: nothing is charged a second time for it, at the same cost.

        Raises
        ------
        BudgetExceededError
            If the budget would be exceeded; nothing is charged then.
        InvalidArgumentError
            If the unit is another than that of earlier charges, or the cost than that of the same `once`.
        ForkedProcessError
            In a forked process, which would spend the same budget a second time.
        """
        if self._process != this_process():
            raise ForkedProcessError(
                "a budget cannot be spent in a forked process: its parent spends it, too"
            )
        if cost.sampled:
            raise InvalidArgumentError(f"cost must be without samples, got {cost}")
        with self._lock:
            if self._unit not in (None, unit):
                raise InvalidArgumentError(
                    f"the budget covers {self._covered.neighbouring!r}; {what} is under {unit.neighbouring!r}"
                )
            paid = [before for _, before, key in self._charged if once is not None and key == once]
            if paid and paid != [cost]:
                raise InvalidArgumentError(f"once={once!r} has paid for {paid[0]}; {what} costs {cost}")
            if paid:
                return
            if math.isinf(cost.epsilon) or not self._fits(cost):
                raise BudgetExceededError(f"{what} costs {self._shortfall(cost)}")
            self._unit = unit
            self._charged.append((what, cost, once))

    def _shortfall(self, cost: Cost) -> str:
        """A cost that does not fit, beside the part of the budget that it would be paid from."""
        if cost.mu and cost.mu > self.remaining.mu:
            kind, asked = "with Gaussian noise", Cost(mu=cost.mu).at(self._delta_of_mu)
            remedy = "leave epsilon and delta for it, beside pure_epsilon and approximate_delta"
        else:
            kind, asked = "without Gaussian noise", (cost.epsilon, cost.delta)
            remedy = "set some of it apart by Budget(..., pure_epsilon=...)"
        whole, left = pair_text(self.epsilon, self.delta), self._left
        if kind in left:
            most = f"ask for at most {pair_text(*left[kind], ROUND_FLOOR)}"
            remedy = most if left[kind][0] > 0 else "nothing is left for it"
        return f"{pair_text(*asked)} {kind}; of the budget of {whole} not as much is left: {remedy}"

    @property
    def _left(self) -> dict[str, tuple[float, float]]:
        """(ε, δ) that may still be asked for, by whether the noise is Gaussian."""
        left, limit, found = self.remaining, self._limit, {}
        if limit.mu:
            # The nearest of four digits, such as the whole of an unspent budget, unless it costs too much.
            epsilon = gaussian_epsilon(left.mu, self._delta_of_mu)
            nearest, below = (float(printed(epsilon, 4, how)) for how in (ROUND_HALF_EVEN, ROUND_FLOOR))
            fits = nearest > 0 and gaussian_mu(nearest, self._delta_of_mu) <= left.mu
            found["with Gaussian noise"] = (nearest if fits else below, self._delta_of_mu)
        if limit.epsilon:
            found["without Gaussian noise"] = (left.epsilon, left.delta)
        return found

    def _fits(self, cost: Cost) -> bool:
        costs, limit = [*(one for _, one, _ in self._charged), cost], self._limit
        return (
            sum(Fraction(one.epsilon) for one in costs) <= Fraction(limit.epsilon)
            and sum(Fraction(one.delta) for one in costs) <= Fraction(limit.delta)
            and composed_mu([one.mu for one in costs]) <= limit.mu
        )

    @property
    def _covered(self) -> Unit:
        """The unit of what was paid, one row before anything was."""
        return self._unit or ONE_ROW

    def void(self, reasons: Iterable[str]) -> None:
        """Record why a result that was paid from this budget is not private; `report` says so.

        Parameters
        ----------
        reasons : iterable of str
            None of them can be taken back.
        """
        self._reasons.update(dict.fromkeys(reasons))

    def report(self) -> PrivacyReport:
        """The guarantee of everything that was and will be paid from this budget."""
        rows = tuple(
            {
                "group": number,
                "release": what,
                "mechanism": "from the budget",
                "epsilon": cost.epsilon,
                "delta": cost.delta,
                "mu": cost.mu,
                "probability": 1.0,
                "count": 1,
                "disjoint_sets_of_rows": 1,
            }
            for number, (what, cost, _) in enumerate(self._charged)
        )
        spent = self.spent
        return PrivacyReport(
            epsilon=self.epsilon,
            delta=self.delta,
            private=not self._reasons,
            reasons=tuple(self._reasons),
            notes=("what single results do not cover is in their own reports",),
            ledger=rows,
            unit=self._covered,
            cost=self._limit,
            spent=spent.at(self._delta_of_mu),
            budget=self.id,
        )

    def __copy__(self) -> Budget:
        return self

    def __deepcopy__(self, memo: Any) -> Budget:
        return self

    def __reduce__(self) -> NoReturn:
        raise ArgumentTypeError("a Budget cannot be pickled: each copy could be spent")

    def __repr__(self) -> str:
        left = " and ".join(f"{pair_text(*pair, ROUND_FLOOR)} {kind}" for kind, pair in self._left.items())
        return f"<Budget of {pair_text(self.epsilon, self.delta)}; left {left}>"


def checked_budget(budget: Any) -> Budget | None:
    """A Budget, or None."""
    if budget is not None and not isinstance(budget, Budget):
        raise ArgumentTypeError(f"budget must be an lgb_dp.Budget, got {type(budget).__name__}")
    return budget


def chargeable(cost: Cost, delta: float) -> Cost:
    """The cost as a budget takes it: with secret samples, all of it as the (ε, δ) at `delta`."""
    return Cost(*cost.at(granted(delta))) if cost.sampled else cost
