"""A `lightgbm.Dataset` whose native side is a two-row stand-in.

LightGBM prints the exact number of positive labels and bins the features a
second time as soon as it sees them, so it is shown neither: the stand-in has
the right number of features, all zero, and two made-up labels.  If the
booster is not taken over, training stops at once instead of fitting the
stand-in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import lightgbm
import numpy as np
from lightgbm.basic import LightGBMError
from numpy.typing import NDArray

from gbdt_commons.arithmetic import silent_arithmetic
from gbdt_commons.locks import OwnLock

if TYPE_CHECKING:
    from lightgbm.basic import _InnerPredictor, _LGBM_SetFieldType, _LGBM_TrainDataType

_Dataset = TypeVar("_Dataset", bound="StandInDataset")
_STAND_IN_PARAMS = {"verbosity": -1, "feature_pre_filter": False}
_BOOSTER_PARAMS = {
    "objective": "none",
    "metric": "None",
    "verbosity": -1,
    "boosting": "gbdt",
    "device_type": "cpu",
}
"""Parameters of a booster made from a stand-in; the user's values are put back, and judged, at take-over."""


class _UntrainableVersion(int):
    """Version of a Dataset, which a stock `Booster.update` compares before anything else."""

    __hash__ = int.__hash__

    def _refuse(self, _: object) -> NoReturn:
        raise LightGBMError(
            "a private Dataset is trained by a private trainer only, and none has taken the booster over: "
            "pass one, as in callbacks=[lgb_dp.NewtonBoost(epsilon=1.0, delta=1e-6)]"
        )

    __eq__ = __ne__ = _refuse


class StandInDataset(lightgbm.Dataset):
    """Base of Datasets that keep their rows to themselves.

    A subclass provides `_read_rows`, called once at construction, and sets the number of features. Changes of
    more than one attribute hold the lock: threads that share a Dataset never see it half changed. Where two
    are held, that of the reference comes second.
    """

    native: lightgbm.Dataset | None = None
    _handle: Any
    data: Any
    label: Any
    weight: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.lock = OwnLock()
        super().__init__(*args, **kwargs)
        self.version = _UntrainableVersion()

    def _read_rows(self) -> None:
        """Validate and bin ``self.data`` (or the reference's rows)."""
        raise NotImplementedError

    def _feature_names(self) -> list[str]:
        raise NotImplementedError

    def _n_rows(self) -> int:
        raise NotImplementedError

    def _predict_start_scores(self, predictor: _InnerPredictor | None) -> None:
        """Remember the raw scores that an initial model gives these rows, or forget them if it is None."""
        raise NotImplementedError

    # Calls of lightgbm.train, lightgbm.cv and lightgbm.Booster.

    def construct(self: _Dataset) -> _Dataset:
        """Bin the rows and make the stand-in, if not done yet."""
        with self.lock.held():
            if self._handle is None:
                self._construct()
        return self

    def _construct(self) -> None:
        reference = None
        if self.reference is not None:
            if not isinstance(self.reference, StandInDataset):
                raise TypeError(
                    f"reference must be a {type(self).__name__}, got {type(self.reference).__name__}"
                )
            reference = self.reference.construct().native
        with silent_arithmetic():
            self._read_rows()
        names = self._feature_names()
        self.native = lightgbm.Dataset(
            np.zeros((2, len(names))),
            label=np.array([0, 1]),
            reference=reference,
            feature_name=names,
            params=dict(_STAND_IN_PARAMS),
        ).construct()
        self._handle = self.native._handle
        self.feature_name = self.native.get_feature_name()
        if self._predictor is not None:
            with silent_arithmetic():
                self._predict_start_scores(self._predictor)
        if self.free_raw_data:
            self.data = None

    def get_params(self) -> dict[str, Any]:
        """Dataset parameters, and what keeps LightGBM from training on the stand-in."""
        return {**super().get_params(), **_BOOSTER_PARAMS}

    def num_data(self) -> int:
        """Number of rows."""
        if self._handle is None:
            raise LightGBMError("Cannot get num_data before construct dataset")
        return self._n_rows()

    def _free_handle(self) -> StandInDataset:
        with self.lock.held():
            self.native = None  # owns the handle
            self._handle = None
        return self

    def __del__(self) -> None:
        self._handle = None

    def _set_predictor(self: _Dataset, predictor: _InnerPredictor | None) -> _Dataset:
        with self.lock.held():
            super()._set_predictor(predictor)
        return self

    def _set_init_score_by_predictor(
        self,
        predictor: _InnerPredictor | None,
        data: _LGBM_TrainDataType,
        used_indices: list[int] | NDArray[Any] | None,
    ) -> StandInDataset:
        with silent_arithmetic():
            self._predict_start_scores(predictor)
        return self

    def set_field(self, field_name: str, data: _LGBM_SetFieldType | None) -> StandInDataset:
        """Raise LightGBMError: the native side holds none of the rows."""
        raise LightGBMError(f"{field_name!r} cannot be set in a private Dataset's native side")

    def _refuse_once_constructed(self, field_name: str) -> None:
        if self._handle is not None:
            raise LightGBMError(f"{field_name} cannot change once the rows are binned; make a new Dataset")

    def get_field(self, field_name: str) -> NDArray[Any] | None:
        """Label, weight or initial score, None without one."""
        return getattr(self, field_name, None)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise LightGBMError("A private Dataset cannot be written or merged: LightGBM holds none of its rows")

    save_binary = add_features_from = _dump_text = _refuse


def check_parameters(params: Mapping[str, Any], n_features: int) -> None:
    """Raise a LightGBMError for parameters that LightGBM does not accept: a booster is made with them."""
    stand_in = lightgbm.Dataset(np.zeros((2, n_features)), np.array([0, 1]), params=dict(_STAND_IN_PARAMS))
    lightgbm.Booster({**params, **_BOOSTER_PARAMS}, stand_in)
