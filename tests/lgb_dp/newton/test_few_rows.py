"""A report says where the released number of rows does not stand out of its noise."""

import numpy as np
import pytest

import lgb_dp
from lgb_dp.newton.core import FEW_ROWS_NOTE

X = np.random.default_rng(0).random((20_000, 2))
LABEL = np.where(X[:, 0] > 0.5, "yes", "no")


def fitted(X, y, classes):
    model = lgb_dp.DPLGBMClassifier(epsilon=1.0, delta=1e-6, n_estimators=2)
    return model.fit(X, y, bounds=(0, 1), classes=classes).privacy_


@pytest.mark.parametrize(("rows", "classes"), [(20_000, ["good", "bad"]), (20, ["no", "yes"])])
def test_labels_that_are_no_classes_or_too_few_rows_are_noted(rows, classes):
    """Before, a classifier whose classes were misspelt was private, useless, and silent about it.

    Three standard deviations of the noise are passed by no rows with a probability of 0.1%.
    """
    report = [fitted(X[:rows], LABEL[:rows], classes) for _ in range(3)]
    assert any(FEW_ROWS_NOTE in one.notes for one in report)
    assert all(one.private for one in report)


def test_rows_that_stand_out_are_not_noted():
    assert FEW_ROWS_NOTE not in fitted(X, LABEL, ["no", "yes"]).notes
    assert FEW_ROWS_NOTE not in fitted(X, X[:, 0] > 0.5, [False, True]).notes
