"""Two hospitals with the same measurements of different patients train one XGBoost model together.

One treats mostly malignant tumours, the other mostly benign ones, so that neither knows what the other sees.
"""

import tempfile
from pathlib import Path

import numpy as np
import xgboost
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import xgb_fed

ROUNDS = 100
PARAMS = {"objective": "binary:logistic", "max_depth": 4, "learning_rate": 0.1}
DRAWS = 10


def main():
    X, y = load_breast_cancer(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)

    random = np.random.default_rng(0)
    first = random.random(len(y)) < np.where(y == 0, 0.9, 0.1)
    hospitals = [(X[rows], y[rows]) for rows in (first, ~first)]
    for name, (_, labels) in zip("AB", hospitals, strict=True):
        print(f"hospital {name}: {len(labels)} patients, {np.mean(labels == 0):.0%} malignant")

    def error(booster):
        return np.mean((booster.predict(xgboost.DMatrix(X_test)) > 0.5) != y_test)

    print("\ntest error")
    for name, booster in zip("AB", xgb_fed.train_solo(PARAMS, hospitals, ROUNDS), strict=True):
        print(f"  SOLO, hospital {name}:     {error(booster):.1%}")
    draws = [
        error(xgb_fed.train_simfl(PARAMS, hospitals, ROUNDS, hash_seed=k, verbose_eval=False).booster)
        for k in range(DRAWS)
    ]
    print(f"  SimFL, {DRAWS} hash draws:  {np.mean(draws):.1%} ({min(draws):.1%} to {max(draws):.1%})")
    print(f"  ALL-IN, pooled rows:  {error(xgb_fed.train_all_in(PARAMS, hospitals, ROUNDS)):.1%}")

    model = xgb_fed.HorizontalXGBClassifier(ROUNDS, max_depth=4, learning_rate=0.1)
    model.fit(parties=hospitals)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.json")
        model.save_model(path)
        stock = xgboost.XGBClassifier()
        stock.load_model(path)
        same = np.allclose(stock.predict_proba(X_test), model.predict_proba(X_test))
    print(f"\nnative model saved, loaded by stock xgboost: same predictions: {same}")

    print("\nwhat left each hospital (all of it in clear):")
    print(model.traffic_)


if __name__ == "__main__":
    main()
