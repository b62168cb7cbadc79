"""The ledger of a training run: what was released, what it cost, and the guarantee that follows.

Costs are under adding or removing one unit, which is one row unless a person has several: ε (and δ) of
differential privacy, which add up, or μ of Gaussian differential privacy, whose squares add up.
Releases that read disjoint sets of rows cost the largest of them.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from gbdt_commons.html_tables import html_table
from lgb_dp.accounting.cost import Cost, printed, total_cost, upper_float
from lgb_dp.accounting.gaussian import SampledGaussian, composed_mu
from lgb_dp.accounting.unit import ONE_ROW, Unit
from lgb_dp.host_errors import BudgetSpentError


@dataclass(frozen=True)
class Release:
    """One differentially private release, named by `what` ("splits of level 1", "leaf values") and mechanism.

    The `mechanism` is "exponential", "discrete Laplace", "Gaussian", or "composed" for an initial model. Its
    cost is `epsilon` (nats, numerical slack included) and `delta`, 0 for pure mechanisms, or `mu` of Gaussian
    differential privacy instead. Releases of different groups may read the same rows; within a group, those
    of different parts read disjoint rows. `probability` is that with which a row was taken for a Gaussian
    release; below 1, it is a secret sample's.
    """

    what: str
    mechanism: str
    epsilon: float
    group: int
    part: int
    delta: float = 0.0
    mu: float = 0.0
    probability: float = 1.0

    @classmethod
    def gaussian(cls, what: str, mu: float, probability: float = 1.0) -> Release:
        """A Gaussian release of the first group."""
        return cls(what, "Gaussian", 0.0, 0, 0, 0.0, mu, probability)


INHERITED = -1
"""Group of the releases of earlier results that a training run builds on."""


@dataclass
class Ledger:
    """All releases of one training run, charged before they are made.

    Where the releases are planned, the plan is what the run is granted. Once a release is Gaussian, or has a
    δ, the cost of a run is that of everything granted, however much of it was made: a rule that stops the run
    because of what was released can make the cost of the releases so far a figure that is not a guarantee,
    while stopping is post-processing of the whole run. For pure ε the running sum is valid afterwards, too
    (Whitehouse et al., "Fully-Adaptive Composition in Differential Privacy", ICML 2023; Rogers et al.,
    NeurIPS 2016), but not for the other folds of a cross-validation, which may go on for longer.

    A row was read by so many `copies` of this run (k - 1 in k-fold cross-validation). The ε of Gaussian
    releases is stated at `granted_delta`. Releases are charged with what they cost per row, inherited ones
    per `unit`, which says whom the guarantee covers. With `covers_others`, the cost is that of other runs,
    too, which are granted the same: all folds of a cross-validation.
    """

    copies: int = 1
    releases: list[Release] = field(default_factory=list)
    granted_delta: float = 0.0
    unit: Unit = ONE_ROW
    _planned: list[Release] | None = None
    _left: Counter[Release] = field(default_factory=Counter)
    _to_pay: list[Cost] = field(default_factory=list)
    covers_others: bool = False

    @classmethod
    def joined(cls, ledgers: Sequence[Ledger]) -> Ledger:
        """Cost of several runs on the same rows, whose number and plans were fixed beforehand.

        Each run may depend on what the others have released: their Gaussian releases compose as those of one
        run do, √(μ₁² + μ₂² + …). A ledger without a plan adds what it has inherited. Raises ValueError if
        they are of several units.
        """
        ((unit, copies, _),) = {(one.unit, one.copies, one.unit.row_costs) for one in ledgers}
        return cls(
            copies,
            [release for ledger in ledgers for release in ledger.releases],
            max(ledger.granted_delta for ledger in ledgers),
            unit,
            [release for ledger in ledgers for release in ledger._planned or []],
        )

    def grant(self, releases: Iterable[Release]) -> None:
        """Plan all releases of a run, before the first one; BudgetSpentError if a plan exists already."""
        if self._planned is not None:
            raise BudgetSpentError("the releases of this training run are planned already")
        self._planned = list(releases)
        self._left = Counter(self._planned)

    def replan(self, releases: Iterable[Release]) -> None:
        """Plan other releases in place of all those that are left, at no higher cost.

        The releases so far may decide it. A composition of Gaussian DP bounds each step whatever came before
        it (Dong, Roth and Su, theorem 3.2), and both plans, each taken as one step, cost at most what was
        granted for it. Of releases on disjoint rows, each set's are compared. Raises BudgetSpentError if
        there is no plan, or the new one costs more or has anything but Gaussian releases of all rows.
        """
        planned, left = list(releases), list(self._left.elements())
        before, after = self._cost(left), self._cost(planned)
        of_parts = [
            tuple(self._cost([r for r in some if r.part == part]).mu for some in (left, planned))
            for part in {r.part for r in planned}
        ]
        is_dearer = any(was < becomes for was, becomes in of_parts)
        if self._planned is None or after != Cost(mu=after.mu) or is_dearer:
            raise BudgetSpentError(
                f"the rest of the plan costs mu = {before.mu:.6g}; other releases of mu = {after.mu:.6g} "
                "cannot take its place"
            )
        self._planned = [*(Counter(self._planned) - self._left).elements(), *planned]
        self._left = Counter(planned)

    def inherit(self, cost: Cost, what: str, delta: float, *, is_paid: bool = False) -> None:
        """Record what an earlier result has cost, its Gaussian releases stated at `delta`.

        `is_paid` says that the `Budget` which pays for this run has paid for that result already.
        """
        name = (what, "composed")
        if not is_paid:
            self._to_pay.append(cost)
        self.releases.append(Release(*name, cost.epsilon, INHERITED, 0, cost.delta, cost.mu))
        for part in cost.sampled:
            self.releases += [Release(*name, 0.0, INHERITED, 0, 0.0, part.mu, part.probability)] * part.count
        self.granted_delta = max(self.granted_delta, delta)

    def charge(self, release: Release) -> None:
        """Record a release.

        Raises BudgetSpentError if there is a plan and the release is not in it, or was made already as often
        as planned.
        """
        if self._planned is not None:
            if self._left[release] < 1:
                raise BudgetSpentError(
                    f"the release of {release.what} is not in the plan of the training run"
                )
            self._left[release] -= 1
        self.releases.append(release)

    @property
    def epsilon(self) -> float:
        """Total ε, rounded up."""
        return self.cost.at(self.granted_delta)[0]

    @property
    def delta(self) -> float:
        """Total δ, rounded up."""
        return self.cost.at(self.granted_delta)[1]

    @property
    def spent(self) -> tuple[float, float]:
        """(ε, δ) of the releases so far: information, not a guarantee, unless all is pure."""
        return self._cost(self.releases).at(self.granted_delta)

    @property
    def cost(self) -> Cost:
        """The granted cost; without a plan, or if all of it is pure and this run's, what was released."""
        inherited = [release for release in self.releases if release.group == INHERITED]
        everything = inherited + (self._planned or [])
        is_pure = all(r.mu == 0 and r.delta == 0 for r in everything)
        if self._planned is None or (is_pure and not self.covers_others):
            return self._cost(self.releases)
        return self._cost(everything)

    @property
    def granted(self) -> Cost:
        """Cost that a `Budget` pays: all planned releases, and inherited ones that are not paid yet."""
        return total_cost([self._cost(self._planned or []), *self._to_pay * self.copies])

    @property
    def whole(self) -> Cost:
        """All planned releases and everything inherited, no matter which budget paid for it."""
        return self._cost([r for r in self.releases if r.group == INHERITED] + (self._planned or []))

    def _cost(self, releases: Sequence[Release]) -> Cost:
        """Cost of releases: sums over groups of the largest sum over a part, rounded up.

        Each kind of cost is summed up separately, so that each kind's largest part counts.  Afterwards what
        the run's own releases cost per row is multiplied by `unit`.
        """
        own = [release for release in releases if release.group != INHERITED]
        if self.unit.row_costs == 1:
            return self._cost_per_row(releases)
        assert all(release.delta == 0 for release in own)  # δ of a group of rows is not k times a row's
        inherited = [release for release in releases if release.group == INHERITED]
        per_row, k = self._cost_per_row(own), self.unit.row_costs
        of_unit = Cost(
            math.inf if math.isinf(per_row.epsilon) else upper_float(k * Fraction(per_row.epsilon)),
            0.0,
            k * per_row.mu * (1 + 1e-15),
            tuple(SampledGaussian(k * part.mu, part.probability, part.count) for part in per_row.sampled),
        )
        return total_cost([self._cost_per_row(inherited), of_unit]) if inherited else of_unit

    def _cost_per_row(self, releases: Sequence[Release]) -> Cost:
        parts: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        for release in releases:
            if release.probability == 1.0 and release.mu != 0:
                parts[release.group][release.part].append(release.mu)
        largest = [max(composed_mu(mus) for mus in group.values()) for group in parts.values()]
        drawn = Counter((r.mu, r.probability) for r in releases if r.probability < 1.0)
        return Cost(
            self._total(releases, lambda release: release.epsilon),
            self._total(releases, lambda release: release.delta),
            composed_mu(largest * self.copies),
            tuple(SampledGaussian(mu, p, count * self.copies) for (mu, p), count in drawn.items()),
        )

    def _total(self, releases: Sequence[Release], cost: Callable[[Release], float]) -> float:
        """Exact sum of a kind of cost, rounded up; parts and groups that cost the same are added up once."""
        if not any(map(cost, releases)):
            return 0.0
        parts: dict[int, dict[int, Counter[float]]] = defaultdict(lambda: defaultdict(Counter))
        for release in releases:
            parts[release.group][release.part][cost(release)] += 1
        if any(math.isinf(each) for group in parts.values() for part in group.values() for each in part):
            return math.inf
        groups = Counter(frozenset(frozenset(part.items()) for part in of.values()) for of in parts.values())
        exact = (count * max(map(_exact_sum, group)) for group, count in groups.items())
        return upper_float(self.copies * sum(exact, Fraction()))

    def table(self) -> list[dict[str, Any]]:
        """Equal releases of a group counted in one row, in the order they were made."""
        parts: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for r in self.releases:
            parts[r.group, r.what, r.mechanism, r.epsilon, r.delta, r.mu, r.probability].append(r.part)
        return [
            {
                "group": group,
                "release": what,
                "mechanism": mechanism,
                "epsilon": epsilon,
                "delta": delta,
                "mu": mu,
                "probability": probability,
                "count": len(of_rows),
                "disjoint_sets_of_rows": len(set(of_rows)),
            }
            for (group, what, mechanism, epsilon, delta, mu, probability), of_rows in parts.items()
        ]

    def _repr_html_(self) -> str:
        """The table for a notebook."""
        return ledger_html(self.table())


def _exact_sum(costs: Iterable[tuple[float, int]]) -> Fraction:
    """Sum of costs, each taken a number of times."""
    return sum((count * Fraction(each) for each, count in costs), Fraction())


def ledger_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Releases for a reader: the cost of each in words."""
    return [
        {
            "group": row["group"],
            "release": row["release"],
            "mechanism": row["mechanism"],
            "cost each": cost_each(row),
            "count": row["count"],
            "disjoint": row["disjoint_sets_of_rows"],
        }
        for row in rows
    ]


def ledger_html(rows: Iterable[Mapping[str, Any]]) -> str:
    """Releases as a table in HTML."""
    return html_table(ledger_rows(rows))


def cost_each(row: Mapping[str, Any]) -> str:
    """Cost of one release of a ledger's row, for the reader."""
    digits = {"epsilon": 6, "delta": 3, "mu": 6}
    terms = [f"{name} {printed(row[name], n)}" for name, n in digits.items() if row.get(name)]
    return " ".join(terms) + (f" of {row['probability']:.3g} n" if row.get("probability", 1.0) < 1 else "")
