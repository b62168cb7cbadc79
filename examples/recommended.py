"""
One place, private: the recommended model
=========================================

:class:`lgb_dp.DPLGBMClassifier` with its defaults trains differentially private trees by
:class:`lgb_dp.NewtonBoost`.  This walk shows what ε does to a model, how good the model is, and what
is left of a budget.
"""

# %%
# The smaller ε, the stronger the guarantee, and the further apart are models of the same rows: each fit draws
# its own noise.  The rows are generated, so that the true chance is known; bounds are public knowledge.

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm

import lgb_dp

random = np.random.default_rng(0)
X = np.column_stack([random.integers(18, 90, 20_000), random.gamma(3, 20_000, 20_000)])  # age, income
y = X[:, 0] + X[:, 1] / 1000 + random.normal(0, 20, 20_000) > 110
public = {"bounds": {0: (0, 120), 1: (0, 500_000)}, "classes": [False, True]}

income = np.linspace(0, 150_000, 300)
aged_50 = np.column_stack([np.full(300, 50), income])
_, axes = plt.subplots(1, 3, figsize=(6, 2.8), sharey=True, layout="constrained")
for ax, epsilon in zip(axes, (0.02, 0.1, 1.0), strict=True):
    for _ in range(5):
        model = lgb_dp.DPLGBMClassifier(epsilon, delta=1e-5, n_estimators=300).fit(X, y, **public)
        ax.plot(income / 1000, model.predict_proba(aged_50)[:, 1], linewidth=0.8)
    ax.plot(income / 1000, norm.cdf((income / 1000 - 60) / 20), "k--", linewidth=1)
    ax.set(title=f"ε = {epsilon:g},\nδ = 1e-5", xlabel="income, thousands")
axes[0].set_ylabel("chance at the age of 50")
plt.show()

# %%
# A budget pays for all results of the same rows, and refuses to be exceeded.  A tenth of the rows is held out
# to tell how good the model is; that costs no further ε.

budget = lgb_dp.Budget(epsilon=2.0, delta=1e-5)
model = lgb_dp.DPLGBMClassifier(epsilon=1.0, delta=1e-5, validation_fraction=0.1)
model.fit(X, y, **public, budget=budget)
print(model.evaluation_)

# %%
# The guarantee travels in the model's file.  Another fit at ε = 1 still fits into the budget, one at 1.5 does
# not.

print(model.privacy_)
again = lgb_dp.DPLGBMClassifier(epsilon=1.0, delta=1e-5).fit(X, y, **public, budget=budget)
print(budget.report())
try:
    lgb_dp.DPLGBMClassifier(epsilon=1.5, delta=1e-5).fit(X, y, **public, budget=budget)
except lgb_dp.BudgetExceededError as error:
    print(error)
