"""
Private trees as scikit-learn estimators
========================================

:class:`lgb_dp.DPLGBMClassifier` and :class:`lgb_dp.DPLGBMRegressor` follow scikit-learn's conventions.  This
example trains a binary classifier, a classifier of ten classes and a regressor, and searches settings with
scikit-learn's own tools.
"""

# %%
# Binary classification
# ---------------------
#
# A pixel of the digits data is between 0 and 16 by definition, so these bounds are public.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from sklearn.metrics import ConfusionMatrixDisplay
from sklearn.model_selection import GridSearchCV, train_test_split

import lgb_dp

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)

low_or_high = lgb_dp.DPLGBMClassifier(epsilon=4.0)
low_or_high.fit(X_train, (y_train >= 5).astype(int), bounds=(0, 16))
print(f"digit ≥ 5, epsilon 4: accuracy {low_or_high.score(X_test, y_test >= 5):.3f}")

# %%
# Several classes
# ---------------
#
# Which classes exist is public knowledge too.  Without ``classes`` the estimator reads them from the data and
# warns that this leaks.

ten = lgb_dp.DPLGBMClassifier(epsilon=20.0, n_estimators=200)
ten.fit(X_train, y_train, bounds=(0, 16), classes=range(10))
print(f"ten classes, epsilon 20: accuracy {ten.score(X_test, y_test):.3f}")

_, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
ConfusionMatrixDisplay.from_estimator(ten, X_test, y_test, ax=ax, colorbar=False)
plt.show()

# %%
# Regression
# ----------
#
# The columns of the diabetes data are scaled to unit length, and the target is a score between 25 and 346.

rows, target = load_diabetes(return_X_y=True)
regressor = lgb_dp.DPLGBMRegressor(epsilon=4.0, n_estimators=200)
regressor.fit(rows, target, bounds=(-0.2, 0.2), label_bounds=(25, 346))
error = np.sqrt(np.mean((regressor.predict(rows) - target) ** 2))
print(f"diabetes, epsilon 4: RMSE {error:.1f} (standard deviation of the target {target.std():.1f})")

# %%
# Grid search
# -----------
#
# scikit-learn's search reads the private rows once per fold and setting.  Its choice is not covered by ε, and
# a warning and the report say so.

search = GridSearchCV(lgb_dp.DPLGBMClassifier(epsilon=4.0, n_estimators=100), {"max_depth": [2, 4]}, cv=3)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    search.fit(X_train, (y_train >= 5).astype(int), bounds=(0, 16))
print(f"grid search: depth {search.best_params_['max_depth']}")
print(f"{caught[0].category.__name__}: {caught[0].message}")

# %%
# :class:`lgb_dp.DPRandomizedSearchCV` searches under one budget for the whole search instead.

private_search = lgb_dp.DPRandomizedSearchCV(
    lgb_dp.DPLGBMClassifier(n_estimators=100), {"max_depth": [2, 4]}, epsilon=4.0, delta=1e-5, mean_trials=2.0
)
private_search.fit(X_train, (y_train >= 5).astype(int), bounds=(0, 16))
print(f"private search: accuracy {np.mean(private_search.predict(X_test) == (y_test >= 5)):.3f}")
print(private_search.privacy_)
