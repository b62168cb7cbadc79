"""
What does a private model say, and what is noise?
=================================================

A private model has noise in every leaf, so that columns without any effect look as if they had one.
The run can be repeated on made-up rows, from its released numbers alone: that shows how far noise
goes, reads no private row and costs no further ε.
"""

# %%
# A model of loans
# ----------------
#
# The rows are generated; two of the columns have nothing to do with the label.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import lgb_dp

rng = np.random.default_rng(1)
n = 20_000
loans = pd.DataFrame(
    {
        "income": rng.gamma(4, 900, n).clip(0, 15_000),
        "late payments": rng.poisson(0.7, n).clip(0, 10),
        "age": rng.uniform(18, 90, n),
        "work": rng.choice(["employed", "own firm", "retired"], n, p=[0.6, 0.15, 0.25]),
        "shoe size": rng.normal(42, 2.5, n).clip(30, 55),
        "lucky number": rng.integers(0, 100, n),
    }
)
risk = 0.8 * loans["late payments"] - loans["income"] / 2_500 + (loans["work"] == "own firm")
risk += (loans["age"] - 50) ** 2 / 800 - 0.8
unpaid = rng.random(n) < 1 / (1 + np.exp(-risk))

model = lgb_dp.DPLGBMClassifier(epsilon=1.0, delta=1e-6, n_estimators=300)
model.fit(
    loans,
    unpaid,
    bounds={
        "income": (0, 15_000),
        "late payments": (0, 10),
        "age": (18, 90),
        "shoe size": (30, 55),
        "lucky number": (0, 99),
    },
    categories={"work": ["employed", "own firm", "retired"]},
)

# %%
# Effects with their bands
# ------------------------
#
# Between the ends of a band lie the effects that the same run would have given under other noise,
# nineteen times of twenty.

lgb_dp.plot_effects(model)
plt.show()

# %%
# Importances with their floor
# ----------------------------
#
# A column without any effect stays below the red line nineteen times of twenty.

importances = lgb_dp.importances(model)
print(importances)
lgb_dp.plot_importance(importances)
plt.show()

# %%
# Single predictions
# ------------------

chance, std = model.predict_proba(loans.head(3), return_std=True)
for one, spread in zip(chance[:, 1], std[:, 1], strict=True):
    print(f"{one:.3f} ± {1.96 * spread:.3f}")
