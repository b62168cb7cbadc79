"""Estimators cover persons with several rows, as data sets do."""

import numpy as np
import pytest

import lgb_dp

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(300, 3))
PERSON = RANDOM.integers(0, 60, size=300)
PUBLIC = {"bounds": (-4, 4)}
OF_TARGETS = {**PUBLIC, "label_bounds": (-4, 4)}
CLASSIFIER = lgb_dp.DPLGBMClassifier(epsilon=1.0, n_estimators=5)
REGRESSOR = lgb_dp.DPLGBMRegressor(epsilon=1.0, n_estimators=5)


@pytest.mark.parametrize(
    ("estimator", "y", "public"),
    [(CLASSIFIER, (X[:, 0] > 0).astype(int), PUBLIC), (REGRESSOR, X[:, 0], OF_TARGETS)],
)
def test_groups_of_estimators_name_the_person_in_the_report(estimator, y, public):
    rows = estimator.fit(X, y, **public).privacy_
    persons = estimator.fit(X, y, groups=PERSON, rows_per_group=3, **public).privacy_
    assert rows.private
    assert persons.private
    assert rows.neighbouring != persons.neighbouring
    assert "3 rows" in persons.neighbouring
    assert persons.epsilon == pytest.approx(rows.epsilon, rel=1e-6)


def test_groups_of_estimators_may_share_one_row_s_weight():
    report = CLASSIFIER.fit(
        X, (X[:, 0] > 0).astype(int), groups=PERSON, rows_per_group=3, group_weight="mean", **PUBLIC
    ).privacy_
    assert report.private
    assert report.epsilon <= 1.0 + 1e-9


def test_groups_of_estimators_need_their_bound():
    with pytest.raises(lgb_dp.InvalidArgumentError, match="rows_per_group"):
        CLASSIFIER.fit(X, (X[:, 0] > 0).astype(int), groups=PERSON, **PUBLIC)
