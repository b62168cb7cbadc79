"""
Rows apart: exact trees of all hospitals
========================================

Two hospitals have the same measurements of different patients: one treats mostly malignant tumours, the other
mostly benign ones.  Exact training grows XGBoost's trees on the rows of both, from sums over both.  It is
compared with SimFL, a heuristic.
"""

# %%
# The rows come with scikit-learn.  Of two parties, each learns the other's sums, and a warning says so: three
# or more hide them from each other.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import xgboost
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

import xgb_fed

X, X_test, y, y_test = train_test_split(*load_breast_cancer(return_X_y=True), test_size=0.4, random_state=0)
first = np.random.default_rng(0).random(len(y)) < np.where(y == 0, 0.9, 0.1)
hospitals = {"A": (X[first], y[first]), "B": (X[~first], y[~first])}
for name, (_, labels) in hospitals.items():
    print(f"hospital {name}: {len(labels)} patients, {np.mean(labels == 0):.0%} malignant")

ROUNDS, SETTINGS = 40, {"max_depth": 4, "learning_rate": 0.1, "max_bin": 32}
parties = list(hospitals.values())
warnings.simplefilter("ignore", xgb_fed.FewPartiesWarning)
exact = xgb_fed.HorizontalXGBClassifier(ROUNDS, **SETTINGS).fit(parties=parties)
simfl = xgb_fed.HorizontalXGBClassifier(ROUNDS, **SETTINGS, method="simfl").fit(parties=parties)
print(exact.traffic_)

# %%
# Both models are native boosters of stock XGBoost.  The loss on patients of both kinds, tree by tree.  Nodes
# of exact training have ten rows at least, which helps on so few rows.


def stock(rows, labels):
    return xgboost.XGBClassifier(n_estimators=ROUNDS, **SETTINGS).fit(rows, labels).get_booster()


boosters = {f"{name} alone": stock(*rows) for name, rows in hospitals.items()}
boosters |= {"SimFL": simfl.get_booster(), "exact": exact.get_booster(), "pooled rows": stock(X, y)}
_, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
for (name, booster), style in zip(boosters.items(), ("C7", "C8", "C1", "C3", "k:"), strict=True):
    rounds = range(1, ROUNDS + 1)
    chances = [booster.predict(xgboost.DMatrix(X_test), iteration_range=(0, k)) for k in rounds]
    losses = [log_loss(y_test, chance) for chance in chances]
    print(f"{name}: log-loss {losses[-1]:.3f}")
    ax.plot(rounds, losses, style, label=name)
ax.set(xlabel="trees", ylabel="test log-loss")
ax.legend(frameon=False)
plt.show()
