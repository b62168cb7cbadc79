"""A regressor of rows whose columns lie apart."""

import numpy as np
import pytest
import xgboost

from fitted_estimators import SMALL, X, party, stock_model
from vertical_training import problem
from xgb_fed import Plain, VerticalXGBClassifier, VerticalXGBRegressor
from xgb_fed.errors import CorruptDataError

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.errors.NotEncryptedWarning")


def test_regressor(tmp_path):
    _, y = problem("reg:squarederror", n=300, missing=0.1)
    model = VerticalXGBRegressor(**SMALL, cipher=Plain()).fit(X[:, :3], y, parties=[party()])
    reference = stock_model(xgboost.XGBRegressor, y)
    np.testing.assert_allclose(model.predict(X[:, :3]), reference.predict(X), rtol=1e-5)
    assert model.score(X[:, :3], y) == pytest.approx(reference.score(X, y), rel=1e-5)
    model.save_model(tmp_path)
    again = VerticalXGBRegressor()
    again.load_model(tmp_path, model.parties_)
    np.testing.assert_array_equal(again.predict(X[:, :3]), model.predict(X[:, :3]))
    with pytest.raises(CorruptDataError):
        VerticalXGBClassifier().load_model(tmp_path)
