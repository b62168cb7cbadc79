"""Collections are predicted by the workers."""

import numpy as np
import pytest

import lgb_dp
from dask_estimators import SETTINGS
from dask_training import X, Y
from lgb_dp.dask import DaskDPLGBMClassifier

pytestmark = pytest.mark.filterwarnings("ignore:random_state is for tests only")


def test_data_frames_are_fitted_and_predicted_by_their_names(client):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(X, columns=list("abcd"))
    rows, labels = (dd.from_pandas(part, npartitions=3) for part in (frame, pd.Series(Y > 0)))
    many = DaskDPLGBMClassifier(**SETTINGS).fit(rows, labels, bounds=(-3, 3))
    one = lgb_dp.DPLGBMClassifier(**SETTINGS).fit(frame, Y > 0, bounds=(-3, 3))
    assert many.feature_names_in_.tolist() == list("abcd")
    assert many.booster_.model_to_string() == one.booster_.model_to_string()
    turned = many.predict(rows[list("dcba")]).compute(scheduler="synchronous")
    assert turned.dtype == bool
    np.testing.assert_array_equal(turned, one.predict(frame))
    with pytest.raises(lgb_dp.errors.UnsupportedParameterError, match="return_std"):
        many.predict_proba(rows, return_std=True)
