"""`lgb_dp.Dataset`: a `lightgbm.Dataset` whose bins come from public knowledge."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse
from gbdt_hosts import StandInDataset
from gbdt_kernels import DenseCodes, SparseCodes
from numpy.typing import NDArray

from lgb_dp.bins import Bounds, PublicBins, feature_names, is_data_frame, public_bins
from lgb_dp.errors import PrivacyLeakWarning
from lgb_dp.mechanisms import MAX_ROWS


class Dataset(StandInDataset):
    """Training or evaluation data for private training; goes where a `lightgbm.Dataset` goes.

    Parameters
    ----------
    data : ndarray, pandas DataFrame or scipy sparse matrix, shape (n_rows, n_features)
        NaN means missing.  Entries a sparse matrix does not store are zero.
    label : array-like, shape (n_rows,)
    bounds : (low, high) or mapping of feature to (low, high)
        Public bounds of the numeric features; values outside go to the outermost bins.  `low` and `high` are
        numbers or arrays with one number per feature.  Left out, they are read from the data, which leaks:
        a `PrivacyLeakWarning` says so and the privacy report too.  Not needed with a `reference`.
    label_bounds : (low, high), optional
        Public bounds of the label: of a regression target, or the two values of a binary label (default 0, 1).
    max_bin : int or mapping of feature to int
        Bins of a numeric feature, between 2 and 255, of equal width between its bounds.
    categories : mapping of feature to sequence, optional
        Public values of categorical features.  A pandas category column is categorical anyway and its
        dtype's categories count as public.
    bin_edges : mapping of feature to array, optional
        Public thresholds of a feature, instead of equal widths.
    public : bool
        For evaluation data: its rows are public, so metrics on it leak nothing.
    weight : array-like, shape (n_rows,), optional
        Row weights in ``[0, weight_bound]``.
    weight_bound : float, optional
        Public bound of the weights; required with `weight`.
    init_score : array-like, optional
        Raw scores to start from; a function of the row alone, such as a public model's.
    reference : Dataset, optional
        Training data whose bins to share.
    feature_name : "auto" or sequence of str
    params : dict, optional
        LightGBM's Dataset parameters.
    free_raw_data : bool
        Whether to let go of `data` once it is binned.

    Raises
    ------
    ValueError, TypeError
        At construction of the bins, naming the argument.
    """

    def __init__(
        self,
        data: Any,
        label: Any = None,
        *,
        bounds: Bounds | None = None,
        label_bounds: tuple[float, float] | None = None,
        max_bin: Any = 32,
        categories: Mapping[Any, Sequence[Any]] | None = None,
        bin_edges: Mapping[Any, Any] | None = None,
        public: bool = False,
        weight: Any = None,
        weight_bound: float | None = None,
        init_score: Any = None,
        reference: Dataset | None = None,
        feature_name: Any = "auto",
        params: dict[str, Any] | None = None,
        free_raw_data: bool = True,
    ) -> None:
        super().__init__(
            data,
            label=label,
            reference=reference,
            weight=weight,
            init_score=init_score,
            feature_name=feature_name,
            params=params,
            free_raw_data=free_raw_data,
        )
        self.bounds = bounds
        self.label_bounds = _checked_label_bounds(label_bounds)
        self.max_bin = max_bin
        self.categories = categories
        self.bin_edges = bin_edges
        self.public = public
        self.weight_bound = weight_bound
        self.leaks: tuple[str, ...] = ()
        self.fold_of_row: NDArray[np.int64] | None = None
        self.folds_of_a_row = 1
        self.bins: PublicBins | None = None
        self.codes: DenseCodes | SparseCodes | None = None
        self.start_scores: NDArray[np.float64] | None = None

    # What StandInDataset asks for.

    def _read_rows(self) -> None:
        if self.used_indices is not None:
            self._read_subset()
            return
        data = _checked_data(self.data)
        n_rows = data.shape[0]
        if self.reference is not None:
            self.bins = self.reference.bins
        else:
            names = feature_names(data, self.feature_name)
            self.bins, leaks = public_bins(
                data, names, self.bounds, self.max_bin, self.categories, self.bin_edges
            )
            if leaks:
                self._leak("bounds were read from the data; pass public `bounds`")
        assert self.bins is not None
        self.pandas_categorical = list(self.bins.pandas_categories.values())
        self.codes = self.bins.transform(data)
        self.label = _checked_label(self.label, n_rows)
        self.weight = _checked_weight(self.weight, self.weight_bound, n_rows)
        if self.init_score is not None:
            scores = np.asarray(self.init_score, dtype=np.float64)
            if scores.ndim == 1 and len(scores) != n_rows:
                scores = scores.reshape(n_rows, -1, order="F")
            self.start_scores = scores.reshape(n_rows, -1)
            if not np.isfinite(self.start_scores).all():
                raise ValueError("init_score must be finite")

    def _read_subset(self) -> None:
        parent = self.reference
        assert isinstance(parent, Dataset)
        assert parent.codes is not None
        rows = np.asarray(self.used_indices, dtype=np.int64)
        self.bins = parent.bins
        self.pandas_categorical = parent.pandas_categorical
        self.codes = parent.codes.take(rows)
        self.label = parent.label[rows]
        self.weight = None if parent.weight is None else parent.weight[rows]
        self.start_scores = None if parent.start_scores is None else parent.start_scores[rows]

    def _feature_names(self) -> list[str]:
        assert self.bins is not None
        return list(self.bins.names)

    def _n_rows(self) -> int:
        assert self.codes is not None
        return self.codes.n_rows

    def _predict_start_scores(self, predictor: Any, data: Any) -> None:
        if predictor is None:
            self.start_scores = None
            return
        scores = predictor.predict(data, raw_score=True)
        self.start_scores = np.asarray(scores, dtype=np.float64).reshape(self._n_rows(), -1)

    # What LightGBM's users call.

    def create_valid(
        self,
        data: Any,
        label: Any = None,
        weight: Any = None,
        group: Any = None,
        init_score: Any = None,
        params: dict[str, Any] | None = None,
        position: Any = None,
        *,
        public: bool = False,
    ) -> Dataset:
        """Evaluation data with the bins of this Dataset; `public` as for the class."""
        if group is not None or position is not None:
            raise ValueError("group and position belong to ranking, which private training does not support")
        valid = Dataset(
            data,
            label,
            weight=weight,
            weight_bound=self.weight_bound if weight is None else float(np.max(weight)),
            init_score=init_score,
            reference=self,
            params=params,
            public=public,
            label_bounds=self.label_bounds,
            free_raw_data=self.free_raw_data,
        )
        valid._predictor = self._predictor
        return valid

    def subset(self, used_indices: Any, params: dict[str, Any] | None = None) -> Dataset:
        """The given rows.

        Unless they are the training or test part of one of `lgb_dp.folds`, nothing is known of how they were
        chosen, and the report calls a training on them not private.
        """
        rows = np.sort(np.asarray(used_indices, dtype=np.int64))
        part = Dataset(
            None,
            None,
            label_bounds=self.label_bounds,
            max_bin=self.max_bin,
            public=self.public,
            weight_bound=self.weight_bound,
            reference=self,
            params=self.params if params is None else params,
            free_raw_data=self.free_raw_data,
        )
        part._predictor = self._predictor
        part.used_indices = rows
        part.leaks = self.leaks
        if self.fold_of_row is not None and _is_training_part(self.fold_of_row, rows):
            part.folds_of_a_row = int(self.fold_of_row.max())
        else:
            part.leaks += ("its rows were chosen by a rule that may depend on private data; use lgb_dp.folds",)
        return part

    def num_feature(self) -> int:
        """Number of features."""
        return len(self.construct().bins.names)

    def feature_num_bin(self, feature: int | str) -> int:
        """Number of bins of a feature, missing bin not counted."""
        bins = self.construct().bins
        return int(bins.n_bins[bins.names.index(feature) if isinstance(feature, str) else feature])

    def _leak(self, reason: str) -> None:
        self.leaks += (reason,)
        warnings.warn(reason, PrivacyLeakWarning, stacklevel=3)


def _is_training_part(fold_of_row: NDArray[np.int64], rows: NDArray[np.int64]) -> bool:
    """Whether `rows` are all rows but those of one fold."""
    left_out = np.setdiff1d(np.arange(len(fold_of_row)), rows)
    fold = fold_of_row[left_out[0]] if len(left_out) else -1
    return bool(np.array_equal(left_out, np.flatnonzero(fold_of_row == fold)))


def _checked_data(data: Any) -> Any:
    if isinstance(data, list):
        data = np.asarray(data)
    if not (isinstance(data, np.ndarray) or is_data_frame(data) or scipy.sparse.issparse(data)):
        raise TypeError(
            f"data must be a numpy array, a pandas DataFrame or a scipy sparse matrix, got {type(data).__name__}"
        )
    if data.ndim != 2 or 0 in data.shape:
        raise ValueError(f"data must have rows and features, got shape {data.shape}")
    if data.shape[0] >= MAX_ROWS:
        raise ValueError(f"data has {data.shape[0]} rows; fewer than {MAX_ROWS} are supported")
    return data


def _checked_label(label: Any, n_rows: int) -> NDArray[np.float64]:
    if label is None:
        raise ValueError("label should not be None")
    values = np.asarray(label, dtype=np.float64)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.shape != (n_rows,):
        raise ValueError(f"label has shape {values.shape}; data has {n_rows} rows")
    if not np.isfinite(values).all():
        raise ValueError("label must be finite, got NaN or infinity")
    return values


def _checked_weight(weight: Any, bound: float | None, n_rows: int) -> NDArray[np.float64] | None:
    if weight is None:
        return None
    if bound is None:
        raise ValueError("weight needs a public weight_bound, got None")
    if not (np.isfinite(bound) and bound > 0):
        raise ValueError(f"weight_bound must be positive and finite, got {bound!r}")
    values = np.asarray(weight, dtype=np.float64)
    if values.shape != (n_rows,):
        raise ValueError(f"weight has shape {values.shape}; data has {n_rows} rows")
    if not ((values >= 0) & (values <= bound)).all():
        raise ValueError(f"weight must lie in [0, weight_bound = {bound}]")
    return values


def _checked_label_bounds(bounds: Any) -> tuple[float, float] | None:
    if bounds is None:
        return None
    low, high = (float(b) for b in bounds)
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"label_bounds must be finite and ascending, got ({low}, {high})")
    return low, high
