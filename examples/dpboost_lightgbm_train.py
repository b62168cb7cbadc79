"""
Private trees inside ``lightgbm.train``
=======================================

A callback turns ``lightgbm.train`` into private training.  This example compares stock LightGBM with
:class:`lgb_dp.DPBoost` at several budgets, prints the privacy report, and checks that a process which knows
LightGBM alone predicts the same from the saved model.
"""

# %%
# Public bounds
# -------------
#
# The rows are the breast cancer data that scikit-learn bundles.  The bounds are what anybody may know of such
# measurements before seeing a patient.

import subprocess
import sys
from pathlib import Path

import lightgbm as lgb
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

import lgb_dp

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
PARAMS = {
    "objective": "binary",
    "metric": "auc",
    "learning_rate": 0.3,
    "max_depth": 3,
    "lambda_l2": 0.1,
    "verbosity": -1,
}

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X[list(BOUNDS)], y, test_size=0.3, random_state=0)
print(f"{len(X_train)} patients to train on, {len(X_test)} to test on")


def scores(booster):
    """Accuracy and AUC on the test rows."""
    probability = booster.predict(X_test)
    return accuracy_score(y_test, probability > 0.5), roc_auc_score(y_test, probability)


# %%
# Accuracy against ε
# ------------------
#
# There are only 398 patients to train on, so a strong guarantee costs much.

stock = lgb.train(PARAMS, lgb.Dataset(X_train, y_train), 50)
print("stock LightGBM, no privacy: accuracy {:.3f}, AUC {:.3f}".format(*scores(stock)))

train = lgb_dp.Dataset(X_train, label=y_train, bounds=BOUNDS, max_bin=16)
results = {}
for epsilon in (8.0, 4.0, 2.0, 1.0):
    callback = lgb_dp.DPBoost(epsilon, leaf_share=0.3, gdf=False)
    booster = lgb.train(PARAMS, train, 10, callbacks=[callback])
    accuracy, auc = scores(booster)
    results[epsilon] = [auc]
    print(f"DPBoost, epsilon = {epsilon:g}, delta = 0: accuracy {accuracy:.3f}, AUC {auc:.3f}")

ax = lgb_dp.plot_utility({"DPBoost": results})
ax.axhline(scores(stock)[1], linestyle="--", color="gray", label="stock LightGBM")
ax.legend(frameon=False)
plt.show()

# %%
# The model and its guarantee
# ---------------------------
#
# What comes back is a ``lightgbm.Booster`` with a privacy report.

print(f"{type(booster).__name__} is a lightgbm.Booster: {isinstance(booster, lgb.Booster)}")
print(booster.privacy)

# %%
# The saved model needs LightGBM only, and the guarantee can be read back from the file.

folder = Path("out")
folder.mkdir(exist_ok=True)
model_file, rows_file, predictions_file = (
    folder / name for name in ("dpboost_model.txt", "test_rows.csv", "predictions.npy")
)
booster.save_model(model_file)
X_test.to_csv(rows_file, index=False)
lightgbm_alone = (
    "import sys, lightgbm, numpy, pandas\n"
    f"booster = lightgbm.Booster(model_file={str(model_file)!r})\n"
    f"rows = pandas.read_csv({str(rows_file)!r})\n"
    f"numpy.save({str(predictions_file)!r}, booster.predict(rows))\n"
    "assert 'lgb_dp' not in sys.modules\n"
)
subprocess.run([sys.executable, "-c", lightgbm_alone], check=True)
same = np.array_equal(np.load(predictions_file), booster.predict(X_test))
print(f"a process that imports only lightgbm predicts the same: {same}")
print(f"guarantee read back from the file: {lgb_dp.privacy_of(model_file)}")
