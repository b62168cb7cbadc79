"""Labels become targets that XGBoost trains on, or are refused in its words."""

import numpy as np
import pytest

from gbdt_hosts.xgboost.gradients import XGBoostGradients
from gbdt_hosts.xgboost.margins import words_of
from gbdt_hosts.xgboost.targets import Targets
from targets import MARGIN, N, params_of, targets_of


def test_one_row():
    g, h = XGBoostGradients(params_of("reg:squarederror"), Targets(np.ones(1, dtype=np.float32)))(
        np.full((1, 1), 3, dtype=np.float32), 0
    )
    assert g.tolist() == [[2]]
    assert h.tolist() == [[1]]


@pytest.mark.parametrize(
    ("objective", "label"), [("count:poisson", -1.0), ("reg:tweedie", -1.0), ("rank:map", 3.0)]
)
def test_labels_that_xgboost_refuses(objective, label):
    targets = targets_of(objective)
    wrong = Targets(np.where(np.arange(N) == 7, label, targets.label), query_sizes=targets.query_sizes)
    with pytest.raises(ValueError, match=r"label|[Rr]elevance") as error:
        XGBoostGradients(params_of(objective), wrong)(MARGIN, 0)
    words = words_of(error.value)
    assert "\n" not in words
    assert not words.startswith("[")
