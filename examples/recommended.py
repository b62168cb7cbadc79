"""
The recommended private model
=============================

:class:`lgb_dp.DPLGBMClassifier` with its defaults trains differentially private trees with
:class:`lgb_dp.NewtonBoost`.  This example trains it at three budgets, reads the guarantee, explains a
prediction, and then finds bounds and settings privately for readers who know none.
"""

# %%
# The data
# --------
#
# The rows are generated.  The bounds of the columns are public knowledge: they were not read from the rows.

import lightgbm as lgb
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import lgb_dp

DELTA = 1e-6  # far below one over the number of people
BOUNDS = (-8, 8)  # of every column

X, y = make_classification(25_000, 12, n_informative=6, n_redundant=2, class_sep=0.8, random_state=1)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=5_000, random_state=1)

# %%
# Three budgets
# -------------
#
# A smaller ε is a stronger guarantee and costs accuracy.  All settings are left to the trainer.

results: dict[float, list[float]] = {}
for epsilon in (0.1, 1.0, 4.0):
    model = lgb_dp.DPLGBMClassifier(epsilon, delta=DELTA).fit(X_train, y_train, bounds=BOUNDS)
    auc = float(roc_auc_score(y_test, model.predict_proba(X_test)[:, 1]))
    results[epsilon] = [auc]
    print(f"epsilon = {epsilon:<4g} delta = {DELTA:g} test AUC = {auc:.4f}")

lgb_dp.plot_utility({"NewtonBoost": results})
plt.show()

# %%
# The guarantee
# -------------
#
# Every model carries a report: its ε and δ, what they were spent on, and what they do not cover.

print(model.privacy_)

# %%
# The fitted model holds a native ``lightgbm.Booster``, so LightGBM's own tools work.  Here are the
# contributions of the columns to the score of the first test row, with the expected value at the end.

contributions = model.booster_.predict(X_test[:1], pred_contrib=True)[0]
print(np.round(contributions, 2))

# %%
# Bounds that nobody knows
# ------------------------
#
# When no public bounds exist, a part of the budget buys them.  The report of that release goes to the
# dataset, so every model that rests on these bounds carries their cost.

found, paid = lgb_dp.private_bounds(X_train, epsilon=0.2, delta=DELTA)
train = lgb_dp.Dataset(X_train, y_train, bounds=found, max_bin=255, spacing="mixed", paid_for=[paid])
params = {"objective": "binary", "verbosity": -1}
booster = lgb.train(params, train, 500, callbacks=[lgb_dp.NewtonBoost(0.8, DELTA)])
auc = roc_auc_score(y_test, booster.predict(X_test))
print(f"bounds for 0.2, model for 0.8: test AUC = {auc:.4f}; together:")
print(booster.privacy)

lgb_dp.plot_budget(booster.privacy)
plt.show()

# %%
# Settings chosen on the data
# ---------------------------
#
# :class:`lgb_dp.DPRandomizedSearchCV` searches settings under one budget for the whole search.

search = lgb_dp.DPRandomizedSearchCV(
    lgb_dp.DPLGBMClassifier(n_estimators=200),
    {"max_depth": [2, 3, 4, 5], "learning_rate": [0.05, 0.1, 0.2, 0.4]},
    epsilon=2.0,
    delta=DELTA,
    mean_trials=4.0,
).fit(X_train, y_train, bounds=BOUNDS)
auc = roc_auc_score(y_test, search.predict_proba(X_test)[:, 1])
print(f"search for 2.0: test AUC = {auc:.4f} with {search.best_params_}")

# %%
# Several results on the same rows
# --------------------------------
#
# Three models of the same people cost more than one.  :func:`lgb_dp.compose` adds the costs up.

everything = lgb_dp.compose(model.privacy_, booster.privacy, search.privacy_)
print(f"all three together: {everything}")
