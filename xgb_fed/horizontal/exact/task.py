"""The public settings of an exact training run, which all parties must agree on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain
from types import NoneType
from typing import Annotated, Any, ClassVar

import numpy as np

from gbdt_commons.errors import VeilboostError
from gbdt_commons.quoting import shown
from gbdt_commons.tables.frames import check_names
from gbdt_hosts.xgboost.versions import arithmetic, installed, warn_of_unknown_version
from gbdt_parties.agreed import AgreedSettings, Whole
from gbdt_parties.messages import MAX_INTEGER
from gbdt_parties.secure_sum.messages import MAX_PARTIES
from xgb_fed.boosting.features import MAX_BINS, MAX_VALUE
from xgb_fed.boosting.objectives import ADAPTIVE, ROWS_ALONE
from xgb_fed.boosting.params import Settings, without_vertical_only
from xgb_fed.errors import InvalidArgumentError, UnsupportedParameterError
from xgb_fed.horizontal.exact.cuts import DIGITS, Values
from xgb_fed.horizontal.exact.metrics import metrics_of

MIN_ROWS_PER_NODE = 10
"""Default minimum number of rows of all parties in a node."""

MAX_SETS = 32
"""Maximum number of sets of held-out rows: each is compared with all others."""

GIVEN = "given"
"""How columns are cut that come with cuts of their own."""

_DOMAIN = b"veilboost exact run 3\0"


def exact_settings(params: Mapping[str, Any]) -> Settings:
    """Settings from XGBoost's parameters; UnsupportedParameterError names those without support."""
    settings = Settings.from_params(params)
    if settings.objective not in ROWS_ALONE:
        why = "gradients depend on other rows"
        if settings.objective in ADAPTIVE:
            why = "leaf values are quantiles of residuals, or gradients are scaled by all rows' margins"
        raise UnsupportedParameterError(
            f"objective={settings.objective!r} is not supported in exact training, as sums over rows do not "
            f"give its trees: {why}; accepted are {', '.join(ROWS_ALONE)}"
        )
    settings = without_vertical_only(settings, ROWS_ALONE)
    metrics_of(settings)
    return settings


@dataclass(frozen=True)
class ExactTask(AgreedSettings):
    """Task of an exact training run.

    `params` are XGBoost's, in JSON's types; `names` those of the columns, empty without; `classes` the labels
    of all parties in order, None for regression. `cuts` says how columns are cut ("grid" or "exact"), or
    holds the cuts of each column, ascending. `min_rows_per_node` counts rows of all parties, `n_sets` sets of
    held-out rows; `arithmetic` is the version of XGBoost by which all parties compute the same from the same
    sums.

    Raises `InvalidArgumentError` or `UnsupportedParameterError`, which name the setting that is not accepted,
    also a version of XGBoost that is not this process's.
    """

    params: Mapping[str, Any]
    n_rounds: Annotated[int, Whole(1, MAX_INTEGER)]
    n_columns: Annotated[int, Whole(1, MAX_INTEGER)]
    names: Sequence[str]
    classes: Sequence[Any] | None
    cuts: Any
    min_rows_per_node: Annotated[int, Whole(1, MAX_INTEGER)]
    min_parties: Annotated[int, Whole(2, MAX_PARTIES)]
    early_stopping_rounds: Annotated[int | None, Whole(1, MAX_INTEGER)]
    n_sets: Annotated[int, Whole(0, MAX_SETS)]
    arithmetic: str = field(default_factory=arithmetic)

    error: ClassVar[type[VeilboostError]] = InvalidArgumentError
    argument_names = {"n_rounds": "num_boost_round"}  # noqa: RUF012

    def __post_init__(self) -> None:
        if self.arithmetic != arithmetic():
            raise UnsupportedParameterError(
                f"a run with XGBoost {str(self.arithmetic)[:20]}: this process has {arithmetic()}, which may "
                "compute other gains from the same sums; all parties and the coordinator of an exact run "
                "must have the same minor version"
            )
        warn_of_unknown_version(installed())
        super().__post_init__()
        check_names(self.names, InvalidArgumentError, "names")
        if self.early_stopping_rounds is not None and not self.n_sets:
            raise InvalidArgumentError("early_stopping_rounds needs held-out rows at a party")
        exact_settings(self.params)
        is_list = isinstance(self.names, (list, tuple)) and isinstance(self.classes, (list, tuple, NoneType))
        if not is_list or not all(isinstance(name, str) for name in self.names):
            raise InvalidArgumentError("names and classes of a run must be lists, and names texts")
        if isinstance(self.cuts, str):
            if self.cuts not in DIGITS:
                raise InvalidArgumentError(
                    f"cuts={shown(self.cuts)} must be one of {sorted(DIGITS)}, or a list of cuts for each "
                    "column"
                )
        else:
            _check_cuts(self.cuts, self.n_columns)

    @cached_property
    def settings(self) -> Settings:
        """XGBoost's parameters, checked."""
        return exact_settings(self.params)

    @property
    def how_cut(self) -> str:
        """How columns are cut: "grid", "exact" or "given"."""
        return self.cuts if isinstance(self.cuts, str) else GIVEN

    @property
    def max_bin(self) -> int:
        """Bins of a column, at most."""
        return self.settings.max_bin if isinstance(self.cuts, str) else max(map(len, self.cuts))

    @property
    def given_cuts(self) -> list[Values] | None:
        """Cuts of every column, if they are given."""
        if isinstance(self.cuts, str):
            return None
        return [np.array(own, dtype=np.float32) for own in self.cuts]

    @property
    def statement(self) -> bytes:
        """32 bytes that stand for all settings, which every party signs."""
        return hashlib.sha256(_DOMAIN + self.to_json().encode()).digest()


def check_whole(name: str, value: Any, least: int) -> None:
    """Raise an InvalidArgumentError unless a value is an integer of at least another one."""
    is_whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_whole or value < least:
        raise InvalidArgumentError(f"{name}={shown(value)} must be an integer of at least {least}")


def checked_cuts(cuts: Any, n_columns: int) -> Any:
    """Cuts as JSON has them; an InvalidArgumentError names the column whose cuts are not accepted."""
    if isinstance(cuts, str):
        return cuts
    try:
        lists = [np.asarray(own, dtype=np.float32).astype(np.float64).tolist() for own in cuts]
    except (TypeError, ValueError):
        raise InvalidArgumentError(
            "cuts must be 'grid', 'exact', or one list of numbers for each column"
        ) from None
    _check_cuts(lists, n_columns)
    return lists


def _check_cuts(cuts: Any, n_columns: int) -> None:
    if not isinstance(cuts, list) or len(cuts) != n_columns:
        raise InvalidArgumentError(f"cuts must have one list for each of {n_columns} columns")
    # All at once: a loop over a million columns takes seconds.
    lengths = np.array([len(own) if isinstance(own, list) else 0 for own in cuts])
    cells = chain.from_iterable(own for own in cuts if isinstance(own, list))
    numbers = [one if isinstance(one, (int, float)) else np.nan for one in cells]
    values, ends = np.array(numbers, dtype=np.float32), np.cumsum(lengths)
    rises = np.append(np.diff(values) > 0, True)
    rises[ends[lengths > 0] - 1] = True
    wrong = (lengths < 1) | (lengths >= MAX_BINS)
    wrong_values = np.flatnonzero(~(rises[: len(values)] & (np.abs(values) <= MAX_VALUE)))
    wrong[np.searchsorted(ends, wrong_values, side="right")] = True
    if wrong.any():
        raise InvalidArgumentError(
            f"cuts[{wrong.argmax()}] must be 1 to {MAX_BINS - 1} different finite numbers (as float32), "
            "ascending"
        )


def given_parameters(settings: Settings) -> dict[str, Any]:
    """Parameters that are not None, in JSON's types."""
    return {name: value for name, value in asdict(settings).items() if value is not None}
