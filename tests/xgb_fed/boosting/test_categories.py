"""Categories have codes and bins."""

import numpy as np
import pytest

from xgb_fed.boosting.features import Columns, bin_features, read_columns, read_columns_like

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")


def test_codes_and_bins_of_categories():
    codes = np.array([[2.0], [np.nan], [0.7], [5.0]])
    columns = read_columns(codes, feature_types=["c"])
    binned = bin_features(columns, 2)
    assert binned.codes[:, 0].tolist() == [2, 6, 0, 5]  # one bin up to the largest; fractions are cut off
    assert binned.categorical == {0}
    assert bin_features(read_columns(np.full((3, 1), np.nan), feature_types=["c"]), 2).counts().tolist() == [
        0,
        3,
    ]
    known = read_columns_like(codes, ["f0"], {0: ("a", "b")})
    assert known.categories == {0: ("a", "b")}
    assert isinstance(known, Columns)
