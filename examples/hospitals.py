"""
Three hospitals, one private model
==================================

Three hospitals have measured the same thirty features of tumours, each of its own patients.  None of them may
show its rows to anybody, and even a model may tell little about a single patient.
:mod:`lgb_dp.federated` trains one model on all rows: every hospital adds a share of the noise to its sums and
masks them, so that nobody sees anything but the noised sum over all hospitals.
"""

# %%
# The data
# --------
#
# The rows come with scikit-learn, and are dealt to the hospitals at random.  The bounds of the columns are
# public knowledge; here they are round numbers above what such measurements can be.

import tempfile
from pathlib import Path

import lightgbm as lgb
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import lgb_dp
import xgb_fed
from lgb_dp import federated

EPSILON, DELTA, N_ROUNDS = 2.0, 1e-4, 200
PARAMS = {"objective": "binary", "verbosity": -1, "num_threads": 1}

X, y = load_breast_cancer(return_X_y=True)
high = 10.0 ** np.ceil(np.log10(X.max(axis=0)))
DECLARED = {"bounds": (np.zeros(30), high), "max_bin": 32, "spacing": "mixed"}
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)
hospital_of_row = np.random.default_rng(0).integers(3, size=len(y_train))


def auc(booster: lgb.Booster) -> float:
    """Area under the ROC curve of the test rows."""
    return float(roc_auc_score(y_test, booster.predict(X_test)))


def private(X: np.ndarray, y: np.ndarray) -> lgb.Booster:
    """NewtonBoost on rows that are in one place."""
    data = lgb_dp.Dataset(X, y, **DECLARED)
    return lgb.train(PARAMS, data, N_ROUNDS, callbacks=[lgb_dp.NewtonBoost(EPSILON, DELTA)])


# %%
# Together
# --------
#
# Every hospital keeps a folder with its ledger: what it has answered, and what that has cost, over all runs.
# It charges before it answers, and refuses beyond its budget.  In production each hospital is a process of
# its own behind a server; here they are objects.

with tempfile.TemporaryDirectory() as folder:
    hospitals = [
        federated.Party(
            X_train[hospital_of_row == number],
            y_train[hospital_of_row == number],
            name=name,
            folder=Path(folder) / name,
            min_parties=3,
            **DECLARED,
        )
        for number, name in enumerate(("north", "south", "west"))
    ]
    together = federated.train(
        PARAMS, hospitals, N_ROUNDS, callbacks=[lgb_dp.NewtonBoost(EPSILON, DELTA)], min_parties=3
    )
    print(together.privacy)
    north = federated.read_ledger(Path(folder) / "north")
    print(f"north has answered {sum(row['answers'] for row in north.rows)} times")
    for hospital in hospitals:
        hospital.close()

# %%
# The model is a native LightGBM booster with its guarantee inside.
#
# Alone, together, pooled
# -----------------------
#
# Alone, a hospital pays for privacy with a third of the rows.  Pooled rows with the same budget are what
# training together comes close to: the noise that each hospital adds for fear of one other makes the
# difference.  Without privacy, stock LightGBM shows what is in the data.

alone = [private(X_train[hospital_of_row == n], y_train[hospital_of_row == n]) for n in range(3)]
print("AUC alone:            ", " ".join(f"{auc(booster):.3f}" for booster in alone))
print(f"AUC together, private: {auc(together):.3f}")
print(f"AUC pooled, private:   {auc(private(X_train, y_train)):.3f}")
print(f"AUC pooled, stock:     {auc(lgb.train(PARAMS, lgb.Dataset(X_train, y_train), 50)):.3f}")

# %%
# Exact instead of private
# ------------------------
#
# If the hospitals may know sums over all of them, they can train XGBoost's own trees on the same rows,
# without noise.  Nobody sees another's rows, but exact sums can be read closely:
# :doc:`the guide </horizontal-exact>` says what they tell.

rows = [(X_train[hospital_of_row == n], y_train[hospital_of_row == n]) for n in range(3)]
exact = xgb_fed.HorizontalXGBClassifier(50, max_depth=4, learning_rate=0.1, max_bin=32, min_parties=3)
exact.fit(parties=rows)
print(f"AUC together, exact:   {roc_auc_score(y_test, exact.predict_proba(X_test)[:, 1]):.3f}")
