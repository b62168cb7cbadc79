"""Rows that are on workers, who sum them, and what is publicly known of them in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.tables.frames import types_of
from gbdt_hosts.lightgbm import InitialModel
from lgb_dp.boosting.run_rows import RunRows, rows_of_run
from lgb_dp.data.bins import feature_names, public_bins
from lgb_dp.data.dataset import Dataset
from lgb_dp.data.provenance import Provenance
from lgb_dp.errors import InvalidArgumentError, UnsupportedParameterError
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.loss import Loss
from lgb_dp.newton.releases.held_out_rows import HoldOut
from lgb_dp.newton.releases.partitions import RowRules


class RowsElsewhere(ABC):
    """Rows on workers with `n_threads` threads each; 0 takes as many as a worker has.

    `made_up` has the columns and data types of the rows, and none of their values. `declared`, for
    `lightgbm.train`, has these with the declarations of the true ones; `InvalidArgumentError` if bounds or
    categories are not declared.
    """

    def __init__(
        self,
        made_up: Any,
        declarations: Mapping[str, Any],
        provenance: Provenance,
        classes: NDArray[Any] | None,
        n_threads: int,
        *,
        has_weight: bool,
        has_groups: bool,
    ) -> None:
        self._dtypes, self._classes = types_of(made_up, InvalidArgumentError), classes
        self._n_threads, n_rows = n_threads, made_up.shape[0]
        self.declared = declared = Dataset(
            made_up,
            np.zeros(n_rows),
            weight=np.zeros(n_rows) if has_weight else None,
            groups=np.arange(n_rows) if has_groups else None,
            **declarations,
        ).disclose(provenance)
        names = feature_names(made_up, declared.feature_name)
        of_bins = (declared.bounds, declared.max_bin, declared.categories, declared.bin_edges)
        leaks = public_bins(made_up, names, *of_bins, declared.spacing).provenance.leaks
        if leaks:
            raise InvalidArgumentError(
                f"bounds and categories must be given for rows on a cluster: {leaks[0]}"
            )

    def of_run(self, declared: Dataset, model: InitialModel | None) -> RunRows:
        """The rows of one run: none are here, and the workers sum them."""
        if model is not None:
            raise UnsupportedParameterError(
                "init_model is not supported for rows on a cluster; train anew, or in one process"
            )
        known, nothing = rows_of_run(declared, None), np.empty(0, dtype=np.int64)
        return replace(
            known,
            codes=known.codes.take(nothing),
            label=np.empty(0),
            weight=None if known.weight is None else np.empty(0),
            group_of_row=None if known.group_of_row is None else nothing,
            make_sums=partial(self._summed, known),
        )

    def _summed(
        self, known: RunRows, loss: Loss, scale: LabelScale, subsample: float, hold_out: HoldOut | None
    ) -> Any:
        rules = RowRules(
            known.bins,
            self._dtypes,
            scale,
            loss,
            known.label_overflow,
            None if known.weight is None else float(known.weight_bound or 1.0),
            known.unit.rows,
            known.group_weight,
            subsample,
            self._n_threads,
            self._classes,
            hold_out,
        )
        return self.summed(rules)

    @abstractmethod
    def summed(self, rules: RowRules) -> Any:
        """Load the rows by these rules, and return the `LeafSums` that sums them from then on."""

    @abstractmethod
    def close(self) -> None:
        """Make the workers forget the rows."""


class TableElsewhere(ABC):
    """Private rows on workers, as a party's `X`."""

    @abstractmethod
    def rows(self, declarations: Mapping[str, Any]) -> RowsElsewhere:
        """The rows for one run, with the party's declarations."""
