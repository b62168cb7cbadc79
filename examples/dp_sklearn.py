"""Private trees as scikit-learn estimators: classifier, multi-class, regressor, grid search."""

import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from sklearn.model_selection import GridSearchCV, train_test_split

import lgb_dp


def main():
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)

    # A pixel is between 0 and 16 by definition.
    low_or_high = lgb_dp.DPLGBMClassifier(epsilon=4.0)
    low_or_high.fit(X_train, (y_train >= 5).astype(int), bounds=(0, 16))
    print(f"digit ≥ 5, epsilon 4:     accuracy {low_or_high.score(X_test, y_test >= 5):.3f}")

    ten = lgb_dp.DPLGBMClassifier(epsilon=20.0, n_estimators=200)
    ten.fit(X_train, y_train, bounds=(0, 16), classes=range(10))
    print(f"ten classes, epsilon 20:  accuracy {ten.score(X_test, y_test):.3f}")

    rows, target = load_diabetes(return_X_y=True)
    # The features are scaled to unit length per column; the target is a score between 25 and 346.
    regressor = lgb_dp.DPLGBMRegressor(epsilon=4.0, n_estimators=200)
    regressor.fit(rows, target, bounds=(-0.2, 0.2), label_bounds=(25, 346))
    error = np.sqrt(np.mean((regressor.predict(rows) - target) ** 2))
    print(f"diabetes, epsilon 4:      RMSE {error:.1f} (standard deviation {target.std():.1f})")

    # The search reads the private rows once per fold and setting; its choice is not covered by epsilon, and a
    # warning says so.  lgb_dp.DPRandomizedSearchCV searches under one budget.
    search = GridSearchCV(lgb_dp.DPLGBMClassifier(epsilon=4.0, n_estimators=100), {"max_depth": [2, 4]}, cv=3)
    search.fit(X_train, (y_train >= 5).astype(int), bounds=(0, 16))
    print(f"grid search:              depth {search.best_params_['max_depth']}\n")

    print(low_or_high.privacy_)


if __name__ == "__main__":
    main()
