"""The data sets on which `lightgbm.train` evaluates a booster that a private training run grows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray

from lgb_dp.boosting.metric_rows import check_metrics, rows_for_metrics
from lgb_dp.boosting.run_rows import rows_of_run
from lgb_dp.boosting.scores import Scores
from lgb_dp.boosting.training import Training
from lgb_dp.data.dataset import Dataset
from lgb_dp.errors import InvalidArgumentError, NotPrivateWarning, UnsupportedParameterError


class EvaluatedSets:
    """Scores of evaluation sets, and notes of what metrics on private rows leak. It is a `host.Evaluation`.

    By `train_set`, the user's, evaluation knows the rows of the run; the trainer is the callback that has
    taken the booster over.
    """

    def __init__(self, training: Training, train_set: lightgbm.Dataset, trainer: object) -> None:
        self._training, self._train_set, self.trainer = training, train_set, trainer
        self._scores: dict[int, tuple[lightgbm.Dataset, Scores]] = {
            id(train_set): (train_set, training.scores)
        }
        self.evaluated_private_rows = False

    def add_valid(self, data: lightgbm.Dataset) -> None:
        """Follow the scores of an evaluation set."""
        training = self._training
        self._check_labels()
        if isinstance(data, Dataset):
            rows = rows_of_run(data, training.initial_model)
            is_public, start, codes = rows.public, rows.start_scores, rows.codes
            if rows.bins is not training.data.bins:
                raise InvalidArgumentError(
                    "an evaluation Dataset must have the training Dataset as its reference"
                )
        else:
            if data.data is None:
                raise InvalidArgumentError(
                    "a plain lightgbm.Dataset in valid_sets must be made with free_raw_data=False; "
                    "alternatively, pass lgb_dp.Dataset(..., public=True)"
                )
            codes = training.data.bins.transform(data.data)
            is_public, start, scores = False, None, data.get_init_score()
            if scores is not None:
                start = np.asarray(scores).reshape(codes.n_rows, -1, order="F")
        self._scores[id(data)] = (data, training.followed(codes, start))
        if not is_public:
            self._note_private_evaluation()

    def _check_labels(self) -> None:
        entry, objective = self._training.label_scale.entry, self._training.params.objective
        if entry.unmeasured:
            raise UnsupportedParameterError(
                f"valid_sets is not supported for {objective}: metrics do not know {entry.unmeasured}; score "
                "public rows with the estimator"
            )

    def stopped_early(self) -> None:
        """Note that evaluation chose the number of trees, which leaks if its rows were private."""
        if self.evaluated_private_rows:
            self._training.void("the number of trees was chosen on rows that are not marked public")

    def _note_private_evaluation(self) -> None:
        training = self._training
        check_metrics(training.params.metric, training.label_scale)
        self.evaluated_private_rows = True
        note = "metrics and early stopping on rows that are not marked public are not covered by epsilon"
        if note not in training.notes:
            training.notes.append(note)
            warnings.warn(note, NotPrivateWarning, stacklevel=6)

    def raw_score(self, data: lightgbm.Dataset) -> NDArray[np.float64]:
        """Current raw scores of a followed data set, shape (n_rows, n_outputs)."""
        self._check_labels()
        if data is self._train_set and not self._training.data.public:
            self._note_private_evaluation()
        return self._scores[id(data)][1].all(self._training.trees)

    def label_and_weight(self, data: lightgbm.Dataset) -> tuple[Any, Any]:
        """Labels and weights of a data set, such that no metric refuses one."""
        is_public = isinstance(data, Dataset) and data.public
        scale = self._training.label_scale
        return rows_for_metrics(data.get_label(), data.get_weight(), scale, is_public=is_public)

    def metric_params(self) -> Mapping[str, Any]:
        """Objective and metrics, for LightGBM's evaluation."""
        return {**self._training.params.metric, **self._training.label_scale.metric_params()}
