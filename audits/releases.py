"""Single releases and trees against their claims, by samples of two neighbouring worlds.

A release is drawn many times with and without one row.  A classifier, fitted on half of the draws, tells the
worlds apart; its right and wrong guesses on the other half bound ε from below at every δ of a grid, a test of
the hockey-stick divergence.  Microsoft's `privacy-estimates` computes one bound; `lgb_dp.auditing` another,
in a line of its own, which is not an outside one.  A bound above the claim is a violation.  Copies of the
code with a fault must violate theirs.

    python -m audits.releases --out out/audits/releases.json
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any
from unittest.mock import patch

import lightgbm
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import lgb_dp
from audits.outcome import HONEST, PLANTED, Audit, Line, Piece, run
from lgb_dp.accounting.gaussian import gaussian_epsilon, gaussian_mu
from lgb_dp.accounting.shares import share_variance
from lgb_dp.auditing import epsilon_lower_bound
from lgb_dp.mechanisms import noise
from lgb_dp.mechanisms.noise import PrivateValues, Released, observed
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.releases.leaf_sums import LocalLeafSums

LIMITS = (
    "Losses rarer than one in the number of draws, such as a wrong small δ, stay unseen, as does a row that "
    "shows more than this one. Trees are of rows that give the same split and prior in every draw, so that "
    "faults of these stay unseen; and a model's value for one row does not show that sums were noised alike. "
    "A bound below the claim proves nothing."
)
DELTAS = (1e-5, 0.01, 0.05, 0.1, 0.2, 0.3)
CHANCE = 1e-4
"""That the bounds of one line object to honest code."""
MU, STEPS, LEAVES = 1.0, 1000, 8
EPSILON, DELTA = 6.0, 1e-5
"""Claim of the trees."""
Draw = Callable[[bool, int], "np.ndarray[Any, Any]"]
Claim = Callable[[float], float]


@dataclass(frozen=True)
class Subject:
    """A release, its claim, and copies of it with faults.

    Parameters
    ----------
    name : str
    draw : callable
        ``draw(with_row, n)`` gives n draws, one per row.
    claim : callable
        ε at a given δ.
    faults : dict
        Name to draws, with the same claim.
    """

    name: str
    draw: Draw
    claim: Claim
    faults: dict[str, Draw] = field(default_factory=dict)


def gaussian_claim(mu: float) -> Claim:
    """ε of a μ-GDP release at δ."""
    return lambda delta: gaussian_epsilon(mu, delta)


# The releases.


def one_row() -> np.ndarray:
    """What a row adds to the sums of all leaves: as long as the sensitivity, in no special direction."""
    direction = np.sin(1.0 + np.arange(LEAVES))
    return np.rint(STEPS * direction / np.linalg.norm(direction)).astype(np.int64)


def sums(with_row: bool, factor: int = 1) -> np.ndarray:
    return 5_000 * np.arange(LEAVES) + with_row * factor * one_row()


def gaussian() -> Subject:
    def drawn(with_row: bool, n: int, scale: float, factor: int = 1) -> np.ndarray:
        many = np.tile(sums(with_row, factor), (n, 1))
        return noise.release_gaussian(many, scale, SecureRandom())

    def reused(with_row: bool, n: int) -> np.ndarray:
        once = noise.release_gaussian(np.zeros((n, 1), dtype=np.int64), STEPS / MU, SecureRandom())
        return sums(with_row) + once

    def clipped_late(with_row: bool, n: int) -> np.ndarray:
        # The row is not clipped; the noised sum is.
        return np.clip(drawn(with_row, n, STEPS / MU, 3), -20_000, 60_000)

    return Subject(
        "release_gaussian, 8 sums",
        lambda with_row, n: drawn(with_row, n, STEPS / MU),
        gaussian_claim(MU),
        {
            "half of the noise": lambda with_row, n: drawn(with_row, n, STEPS / MU / 2),
            "a forgotten factor 2": lambda with_row, n: drawn(with_row, n, STEPS / MU, 2),
            "one draw for all sums": reused,
            "noise before the clip": clipped_late,
        },
    )


def laplace() -> Subject:
    """A row that changes one sum by all that it may: spread over several, its largest loss is rare."""
    epsilon, sensitivity = 1.0, STEPS

    def drawn(with_row: bool, n: int, factor: int = 1) -> np.ndarray:
        many = np.tile(np.array([with_row * sensitivity, 7]), (n, 1))
        return noise.release_laplace(many, sensitivity, factor * epsilon, SecureRandom())

    return Subject(
        "release_laplace, 2 sums",
        drawn,
        lambda delta: epsilon,
        {"half of the noise": lambda with_row, n: drawn(with_row, n, 2)},
    )


def selection() -> Subject:
    """Gains of six candidates; the row lowers one by 3 and raises the others by 1, as one row can."""
    epsilon = 1.0
    gains = np.array([0.0, 0.2, 0.1, 0.0, 0.3, 0.1])
    change = np.array([-3.0, 1.0, 1.0, 1.0, 1.0, 1.0])

    def drawn(with_row: bool, n: int, factor: float = 1.0, n_candidates: int = 6) -> np.ndarray:
        scale = factor * noise.selection_scale(epsilon, 4.0)
        utilities = np.tile((scale * (gains + with_row * change))[:n_candidates], (n, 1))
        return np.eye(6)[noise.select(utilities, SecureRandom(), 1)]

    return Subject(
        "select, 6 candidates",
        drawn,
        lambda delta: epsilon,
        {
            "a forgotten factor 2": lambda with_row, n: drawn(with_row, n, 2.0),
            "an empty child is no candidate": lambda with_row, n: drawn(
                with_row, n, n_candidates=6 if with_row else 5
            ),
        },
    )


def parties() -> Subject:
    """Shares of four parties, of which one is known; the attacker sees their sum."""
    n_parties, colluding = 4, 1
    variance = share_variance(STEPS / MU, n_parties, colluding)

    def drawn(with_row: bool, n: int, missing: int = colluding, factor: int = 1) -> np.ndarray:
        many = np.tile(sums(with_row, factor), (n, 1))
        total = noise.release_share(many, variance, SecureRandom())
        for _ in range(n_parties - 1 - missing):
            total = total + noise.release_share(np.zeros_like(many), variance, SecureRandom())
        return total

    def twice(with_row: bool, n: int) -> np.ndarray:
        # The row in two sums of different rows: the claim is of both, μ√2, with a draw for each.
        nothing = noise.release_share(np.zeros((n, LEAVES), dtype=np.int64), variance, SecureRandom())
        return np.hstack([sums(with_row) + nothing, sums(with_row, 2) + nothing])

    return Subject(
        "release_share, 4 parties",
        drawn,
        gaussian_claim(MU),
        {
            "two parties forget their shares": lambda with_row, n: drawn(with_row, n, 3),
            "a forgotten factor 2": lambda with_row, n: drawn(with_row, n, factor=2),
            "a share that is used twice": twice,
        },
    )


class Trees:
    """A tree of NewtonBoost on 4,000 rows, with and without a mislabelled one.

    Sums vary with the noise alone: the one feature has two bins and so one split; and labels of 0 are so rare
    that the released prior is always at its bound, where the row's gradient is 0.98 of the largest.  Other
    rows of its leaf keep the hessian, by which the model's value is divided, far from 0.

    A draw is all that the tree released, and last the model's value of the row.
    """

    def __init__(self) -> None:
        X = np.linspace(-1, 1, 4_000)[:, None]
        y = np.append(0.0, np.ones(len(X) - 1))
        self._canary = np.array([[0.9]])
        rows = {False: (X, y), True: (np.vstack([X, self._canary]), np.append(y, 0.0))}
        self._data = {
            world: lgb_dp.Dataset(*held, bounds=(-1, 1), max_bin=2).construct()
            for world, held in rows.items()
        }
        self._drawn: dict[tuple[str, bool, int], np.ndarray] = {}

    def draw(self, fault: str, with_row: bool, n: int) -> np.ndarray:
        """Draws under the name of a fault, made once for both attackers."""
        if (fault, with_row, n) not in self._drawn:
            self._drawn[fault, with_row, n] = np.array([self._one(with_row) for _ in range(n)])
        return self._drawn[fault, with_row, n]

    def _one(self, with_row: bool) -> np.ndarray:
        seen: list[np.ndarray] = []

        def note(private: PrivateValues, release: Callable[[], Released]) -> Released:
            released = release()
            seen.append(np.asarray(released, dtype=np.float64) / private.scale)
            return released

        params = {"objective": "binary", "verbosity": -1, "max_depth": 1, "num_threads": 1}
        trainer = lgb_dp.NewtonBoost(epsilon=EPSILON, delta=DELTA, structure="random")
        with observed(note):
            model = lightgbm.train(
                params | {"learning_rate": 1.0}, self._data[with_row], 1, callbacks=[trainer]
            )
        value = np.asarray(model.predict(self._canary, raw_score=True))
        return np.concatenate([*(one.ravel() for one in seen), value])


def trees() -> list[Subject]:
    """A tree to an attacker who sees all that was released, and to one who asks the model."""
    made = Trees()
    rounded, summed = noise.rounded_gaussian, LocalLeafSums.sums

    def one_draw(n: int, scale: float, random: Any) -> np.ndarray:
        return np.repeat(rounded(1, scale, random), n)

    planted = {
        "": (noise, "rounded_gaussian", rounded),
        "half of the noise": (
            noise,
            "rounded_gaussian",
            lambda n, scale, random: rounded(n, scale / 2, random),
        ),
        "a forgotten factor 2": (LocalLeafSums, "sums", lambda self, question: 2 * summed(self, question)),
        "one draw for all sums": (noise, "rounded_gaussian", one_draw),
    }

    def seen(fault: str, columns: slice) -> Draw:
        def drawn(with_row: bool, n: int) -> np.ndarray:
            with patch.object(*planted[fault]):
                return made.draw(fault, with_row, n)[:, columns]

        return drawn

    claim, names = gaussian_claim(gaussian_mu(EPSILON, DELTA)), [name for name in planted if name]
    everything, value = slice(None, -1), slice(-1, None)
    # Of one value, the last fault cannot be seen.
    asked = {name: seen(name, value) for name in names[:2]}
    return [
        Subject(
            "a tree's sums", seen("", everything), claim, {name: seen(name, everything) for name in names}
        ),
        Subject("a tree's value for the row", seen("", value), claim, asked),
    ]


# The auditors.


def scores_of(draw: Draw, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores of n draws of each world, by a classifier that is fitted on the first half of both."""
    worlds = [np.asarray(draw(with_row, n), dtype=np.float64) for with_row in (True, False)]
    half = n // 2
    X = np.vstack([world[:half] for world in worlds])
    scaler = StandardScaler().fit(X)
    model = LogisticRegression(C=1e3, max_iter=2_000).fit(scaler.transform(X), np.repeat([1, 0], half))
    with_row, without = (model.decision_function(scaler.transform(world)) for world in worlds)
    return with_row, without


def estimated(module: ModuleType, with_row: np.ndarray, without: np.ndarray, delta: float) -> float:
    """Lower bound of ε by `privacy-estimates`: threshold and direction by the first halves."""
    half = len(with_row) // 2

    def bound(threshold: float, swapped: bool, rows: slice) -> float:
        inside, outside = (without, with_row) if swapped else (with_row, without)
        sign = -1 if swapped else 1
        hits, alarms = (int((sign * values[rows] > sign * threshold).sum()) for values in (inside, outside))
        n = len(inside[rows])
        counts = module.AttackResults(FN=n - hits, FP=alarms, TN=n - alarms, TP=hits)
        return float(module.compute_eps_lo(counts, delta, CHANCE / len(DELTAS), "beta"))

    thresholds = np.unique(np.quantile(np.r_[with_row[:half], without[:half]], np.linspace(0.01, 0.99, 33)))
    # Between the values of a discrete score, so that no direction decides ties.
    thresholds = (thresholds[:-1] + thresholds[1:]) / 2 if len(thresholds) > 1 else thresholds
    choices = [(c, swapped) for c in thresholds for swapped in (False, True)]
    best = max(choices, key=lambda choice: bound(*choice, slice(0, half)))
    return bound(*best, slice(half, None))


def verdict(bound_at: Callable[[float], float], claim: Claim) -> tuple[bool, str]:
    """Whether a bound exceeds the claim at some δ, and where it comes nearest to or exceeds it most."""
    bounds = [(bound_at(delta), claim(delta), delta) for delta in DELTAS]
    lower, claimed, delta = max(bounds, key=lambda one: one[0] - one[1])
    violated = any(low > high * (1 + 1e-9) and low > 1e-6 for low, high, _ in bounds)
    return violated, f"ε ≥ {lower:.2f}, claimed {claimed:.2f} at δ = {delta:g}"


# The lines.

RELEASES = (gaussian, laplace, selection, parties)


def draws_told_apart(subject: Subject, fault: str, n: int, outside: str | None) -> Iterator[Line]:
    """Lines of one way to draw a subject: the honest one, or that under the name of a fault.

    Parameters
    ----------
    subject : Subject
    fault : str
        Empty for the honest way.
    n : int
        Draws of each world for the classifier, and as many to tell apart.
    outside : str or None
        Name and version of `privacy-estimates` where it is installed.
    """
    warnings.simplefilter("ignore")
    draw, kind = (subject.faults[fault], PLANTED) if fault else (subject.draw, HONEST)
    title = f"{subject.name}: {fault}" if fault else subject.name
    # The second halves: the classifier has not seen them.
    with_row, without = (scores[n:] for scores in scores_of(draw, 2 * n))
    sure = 1 - CHANCE / len(DELTAS)
    auditors: dict[str, Callable[[float], float]] = {
        "ours, not outside": lambda delta: epsilon_lower_bound(with_row, without, delta, sure)
    }
    if outside:
        module = import_module("privacy_estimates")
        auditors[outside] = lambda delta: estimated(module, with_row, without, delta)
    for auditor, bound_at in auditors.items():
        found, seen = verdict(bound_at, subject.claim)
        yield Line(auditor, title, f"{n:,} draws", found, seen, kind)


def of_release(make: Callable[[], Subject], n: int, outside: str | None) -> Iterator[Line]:
    subject = make()
    for fault in ("", *subject.faults):
        yield from draws_told_apart(subject, fault, n, outside)


def of_trees(fault: str, n: int, outside: str | None) -> Iterator[Line]:
    """Lines of both attackers on trees, who share the draws."""
    for subject in trees():
        if not fault or fault in subject.faults:
            yield from draws_told_apart(subject, fault, n, outside)


def pieces(audit: Audit, quick: bool) -> list[Piece]:
    n_many, n_trees = (8_000, 2_000) if quick else (40_000, 5_000)
    audit.not_run.append("Delta-Siege: its pinned NumPy is older than ours")
    found = audit.package("privacy_estimates", "privacy-estimates")
    outside = found[1] if found else None
    faults = ("", *trees()[0].faults)
    return [partial(of_release, make, n_many, outside) for make in RELEASES] + [
        partial(of_trees, fault, n_trees, outside) for fault in faults
    ]


if __name__ == "__main__":
    run("single releases", LIMITS, __doc__, pieces)
