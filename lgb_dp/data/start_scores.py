"""Raw scores that a training run starts from, stored together with where they came from.

The guarantee follows the scores that are used: whether a Dataset has an initial model says nothing about
whose scores it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.read_only import read_only
from gbdt_commons.tables.frames import is_table
from gbdt_hosts.lightgbm import InitialModel
from lgb_dp.checks import checked_numbers
from lgb_dp.data.model_columns import columns_of_model
from lgb_dp.data.provenance import Provenance
from lgb_dp.data.tables import TableColumns
from lgb_dp.errors import InvalidArgumentError

_INIT_SCORE_LEAKS = (
    "init_score may come from a model of private rows; if it is a function of each row alone "
    "by public rules, pass public_init_score=True"
)
_INIT_SCORE_IS_PUBLIC = "init_score is declared to be a function of each row alone, by public rules"


@dataclass(frozen=True)
class StartScores:
    """Scores, in a read-only array of shape (n_rows, n_outputs), and their origin.

    `model_digest` is `InitialModel.digest` of the initial model that predicted them; None if they were given
    as `init_score`, and `is_public` then says whether they are declared public.
    """

    values: NDArray[np.float64]
    model_digest: str | None = None
    is_public: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", read_only(self.values))

    @classmethod
    def given(cls, init_score: Any, n_rows: int, *, is_public: bool) -> StartScores | None:
        """Scores of an `init_score`; a flat array holds output after output, as in LightGBM.

        Raises InvalidArgumentError if they are not finite numbers, or not equally many per row.
        """
        if init_score is None:
            return None
        values = np.array(checked_numbers("init_score", init_score))
        if values.size % n_rows:
            raise InvalidArgumentError(f"init_score has {values.size} values; data has {n_rows} rows")
        if not np.isfinite(values).all():
            raise InvalidArgumentError("init_score must be finite")
        values = values.reshape(n_rows, -1, order="F" if values.ndim == 1 else "C")
        return cls(values, is_public=is_public)

    @classmethod
    def predicted(cls, model: InitialModel, data: Any, n_rows: int, columns: TableColumns) -> StartScores:
        """Raw scores that an initial model predicts; they need not be finite.

        A model of its own is loaded from the text whose guarantee is read: the live one may change meanwhile.
        Raises AlteredModelError if that text does not say what its columns are, and InvalidArgumentError if
        the model has other columns or categories than the `columns` of the data.
        """
        known = columns_of_model(model.text)
        if known.names and columns.names and known.names != columns.names:
            raise InvalidArgumentError(
                "the columns of init_model must be those of the Dataset in the same order, "
                f"got {list(known.names)} and {list(columns.names)}"
            )
        if known.categories and known.categories != columns.categories:
            raise InvalidArgumentError(
                "the categories of init_model must be those of the Dataset, in the same order"
            )
        if is_table(data):  # never read by LightGBM, which refuses tables by what one cell makes of a column
            if not known.to_dict():
                columns = _of_foreign_model(columns, model.pandas_categorical)
            data = columns.matrix(data, data.shape[1])
        scores = np.asarray(model.loaded().predict(data, raw_score=True), dtype=np.float64)
        return cls(scores.reshape(n_rows, -1), model_digest=model.digest)

    def take(self, rows: NDArray[np.int64]) -> StartScores:
        """The scores of some rows, of the same origin."""
        return replace(self, values=self.values[rows])

    @property
    def provenance(self) -> Provenance:
        """Leakage or assumptions of a start from these scores.

        The guarantee of an initial model is charged separately, where it is known.
        """
        if self.model_digest is not None:
            return Provenance()
        if self.is_public:
            return Provenance(notes=(_INIT_SCORE_IS_PUBLIC,))
        return Provenance((_INIT_SCORE_LEAKS,))


def _of_foreign_model(columns: TableColumns, categories: Sequence[Sequence[Any]] | None) -> TableColumns:
    """Columns whose categories are those that LightGBM stored with a model of its own, column by column."""
    if not categories:
        return columns
    if len(categories) != len(columns.categories):
        raise InvalidArgumentError(
            f"init_model has {len(categories)} category columns, and the Dataset {len(columns.categories)}"
        )
    pairs = zip(sorted(columns.categories), categories, strict=True)
    return replace(columns, categories={feature: tuple(known) for feature, known in pairs})
