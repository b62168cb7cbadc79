"""Private trees inside `lightgbm.train`: what it costs in accuracy, and what comes out.

Trains on the breast cancer data that scikit-learn bundles, without privacy and
with DPBoost, prints the privacy report, saves the native model and checks that
a process which knows LightGBM alone predicts the same.
"""

import subprocess
import sys
from pathlib import Path

import lightgbm as lgb
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

import lgb_dp

# What anybody may know of such measurements before seeing a patient.
BOUNDS = {
    "mean radius": (5, 30),
    "mean texture": (5, 40),
    "mean perimeter": (40, 190),
    "mean area": (100, 2500),
    "mean smoothness": (0.05, 0.17),
    "mean compactness": (0, 0.35),
    "mean concavity": (0, 0.45),
    "mean concave points": (0, 0.2),
    "mean symmetry": (0.1, 0.3),
    "mean fractal dimension": (0.05, 0.1),
}
PARAMS = {"objective": "binary", "metric": "auc", "learning_rate": 0.3, "max_depth": 3, "lambda_l2": 0.1}
N_TREES = 10
MODEL = Path("out") / "dpboost_model.txt"


def scores(booster, X, y):
    """Accuracy and AUC of a booster."""
    p = booster.predict(X)
    return accuracy_score(y, p > 0.5), roc_auc_score(y, p)


def main():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X[list(BOUNDS)], y, test_size=0.3, random_state=0)
    print(f"{len(X_train)} patients to train on, {len(X_test)} to test on\n")

    stock = lgb.train({**PARAMS, "verbosity": -1}, lgb.Dataset(X_train, y_train), 50)
    print(
        "{:<32} accuracy {:.3f}   AUC {:.3f}".format(
            "stock LightGBM, no privacy", *scores(stock, X_test, y_test)
        )
    )

    train = lgb_dp.Dataset(X_train, label=y_train, bounds=BOUNDS, max_bin=16)
    for epsilon in (8.0, 4.0, 2.0, 1.0):
        booster = lgb.train(
            {**PARAMS, "verbosity": -1},
            train,
            N_TREES,
            callbacks=[lgb_dp.DPBoost(epsilon, leaf_share=0.3, gdf=False)],
        )
        print(
            "{:<32} accuracy {:.3f}   AUC {:.3f}".format(
                f"DPBoost, epsilon = {epsilon:g}", *scores(booster, X_test, y_test)
            )
        )

    print(f"\n{type(booster).__name__} is a lightgbm.Booster: {isinstance(booster, lgb.Booster)}")
    print(booster.privacy)

    MODEL.parent.mkdir(exist_ok=True)
    booster.save_model(MODEL)
    X_test.to_csv(MODEL.parent / "test_rows.csv", index=False)
    lightgbm_alone = (
        "import sys, lightgbm, numpy, pandas\n"
        f"booster = lightgbm.Booster(model_file={str(MODEL)!r})\n"
        f"rows = pandas.read_csv({str(MODEL.parent / 'test_rows.csv')!r})\n"
        f"numpy.save({str(MODEL.parent / 'predictions.npy')!r}, booster.predict(rows))\n"
        "assert 'lgb_dp' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", lightgbm_alone], check=True)
    same = np.array_equal(np.load(MODEL.parent / "predictions.npy"), booster.predict(X_test))
    print(f"\nmodel saved to {MODEL}; a process that imports only lightgbm predicts the same: {same}")
    print(f"guarantee read back from the file: epsilon = {lgb_dp.privacy_of(MODEL).epsilon:g}")


if __name__ == "__main__":
    main()
