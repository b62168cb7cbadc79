"""
Columns apart: XGBoost's trees under encryption
===============================================

A clinic has the diagnoses of its patients and some columns; a laboratory has other columns of the same
patients.  They train an XGBoost model together, and neither sees the columns of the other.
"""

# %%
# The rows are the breast cancer data that scikit-learn bundles.  A :class:`xgb_fed.LocalParty` lives in this
# process, but it exchanges bytes as a remote party does.

import matplotlib.pyplot as plt
import pandas as pd
import xgboost as xgb
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import xgb_fed

SETTINGS = {"n_estimators": 3, "max_depth": 3, "max_bin": 16, "learning_rate": 0.5, "base_score": 0.5}
X, y = load_breast_cancer(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
clinic, laboratory = list(X.columns[:10]), list(X.columns[10:])
party = xgb_fed.LocalParty(X_train[laboratory], name="laboratory", allow_export=True)
model = xgb_fed.VerticalXGBClassifier(**SETTINGS, cipher=xgb_fed.OkamotoUchiyama())
model.fit(X_train[clinic], y_train, parties=[party])

# %%
# Prediction asks the laboratory too, since it holds the thresholds of its own splits.

together = model.predict_proba(X_test[clinic], parties=[party.with_rows(X_test[laboratory])])[:, 1]
alone = xgb.XGBClassifier(**SETTINGS).fit(X_train[clinic], y_train).predict_proba(X_test[clinic])[:, 1]
print(
    f"test AUC: clinic alone {roc_auc_score(y_test, alone):.4f}, both {roc_auc_score(y_test, together):.4f}"
)

# %%
# What left whom: ciphertexts, and in clear text counts and which rows go which way.

_, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for content, flows in pd.DataFrame(model.traffic_.to_dicts()).groupby("content"):
    ax.barh(flows["from"] + ": " + flows["message"], flows["bytes"] / 1000, label=content)
ax.set(xlabel="kB", xscale="log")
ax.legend(frameon=False)
plt.show()

# %%
# The laboratory consented to export, so the clinic can put together a native booster: every split is that of
# stock XGBoost on the pooled columns.

booster = model.export_booster()
pooled = xgb.XGBClassifier(**SETTINGS, tree_method="hist").fit(X_train, y_train).get_booster()
columns = ["Tree", "Node", "Feature", "Split", "Yes", "No", "Missing"]
if not booster.trees_to_dataframe()[columns].equals(pooled.trees_to_dataframe()[columns]):
    raise SystemExit("DIFFERENT from pooled XGBoost")
print("identical to pooled XGBoost")
