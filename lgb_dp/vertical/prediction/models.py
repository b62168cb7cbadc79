"""Models that two parties have trained together, and each party's part of a row's score.

Every tree splits on the columns of one party, so that the score is F = F_A + F_B.  F_A has whatever is public
and the same for all rows: the prior, and the centre of the label's bounds.  Both parts are in the loss's unit
of scores, and follow from the kept text of the model alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cached_property
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray

from gbdt_commons.store import json_kind
from gbdt_commons.tables.frames import is_table
from gbdt_hosts.lightgbm import header_digest, header_lines, tree_blocks, tree_digest, tree_fields
from gbdt_kernels.trees import Codes, DenseCodes
from lgb_dp.boosting.booster import DPBooster
from lgb_dp.data.bins import PublicBins
from lgb_dp.data.model_columns import columns_of_model
from lgb_dp.data.tables import TableColumns
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.losses.labels import LabelScale
from lgb_dp.newton.splits.distilled import values_of_codes
from lgb_dp.vertical.prediction.answers import prediction_points

MODELS = json_kind("models of two parties")
"""Records by digest: text, number of the first party's features, bounds of the label."""

_ROWS_AT_ONCE = 4096

Block = Callable[[int, int], NDArray[np.float64]]
"""Gives the values of some rows of one party, ``block(first, last)``."""


def digest_of(text: str) -> str:
    """Digest of a model: of its header and of all its trees in order, however LightGBM has printed them.

    A model of some of the trees is another model.

    `InvalidArgumentError` if there are trees that private training does not make.
    """
    try:
        parts = [header_digest(text), *map(tree_digest, tree_blocks(text))]
    except ValueError:
        raise InvalidArgumentError("booster has trees that private training does not make") from None
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def text_of(booster: lightgbm.Booster) -> str:
    """The text of all trees of a booster."""
    return str(booster.model_to_string(num_iteration=-1))


class JointModel:
    """A model of the columns of two parties, whose first `n_first` features are of the one with the labels.

    `points`, public, are what the other party's part is mapped to. `InvalidArgumentError` if a tree splits on
    columns of both parties, or there are several trees per iteration.
    """

    def __init__(self, text: str, n_first: int, label_bounds: tuple[float, float]) -> None:
        self.digest, self.n_first, self._text = digest_of(text), n_first, text
        header, low, high = header_lines(text), *label_bounds
        objective, *settings = header["objective"].split()
        of_objective = dict(setting.split(":") for setting in settings)
        if header["num_tree_per_iteration"] != "1":
            raise InvalidArgumentError("a model of two parties must have one tree per iteration")
        self.scale = LabelScale(objective, 1, low, high, float(of_objective.get("sigmoid", 2.0)))
        self.n_features = int(header["max_feature_idx"]) + 1
        self._infos = header["feature_infos"].split()
        trees = [tree_fields(block) for block in tree_blocks(text)]
        self._values = [tree.leaf_value for tree in trees]
        self.places = [_owner(number, tree.feature, n_first) for number, tree in enumerate(trees)]
        # The first tree has the prior and the centre; from that of the other party they are taken away.
        shift = float(self._values[0].mean()) if self.places[0] else 0.0
        self._shifts = shift - self.scale.centre, -shift
        others = [self._values[number] for number in self._numbers(1)]
        lowest, highest = sum(float(one.min()) for one in others), sum(float(one.max()) for one in others)
        reach = ((end - shift) / self.scale.scale for end in (lowest, highest))
        self.points = prediction_points(self.scale, *reach)

    def check_columns(self, bins: PublicBins) -> None:
        """InvalidArgumentError for a model of another number, range or categories of the other's columns."""
        own = self._infos[self.n_first :]
        if own != bins.feature_infos:
            raise InvalidArgumentError(
                f"booster has {len(own)} columns of the other party, with ranges and categories that are not "
                f"those of the {len(bins.names)} that this party has declared"
            )

    @cached_property
    def _booster(self) -> DPBooster:
        return DPBooster(model_str=self._text)

    @cached_property
    def first_columns(self) -> TableColumns:
        """Columns of the party with the labels, for its tables."""
        all_, n = columns_of_model(self._text), self.n_first
        return TableColumns(
            None if all_.names is None else all_.names[:n],
            {f: known for f, known in all_.categories.items() if f < n},
            {f: known for f, known in all_.codes.items() if f < n},
            {f: kind for f, kind in all_.times.items() if f < n},
        )

    def first_part(self, X: Any) -> NDArray[np.float64]:
        """F_A of rows with the columns of the party with labels; `InvalidArgumentError` for other columns."""
        if is_table(X):
            X = self.first_columns.matrix(X, self.n_first)
        if X.shape[1] != self.n_first:
            raise InvalidArgumentError(
                f"X has {X.shape[1]} features; with parties it must have the {self.n_first} of the party "
                "with the labels"
            )

        def block(first: int, last: int) -> NDArray[np.float64]:
            rows = X[first:last]
            return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, dtype=np.float64)

        return self._part(block, X.shape[0], 0)

    def other_part(self, codes: Codes, bins: PublicBins) -> NDArray[np.float64]:
        """F_B of the binned rows of the other party; a value is as good as its bin: thresholds are edges of
        bins.

        Raises `InvalidArgumentError` if a column of the model is gone, or declared in another way, by its
        name: both parties know it.
        """
        names = columns_of_model(self._text).names
        own = list(bins.names) if names is None else names[self.n_first :]
        if missing := [name for name in own if name not in bins.names]:
            raise InvalidArgumentError(f"columns {missing}, which the model needs, are no longer declared")
        places = [bins.names.index(name) for name in own]
        changed = zip(own, places, self._infos[self.n_first :], strict=False)
        if others := [name for name, place, info in changed if bins.feature_infos[place] != info]:
            raise InvalidArgumentError(f"columns {others} are declared otherwise than for the model")

        def block(first: int, last: int) -> NDArray[np.float64]:
            return values_of_codes(_dense(codes.take(np.arange(first, last))), bins)[:, places]

        return self._part(block, codes.n_rows, 1)

    def _numbers(self, place: int) -> list[int]:
        """Numbers of one party's trees."""
        return [number for number, owner in enumerate(self.places) if owner == place]

    def _part(self, block: Block, n_rows: int, place: int) -> NDArray[np.float64]:
        """Sum of the values of one party's trees, always in the same order."""
        score = np.full(n_rows, self._shifts[place])
        columns = slice(0, self.n_first) if place == 0 else slice(self.n_first, self.n_features)
        own = self._numbers(place)
        for first in range(0, n_rows, _ROWS_AT_ONCE):
            last = min(n_rows, first + _ROWS_AT_ONCE)
            values = np.zeros((last - first, self.n_features))
            values[:, columns] = block(first, last)
            leaf = np.asarray(self._booster.predict(values, pred_leaf=True)).reshape(last - first, -1)
            for number in own:
                score[first:last] += self._values[number][leaf[:, number].astype(np.int64)]
        return score / self.scale.scale


def _owner(number: int, feature: NDArray[np.int64], n_first: int) -> int:
    is_other = feature >= n_first
    if is_other.any() != is_other.all():
        raise InvalidArgumentError(f"tree {number} of the model splits on columns of both parties")
    return int(is_other.any())


def _dense(codes: Codes) -> DenseCodes:
    if isinstance(codes, DenseCodes):
        return codes
    dense = np.tile(codes.zero_codes, (codes.n_rows, 1))
    dense[np.repeat(np.arange(codes.n_rows), np.diff(codes.indptr)), codes.indices] = codes.codes
    return DenseCodes(dense)
