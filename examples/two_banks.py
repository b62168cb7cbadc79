"""
Columns apart: exact trees, or a private model
==============================================

A bank knows which of its loans were not repaid; another bank keeps the current accounts of the same
customers.  With SecureBoost's exact trees the lender learns sums of every node, and the other bank which rows
are in it.  Of a private model, both learn the model, and nothing else if both follow the protocol.
"""

# %%
# The rows are generated.  Bounds of all columns are public knowledge: they were not read from the rows.

import matplotlib.pyplot as plt
import numpy as np
import xgboost as xgb
from sklearn.metrics import roc_auc_score

import xgb_fed
from lgb_dp.vertical import ColumnParty, VerticalDPLGBMClassifier

random, n = np.random.default_rng(0), 12_000
lender = np.column_stack([random.uniform(18, 80, n), random.gamma(2, 6, n), random.integers(0, 10, n)])
balance, salary = random.normal(2, 3, n), random.gamma(4, 0.8, n)
overdrawn = random.poisson(np.exp(-0.25 * balance))
accounts = np.column_stack([balance, salary, overdrawn])
risk = 0.05 * lender[:, 1] + 0.25 * lender[:, 2] - 0.01 * lender[:, 0]
risk += 0.5 * np.minimum(overdrawn, 5) - 0.7 * salary - 0.15 * balance
defaults = (random.logistic(risk - 1.0) > 0).astype(int)
train, test = slice(8_000), slice(8_000, n)
y_train, y_test = defaults[train], defaults[test]
LENDER_BOUNDS = [(18, 80), (0, 60), (0, 9)]  # age, thousands borrowed, earlier loans
ACCOUNT_BOUNDS = [(-10, 15), (0, 10), (0, 20)]  # balance, salary, times overdrawn

# %%
# The lender alone, SecureBoost, and the private model at ε = 1, whose splits are public and whose sums have
# noise of both banks.

settings = {"n_estimators": 12, "max_depth": 4, "max_bin": 32, "learning_rate": 0.5}
alone = xgb.XGBClassifier(**settings).fit(lender[train], y_train)
party = xgb_fed.LocalParty(accounts[train], name="accounts")
exact = xgb_fed.VerticalXGBClassifier(**settings, cipher=xgb_fed.OkamotoUchiyama())
exact.fit(lender[train], y_train, parties=[party])
column_party = ColumnParty(accounts[train], name="accounts", bounds=dict(enumerate(ACCOUNT_BOUNDS)))
private = VerticalDPLGBMClassifier(epsilon=1.0, delta=1e-6)
private.fit(lender[train], y_train, parties=[column_party], bounds=dict(enumerate(LENDER_BOUNDS)))
print(private.privacy_)

chances = {
    "lender alone": alone.predict_proba(lender[test]),
    "exact": exact.predict_proba(lender[test], parties=[party.with_rows(accounts[test])]),
    "private, ε = 1": private.predict_proba(np.column_stack([lender, accounts])[test]),
}
_, ax = plt.subplots(figsize=(6, 2.2), layout="constrained")
bars = ax.barh(list(chances), [roc_auc_score(y_test, chance[:, 1]) for chance in chances.values()])
ax.bar_label(bars, fmt="%.3f", padding=3)
ax.set(xlim=(0.5, 1.0), xlabel="test AUC")
plt.show()
