"""`lgb_dp.Dataset`, a `lightgbm.Dataset` whose bins come from public knowledge."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from lightgbm.basic import LightGBMError
from numpy.typing import NDArray

from gbdt_commons.read_only import read_only
from gbdt_commons.tables.frames import is_table
from gbdt_hosts.lightgbm import InitialModel, StandInDataset
from gbdt_kernels.trees import DenseCodes, SparseCodes
from lgb_dp.accounting.report import PrivacyReport, checked_reports
from lgb_dp.accounting.unit import Unit
from lgb_dp.checks import Flag, checked_choice
from lgb_dp.data.arguments import (
    DECLARE_CATEGORIES,
    checked_data,
    checked_label,
    checked_label_bounds,
    checked_rows,
)
from lgb_dp.data.bins import Bounds, Categories, PublicBins, Spacing, feature_names, public_bins
from lgb_dp.data.fold_assignment import FoldAssignment, FoldPart
from lgb_dp.data.groups import GroupWeight, checked_unit, draw_kept_rows, draw_words, rows_of, taken
from lgb_dp.data.provenance import Provenance
from lgb_dp.data.start_scores import StartScores
from lgb_dp.data.weights import check_weight_bound, checked_weight
from lgb_dp.errors import InvalidArgumentError, PrivacyLeakWarning, UnsupportedParameterError
from lgb_dp.losses.objective import NO_RANKING
from lgb_dp.losses.times import times_of
from lgb_dp.mechanisms.rng import SecureRandom

LabelOverflow = Literal["raise", "clip"]
_ROWS_WERE_CHOSEN = "its rows were chosen or repeated by a rule that may read private data; use lgb_dp.folds"


class Dataset(StandInDataset):
    """Training or evaluation data for private training, used in place of a `lightgbm.Dataset`.

    Parameters
    ----------
    data : ndarray, table or scipy sparse matrix, shape (n_rows, n_features)
        A table of pandas, polars or pyarrow may hold numbers, truth values, datetimes (which count in seconds
        since 1970, UTC), durations (in seconds) and declared categories.  NaN and nulls mean missing.
        Entries a sparse matrix does not store are zero.
    label : array-like, shape (n_rows,) or (n_rows, n_targets), or times to events
        Times are given as to `lgb_dp.DPLGBMSurvival.fit`.
    bounds : (low, high) or mapping of feature to (low, high)
        Public bounds of the numeric features; values outside go to the outermost bins.  `low` and `high` are
        numbers (datetimes for columns of datetimes) or arrays with one number per feature.  Columns of truth
        values need none.  If they are left out, they are read from the data, which leaks: a
        `PrivacyLeakWarning` and the privacy report say so.  Not needed with `reference`.
    label_bounds : (low, high), optional
        Public bounds of the label: of a regression target, or the two values of a binary label (0 and 1
        unless given).  Several targets may have a pair each.
    label_overflow : {"raise", "clip"}
        Treatment of a label that does not fit.  "raise" raises an error, whose occurrence is a function of
        the private labels.  "clip" moves regression labels to the nearer of `label_bounds`, and gives rows
        whose label is missing or none of the classes no weight; a note in the privacy report says so.
    max_bin : int or mapping of feature to int
        Bins of a numeric feature between its bounds, at least 2 and at most 255.
    spacing : {"linear", "mixed"}
        Bins of equal width, or half of them so and half growing geometrically away from zero.
    categories : mapping of feature to sequence or "dtype", or "dtype", optional
        Public values of categorical features; any other value counts as missing.  "dtype" declares that the
        categories which a data type lists (pandas' category, polars' Enum) are public: for one feature, or
        for all columns of such a type.  A category column that is not declared is categorical anyway, but its
        categories are read from the data, which leaks: a `PrivacyLeakWarning` and the privacy report say so.
    bin_edges : mapping of feature to array, optional
        Public thresholds of a feature, instead of equal widths.
    public : bool
        For evaluation data: its rows are public, so metrics on it leak nothing.
    weight : array-like, shape (n_rows,), optional
        Row weights in ``[0, weight_bound]``.
    weight_bound : float, optional
        Public bound of the weights; required with `weight`.
    init_score : array-like, optional
        Raw scores to start from.  Scores of a model of private rows leak, so that training on them voids the
        guarantee unless `public_init_score` is true.
    public_init_score : bool
        Whether every row's initial score is a function of that row alone, computed by public rules, such as
        a public model's.
    groups : array-like, shape (n_rows,), optional
        The person of each row, who may have several.  The guarantee then covers persons instead of rows.
    rows_per_group : int, optional
        Public bound of the rows that are used per person; required with `groups`.  Where there are more, so
        many are chosen at random when the rows are binned, and the others leave the Dataset.  Noise grows in
        proportion.
    group_weight : "mean", optional
        Let each of a person's k rows weigh 1/k, so that noise is that of one row.  For `NewtonBoost` and for
        `DPBoost` with ``variant="tight"``.
    paid_for : sequence of PrivacyReport
        Cost of public-looking knowledge of these rows (`lgb_dp.private_bounds`,
        `lgb_dp.private_quantile_edges`): charged to every model that is trained on them.
    reference : Dataset, optional
        Training data whose bins to share.
    feature_name : "auto" or sequence of str
    params : dict, optional
        LightGBM's Dataset parameters.
    free_raw_data : bool
        Whether to let go of `data` once it is binned.
    group, position : None
        Of ranking, which private training does not support; people are declared by `groups`.
    categorical_feature : "auto"
        `categories` takes its place.
    label_lower_bound, label_upper_bound : array-like, shape (n_rows,), optional
        Times to events in the place of `label`, as XGBoost takes them.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        Naming the argument; for most arguments when the bins are constructed.
    """

    public = Flag()
    public_init_score = Flag()

    def __init__(
        self,
        data: Any,
        label: Any = None,
        *,
        bounds: Bounds | None = None,
        label_bounds: tuple[float, float] | None = None,
        label_overflow: LabelOverflow = "raise",
        max_bin: Any = 32,
        spacing: Spacing = "linear",
        categories: Categories | None = None,
        bin_edges: Mapping[Any, Any] | None = None,
        public: bool = False,
        weight: Any = None,
        weight_bound: float | None = None,
        init_score: Any = None,
        public_init_score: bool = False,
        groups: Any = None,
        rows_per_group: int | None = None,
        group_weight: GroupWeight | None = None,
        paid_for: Sequence[PrivacyReport] = (),
        reference: Dataset | None = None,
        feature_name: Any = "auto",
        params: dict[str, Any] | None = None,
        free_raw_data: bool = True,
        group: None = None,
        position: None = None,
        categorical_feature: str = "auto",
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
    ) -> None:
        _refuse_ranking(group, position)
        if label_lower_bound is not None or label_upper_bound is not None:
            if label is not None or label_lower_bound is None or label_upper_bound is None:
                raise InvalidArgumentError(
                    "label_lower_bound and label_upper_bound are given together, in the place of label"
                )
            label = times_of(label_lower_bound, label_upper_bound)
        self.set_categorical_feature(categorical_feature)
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
        self.label_bounds = checked_label_bounds(label_bounds)
        self.label_overflow = checked_choice("label_overflow", label_overflow, get_args(LabelOverflow))
        self.max_bin = max_bin
        self.spacing: Spacing = checked_choice("spacing", spacing, get_args(Spacing))
        self.categories = categories
        self.bin_edges = bin_edges
        self.public = public
        self.weight_bound = weight_bound
        self.public_init_score = public_init_score
        self._unit = checked_unit(groups, rows_per_group, group_weight)
        self._groups = groups
        self._group_weight: GroupWeight | None = group_weight
        self._group_of_row: NDArray[np.int64] | None = None
        self._rows_of_parent: NDArray[np.int64] | None = None
        self.assigned_folds: FoldAssignment | None = None
        self.fold_part: FoldPart | None = None
        self._own_provenance = Provenance(paid_for=checked_reports(paid_for))
        self._binned: tuple[PublicBins, DenseCodes | SparseCodes] | None = None
        self._given_scores: StartScores | None = None
        self._used_scores: StartScores | None = None

    # Interface that StandInDataset needs.

    def _read_rows(self) -> None:
        if (rows := self._rows_of_parent) is not None:
            self._read_subset(rows)
            return
        data = checked_data(self.data)
        n_rows = data.shape[0]
        kept = self._rows_to_keep(n_rows)
        if kept is not None:
            self.data = data = rows_of(data, kept)
        bins = self._public_bins(data)
        self._binned = bins, bins.transform(data)
        self.pandas_categorical = [list(known) for known in bins.columns.categories.values()] or None
        self.label = checked_label(self.label, n_rows, must_be_finite=self.label_overflow == "raise")
        self.weight = checked_weight(self.weight, n_rows)
        if self.weight is not None and (self.reference is None or self.weight_bound is not None):
            check_weight_bound(self.weight, self.weight_bound)
        given = StartScores.given(self.init_score, n_rows, is_public=self.public_init_score)
        if kept is not None:
            self.label, self.weight = taken(self.label, kept), taken(self.weight, kept)
            given = None if given is None else given.take(kept)
        self.init_score = None if given is None else given.values
        self._given_scores = self._used_scores = given

    def _rows_to_keep(self, n_rows: int) -> NDArray[np.int64] | None:
        """At most `rows_per_group` rows of every group; None keeps all."""
        if self._groups is None or self._unit.rows is None:
            return None
        kept, self._group_of_row = draw_kept_rows(self._groups, n_rows, self._unit.rows)
        self._groups = self._group_of_row
        return kept

    def _public_bins(self, data: Any) -> PublicBins:
        declared = (self.bounds, self.max_bin, self.categories, self.bin_edges, self.spacing)
        if self.reference is not None:
            assert isinstance(self.reference, Dataset)
            bins = self.reference.bins
            if is_table(data):
                data, _ = bins.columns.in_order(data, len(bins.names))
            if self.bounds is not None and not bins.same_as(
                public_bins(data, bins.names, *declared, inherited=bins.columns)
            ):
                raise InvalidArgumentError(
                    "bounds, max_bin, categories or bin_edges differ from those of the reference"
                )
            self.disclose(self.reference.provenance)
            return bins
        bins = public_bins(data, feature_names(data, self.feature_name), *declared)
        for leak in bins.provenance.leaks:
            warnings.warn(leak, PrivacyLeakWarning, stacklevel=4)
        return replace(bins, provenance=bins.provenance.joined(self._own_provenance))

    def _read_subset(self, rows: NDArray[np.int64]) -> None:
        assert isinstance(self.reference, Dataset)
        with self.reference.lock.held():
            parent = self.reference.construct()
            self._binned = parent.bins, parent.codes.take(rows)
            self.pandas_categorical = parent.pandas_categorical
            self.label, self.weight = taken(parent.label, rows), taken(parent.weight, rows)
            given = parent._given_scores
            self._given_scores = self._used_scores = None if given is None else given.take(rows)
            self._group_of_row = taken(parent._group_of_row, rows)

    def _feature_names(self) -> list[str]:
        return list(self.bins.names)

    def _n_rows(self) -> int:
        return self.codes.n_rows

    def _predict_start_scores(self, predictor: Any) -> None:
        self._used_scores = self.scores_of(InitialModel.behind(predictor))

    def scores_of(self, model: InitialModel | None) -> StartScores | None:
        """Scores that a run from this initial model starts from, whichever other runs share the Dataset."""
        used, parent, data = self._used_scores, self.reference, self.data
        if used is not None and used.model_digest == (None if model is None else model.digest):
            return used
        if model is None:
            return self._given_scores
        if (rows := self._rows_of_parent) is not None:
            assert isinstance(parent, Dataset)
            with parent.lock.held():
                whole = parent.construct()
                used, data = whole._used_scores, whole.data
            if used is not None and used.model_digest == model.digest:
                self._used_scores = used.take(rows)
                return self._used_scores
            data = None if data is None else rows_of(checked_data(data), rows)
        if data is None:
            raise UnsupportedParameterError(
                "init_model cannot predict the start scores of rows whose data is gone, and is not the model "
                "that predicted them before (it may have been changed since); make the whole Dataset with "
                "free_raw_data=False, or pass init_model and lgb_dp.folds to lightgbm.cv"
            )
        self._used_scores = StartScores.predicted(model, data, self._n_rows(), self.bins.columns)
        return self._used_scores

    # Interface of LightGBM's users.

    @property
    def bins(self) -> PublicBins:
        """The public bins; raises a LightGBMError before construction."""
        return self._constructed()[0]

    @property
    def codes(self) -> DenseCodes | SparseCodes:
        """The bin of each row in each feature; raises a LightGBMError before construction."""
        return self._constructed()[1]

    def _constructed(self) -> tuple[PublicBins, DenseCodes | SparseCodes]:
        if self._binned is None:
            raise LightGBMError("the rows have no bins before construct(), which lightgbm.train calls")
        return self._binned

    @property
    def unit(self) -> Unit:
        """Unit of the guarantee: one row, or one person.  Like the groups, it cannot change."""
        return self._unit

    @property
    def groups(self) -> Any:
        """The person of each row as given, and once constructed, the number of each used row's person."""
        return self._groups

    @property
    def group_weight(self) -> GroupWeight | None:
        """How a person's rows are weighted."""
        return self._group_weight

    @property
    def group_of_row(self) -> NDArray[np.int64] | None:
        """The number of each used row's person, shape (n_rows,); None without groups."""
        return self._group_of_row

    @property
    def start_scores(self) -> NDArray[np.float64] | None:
        """Raw scores that training starts from, shape (n_rows, n_outputs); None if it starts from none."""
        return None if self._used_scores is None else self._used_scores.values

    @property
    def provenance(self) -> Provenance:
        """Cost or leakage of knowledge about the rows: that of the bins, and the Dataset's own."""
        of_bins = Provenance() if self._binned is None else self.bins.provenance
        return of_bins.joined(self._own_provenance)

    def disclose(self, more: Provenance) -> Dataset:
        """State more of what knowledge of the rows has cost or leaked; nothing can be taken back.

        Parameters
        ----------
        more : Provenance
            Joined to the provenance that the reports of later training runs state.

        Returns
        -------
        Dataset
            This one.
        """
        with self.lock.held():
            self._own_provenance = self._own_provenance.joined(more)
        return self

    def draw_words(self, random: SecureRandom) -> NDArray[np.uint64]:
        """A random word per row; rows of the same group get the same."""
        return draw_words(random, self.num_data(), self.group_of_row)

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
        """Evaluation data with the bins of this Dataset.

        Parameters
        ----------
        data, label, weight, init_score, params
            As for the class.
        group, position : None
            Of ranking, which private training does not support.
        public : bool
            Whether the rows are public, so that metrics on them cost nothing.

        Returns
        -------
        Dataset

        Raises
        ------
        InvalidArgumentError
            If `group` or `position` is given.
        """
        _refuse_ranking(group, position)
        valid = Dataset(
            data,
            label,
            weight=weight,
            init_score=init_score,
            reference=self,
            params=params,
            public=public,
            label_bounds=self.label_bounds,
            label_overflow=self.label_overflow,
            free_raw_data=self.free_raw_data,
        )
        valid._predictor = self._predictor
        return valid

    def subset(self, used_indices: Any, params: dict[str, Any] | None = None) -> Dataset:
        """The given rows.

        Unless they are the training part of one of `lgb_dp.folds`, nothing is known about how they were
        chosen, and the report says that a model trained on them is not private.

        Parameters
        ----------
        used_indices : array-like of int
            Positions of the rows, from 0.
        params : dict, optional
            LightGBM's parameters of the Dataset; those of this one by default.

        Returns
        -------
        Dataset
            With the bins, bounds and unit of this one.
        """
        with self.lock.held():
            self.construct()
            rows = checked_rows(used_indices, self.num_data())
            part = Dataset(
                None,
                None,
                label_bounds=self.label_bounds,
                label_overflow=self.label_overflow,
                max_bin=self.max_bin,
                spacing=self.spacing,
                public=self.public,
                weight_bound=self.weight_bound,
                public_init_score=self.public_init_score,
                reference=self,
                params=self.params if params is None else params,
                free_raw_data=self.free_raw_data,
            )
            part._unit, part._group_weight = self._unit, self._group_weight
            part._predictor = self._predictor
            part._rows_of_parent, part.used_indices = read_only(rows), rows.tolist()
            part.disclose(self.provenance)
            part.fold_part = FoldPart.of(self.assigned_folds, rows, self.fold_part)
            if part.fold_part is None:
                part.disclose(Provenance((_ROWS_WERE_CHOSEN,)))
            return part

    def _set(self, field_name: str, **values: Any) -> Dataset:
        with self.lock.held():
            if self._rows_of_parent is not None:
                raise UnsupportedParameterError(
                    f"{field_name} of a subset cannot be set: it is that of the whole Dataset; set it there"
                )
            self._refuse_once_constructed(field_name)
            for name, value in values.items():
                setattr(self, name, value)
        return self

    def set_label(self, label: Any) -> Dataset:
        """Set the label, before construction only.

        Parameters
        ----------
        label : array-like of shape (n_rows,)

        Returns
        -------
        Dataset
            This one.

        Raises
        ------
        LightGBMError
            Once the Dataset was constructed.
        UnsupportedParameterError
            If the Dataset is a subset.
        """
        return self._set("label", label=label)

    def set_weight(self, weight: Any) -> Dataset:
        """Set row weights, as `set_label` sets the label.

        Parameters
        ----------
        weight : array-like of shape (n_rows,), or None
            From 0 to `weight_bound`.
        """
        return self._set("weight", weight=weight)

    def set_init_score(self, init_score: Any, *, public: bool = False) -> Dataset:
        """Set initial scores, as `set_label` sets the label.

        Parameters
        ----------
        init_score : array-like of shape (n_rows,) or (n_rows, n_classes), or None
        public : bool
            As `public_init_score` of the class: whether the scores depend on no row.
        """
        return self._set("init_score", init_score=init_score, public_init_score=public)

    def set_categorical_feature(self, categorical_feature: Any) -> Dataset:
        """Refused: categories must be public and are declared by `categories`."""
        if not isinstance(categorical_feature, str) or categorical_feature != "auto":
            raise InvalidArgumentError(
                f"categorical_feature={categorical_feature!r} is not accepted; {DECLARE_CATEGORIES}"
            )
        return self

    def num_feature(self) -> int:
        """Number of features."""
        return len(self.construct().bins.names)

    def feature_num_bin(self, feature: int | str) -> int:
        """Number of bins of a feature, missing bin not counted.

        Parameters
        ----------
        feature : int or str
            Position, from 0, or name.

        Returns
        -------
        int
        """
        bins = self.construct().bins
        return int(bins.n_bins[bins.names.index(feature) if isinstance(feature, str) else feature])


def _refuse_ranking(group: Any, position: Any) -> None:
    """Raise an error where arguments of `lightgbm.Dataset` ask for ranking."""
    if group is not None or position is not None:
        raise InvalidArgumentError(
            f"group and position are for ranking: {NO_RANKING}; `groups` declares the person of each row"
        )
