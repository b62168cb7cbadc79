"""
Loans of two banks: exact trees, or a private model
===================================================

A bank knows which of its loans were not repaid; another bank keeps the current accounts of the same
customers.  The example compares three models: the lender's columns alone, SecureBoost's trees, which are
exact and tell the lender sums of every node, and a private model, of which both banks learn nothing but the
model itself.
"""

# %%
# Two tables of the same customers
# --------------------------------
#
# The rows are generated.  Bounds of all columns are public knowledge: they were not read from the rows.

import time

import matplotlib.pyplot as plt
import numpy as np
import xgboost as xgb
from sklearn.metrics import roc_auc_score

import xgb_fed
from lgb_dp.vertical import ColumnParty, VerticalDPLGBMClassifier

random = np.random.default_rng(0)
N, N_TRAIN = 12_000, 8_000
lender = np.column_stack([random.uniform(18, 80, N), random.gamma(2, 6, N), random.integers(0, 10, N)])
balance, salary = random.normal(2, 3, N), random.gamma(4, 0.8, N)
overdrawn = random.poisson(np.exp(-0.25 * balance))
accounts = np.column_stack([balance, salary, overdrawn])
risk = 0.05 * lender[:, 1] + 0.25 * lender[:, 2] - 0.01 * lender[:, 0]
risk += 0.5 * np.minimum(overdrawn, 5) - 0.7 * salary - 0.15 * balance
defaults = (random.logistic(risk - 1.0) > 0).astype(int)

train, test = slice(N_TRAIN), slice(N_TRAIN, N)
y_train, y_test = defaults[train], defaults[test]
LENDER_BOUNDS = [(18, 80), (0, 60), (0, 9)]  # age, thousands borrowed, earlier loans
ACCOUNT_BOUNDS = [(-10, 15), (0, 10), (0, 20)]  # balance, salary, times overdrawn
print(f"{N_TRAIN:,} loans to train on, {y_train.mean():.0%} not repaid")

# %%
# The lender alone
# ----------------

results = {}
begin = time.perf_counter()
alone = xgb.XGBClassifier(n_estimators=12, max_depth=4, learning_rate=0.5).fit(lender[train], y_train)
auc = roc_auc_score(y_test, alone.predict_proba(lender[test])[:, 1])
results["lender alone"] = (auc, time.perf_counter() - begin, 0.0, "nothing", "nothing")

# %%
# SecureBoost
# -----------
#
# The trees are those of XGBoost on the pooled columns.  The lender sees exact sums of every node's bins, and
# the other bank the way of every row through its splits.

begin = time.perf_counter()
party = xgb_fed.LocalParty(accounts[train], name="accounts")
exact = xgb_fed.VerticalXGBClassifier(
    n_estimators=12, max_depth=4, max_bin=32, learning_rate=0.5, cipher=xgb_fed.OkamotoUchiyama()
).fit(lender[train], y_train, parties=[party])
seconds = time.perf_counter() - begin
chance = exact.predict_proba(lender[test], parties=[party.with_rows(accounts[test])])[:, 1]
sent = sum(flow.bytes for flow in exact.traffic_.flows.values()) / 1e6
learnt = "sums of each bin and node, rows' sides", "rows in each node"
results["SecureBoost, exact"] = (roc_auc_score(y_test, chance), seconds, sent, *learnt)

# %%
# A private model
# ---------------
#
# Both banks compute noised sums over the leaves of trees whose splits are public.  Nothing else is opened,
# as long as both follow the protocol.

begin = time.perf_counter()
party = ColumnParty(accounts[train], name="accounts", bounds=dict(enumerate(ACCOUNT_BOUNDS)))
private = VerticalDPLGBMClassifier(epsilon=1.0, delta=1e-6)
private.fit(lender[train], y_train, parties=[party], bounds=dict(enumerate(LENDER_BOUNDS)))
seconds = time.perf_counter() - begin
chance = private.predict_proba(np.column_stack([lender, accounts])[test])[:, 1]
sent = sum(private.traffic_.bytes_from(name) for name in ("labels", "accounts")) / 1e6
results["private, epsilon = 1"] = (roc_auc_score(y_test, chance), seconds, sent, "the model", "the model")

# %%
# The three beside each other
# ---------------------------

print(f"{'':<22}{'test AUC':>9}{'seconds':>9}{'MB sent':>9}  {'the lender learnt':<40}the other bank learnt")
for name, (auc, seconds, sent, by_lender, by_other) in results.items():
    print(f"{name:<22}{auc:>9.4f}{seconds:>9.1f}{sent:>9.1f}  {by_lender:<40}{by_other}")

_, ax = plt.subplots(figsize=(6, 2.2), layout="constrained")
bars = ax.barh(list(results), [auc for auc, *_ in results.values()])
ax.bar_label(bars, fmt="%.3f", padding=3)
ax.set(xlim=(0.5, 1.0), xlabel="test AUC")
ax.invert_yaxis()
plt.show()

# %%
# The guarantee
# -------------
#
# The report states the guarantee towards the world and, in its notes, towards the other bank, which knows
# who is in both tables.

print(private.privacy_)
