"""A passive party's rows, wherever they are held: in this process, or on the workers of a cluster.

Only ciphertexts and bins meet in `TreeRows.histograms`; what a training run needs besides is how rows are cut
into bins, and which of them go left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.files import digest_of
from xgb_fed.boosting.categories import Categories, to_json
from xgb_fed.boosting.features import BinnedFeatures, Columns, SplitRule, bin_features
from xgb_fed.ciphers.base import Ciphertexts, PublicKey
from xgb_fed.vertical.passive.histogram import Histograms, build_histograms


class SideQuestion(NamedTuple):
    """Which of some rows a split sends left."""

    rule: SplitRule
    rows: NDArray[np.integer[Any]]


class TreeRows(Protocol):
    """The sampled rows of one tree, numbered as their ciphertexts, in the columns of that tree."""

    @property
    def n_rows(self) -> int:
        """Number of sampled rows."""

    @property
    def bin_offsets(self) -> NDArray[np.int64]:
        """Places of each column in a histogram: its bins, then one for missing values."""

    def histograms(
        self,
        key: PublicKey,
        sources: Mapping[int, Ciphertexts],
        rows: NDArray[np.int32],
        starts: NDArray[np.int64],
    ) -> Histograms:
        """Sum up the ciphertexts of every bin of every node.

        The sources, by number, are the ciphertexts of each row to sum up, complete as far as `rows` go.  Of
        these row numbers, node by node, each node's start at one of the `starts`, whose last one is where the
        last node's end.
        """


class HeldBins(Protocol):
    """The rows of a session, cut into bins as XGBoost cuts them."""

    @property
    def bin_offsets(self) -> NDArray[np.int64]:
        """Places of each column in a histogram: its bins, then one for missing values."""

    @property
    def categorical(self) -> frozenset[int]:
        """Columns whose bins are categories."""

    def counts(self) -> NDArray[np.int64]:
        """Rows in each bin of each column, and rows without a value."""

    def rule(
        self, feature: int, last_left: int, default_left: bool, right: tuple[int, ...] | None = None
    ) -> SplitRule:
        """A split between bins, or by categories, as a rule for values."""

    def of_tree(self, columns: NDArray[np.int32], sampled: NDArray[np.bool_]) -> TreeRows:
        """The sampled rows of a tree in its columns, which ascend."""


class HeldRows(Protocol):
    """A matrix of a passive party."""

    @property
    def names(self) -> list[str]:
        """Names of the columns."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    @property
    def n_features(self) -> int:
        """Number of columns."""

    @property
    def categories(self) -> Categories:
        """The categorical columns."""

    @property
    def identity(self) -> Any:
        """Identity that tells these values from others: an array, a matrix or a text, for `digest_of`."""

    def with_categories(self, known: Categories) -> HeldRows:
        """The same rows with the codes of the categories that were trained on."""

    def of_model(self, places: list[int], names: list[str]) -> HeldRows:
        """The columns at some places, under a model's names; a column of another name stands for none."""

    def take(self, rows: NDArray[np.integer[Any]]) -> HeldRows:
        """Some of the rows, in the order asked for."""

    def binned(self, max_bin: int) -> HeldBins:
        """The rows cut into at most so many bins, or one more where XGBoost makes one more."""

    def sides(self, questions: Sequence[SideQuestion]) -> list[NDArray[np.bool_]]:
        """Which rows go left, question by question."""


@dataclass(frozen=True)
class TreeRowsHere:
    """The codes of a tree's rows; see `TreeRows`."""

    codes: NDArray[np.unsignedinteger[Any]]
    bin_offsets: NDArray[np.int64]

    @property
    def n_rows(self) -> int:
        """Number of sampled rows."""
        return len(self.codes)

    def histograms(
        self,
        key: PublicKey,
        sources: Mapping[int, Ciphertexts],
        rows: NDArray[np.int32],
        starts: NDArray[np.int64],
    ) -> Histograms:
        """See `TreeRows`."""
        return build_histograms(key, list(sources.values()), self.codes, rows, starts, self.bin_offsets)


@dataclass(frozen=True)
class BinsHere(BinnedFeatures):
    """Cut columns in this process; see `HeldBins`."""

    def of_tree(self, columns: NDArray[np.int32], sampled: NDArray[np.bool_]) -> TreeRowsHere:
        """The sampled rows of a tree in its columns."""
        return tree_rows(self.codes, self.bin_offsets, columns, sampled)


@dataclass(frozen=True)
class RowsHere(Columns):
    """A matrix in this process; see `HeldRows`."""

    @property
    def identity(self) -> Any:
        """The values, and what codes stand for."""
        return digest_of(self.data, to_json(self.categories)) if self.categories else self.data

    def with_categories(
        self, known: Categories, argument: str = "the data", *, quote: bool = False
    ) -> RowsHere:
        """The same rows with the codes of the categories that were trained on."""
        return super().with_categories(known, argument, quote=quote)

    def binned(self, max_bin: int) -> BinsHere:
        """The rows cut into bins."""
        return BinsHere(**vars(bin_features(self, max_bin)))

    def sides(self, questions: Sequence[SideQuestion]) -> list[NDArray[np.bool_]]:
        """Which rows go left, question by question."""
        return [self.goes_left(rule, rows) for rule, rows in questions]


def held(rows: Columns | HeldRows) -> HeldRows:
    """Rows as a passive party keeps them; rows that are held already stay as they are."""
    return RowsHere(**vars(rows)) if type(rows) is Columns else cast(HeldRows, rows)


def tree_rows(
    codes: NDArray[np.unsignedinteger[Any]],
    bin_offsets: NDArray[np.int64],
    columns: NDArray[np.int32],
    sampled: NDArray[np.bool_],
) -> TreeRowsHere:
    """Some rows and columns of all codes; all of them are not copied."""
    places = np.cumsum(np.diff(bin_offsets)[columns])
    if not sampled.all():
        codes = codes[sampled]
    if len(columns) < codes.shape[1]:
        codes = codes[:, columns]
    return TreeRowsHere(np.ascontiguousarray(codes), np.concatenate([[0], places]).astype(np.int64))
