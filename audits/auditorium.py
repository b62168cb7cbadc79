"""Releases under the testers of Google's `dp_auditorium`, on neighbouring data sets that a search proposes.

Each release is one of that library's mechanisms: a function of a data set and a number of draws.  Its runner
asks for pairs of neighbours, one with a row more, until a tester finds that the claim does not hold on some
pair.  The hockey-stick tester bounds δ at an ε from below by a classifier's accuracy; the Rényi tester bounds
the divergence by the variational formula.  An honest release must pass both testers on all pairs, and a fault
must be found by one of them on some pair.

The library is not on PyPI: it is imported if the folder ``python/dp_auditorium`` of its repository,
google/differential-privacy, is on ``PYTHONPATH``.

    python -m audits.auditorium --out out/audits/auditorium.json
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from audits.outcome import HONEST, PLANTED, Audit, Line, Piece, run
from audits.releases import DELTA, EPSILON, LEAVES, MU, STEPS, trees
from lgb_dp.accounting.gaussian import gaussian_delta, gaussian_mu
from lgb_dp.accounting.shares import share_variance
from lgb_dp.mechanisms import noise
from lgb_dp.mechanisms.rng import SecureRandom

LIMITS = (
    "Bounds are Hoeffding's and Chernoff's, far below the divergence at these numbers of draws, so that "
    "small faults pass; the Rényi tester cuts log-likelihood ratios off at 1. Pairs are proposed at random, "
    "few for each release, and one for trees, whose neighbours cost a fit for every draw. Another network of "
    "the testers may see more."
)
ORDER, BOUND = 1.5, 1.0
"""Of the Rényi tester: its order, and the bound of its function, by which its error grows exponentially."""
AT = 1.0
"""ε at which the hockey-stick tester bounds δ, and the claim of selections."""
CHANCE = 1e-5
"""That a tester objects to honest code on one pair."""
MAX_LENGTH = 3 * STEPS
"""Of a proposed row; a release clips rows to `STEPS`."""
CANDIDATES, LOWEST, HIGHEST = 6, -3.0, 1.0
"""Of a selection, and the bounds of what one row adds to each gain."""
N_PARTIES, COLLUDING = 4, 1
Mechanism: TypeAlias = Callable[[Any, int], "NDArray[Any]"]
Rows: TypeAlias = "NDArray[Any]"


@dataclass(frozen=True)
class Subject:
    """A release as a mechanism, its claim, and what is proposed to it.

    Parameters
    ----------
    name : str
    mechanisms : dict
        Name of a fault to ``mechanism(data, n)``, which gives n draws, one per row; the honest one is under
        the empty name.
    mu : float or None
        Claim of Gaussian differential privacy; None for pure ε-differential privacy at ε = `AT`.
    propose : callable
        ``propose(random)`` gives two neighbouring data sets.
    """

    name: str
    mechanisms: dict[str, Mechanism]
    mu: float | None
    propose: Callable[[np.random.Generator], tuple[Any, Any]]


# The releases.


def proposed_rows(random: np.random.Generator) -> tuple[Rows, Rows]:
    """Up to three rows, and the same with one row more, of which some are longer than the bound."""
    rows = random.normal(size=(int(random.integers(1, 5)), LEAVES))
    rows *= (random.uniform(0, MAX_LENGTH, len(rows)) / np.linalg.norm(rows, axis=1))[:, None]
    return rows[:-1], rows


def clipped(rows: Rows) -> NDArray[np.int64]:
    """Rows in integer steps, none longer than `STEPS`: rounding towards 0 makes none longer."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.trunc(rows * np.minimum(1.0, STEPS / np.maximum(lengths, 1.0))).astype(np.int64)


def gaussian() -> Subject:
    scale = STEPS / MU

    def drawn(rows: Rows, n: int, scale: float = scale, factor: int = 1) -> NDArray[Any]:
        many = np.tile(factor * clipped(rows).sum(axis=0), (n, 1))
        return noise.release_gaussian(many, scale, SecureRandom()) / STEPS

    def one_draw(rows: Rows, n: int) -> NDArray[Any]:
        once = noise.release_gaussian(np.zeros((n, 1), dtype=np.int64), scale, SecureRandom())
        return (clipped(rows).sum(axis=0) + once) / STEPS

    def clipped_late(rows: Rows, n: int) -> NDArray[Any]:
        many = np.tile(np.trunc(rows).astype(np.int64).sum(axis=0), (n, 1))
        noised = noise.release_gaussian(many, scale, SecureRandom())
        return np.clip(noised, -4 * MAX_LENGTH, 4 * MAX_LENGTH) / STEPS

    return Subject(
        "release_gaussian, 8 sums",
        {
            "": drawn,
            "half of the noise": lambda rows, n: drawn(rows, n, scale / 2),
            "a forgotten factor 2": lambda rows, n: drawn(rows, n, factor=2),
            "one draw for all sums": one_draw,
            "noise before the clip": clipped_late,
        },
        MU,
        proposed_rows,
    )


def parties() -> Subject:
    """Shares of the honest ones of `N_PARTIES`, among whom rows are dealt in turn; their sum is seen."""
    n_honest = N_PARTIES - COLLUDING
    variance = share_variance(STEPS / MU, N_PARTIES, COLLUDING)

    def drawn(rows: Rows, n: int, n_shares: int = n_honest, factor: int = 1) -> NDArray[Any]:
        total = np.zeros((n, LEAVES), dtype=np.int64)
        for k in range(n_honest):
            many = np.tile(factor * clipped(rows[k::n_honest]).sum(axis=0), (n, 1))
            total += noise.release_share(many, variance, SecureRandom()) if k < n_shares else many
        return total / STEPS

    def one_draw(rows: Rows, n: int) -> NDArray[Any]:
        zeros = np.zeros((n, 1), dtype=np.int64)
        once = sum(noise.release_share(zeros, variance, SecureRandom()) for _ in range(n_honest))
        return (clipped(rows).sum(axis=0) + once) / STEPS

    return Subject(
        "release_share, 4 parties",
        {
            "": drawn,
            "two parties forget their shares": lambda rows, n: drawn(rows, n, 1),
            "a forgotten factor 2": lambda rows, n: drawn(rows, n, factor=2),
            "one draw for all sums": one_draw,
        },
        MU,
        proposed_rows,
    )


def selection() -> Subject:
    """Gains are sums of what rows add; the last candidate has none but by the row that is one more."""

    def proposed(random: np.random.Generator) -> tuple[Rows, Rows]:
        base = random.uniform(LOWEST, HIGHEST, (int(random.integers(1, 4)), CANDIDATES))
        base[:, -1] = 0
        return base, np.vstack([base, random.choice([LOWEST, HIGHEST], CANDIDATES)])

    def drawn(rows: Rows, n: int, factor: float = 1.0, *, only_gains: bool = False) -> NDArray[Any]:
        gains = rows.sum(axis=0)
        scale = factor * noise.selection_scale(AT, HIGHEST - LOWEST)
        candidates = np.flatnonzero(gains) if only_gains else np.arange(CANDIDATES)
        utilities = np.tile(scale * gains[candidates], (n, 1))
        return np.eye(CANDIDATES)[candidates[noise.select(utilities, SecureRandom(), 1)]]

    return Subject(
        "select, 6 candidates",
        {
            "": drawn,
            "half of the noise": lambda rows, n: drawn(rows, n, 2.0),
            "an empty child is no candidate": lambda rows, n: drawn(rows, n, only_gains=True),
        },
        None,
        proposed,
    )


def tree() -> Subject:
    """All that a tree released, with and without the row of `releases.Trees`, less its usual sums."""
    seen = trees()[0]

    def less_usual(draw: Mechanism) -> Mechanism:
        # Networks learn nothing from numbers far from 0, and a fault may move the sums.
        usual = cache(lambda: np.median(draw(False, 50), axis=0))
        return lambda with_row, n: draw(with_row, n) - usual()

    return Subject(
        "a tree's sums",
        {name: less_usual(draw) for name, draw in {"": seen.draw, **seen.faults}.items()},
        gaussian_mu(EPSILON, DELTA),
        lambda random: (False, True),
    )


# The testers.


def testers(mu: float | None) -> dict[str, Any]:
    """What is bounded from below, and the library's tester of it under the claim of a `Subject`."""
    configs = import_module("dp_auditorium.configs.property_tester_config")
    properties = import_module("dp_auditorium.configs.privacy_property")
    hockey_stick = import_module("dp_auditorium.testers.hockey_stick_tester")
    renyi = import_module("dp_auditorium.testers.renyi_tester")
    delta = 0.0 if mu is None else gaussian_delta(AT, mu)
    if mu is None:
        claim = properties.PrivacyProperty(pure_dp=properties.PureDp(epsilon=AT))
    else:
        # Of μ-GDP, by the Rényi divergence of two Gaussians.
        renyi_dp = properties.RenyiDp(epsilon=ORDER * mu**2 / 2, alpha=ORDER)
        claim = properties.PrivacyProperty(renyi_dp=renyi_dp)
    return {
        f"δ at ε = {AT:g}": hockey_stick.HockeyStickPropertyTester(
            config=configs.HockeyStickPropertyTesterConfig(
                training_config=configs.TrainingConfig(
                    training_epochs=10, batch_size=200, optimizer_learning_rate=1e-2
                ),
                approximate_dp=properties.ApproximateDp(epsilon=AT, delta=delta),
            ),
            base_model=hockey_stick.make_default_hs_base_model(),
        ),
        f"D of order {ORDER:g}": renyi.RenyiPropertyTester(
            config=configs.RenyiPropertyTesterConfig(
                alpha=ORDER,
                training_config=configs.TrainingConfig(
                    training_epochs=10,
                    batch_size=500,
                    optimizer_learning_rate=1e-3,
                    model_output_coordinate_bound=BOUND,
                ),
                privacy_property=claim,
            ),
            base_model=renyi.make_default_renyi_base_model(),
        ),
    }


def with_testers(
    make: Callable[[], Subject], fault: str, auditor: str, n: int, n_pairs: int
) -> Iterator[Line]:
    """The line of one mechanism, of which n draws of each data set are tested on at most `n_pairs` pairs."""
    warnings.simplefilter("ignore")
    configs = import_module("dp_auditorium.configs.privacy_test_runner_config")
    runner = import_module("dp_auditorium.privacy_test_runner")
    subject, random = make(), np.random.default_rng()
    found, seen, n_tested = False, [], 0
    for title, tester in testers(subject.mu).items():
        config = configs.PrivacyTestRunnerConfig(
            property_tester=configs.PropertyTester.UNSPECIFIED_TESTER,
            max_num_trials=n_pairs,
            failure_probability=CHANCE,
            num_samples=n,
            post_processing=configs.PostProcessing.NONE,
        )
        # The progress of networks goes to standard output.
        with contextlib.redirect_stdout(io.StringIO()):
            result = runner.PrivacyTestRunner(
                config, lambda divergence: subject.propose(random), tester
            ).test_privacy(subject.mechanisms[fault], fault)
        found = found or result.found_privacy_violation is not None
        bound = float(np.nanmax(result.lower_bound_divergence_estimates))
        seen.append(f"{title} ≥ {max(bound, 0):.2f}, claimed {tester._test_threshold:.2f}")
        n_tested += result.num_inspected_trials
    name = f"{subject.name}: {fault}" if fault else subject.name
    kind = PLANTED if fault else HONEST
    yield Line(auditor, name, f"{n_tested} pairs, {n:,} draws", found, "; ".join(seen), kind)


def pieces(audit: Audit, quick: bool) -> list[Piece]:
    n_many, n_pairs, n_trees = (10_000, 2, 2_000) if quick else (40_000, 5, 4_000)
    if not (library := audit.package("dp_auditorium")):
        return []
    return [
        partial(with_testers, make, fault, library[1], n, pairs)
        for make, n, pairs in (
            (gaussian, n_many, n_pairs),
            (parties, n_many, n_pairs),
            (selection, n_many, n_pairs),
            (tree, n_trees, 1),
        )
        for fault in make().mechanisms
    ]


if __name__ == "__main__":
    run("releases under the testers of dp_auditorium", LIMITS, __doc__, pieces)
