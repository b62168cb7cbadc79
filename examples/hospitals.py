"""
Rows apart, private: three hospitals, one model
===============================================

Three hospitals have the same measurements, each of its own patients, and even a model may tell little about
a single patient.  :mod:`lgb_dp.federated` trains one model on all rows: every hospital adds a share of the
noise to its sums and masks them, so that only the noised sum over all can be read.
"""

# %%
# The rows are generated, and dealt to the hospitals at random.  Bounds of the columns are public knowledge.

import lightgbm as lgb
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import lgb_dp
from lgb_dp import federated

PARAMS = {"objective": "binary", "verbosity": -1, "num_threads": 1}
PUBLIC = {"bounds": (-8, 8), "max_bin": 255, "spacing": "mixed"}
X, y = make_classification(12_000, 10, n_informative=6, class_sep=0.8, random_state=1)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
hospital_of_row = np.random.default_rng(0).integers(3, size=len(y))
rows_of = {name: hospital_of_row == k for k, name in enumerate(("north", "south", "west"))}

# %%
# Every hospital charges its ledger before it answers, and refuses beyond its budget.  In production each is a
# process of its own, with a folder that keeps the ledger; here they are objects.


def together(epsilon):
    three = [federated.Party(X[rows], y[rows], name=name, **PUBLIC) for name, rows in rows_of.items()]
    return federated.train(PARAMS, three, 200, callbacks=[lgb_dp.NewtonBoost(epsilon, 1e-4)], min_parties=3)


def alone(epsilon, rows):
    data = lgb_dp.Dataset(X[rows], y[rows], **PUBLIC)
    return lgb.train(PARAMS, data, 200, callbacks=[lgb_dp.NewtonBoost(epsilon, 1e-4)])


print(together(1.0).privacy)

# %%
# Alone, a hospital pays for privacy with a third of the rows.

aucs = {"together": {}, "each alone": {}}
for epsilon in (0.1, 0.3, 1.0):
    models = [together(epsilon) for _ in rows_of], [alone(epsilon, rows) for rows in rows_of.values()]
    for by_epsilon, boosters in zip(aucs.values(), models, strict=True):
        by_epsilon[epsilon] = [roc_auc_score(y_test, booster.predict(X_test)) for booster in boosters]
lgb_dp.plot_utility(aucs)
plt.show()
