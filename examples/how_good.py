"""
How good is a private model?
============================

Metrics on private rows cost privacy that no report counts.  With ``validation_fraction``, a share of the rows
is held out of training, and one noisy table of them is released after the last tree.  A row is on one side
or the other, so that both together cost no more than the training alone.
"""

# %%
# Hold out a tenth
# ----------------
#
# The rows are generated, and the bounds of the columns are public knowledge.

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import lgb_dp

X, y = make_classification(45_000, 12, n_informative=6, weights=[0.8], class_sep=0.8, random_state=1)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=15_000, random_state=1)

model = lgb_dp.DPLGBMClassifier(epsilon=1.0, delta=1e-6, validation_fraction=0.1)
model.fit(X_train, y_train, bounds=(-8, 8))
print(model.evaluation_)

# %%
# The intervals cover the drawing of the held-out rows and the noise.  Rows that are kept apart
# here, to compare, agree:

print(f"AUC of {len(y_test)} other rows: {roc_auc_score(y_test, model.predict_proba(X_test)[:, 1]):.4f}")

# %%
# Curves
# ------

model.evaluation_.plot()
plt.show()

# %%
# The price
# ---------
#
# The guarantee is that of the same model without an evaluation: the table is on a line of its own, of rows
# that are disjoint from those of the trees.  The model has a tenth fewer rows to learn from.

print(model.privacy_)

# %%
# Against ε
# ---------
#
# Every further fit on these rows costs its ε, so a budget pays for all of them.  Rows that are public would
# cost nothing: they need ``public=True`` in its place.

budget = lgb_dp.Budget(3.0, 1e-6)
lgb_dp.plot_utility(model, X_train, y_train, epsilons=(0.3, 1.0, 2.0), budget=budget, bounds=(-8, 8))
plt.show()
print(budget)
