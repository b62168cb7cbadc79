"""Importances of columns are those of XGBoost."""

import numpy as np
import pytest

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.errors.NotEncryptedWarning")


def test_importances(fitted, theirs):
    ours = fitted.export_booster()
    for kind in ("gain", "weight", "cover", "total_gain", "total_cover"):
        expected = theirs.get_booster().get_score(importance_type=kind)
        got = ours.get_score(importance_type=kind)
        assert got == pytest.approx(expected, rel=1e-4)
        own = {k: v for k, v in fitted.model_.importances(kind).items() if not k.startswith("bank")}
        assert own == pytest.approx({k: v for k, v in expected.items() if k in ("f0", "f1", "f2")}, rel=1e-4)
    with pytest.raises(ValueError, match="importance_type"):
        fitted.model_.importances("loss")
    total = theirs.get_booster().get_score(importance_type="total_gain")
    shares = [total.get(f"f{k}", 0) for k in range(3)] + [sum(total.get(f"f{k}", 0) for k in range(3, 6))]
    np.testing.assert_allclose(fitted.feature_importances_, np.array(shares) / sum(shares), rtol=1e-4)
