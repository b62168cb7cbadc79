"""
Rows in two places: horizontal training
=======================================

Two hospitals have the same measurements of different patients.  One treats mostly malignant tumours, the
other mostly benign ones, so that neither knows what the other sees.  They train one XGBoost model together
with SimFL, and the example compares it with each hospital alone and with pooled rows.
"""

# %%
# Two hospitals
# -------------

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xgboost
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import xgb_fed

ROUNDS = 100
PARAMS = {"objective": "binary:logistic", "max_depth": 4, "learning_rate": 0.1}
DRAWS = 3

X, y = load_breast_cancer(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)

random = np.random.default_rng(0)
first = random.random(len(y)) < np.where(y == 0, 0.9, 0.1)
hospitals = [(X[rows], y[rows]) for rows in (first, ~first)]
for name, (_, labels) in zip("AB", hospitals, strict=True):
    print(f"hospital {name}: {len(labels)} patients, {np.mean(labels == 0):.0%} malignant")

# %%
# Test errors
# -----------
#
# The hash functions of SimFL are drawn at random, so the example trains with several draws.


def error(booster):
    """Test error of a booster."""
    return np.mean((booster.predict(xgboost.DMatrix(X_test)) > 0.5) != y_test)


def stock(rows, labels):
    """XGBoost on some rows."""
    return xgboost.train(PARAMS, xgboost.DMatrix(rows, label=labels), ROUNDS)


errors = {f"hospital {name} alone": error(stock(*rows)) for name, rows in zip("AB", hospitals, strict=True)}
draws = [
    error(xgb_fed.train_simfl(PARAMS, hospitals, ROUNDS, hash_seed=k, verbose_eval=False).booster)
    for k in range(DRAWS)
]
errors["SimFL, mean of three draws"] = np.mean(draws)
errors["pooled rows"] = error(stock(X, y))
for name, value in errors.items():
    print(f"{name}: {value:.1%}")
print(f"SimFL ranges from {min(draws):.1%} to {max(draws):.1%}")

_, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
bars = ax.barh(list(errors), [100 * value for value in errors.values()])
ax.bar_label(bars, fmt="%.1f", padding=3)
ax.invert_yaxis()
ax.set(xlabel="test error, %")
ax.margins(x=0.12)
plt.show()

# %%
# A native model
# --------------
#
# The estimator returns a model that stock XGBoost loads.

model = xgb_fed.HorizontalXGBClassifier(ROUNDS, max_depth=4, learning_rate=0.1, method="simfl")
model.fit(parties=hospitals)
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "model.json")
    model.save_model(path)
    loaded = xgboost.XGBClassifier()
    loaded.load_model(path)
    same = np.allclose(loaded.predict_proba(X_test), model.predict_proba(X_test))
print(f"native model saved, loaded by stock xgboost: same predictions: {same}")

# %%
# What left each hospital
# -----------------------
#
# All of it is in clear: SimFL is a heuristic, and its guide says what it hides and what it does not.

print(model.traffic_)
