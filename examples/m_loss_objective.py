"""
The M-loss as an objective of stock LightGBM
============================================

:class:`lgb_dp.MLoss` is a custom objective for stock LightGBM, with no privacy involved.  Its parameter α
mixes Matsushita's loss (α = 1, fast boosting) with the 0/1 loss (α → 0, cheap under privacy).
"""

# %%
# The loss
# --------
#
# The Bayes risk is the smallest expected loss when the positive class has a given probability.

import lightgbm as lgb
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

import lgb_dp

ALPHAS = (0.1, 0.5, 1.0)

probability = np.linspace(0, 1, 501)
_, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for alpha in ALPHAS:
    ax.plot(probability, lgb_dp.MLoss(alpha).bayes_risk(probability), label=f"α = {alpha}")
ax.set(xlabel="probability of the positive class", ylabel="Bayes risk")
ax.legend(frameon=False)
plt.show()

# %%
# Training
# --------
#
# Here is LightGBM's own log loss on the breast cancer data, for comparison.

X, y = load_breast_cancer(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
common = {"learning_rate": 0.5, "num_leaves": 8, "verbosity": -1}

stock = lgb.train({**common, "objective": "binary"}, lgb.Dataset(X_train, y_train), 100)
p = stock.predict(X_test)
print(f"log loss: accuracy {accuracy_score(y_test, p > 0.5):.3f}, AUC {roc_auc_score(y_test, p):.3f}")

# %%
# The M-loss is passed as the objective.  The raw score of the model goes through the inverse link to become a
# probability.

_, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for alpha in ALPHAS:
    loss, values = lgb_dp.MLoss(alpha), {}
    train = lgb.Dataset(X_train, y_train)
    booster = lgb.train(
        {**common, "objective": loss},
        train,
        100,
        feval=loss.metric,
        valid_sets=[train.create_valid(X_test, y_test)],
        callbacks=[lgb.record_evaluation(values)],
    )
    p = loss.inverse_link(booster.predict(X_test))
    accuracy, auc = accuracy_score(y_test, p > 0.5), roc_auc_score(y_test, p)
    print(f"M-loss, α = {alpha}: accuracy {accuracy:.3f}, AUC {auc:.3f}")
    ax.plot(values["valid_0"]["m_loss"], label=f"α = {alpha}")
ax.set(xlabel="iteration", ylabel="surrogate loss on test rows")
ax.legend(frameon=False)
plt.show()
