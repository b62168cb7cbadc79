"""The M-loss as an objective of stock LightGBM, no privacy involved, and a plot of it.

α mixes Matsushita's loss (α = 1, fast boosting) with the 0/1 loss (α → 0,
cheap under privacy).  The model's raw score goes through the inverse link to
become a probability.
"""

from pathlib import Path

import lightgbm as lgb
import matplotlib
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.model_selection import train_test_split

import lgb_dp

matplotlib.use("Agg")
import matplotlib.pyplot as plt

ALPHAS = (0.1, 0.5, 1.0)
PLOT = Path("out") / "m_loss.png"


def main():
    X, y = load_breast_cancer(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=0)
    common = {"learning_rate": 0.5, "num_leaves": 8, "verbosity": -1}

    stock = lgb.train({**common, "objective": "binary"}, lgb.Dataset(X_train, y_train), 100)
    p = stock.predict(X_test)
    print(
        f"log loss:     accuracy {accuracy_score(y_test, p > 0.5):.3f}   AUC {roc_auc_score(y_test, p):.3f}"
    )

    figure, (risk, history) = plt.subplots(1, 2, figsize=(10, 4))
    u = np.linspace(0, 1, 501)
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
        print(
            f"M-loss, {alpha:<4}: accuracy {accuracy_score(y_test, p > 0.5):.3f}   "
            f"AUC {roc_auc_score(y_test, p):.3f}"
        )
        risk.plot(u, loss.bayes_risk(u), label=f"α = {alpha}")
        history.plot(values["valid_0"]["m_loss"], label=f"α = {alpha}")
    risk.set(xlabel="probability of the positive class", ylabel="Bayes risk")
    history.set(xlabel="iteration", ylabel="surrogate on test rows")
    history.legend()
    figure.tight_layout()
    PLOT.parent.mkdir(exist_ok=True)
    figure.savefig(PLOT, dpi=110)
    print(f"\nplot saved to {PLOT}")


if __name__ == "__main__":
    main()
