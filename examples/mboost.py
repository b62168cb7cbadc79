"""MBoost: private trees by the M-loss with objective calibration, against the paper's random forests.

Few and shallow trees are what a small budget affords; a tree of depth 3 can be read.
"""

from pathlib import Path

import lightgbm as lgb
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import lgb_dp

# What anybody may know of such measurements before seeing a patient.
BOUNDS = {
    "mean radius": (5, 30),
    "mean texture": (5, 40),
    "mean perimeter": (40, 190),
    "mean area": (100, 2500),
    "mean smoothness": (0.05, 0.17),
    "mean compactness": (0, 0.35),
    "mean concavity": (0, 0.45),
    "mean concave points": (0, 0.2),
}
PARAMS = {"objective": "binary", "learning_rate": 0.5, "max_depth": 3, "verbosity": -1}
N_REPEATS = 10
MODEL = Path("out") / "mboost_model.txt"


def main():
    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X_train, X_test, y_train, y_test = train_test_split(X[list(BOUNDS)], y, test_size=0.3, random_state=0)
    train = lgb_dp.Dataset(X_train, label=y_train, bounds=BOUNDS, max_bin=10)

    def accuracy(trainer, n_trees):
        """Mean over trainings, since every one draws its own noise."""
        boosters = [lgb.train(PARAMS, train, n_trees, callbacks=[trainer]) for _ in range(N_REPEATS)]
        return sum(((b.predict(X_test) > 0.5) == y_test).mean() for b in boosters) / N_REPEATS

    print(f"{len(X_train)} patients to train on; test accuracy, mean of {N_REPEATS} trainings\n")
    print(f"{'majority class':<42} {max(y_test.mean(), 1 - y_test.mean()):.3f}")
    print(f"{'MBoost without privacy, 5 trees':<42} {accuracy(lgb_dp.MBoost(float('inf')), 5):.3f}")
    for epsilon in (4.0, 1.0, 0.3):
        print(f"\nepsilon = {epsilon:g}")
        for alpha in ("calibrated", 0.1, 1.0):
            trainer = lgb_dp.MBoost(epsilon, alpha=alpha)
            print(f"{f'  MBoost, alpha = {alpha}, 1 tree':<42} {accuracy(trainer, 1):.3f}")
        for forest in (lgb_dp.RandomForestLaplace, lgb_dp.RandomForestExponential):
            print(f"{f'  {forest.__name__}, 21 trees':<42} {accuracy(forest(epsilon), 21):.3f}")

    booster = lgb.train(PARAMS, train, 2, callbacks=[lgb_dp.MBoost(1.0, weight_share=0.1)])
    print(f"\n{booster.privacy}")
    MODEL.parent.mkdir(exist_ok=True)
    booster.save_model(MODEL)
    print(f"\nmodel saved to {MODEL}; guarantee in the file: epsilon = {lgb_dp.privacy_of(MODEL).epsilon:g}")


if __name__ == "__main__":
    main()
