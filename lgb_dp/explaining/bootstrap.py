"""The parametric bootstrap of a private model: what the same run might have given under other noise.

Rows are made up from the run's description, column by column from released histograms, or from the bins alone
where none was released; labels follow the model's own predictions.  On them the run is repeated with its own
settings and noise of its own.  Nothing private is read, so nothing is charged: each refit has a ledger that
nobody else sees, and its noise hides nothing.
"""

from __future__ import annotations

import atexit
import hashlib
import secrets
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from tqdm.auto import tqdm

from gbdt_commons.quoting import quoted
from gbdt_hosts.lightgbm import guarantee_in, moved_text, tree_blocks
from gbdt_hosts.lightgbm.text import block_fields
from gbdt_kernels.trees import DenseCodes
from lgb_dp.accounting.unit import Unit
from lgb_dp.boosting.booster import (
    MADE_UP_ROWS,
    ROWS_AT_ONCE,
    DPBooster,
    content_of,
    report_in,
    text_in,
    trained,
)
from lgb_dp.boosting.run_rows import RunRows
from lgb_dp.boosting.training import answered
from lgb_dp.checks import checked_integer
from lgb_dp.data.model_columns import columns_of_model
from lgb_dp.data.provenance import Provenance
from lgb_dp.errors import AlteredModelError, InvalidArgumentError, UnsupportedParameterError
from lgb_dp.losses.loss import GRADIENT_CLIP
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.core import NewtonCore
from lgb_dp.newton.description import MAX_ROWS, RunDescription
from lgb_dp.newton.run_task import RunTask, largest_rate
from lgb_dp.newton.splits.distilled import surrogate_rows, values_of_codes
from lgb_dp.newton.splits.random import uniform
from lgb_dp.newton.trainer import NewtonBoost

N_REFITS = 20
"""Refits that bands are made from, unless more or fewer are asked for."""

_NORMAL = ndtri((np.arange(400) + 0.5) / 400)
_SPREADS = np.geomspace(0.01, 100.0, 200)


class Bootstrap:
    """A private model, and runs like its own on rows that are made up.

    Raises the errors of `lgb_dp.privacy_of`, and `UnsupportedParameterError`, which says why, if the model's
    run cannot be repeated.
    """

    def __init__(self, model: Any) -> None:
        self.text = _text_of(model)
        report_in(self.text)
        self.booster = DPBooster(model_str=self.text)
        self.run = _description_in(self.text, self.booster.feature_name())
        self.names = self.run.bins.columns.names or self.run.bins.names
        self.n_outputs = self.booster.num_model_per_iteration()

    def made_up(self, n_rows: int, random: SecureRandom) -> DenseCodes:
        """Rows whose columns are independent."""
        return surrogate_rows(self.run.histograms, self.run.bins, random, n_rows)

    def refits(
        self, n: int, seed: str, without: Sequence[NDArray[np.int64]] | None = None
    ) -> Iterator[DPBooster]:
        """Models of `n` such runs, with a progress bar where a person watches.

        Labels of the k-th know nothing of the features ``without[k]``.
        """
        for k in tqdm(range(n), desc="refits on made-up rows", unit="fit", leave=False, disable=None):
            yield self._refit(f"{seed} {k}", np.empty(0, dtype=np.int64) if without is None else without[k])

    def _refit(self, seed: str, unknown: NDArray[np.int64]) -> DPBooster:
        run, random = self.run, stream(seed)
        n_rows = max(round(run.n_rows), 1)
        codes = self.made_up(n_rows, random)
        label = self._labels(codes, random)
        if len(unknown):
            others = codes.codes.copy()
            others[:, unknown] = self.made_up(n_rows, random).codes[:, unknown]
            codes = DenseCodes(others)
        rows = RunRows(
            bins=run.bins,
            codes=codes,
            label=label,
            provenance=Provenance(),
            feature_name=list(run.bins.names),
            pandas_categorical=None,
            label_bounds=run.label_bounds,
            key=key_of(f"{seed} noise"),
        )
        trainer = NewtonBoost(**run.settings)
        task = trainer.task(rows, {**run.params, "verbosity": -1}, run.n_rounds)
        n_trees, unit = run.trees_per_round, Unit(row_costs=run.row_costs)
        of_run = RunTask(unit=unit, trees_per_round=n_trees, largest_rate=largest_rate(n_trees))
        core = NewtonCore(task, trainer, of_run)
        refit = answered(trained(core, self.booster.current_iteration()))
        if run.moved == (1.0, 0.0):
            return refit
        return DPBooster(model_str=moved_text(refit.model_to_string(), *run.moved))

    def _labels(self, codes: DenseCodes, random: SecureRandom) -> NDArray[np.float64]:
        """Labels that follow the model's predictions."""
        parts = np.split(codes.codes, range(ROWS_AT_ONCE, codes.n_rows, ROWS_AT_ONCE))
        rows = (values_of_codes(DenseCodes(part), self.run.bins) for part in parts)
        predicted: NDArray[np.float64] = np.concatenate([self.booster.predict(part) for part in rows])
        drawn = uniform(random.words(len(predicted)))
        if self.run.label_bounds is not None:
            low, high = self.run.label_bounds
            noise = self._residual() * (high - low) / 2 * ndtri(np.clip(drawn, 2.0**-53, None))
            return np.asarray(np.clip(predicted + noise, low, high))
        if self.n_outputs == 1:
            return np.asarray(drawn < predicted, dtype=np.float64)
        above = np.cumsum(predicted, axis=1)[:, :-1] <= drawn[:, None]
        return np.asarray(above.sum(axis=1), dtype=np.float64)

    def _residual(self) -> float:
        """Standard deviation of labels around predictions of the square loss, on the scale of [-1, 1].

        The hessian of a row with residual r is √(1 - (r / 2C)²) / 2, and 0 beyond the clip C.  Its mean over
        the rows was released with every tree, and is in the numbers of rows of the leaves.
        """
        blocks = tree_blocks(self.text)
        last = [block_fields(block)["leaf_count"].split() for block in blocks[-max(len(blocks) // 10, 1) :]]
        mean = sum(float(count) for counts in last for count in counts) / len(last) / self.run.n_rows
        sizes = np.minimum(np.abs(_NORMAL[:, None] * _SPREADS), 1.0)
        means = np.sqrt(1 - sizes**2).mean(axis=0)
        clip = self.run.settings["gradient_clip"]
        clip = GRADIENT_CLIP["regression"] if isinstance(clip, str) else clip
        return float(2 * clip * np.interp(-mean, -means, _SPREADS))


@lru_cache(maxsize=1)
def _kept_refits(text: str) -> tuple[DPBooster, ...]:
    """Refits of the last model that was asked for: predictions come in many calls."""
    return tuple(Bootstrap(text).refits(N_REFITS, seed_of(None)))


atexit.register(_kept_refits.cache_clear)  # native models must go before LightGBM's library does


def spread(model: Any, X: Any, how: Mapping[str, Any]) -> NDArray[np.float64]:
    """Standard deviation that noise gives to a model's predictions, by further arguments of `predict`.

    Raises as `Bootstrap` does, and an InvalidArgumentError if these ask for leaves or SHAP values.
    """
    if how.get("pred_leaf") or how.get("pred_contrib"):
        raise InvalidArgumentError("return_std=True needs predictions, not pred_leaf or pred_contrib")
    found = [refit.predict(X, **how) for refit in _kept_refits(_text_of(model))]
    return np.asarray(np.std(found, axis=0, ddof=1))


def _text_of(model: Any) -> str:
    """The model's text: of its best iterations, if it was stopped early."""
    model = getattr(model, "booster_", model)
    return str(model.model_to_string()) if isinstance(model, lightgbm.Booster) else text_in(content_of(model))


def _description_in(text: str, names: Sequence[str]) -> RunDescription:
    told = (guarantee_in(text) or {}).get(MADE_UP_ROWS)
    if told is None or isinstance(told, str):
        reason = (
            quoted(told) if told else "another trainer, rows at parties, a search, or a version before 0.2.0"
        )
        raise UnsupportedParameterError(
            f"model cannot be repeated on made-up rows, as NewtonBoost's can, because of {reason}"
        )
    try:
        run = RunDescription.from_dict(told, names, columns_of_model(text))
        NewtonBoost(**run.settings)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise AlteredModelError("the description of the run in the model's text is damaged") from None
    if run.n_rows > MAX_ROWS:
        raise UnsupportedParameterError(f"model has {run.n_rows:.3g} rows; at most {MAX_ROWS:,} are made up")
    return run


def seed_of(random_state: int | None) -> str:
    """The seed of all that is made up: fresh without a `random_state`."""
    if random_state is None:
        return secrets.token_hex(16)
    return str(checked_integer("random_state", random_state, 0))


def key_of(seed: str) -> bytes:
    """The key of a stream, by a text."""
    return hashlib.sha256(f"lgb_dp made-up rows {seed}".encode()).digest()


def stream(seed: str) -> SecureRandom:
    """A random stream for what is made up."""
    return SecureRandom.public(key_of(seed))
