"""An audit of a private trainer: how well the strongest adversary tells whether one row was there.

The adversary knows all other rows and a *canary*, sees everything that is released, and knows the noise's
distribution.  The best such adversary decides by the likelihood ratio of "canary in" against "canary out"
(Neyman and Pearson).  It is computed here from the exact sums of both worlds: a run with real noise records
what it releases, and a second run in the other world is made to release the same and shows what it read.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import lightgbm
import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy import stats
from scipy.special import betaincinv, log_softmax

from lgb_dp.accounting.cost import pair_text
from lgb_dp.accounting.gaussian import gaussian_epsilon
from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.boosting.trainer import PrivateTrainer
from lgb_dp.boosting.training import TrainerInput, Training
from lgb_dp.checks import PROPER_SHARE, checked_integer, checked_number, checked_numbers
from lgb_dp.data.dataset import Dataset
from lgb_dp.data.groups import rows_of
from lgb_dp.errors import ArgumentTypeError, InvalidArgumentError, PrivacyLeakWarning, PrivateTrainingError
from lgb_dp.mechanisms.noise import PrivateValues, Released, observed
from lgb_dp.mechanisms.rng import SecureRandom

_MIN_RUNS, _MAX_RUNS, _MAX_ROUNDS = 40, 1_000_000, 100_000
_N_THRESHOLDS = 60
"""Thresholds of the likelihood ratio among which the first half of the runs chooses."""

_DIFFERENT_RELEASES = (
    "the releases of two neighbouring data sets differ in number, shape or scale, which shows the row"
)
_CAN_FIND = (
    "It can find noise that is too small, sums that a row moves further than was accounted for, and costs\n"
    "  that are added up wrongly, as far as this canary and these settings show them."
)
_CANNOT_FIND = (
    "It cannot find what leaves by other ways than the releases, a row that shows more than this canary,\n"
    "  or losses rarer than about one in the number of runs. A bound below the claim does not prove it."
)


@dataclass(frozen=True)
class AuditReport:
    """Result of an audit, meant for the holder of the rows only: it is computed from them without noise.

    Parameters
    ----------
    claimed : PrivacyReport
        The guarantee that the trainer states.
    n_runs : int
        Runs, half of them with the canary.
    confidence : float
        Of each lower bound on its own.
    epsilon_lower : float
        Lower bound of ε at the claimed δ, whatever the mechanism: Clopper-Pearson bounds of the adversary's
        error rates at one threshold, which the first half of the runs chose for the second.
    mu_claimed, mu_lower : float or None
        For trainers whose only cost is Gaussian: the claimed μ, and a lower bound of it that is *parametric*:
        it takes the adversary's statistic to be normal, with equal variances.
    with_canary, without_canary : ndarray of float64, shape (n_runs // 2,)
        The adversary's statistic in the runs: the log-likelihood ratio over its standard deviation.
    """

    claimed: PrivacyReport
    n_runs: int
    confidence: float
    epsilon_lower: float
    mu_claimed: float | None
    mu_lower: float | None
    with_canary: NDArray[np.float64] = field(repr=False)
    without_canary: NDArray[np.float64] = field(repr=False)

    @property
    def violated(self) -> bool:
        """Whether a lower bound exceeds the claim."""
        too_much_mu = self.mu_lower is not None and self.mu_lower > (self.mu_claimed or 0.0) * (1 + 1e-9)
        return too_much_mu or self.epsilon_lower > self.claimed.epsilon * (1 + 1e-9)

    def __str__(self) -> str:
        delta, sure = self.claimed.delta, f"{self.confidence:.6g} confidence"
        lines = [
            f"{'VIOLATED' if self.violated else 'no violation found'} in {self.n_runs} runs",
            f"  claimed            {pair_text(self.claimed.epsilon, delta)}"
            + ("" if self.mu_claimed is None else f" (mu = {self.mu_claimed:.4g})"),
            f"  assumption-free    epsilon >= {self.epsilon_lower:.4g} at this delta ({sure})",
        ]
        if self.mu_lower is not None:
            implied = gaussian_epsilon(self.mu_lower, delta) if self.mu_lower > 0 else 0.0
            lines += [
                f"  parametric         mu >= {self.mu_lower:.4g}, that is epsilon >= {implied:.4g} at it",
                f"                     ({sure}, if the adversary's statistic is normal)",
            ]
        if self.violated:
            chance = 1 - self.confidence
            lines.append(
                f"  By chance, a bound exceeds a true claim in {chance:.3g} of audits: repeat with more runs."
            )
        return "\n".join([*lines, f"  {_CAN_FIND}", f"  {_CANNOT_FIND}"])


def audit(
    trainer: PrivateTrainer,
    X: Any,
    y: Any,
    *,
    bounds: Any,
    params: Mapping[str, Any],
    num_boost_round: int = 5,
    n_runs: int = 1000,
    confidence: float = 0.95,
    random_state: int | None = None,
    **dataset: Any,
) -> AuditReport:
    """Audit a trainer with a user's own settings: a lower bound of the privacy it really gives.

    The canary is a mislabelled row among rows that are well predicted, so that its gradient stays as large as
    a gradient can be.  Few rows and few rounds are enough, and make the audit fast: each run trains twice.

    Parameters
    ----------
    trainer : PrivateTrainer
        A `NewtonBoost`, `DPBoost`, `MBoost`, …; it is copied, and its budget, if it has one, is not charged.
    X : array-like, DataFrame or sparse matrix, shape (n_rows, n_features)
    y : array-like, shape (n_rows,)
    bounds : (low, high) or mapping of feature to (low, high)
        As for `lgb_dp.Dataset`.
    params : dict
        LightGBM's parameters, with the objective.
    num_boost_round : int
        Iterations of a run, for which the whole budget is planned.
    n_runs : int
        Runs, half of them with the canary: 40 to 1,000,000.
    confidence : float
        Of each lower bound on its own, in (0, 1).
    random_state : int, optional
        For tests: fixes all draws.
    **dataset
        Further arguments of `lgb_dp.Dataset`: `label_bounds`, `max_bin`, `categories`, `weight_bound`, ….
        With `groups`, the canary is a person of `rows_per_group` equal rows.

    Returns
    -------
    AuditReport
        Not private: keep it with the rows.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        Naming the argument.  Secret samples (``subsample < 1``) and infinite ε cannot be audited.
    PrivateTrainingError
        If the number of releases, or the shape or the scale of one, depends on whether the canary is there.
    """
    if not isinstance(trainer, PrivateTrainer):
        raise ArgumentTypeError(f"trainer must be a private trainer of lgb_dp, got {type(trainer).__name__}")
    if getattr(trainer, "subsample", 1.0) < 1.0:
        raise InvalidArgumentError("trainer has subsample < 1; audits of secret samples are not supported")
    if math.isinf(trainer.epsilon):
        raise InvalidArgumentError("trainer has epsilon = inf; there is no claim to audit")
    n_rounds = checked_integer("num_boost_round", num_boost_round, 1, _MAX_ROUNDS)
    n_runs = checked_integer("n_runs", n_runs, _MIN_RUNS, _MAX_RUNS)
    confidence = checked_number("confidence", confidence, PROPER_SHARE)
    params = {"verbosity": -1, "num_threads": 1, **params}
    label = checked_numbers("y", y).reshape(-1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyLeakWarning)  # of the fixed seeds
        pair = _Pair(trainer, params, n_rounds, X, label, {"bounds": bounds, **dataset}, random_state)
        seeds = np.random.SeedSequence(random_state).generate_state(n_runs)
        fixed = [None] * n_runs if random_state is None else [int(seed) for seed in seeds]
        statistics = np.array([pair.statistic(i % 2 == 0, seed) for i, seed in enumerate(fixed)])
        claimed = pair.claimed
    cost = claimed.cost
    gaussian = cost.mu > 0 and cost.epsilon == 0 and cost.delta == 0 and not cost.sampled
    with_canary, without = statistics[::2], statistics[1::2]
    return AuditReport(
        claimed=claimed,
        n_runs=n_runs,
        confidence=confidence,
        epsilon_lower=epsilon_lower_bound(with_canary, without, claimed.delta, confidence),
        mu_claimed=cost.mu if gaussian else None,
        mu_lower=mu_lower_bound(with_canary, without, confidence) if gaussian else None,
        with_canary=with_canary,
        without_canary=without,
    )


def mu_lower_bound(
    with_canary: NDArray[np.float64], without_canary: NDArray[np.float64], confidence: float
) -> float:
    """Lower confidence bound of the distance of two normal distributions' means over their common deviation.

    Two-sample t with that distance times √(n m / (n + m)) as its noncentrality, inverted; 0 at least.
    """
    n, m = len(with_canary), len(without_canary)
    freedom, root = n + m - 2, math.sqrt(n * m / (n + m))
    pooled = ((n - 1) * with_canary.var(ddof=1) + (m - 1) * without_canary.var(ddof=1)) / freedom
    if pooled == 0.0:
        return math.inf if with_canary.mean() != without_canary.mean() else 0.0
    t = (with_canary.mean() - without_canary.mean()) / math.sqrt(pooled) * root
    low, high = 0.0, max(t, 0.0) + 1.0
    for _ in range(40):  # the survival function rises with the noncentrality
        middle = (low + high) / 2
        low, high = (middle, high) if stats.nct.sf(t, freedom, middle) <= 1 - confidence else (low, middle)
    return low / root


def epsilon_lower_bound(
    with_canary: NDArray[np.float64], without_canary: NDArray[np.float64], delta: float, confidence: float
) -> float:
    """Lower confidence bound of ε at `delta` from an adversary's statistic, without any assumption.

    For every threshold c, (ε, δ)-DP demands P(T > c) ≤ e^ε P'(T > c) + δ, and three like it.  The first half
    of both samples chooses the threshold and the direction, the second half gives Clopper-Pearson bounds,
    each with half of the error probability.
    """

    def half(values: NDArray[np.float64], second: bool) -> NDArray[np.float64]:
        return values[len(values) // 2 :] if second else values[: len(values) // 2]

    def bound(c: float, sign: int, swapped: bool, second: bool) -> float:
        samples = with_canary, without_canary
        hits, others = (
            sign * half(sample, second) > sign * c for sample in (samples[::-1] if swapped else samples)
        )
        error = (1 - confidence) / 2
        n_hits, n_others = int(hits.sum()), int(others.sum())
        low = betaincinv(n_hits, len(hits) - n_hits + 1, error) if n_hits else 0.0
        certain = n_others == len(others)
        high = 1.0 if certain else betaincinv(n_others + 1, len(others) - n_others, 1 - error)
        return math.log((low - delta) / high) if low > delta else -math.inf

    firsts = np.concatenate([half(with_canary, False), half(without_canary, False)])
    thresholds = np.unique(np.quantile(firsts, np.linspace(0, 1, _N_THRESHOLDS + 2)))
    choices = [(c, sign, swapped) for c in thresholds for sign in (1, -1) for swapped in (False, True)]
    c, sign, swapped = max(choices, key=lambda choice: bound(choice[0], choice[1], choice[2], False))
    return max(bound(c, sign, swapped, True), 0.0)


class _Tape(SecureRandom):
    """A random stream whose words one world draws and the other is given again, releases' draws excepted.

    Draws of one word per row are longer by one in the world with the canary, whose row is the last: the
    others' words are the same in both worlds, and the canary's own is drawn anew where there is none.
    """

    def __init__(self, random: SecureRandom, words: list[NDArray[np.uint64]], replays: bool) -> None:
        self._random, self._words, self._replays = random, words, replays
        self._next = 0
        self.paused = False

    def refuse_fork(self) -> None:
        self._random.refuse_fork()

    def words(self, *shape: int) -> NDArray[np.uint64]:
        if self.paused:
            return self._random.words(*shape)
        if not self._replays:
            drawn = self._random.words(*shape)
            self._words.append(drawn.copy())
            return drawn
        known = self._words[self._next].ravel()
        self._next += 1
        n = math.prod(shape)
        more = self._random.words(max(n - len(known), 0))
        return np.asarray(np.concatenate([known, more])[:n].reshape(shape), dtype=np.uint64)


@dataclass(frozen=True)
class _Taken:
    """One release of a run: what it read, and what it gave."""

    private: PrivateValues
    released: Released


class _Recorded(PrivateTrainer):
    """A trainer whose runs are shown to a function when they begin."""

    def __init__(self, trainer: PrivateTrainer, show: Callable[[Training], None]) -> None:
        self.trainer, self.show = trainer, show
        super().__init__(
            trainer.epsilon, random_state=trainer.random_state, public_init_model=trainer.public_init_model
        )

    def planned_rounds(self, n_rounds: int) -> int:
        return self.trainer.planned_rounds(n_rounds)

    def begin(self, task: TrainerInput) -> Training:
        training = self.trainer.begin(task)
        self.show(training)
        return training


class _Pair:
    """The two worlds, and runs in both that release the same.

    The canary is chosen by a model of the rows that has hardly any noise.
    """

    def __init__(
        self,
        trainer: PrivateTrainer,
        params: Mapping[str, Any],
        n_rounds: int,
        X: Any,
        label: NDArray[np.float64],
        settings: Mapping[str, Any],
        seed: int | None,
    ) -> None:
        self._trainer, self._params, self._n_rounds = trainer, params, n_rounds
        self._latest: DPBooster | None = None
        X = np.asarray(X) if isinstance(X, (list, tuple)) else X
        if scipy.sparse.issparse(X):
            X = X.tocsr()
        settings, n_copies = dict(settings), 1
        if settings.get("groups") is not None:
            # The others' rows are fixed, so that both worlds use the same; the canary is a person of k rows.
            n_copies = checked_integer("rows_per_group", settings.get("rows_per_group"), 1)
            kept, settings["groups"] = _first_rows(settings["groups"], n_copies)
            X, label = rows_of(X, kept), label[kept]
            if settings.get("weight") is not None:
                settings["weight"] = checked_numbers("weight", settings["weight"])[kept]
        n = X.shape[0]
        without = Dataset(X, label, **settings).construct()
        pilot = trainer.with_settings(epsilon=1e4, random_state=seed, budget=None)
        model = self._train(pilot, without)
        row, canary_label = self._mislabelled(model, X, label, without)
        rows = np.append(np.arange(n), np.full(n_copies, row))
        with_it = rows_of(X, rows)
        if settings.get("weight") is not None:
            largest = np.full(n_copies, float(without.weight_bound or 1.0))
            settings["weight"] = np.append(checked_numbers("weight", settings["weight"]), largest)
        if settings.get("groups") is not None:
            settings["groups"] = np.append(settings["groups"], np.full(n_copies, n))
        data = Dataset(with_it, np.append(label, np.full(n_copies, canary_label)), **settings).construct()
        self._data = {False: without, True: data}

    def _mislabelled(
        self, model: lightgbm.Booster, X: Any, label: NDArray[np.float64], data: Dataset
    ) -> tuple[int, float]:
        """The row that the model is surest about, and the label that it deems least likely there."""
        predicted = np.asarray(model.predict(X), dtype=np.float64)
        if predicted.ndim == 2:
            row = int(predicted.max(axis=1).argmax())
            return row, float(predicted[row].argmin())
        low, high = data.label_bounds or ((0.0, 1.0) if self._is_binary else (label.min(), label.max()))
        middle = 0.5 if self._is_binary else (low + high) / 2
        row = int(np.abs(predicted - middle).argmax())
        return row, float(low if predicted[row] > middle else high)

    @property
    def _is_binary(self) -> bool:
        names = (self._params.get(name) for name in ("objective", "application", "app", "loss"))
        return any(name == "binary" for name in names)

    def _train(self, trainer: PrivateTrainer, data: Dataset) -> DPBooster:
        model = lightgbm.train(
            dict(self._params), data, self._n_rounds, callbacks=[trainer], keep_training_booster=True
        )
        assert isinstance(model, DPBooster)
        return model

    @property
    def claimed(self) -> PrivacyReport:
        """The guarantee that the latest run claims, as every run of the trainer does."""
        assert self._latest is not None
        return self._latest.privacy

    def statistic(self, canary: bool, seed: int | None) -> float:
        """The adversary's statistic of one run with real noise, in the world with or without the canary."""
        words: list[NDArray[np.uint64]] = []
        seen = self._run(canary, seed, words, None)
        again = self._run(not canary, seed, words, [taken.released for taken in seen])
        if [_known(taken) for taken in seen] != [_known(taken) for taken in again]:
            raise PrivateTrainingError(_DIFFERENT_RELEASES)
        worlds = (seen, again) if canary else (again, seen)
        ratio, variance = np.sum([_log_ratio(a, b) for a, b in zip(*worlds, strict=True)], axis=0)
        return float(ratio / math.sqrt(variance)) if variance > 0 else 0.0

    def _run(
        self, canary: bool, seed: int | None, words: list[NDArray[np.uint64]], outputs: list[Released] | None
    ) -> list[_Taken]:
        """Releases of a run: of its own noise, recording `words`, or the given ones, with these words."""
        taken, tapes = list[_Taken](), list[_Tape]()

        def show(training: Training) -> None:
            tapes.append(_Tape(training.random, words, replays=outputs is not None))
            training.random = tapes[0]

        def observer(private: PrivateValues, release: Callable[[], Released]) -> Released:
            if outputs is None:
                tapes[0].paused = True
                released = release()
                tapes[0].paused = False
            elif len(taken) < len(outputs) and outputs[len(taken)].shape == _shape_of_output(private):
                released = outputs[len(taken)]
            else:
                raise PrivateTrainingError(_DIFFERENT_RELEASES)
            taken.append(_Taken(private, released.copy()))
            return released

        trainer = _Recorded(self._trainer.with_settings(random_state=seed, budget=None), show)
        with observed(observer):
            self._latest = self._train(trainer, self._data[canary])
        return taken


def _first_rows(groups: Any, n_rows: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first `n_rows` rows of every group, and the numbers of their groups."""
    _, number = np.unique(np.asarray(groups), return_inverse=True)
    order = np.argsort(number, kind="stable")
    first = np.searchsorted(number[order], number[order])
    kept = np.sort(order[np.arange(len(order)) - first < n_rows])
    return kept.astype(np.int64), number[kept].astype(np.int64)


def _shape_of_output(private: PrivateValues) -> tuple[int, ...]:
    return private.values.shape[:1] if private.mechanism == "exponential" else private.values.shape


def _known(taken: _Taken) -> tuple[Any, ...]:
    return taken.private.mechanism, taken.private.values.shape, taken.private.scale


def _log_ratio(with_canary: _Taken, without: _Taken) -> tuple[float, float]:
    """Log-likelihood ratio of one release, and the variance that it has if the noise is as claimed."""
    a, b = with_canary.private.values, without.private.values
    released, scale = with_canary.released, with_canary.private.scale
    if with_canary.private.mechanism == "exponential":
        nodes = np.arange(len(a))
        change = log_softmax(a, axis=1)[nodes, released] - log_softmax(b, axis=1)[nodes, released]
        return float(change.sum()), float((change**2).sum())
    a, b = a.astype(np.float64), b.astype(np.float64)
    if with_canary.private.mechanism == "Gaussian":
        ratio = (a - b) * (released - (a + b) / 2) / scale**2
        return float(ratio.sum()), float((((a - b) / scale) ** 2).sum())
    ratio = (np.abs(released - b) - np.abs(released - a)) / scale
    return float(ratio.sum()), float((((a - b) / scale) ** 2).sum())
