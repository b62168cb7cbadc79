"""Bins of a Dataset before it is constructed."""

import numpy as np
import pytest
from lightgbm.basic import LightGBMError

import lgb_dp


def test_bins_and_codes_ask_for_construction():
    data = lgb_dp.Dataset(np.arange(6.0).reshape(3, 2), [0, 1, 0], bounds=(0, 5))
    for name in ("bins", "codes"):
        with pytest.raises(LightGBMError, match=r"before construct\(\)"):
            getattr(data, name)
    assert data.provenance.leaks == ()
    assert data.num_feature() == 2  # constructs
    assert len(data.bins.names) == 2
    assert data.codes.n_rows == 3
