"""The rows of one training run: all that it reads of a Dataset, as it was when the run began.

A Dataset belongs to its user, who may set attributes, write into arrays, and train on it in several threads.
A run reads a copy of its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_hosts.lightgbm import InitialModel
from gbdt_kernels.trees import Codes
from lgb_dp.accounting.unit import ONE_ROW, Unit
from lgb_dp.data.bins import PublicBins
from lgb_dp.data.dataset import Dataset, LabelOverflow
from lgb_dp.data.fold_assignment import FoldPart
from lgb_dp.data.groups import GroupWeight, draw_words
from lgb_dp.data.provenance import Provenance
from lgb_dp.data.start_scores import StartScores
from lgb_dp.errors import InvalidArgumentError, PrivacyLeakWarning
from lgb_dp.mechanisms.rng import WordSource


@dataclass(frozen=True, eq=False)
class RunRows:
    """Rows and declarations of a Dataset at one moment.

    Where rows are not in this process, `make_sums` makes what sums them, once for a run: of its loss, the
    scale of its labels, the share of rows that a round reads, and the rule by which rows are held out, if any
    are.  Codes, labels and weights are then empty.

    Rows that are made up have a `key` of 32 bytes: of noise that hides nothing and may be known.
    """

    bins: PublicBins
    codes: Codes  # the bin of each row in each feature
    label: Any
    provenance: Provenance  # of the bins and of the Dataset
    feature_name: Any
    pandas_categorical: list[list[Any]] | None
    weight: NDArray[np.float64] | None = None
    group_of_row: NDArray[np.int64] | None = None  # the number of each row's person
    scores: StartScores | None = None  # that the run starts from
    model_digest: str | None = None  # of the model that the run continues
    label_bounds: tuple[float, float] | None = None
    label_overflow: LabelOverflow = "raise"
    weight_bound: float | None = None
    unit: Unit = ONE_ROW
    group_weight: GroupWeight | None = None
    public: bool = False
    max_bin: Any = None
    params: dict[str, Any] | None = None
    fold_part: FoldPart | None = None
    make_sums: Callable[[Any, Any, float, Any], Any] | None = None
    key: bytes | None = None

    @property
    def start_scores(self) -> NDArray[np.float64] | None:
        """Raw scores that training starts from, shape (n_rows, n_outputs); None if it starts from none."""
        return None if self.scores is None else self.scores.values

    def num_data(self) -> int:
        """Number of rows."""
        return self.codes.n_rows

    def draw_words(self, random: WordSource) -> NDArray[np.uint64]:
        """A random word per row; rows of the same group get the same."""
        return draw_words(random, self.num_data(), self.group_of_row)

    def start_training(self) -> Provenance:
        """Begin a training run on these rows; returns their provenance, and what the run adds to it.

        `InvalidArgumentError` if the start scores are not those of the model that the run continues.
        """
        leaks, notes = [], []
        if self.fold_part is not None:
            notes.append(self.fold_part.note)
            if not self.fold_part.use(object()):
                leaks.append(
                    "the training part of a fold was trained on more than once in one cross-validation; "
                    "start another by the splitter's split()"
                )
        if (None if self.scores is None else self.scores.model_digest) != self.model_digest:
            raise InvalidArgumentError(
                "the start scores of the Dataset are not those of this run's init_model; make a new Dataset"
            )
        start = Provenance() if self.scores is None else self.scores.provenance
        for leak in start.leaks:
            warnings.warn(leak, PrivacyLeakWarning, stacklevel=8)
        return Provenance(tuple(leaks), tuple(notes)).joined(start).joined(self.provenance)


def rows_of_run(train_set: Dataset, model: InitialModel | None) -> RunRows:
    """Copy of the rows that a run from an initial model reads, taken at one moment.

    Start scores are those of this initial model, even if another thread has set another one since: they are
    predicted anew unless this very text gave them. Labels, weights and persons are copies.
    """
    with train_set.lock.held():
        data = train_set.construct()
        label, weight, group_of_row = (
            None if values is None else values.copy()
            for values in (data.label, data.weight, data.group_of_row)
        )
        return RunRows(
            bins=data.bins,
            codes=data.codes,
            label=label,
            weight=weight,
            group_of_row=group_of_row,
            scores=data.scores_of(model),
            model_digest=None if model is None else model.digest,
            label_bounds=data.label_bounds,
            label_overflow=data.label_overflow,
            weight_bound=data.weight_bound,
            unit=data.unit,
            group_weight=data.group_weight,
            public=data.public,
            max_bin=data.max_bin,
            params=data.params,
            fold_part=data.fold_part,
            provenance=data.provenance,
            feature_name=data.feature_name,
            pandas_categorical=data.pandas_categorical,
        )
