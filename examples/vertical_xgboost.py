"""A clinic and a laboratory train XGBoost together: the clinic has the diagnosis, both have columns.

Trains on the breast cancer data that scikit-learn bundles, its columns shared out between two parties, under
Okamoto–Uchiyama encryption; compares with XGBoost on the pooled columns tree by tree; prints what left whom.
"""

import json
import time
from pathlib import Path

import numpy as np
import xgboost as xgb
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import xgb_fed

SETTINGS = {"n_estimators": 3, "max_depth": 3, "max_bin": 16, "learning_rate": 0.5}
FOLDER = Path("out") / "vertical_model"


def structure(booster):
    """Every tree's columns, thresholds, directions and leaves, from XGBoost's own text."""
    return [json.loads(tree) for tree in booster.get_dump(dump_format="json")]


def equal(ours, theirs):
    """Whether two nodes and all below them are the same, leaves to 1e-6."""
    if "leaf" in ours or "leaf" in theirs:
        return "leaf" in ours and "leaf" in theirs and np.isclose(ours["leaf"], theirs["leaf"], rtol=1e-6)
    same = all(ours[key] == theirs[key] for key in ("split", "split_condition", "yes", "no", "missing"))
    return same and all(equal(a, b) for a, b in zip(ours["children"], theirs["children"], strict=True))


def main():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    clinic, laboratory = list(X.columns[:10]), list(X.columns[10:])

    party = xgb_fed.LocalParty(X_train[laboratory], name="laboratory", allow_export=True)
    model = xgb_fed.VerticalXGBClassifier(**SETTINGS, cipher=xgb_fed.OkamotoUchiyama())
    begin = time.perf_counter()
    model.fit(X_train[clinic], y_train, parties=[party])
    print(f"trained {SETTINGS['n_estimators']} trees on {len(X_train)} patients", end=" ")
    print(f"in {time.perf_counter() - begin:.1f} s, 2048-bit keys\n")
    print("What left whom:")
    print(model.traffic_)

    test_party = party.with_rows(X_test[laboratory])
    federated = model.predict_proba(X_test[clinic], parties=[test_party])[:, 1]
    alone = xgb.XGBClassifier(**SETTINGS).fit(X_train[clinic], y_train).predict_proba(X_test[clinic])[:, 1]
    print(f"\ntest AUC: the clinic alone {roc_auc_score(y_test, alone):.4f}", end=", ")
    print(f"together {roc_auc_score(y_test, federated):.4f}")

    data = xgb.QuantileDMatrix(X_train, label=y_train, max_bin=SETTINGS["max_bin"])
    params = {"objective": "binary:logistic", "max_depth": 3, "learning_rate": 0.5, "max_bin": 16}
    pooled = xgb.train(params, data, SETTINGS["n_estimators"])
    booster = model.export_booster()  # the laboratory consents
    same = [equal(a, b) for a, b in zip(structure(booster), structure(pooled), strict=True)]
    print("identical to pooled XGBoost" if all(same) else f"DIFFERENT from pooled XGBoost: {same}")
    if not all(same):
        raise SystemExit(1)

    model.save_model(FOLDER / "clinic")
    party.save_model(FOLDER / "laboratory")
    booster.save_model(FOLDER / "pooled.json")
    print(f"saved: both shares and the native model, in {FOLDER}")


if __name__ == "__main__":
    main()
