"""The recommended private model: an estimator with its defaults, and what it guarantees.

Trains 20,000 rows made by scikit-learn at three budgets, prints the guarantee, explains a prediction, and
finds bounds and settings privately for those who know none.  `--plots FOLDER` saves two plots.
"""

import argparse
from pathlib import Path

import lightgbm as lgb
import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import lgb_dp

DELTA = 1e-6  # far below one over the number of people


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--plots", type=Path, help="folder for the plots (needs matplotlib)")
    options = parser.parse_args()

    X, y = make_classification(25_000, 12, n_informative=6, n_redundant=2, class_sep=0.8, random_state=1)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=5_000, random_state=1)
    bounds = (-8, 8)  # public knowledge about every column

    results: dict[float, list[float]] = {}
    for epsilon in (0.1, 1.0, 4.0):
        model = lgb_dp.DPLGBMClassifier(epsilon, delta=DELTA).fit(X_train, y_train, bounds=bounds)
        results[epsilon] = [float(roc_auc_score(y_test, model.predict_proba(X_test)[:, 1]))]
        print(f"epsilon = {epsilon:<4g} test AUC = {results[epsilon][0]:.4f}")

    print(f"\n{model.privacy_}\n")
    contributions = model.booster_.predict(X_test[:1], pred_contrib=True)[0]
    print(f"the first person's score, column by column: {np.round(contributions, 2)}")

    # Without public bounds: pay for them; every model that rests on them carries their cost.
    found, paid = lgb_dp.private_bounds(X_train, epsilon=0.2, delta=DELTA)
    train = lgb_dp.Dataset(X_train, y_train, bounds=found, max_bin=255, spacing="mixed", paid_for=[paid])
    params = {"objective": "binary", "verbosity": -1}
    booster = lgb.train(params, train, 500, callbacks=[lgb_dp.NewtonBoost(0.8, DELTA)])
    auc = roc_auc_score(y_test, booster.predict(X_test))
    print(f"\nbounds for 0.2, model for 0.8: test AUC = {auc:.4f}, epsilon = {booster.privacy.epsilon:.3f}")

    # Settings chosen on the data, under one budget for everything.
    search = lgb_dp.DPRandomizedSearchCV(
        lgb_dp.DPLGBMClassifier(n_estimators=200),
        {"max_depth": [2, 3, 4, 5], "learning_rate": [0.05, 0.1, 0.2, 0.4]},
        epsilon=2.0,
        delta=DELTA,
        mean_trials=4.0,
    ).fit(X_train, y_train, bounds=bounds)
    auc = roc_auc_score(y_test, search.predict_proba(X_test)[:, 1])
    print(f"search for 2.0: test AUC = {auc:.4f} with {search.best_params_}")

    everything = lgb_dp.compose(model.privacy_, booster.privacy, search.privacy_)
    print(f"all three together: epsilon = {everything.epsilon:.3f}, delta = {everything.delta:.1e}")

    if options.plots:
        options.plots.mkdir(parents=True, exist_ok=True)
        axes = lgb_dp.plot_utility({"NewtonBoost": results})
        axes.figure.savefig(options.plots / "utility.png")
        lgb_dp.plot_budget(booster.privacy).figure.savefig(options.plots / "budget.png")


if __name__ == "__main__":
    main()
