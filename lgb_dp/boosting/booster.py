"""The booster that private training returns, and the guarantee that is stored inside a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray

from gbdt_commons.html_tables import html_paragraph
from gbdt_commons.tables.frames import is_table
from gbdt_hosts.lightgbm import (
    PrivateBooster,
    grown_text,
    guarantee_in,
    header_digest,
    tree_blocks,
    tree_digest,
)
from lgb_dp.accounting.report import PrivacyReport
from lgb_dp.boosting.training import Asking, Training
from lgb_dp.data.model_columns import columns_of_model
from lgb_dp.errors import AlteredModelError, ArgumentTypeError, NoGuaranteeError
from lgb_dp.evaluation.model import ModelEvaluation, evaluation_from

MADE_UP_ROWS = "made_up_rows"
"""Name of what it takes to repeat a run, beside the guarantee in a model's text."""

ROWS_AT_ONCE = 1 << 16
"""Rows of a table that are predicted at a time."""


def trained(training: Training, n_rounds: int) -> Asking[DPBooster]:
    """Train without a host: the trees of all iterations, and the model of them."""
    for _ in range(n_rounds):
        yield from training.growing()
    return DPBooster(model_str=grown_text(training))


class DPBooster(PrivateBooster):
    """A LightGBM booster with a privacy report, which predicts the tables that it was trained on.

    Private training returns it.  To load a saved model, take it in place of `lightgbm.Booster`:
    ``lgb_dp.DPBooster(model_file="model.txt")``.

    Parameters
    ----------
    params, train_set, model_file, model_str
        As for `lightgbm.Booster`.

    Attributes
    ----------
    signatures : str
        JSON of the signatures by which parties of private training have this model; empty for one that was
        trained otherwise, or loaded.  ``veilboost inspect`` checks them.
    """

    signatures: str = ""

    @property
    def privacy(self) -> PrivacyReport:
        """The guarantee of the model; while in training, of everything released so far."""
        with self._lock.held():
            if self._grower is not None:
                guarantee = self._grower.guarantee()
                return replace(PrivacyReport.from_dict(guarantee), evaluation=_evaluation_in(guarantee))
        return privacy_of(self)

    @property
    def evaluation(self) -> ModelEvaluation | None:
        """Quality of the model on held-out rows, if its training run held rows out and came to its end."""
        found: ModelEvaluation | None = self.privacy.evaluation
        return found

    def rows_of(
        self, table: Any, accept_undeclared: Collection[str] | None = None
    ) -> Callable[[int, int], NDArray[np.float64]]:
        """A function that gives the rows ``start:stop`` of a table as the model takes them; see `predict`."""
        columns = columns_of_model(self.model_to_string(num_iteration=1))
        if columns.names is not None and len(columns.names) != self.num_feature():
            raise AlteredModelError(
                f"the model's text names {len(columns.names)} columns, and has {self.num_feature()} features"
            )
        return columns.reader(table, self.num_feature(), accept_undeclared)

    def predict(self, data: Any, *args: Any, accept_undeclared: Collection[str] = (), **kwargs: Any) -> Any:
        """Predict, as `lightgbm.Booster.predict` does, bit for bit, and faster where there are many rows.

        A table of pandas, polars or pyarrow is encoded as in training: its columns are put in order by their
        names, and categories that training did not declare count as missing.  From 100 rows on, a column
        that has such in more than 1% of them is refused.  In a matrix without names, features are in the
        order of training and categories are codes, as `lgb_dp.encode` gives them.

        Parameters
        ----------
        data : table, array-like or sparse matrix, shape (n_rows, n_features)
        *args, **kwargs
            As for `lightgbm.Booster.predict`.
        accept_undeclared : sequence of str
            Columns of a table that may have any share of values that were not declared.

        Raises
        ------
        InvalidArgumentError
            If a table has other columns than in training, or columns of another kind or of other values.
        AlteredModelError
            If the model's text no longer says what its columns are.
        """
        if not isinstance(data, np.ndarray) and is_table(data):  # asking narwhals takes as long as one row
            # In parts: all rows as float64 at once would be a copy, up to twice as large, of the table.
            rows, n_rows, predict = self.rows_of(data, accept_undeclared), data.shape[0], super().predict
            starts = range(0, max(n_rows, 1), ROWS_AT_ONCE)
            parts = [predict(rows(k, min(k + ROWS_AT_ONCE, n_rows)), *args, **kwargs) for k in starts]
            return parts[0] if len(parts) == 1 else np.concatenate(parts)
        return super().predict(data, *args, **kwargs)

    def _repr_html_(self) -> str:
        """HTML summary of the model and its guarantee, for a notebook."""
        what = html_paragraph(
            f"{type(self).__name__}: {self.num_trees()} trees, {self.num_feature()} features"
        )
        try:
            return what + self.privacy._repr_html_()
        except (AlteredModelError, NoGuaranteeError) as error:
            return what + html_paragraph(str(error))


def privacy_of(model: str | Path | lightgbm.Booster) -> PrivacyReport:
    """The privacy guarantee that travels inside a model.

    Parameters
    ----------
    model : path, str or lightgbm.Booster
        A model file, the text of one, or a booster, which may have been loaded by LightGBM alone.

    Returns
    -------
    PrivacyReport

    Raises
    ------
    ArgumentTypeError
        If `model` is none of these.
    NoGuaranteeError
        If the model carries none, or the file is not text.
    OSError
        If the file cannot be read.
    AlteredModelError
        If its header or its trees are not those that the guarantee describes.  The digests detect accidents,
        not forgery: an editor of the trees can edit the digests, too.
    """
    text = text_in(content_of(model))
    return replace(report_in(text), evaluation=_told_evaluation(text, getattr(model, "best_iteration", 0)))


def evaluation_of(model: str | Path | lightgbm.Booster) -> ModelEvaluation | None:
    """The evaluation on held-out rows that travels inside a model; None if it has none.

    It is of all trees: a model that has lost some, or predicts by the first ones alone, has none.

    Raises
    ------
    ArgumentTypeError, NoGuaranteeError, OSError, AlteredModelError
        As `privacy_of` does, whose guarantee covers the evaluation.
    """
    found: ModelEvaluation | None = privacy_of(model).evaluation
    return found


def _told_evaluation(text: str, n_used: int) -> ModelEvaluation | None:
    """The evaluation in a text, unless trees are missing, or only the first ones are used."""
    guarantee, blocks = guarantee_in(text) or {}, tree_blocks(text)
    if Counter(map(tree_digest, blocks)) != Counter(guarantee["trees"]) or 0 < n_used < len(blocks):
        return None
    return _evaluation_in(guarantee)


def _evaluation_in(guarantee: Mapping[str, Any]) -> ModelEvaluation | None:
    told = guarantee.get("evaluation")
    try:
        return None if told is None else evaluation_from(told)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise AlteredModelError("the evaluation of the model is damaged") from None


def content_of(model: Any) -> bytes:
    """The bytes of a model file, of a model's text, or of a booster's; raises as `privacy_of` does."""
    if isinstance(model, lightgbm.Booster):
        text: str = model.model_to_string(num_iteration=-1)
        return text.encode()
    if isinstance(model, str) and "\n" in model:
        return model.encode(errors="surrogatepass")
    if not isinstance(model, (str, Path)):
        raise ArgumentTypeError(
            f"model must be a path, the text of a model or a lightgbm.Booster, got {type(model).__name__}"
        )
    try:
        return Path(model).read_bytes()
    except ValueError:  # of a path with a null character
        raise ArgumentTypeError("model must be a path, the text of a model or a lightgbm.Booster") from None


def text_in(content: bytes) -> str:
    """The text of a model file; `NoGuaranteeError` if it is none."""
    try:
        return content.decode(errors="strict")
    except UnicodeDecodeError:
        raise NoGuaranteeError("the file is not text, and carries no privacy guarantee") from None


def report_in(text: str) -> PrivacyReport:
    """The guarantee inside a model's text; raises as `privacy_of` does."""
    try:
        guarantee = guarantee_in(text) or {}
        report = PrivacyReport.from_dict(guarantee)
        header, known = guarantee["header"], set(guarantee["trees"])
        found = header_digest(text)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise NoGuaranteeError("the model carries no privacy guarantee") from None
    if found != header:
        raise AlteredModelError("objective or features of the model differ from its guarantee")
    altered = [i for i, block in enumerate(tree_blocks(text)) if not _is_known(block, known)]
    if altered:
        raise AlteredModelError(f"trees {altered} of the model differ from its guarantee")
    return report


def _is_known(block: str, known: Set[str]) -> bool:
    """Whether a tree is one of those that a guarantee describes."""
    try:
        return tree_digest(block) in known
    except ValueError:  # what stands where numbers should
        return False
