"""
Few private trees that can be read
==================================

:class:`lgb_dp.MBoost` boosts private trees by the M-loss with objective calibration.  A small budget affords
few and shallow trees, and a tree of depth 3 can be read.  This example compares MBoost with the random
forests of its paper.
"""

# %%
# The data
# --------
#
# The bounds are what anybody may know of such measurements before seeing a patient.

from pathlib import Path

import lightgbm as lgb
import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer
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
}
PARAMS = {"objective": "binary", "learning_rate": 0.5, "max_depth": 3, "verbosity": -1}
N_REPEATS = 10

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X[list(BOUNDS)], y, test_size=0.3, random_state=0)
train = lgb_dp.Dataset(X_train, label=y_train, bounds=BOUNDS, max_bin=10)


def accuracy(trainer, n_trees):
    """Mean test accuracy over repeated fits, since every fit draws its own noise."""
    boosters = [lgb.train(PARAMS, train, n_trees, callbacks=[trainer]) for _ in range(N_REPEATS)]
    return sum(((b.predict(X_test) > 0.5) == y_test).mean() for b in boosters) / N_REPEATS


# %%
# Accuracy against ε
# ------------------
#
# Each figure is the mean of ten fits.

majority = max(y_test.mean(), 1 - y_test.mean())
print(f"majority class: {majority:.3f}")
print(f"MBoost without privacy, 5 trees: {accuracy(lgb_dp.MBoost(float('inf')), 5):.3f}")

EPSILONS = (0.3, 1.0, 4.0)
curves = {
    "MBoost, α calibrated, 1 tree": lambda epsilon: (lgb_dp.MBoost(epsilon), 1),
    "MBoost, α = 0.1, 1 tree": lambda epsilon: (lgb_dp.MBoost(epsilon, alpha=0.1), 1),
    "MBoost, α = 1, 1 tree": lambda epsilon: (lgb_dp.MBoost(epsilon, alpha=1.0), 1),
    "RandomForestLaplace, 21 trees": lambda epsilon: (lgb_dp.RandomForestLaplace(epsilon), 21),
    "RandomForestExponential, 21 trees": lambda epsilon: (lgb_dp.RandomForestExponential(epsilon), 21),
}
_, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for name, trainer_at in curves.items():
    means = [accuracy(*trainer_at(epsilon)) for epsilon in EPSILONS]
    points = zip(means, EPSILONS, strict=True)
    print(f"{name}: " + "; ".join(f"{mean:.3f} at ε = {epsilon:g}, δ = 0" for mean, epsilon in points))
    ax.plot(EPSILONS, means, marker="o", label=name)
ax.axhline(majority, linestyle="--", color="gray", label="majority class")
ax.set(xlabel="ε", ylabel="test accuracy", xscale="log")
ax.legend(frameon=False, fontsize="small")
plt.show()

# %%
# The guarantee
# -------------
#
# The model is native, and its guarantee travels in the file.

booster = lgb.train(PARAMS, train, 2, callbacks=[lgb_dp.MBoost(1.0, weight_share=0.1)])
print(booster.privacy)

folder = Path("out")
folder.mkdir(exist_ok=True)
booster.save_model(folder / "mboost_model.txt")
print(f"in the file: {lgb_dp.privacy_of(folder / 'mboost_model.txt')}")
