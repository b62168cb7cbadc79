"""
Columns in two places: vertical training
========================================

A clinic has the diagnoses of its patients and some columns; a laboratory has other columns of the same
patients.  They train an XGBoost model together under Okamoto–Uchiyama encryption, and neither sees the
columns of the other.  The example compares the model with XGBoost on the pooled columns, tree by tree, and
prints what left whom.
"""

# %%
# Two parties
# -----------
#
# The rows are the breast cancer data that scikit-learn bundles, its columns divided between the parties.  A
# :class:`xgb_fed.LocalParty` lives in this process, but it exchanges bytes as a remote party does.

import json
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import xgboost as xgb
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import xgb_fed

SETTINGS = {"n_estimators": 3, "max_depth": 3, "max_bin": 16, "learning_rate": 0.5}

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
clinic, laboratory = list(X.columns[:10]), list(X.columns[10:])

party = xgb_fed.LocalParty(X_train[laboratory], name="laboratory", allow_export=True)

# %%
# Training
# --------
#
# The estimator takes XGBoost's parameters, and the parties in ``fit``.

model = xgb_fed.VerticalXGBClassifier(**SETTINGS, cipher=xgb_fed.OkamotoUchiyama())
begin = time.perf_counter()
model.fit(X_train[clinic], y_train, parties=[party])
seconds = time.perf_counter() - begin
print(f"{SETTINGS['n_estimators']} trees on {len(X_train)} patients in {seconds:.1f} s, 2048-bit keys")
print(model.traffic_)

# %%
# What the laboratory's columns are worth
# ---------------------------------------
#
# Prediction asks the laboratory too, since it holds the thresholds of its own splits.

test_party = party.with_rows(X_test[laboratory])
together = model.predict_proba(X_test[clinic], parties=[test_party])[:, 1]
alone = xgb.XGBClassifier(**SETTINGS).fit(X_train[clinic], y_train).predict_proba(X_test[clinic])[:, 1]
auc = {"clinic alone": roc_auc_score(y_test, alone), "together": roc_auc_score(y_test, together)}
print(", ".join(f"{name}: test AUC {value:.4f}" for name, value in auc.items()))

_, ax = plt.subplots(figsize=(5, 2.2), layout="constrained")
bars = ax.barh(list(auc), list(auc.values()))
ax.bar_label(bars, fmt="%.3f", padding=3)
ax.set(xlim=(0.9, 1.0), xlabel="test AUC")
plt.show()

# %%
# The same trees as pooled XGBoost
# --------------------------------
#
# The laboratory consented to export, so the clinic can put together a native booster.  Every split of it
# equals that of stock XGBoost on the pooled columns, and leaves agree to 1e-6.


def equal(ours, theirs):
    """Whether two nodes and all nodes below them are the same."""
    if "leaf" in ours or "leaf" in theirs:
        return "leaf" in ours and "leaf" in theirs and np.isclose(ours["leaf"], theirs["leaf"], rtol=1e-6)
    same = all(ours[key] == theirs[key] for key in ("split", "split_condition", "yes", "no", "missing"))
    return same and all(equal(a, b) for a, b in zip(ours["children"], theirs["children"], strict=True))


def trees(booster):
    """Columns, thresholds, directions and leaves of every tree."""
    return [json.loads(tree) for tree in booster.get_dump(dump_format="json")]


data = xgb.QuantileDMatrix(X_train, label=y_train, max_bin=SETTINGS["max_bin"])
params = {"objective": "binary:logistic", "max_depth": 3, "learning_rate": 0.5, "max_bin": 16}
pooled = xgb.train(params, data, SETTINGS["n_estimators"])
booster = model.export_booster()
same = [bool(equal(a, b)) for a, b in zip(trees(booster), trees(pooled), strict=True)]
if not all(same):
    raise SystemExit(f"DIFFERENT from pooled XGBoost: {same}")
print("identical to pooled XGBoost")

# %%
# Saving
# ------
#
# Each party keeps its own splits.  The exported booster is one native file.

folder = Path("out") / "vertical_model"
model.save_model(folder / "clinic")
party.save_model(folder / "laboratory")
booster.save_model(folder / "pooled.json")
print(sorted(path.name for path in folder.iterdir()))
