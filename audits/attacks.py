"""Attacks of `sacroml`, made for trusted research environments, on private, stock and federated models.

Worst case (a classifier on the model's outputs, with members and others at hand), LiRA (shadow models of the
same method), attribute inference, and structural checks.  Stock LightGBM and XGBoost show that the attacks
work on these rows: the worst case must find their members, as it must a planted fault.  A private model is
safe from these attacks as far as the AUC is near one half, and violates its claim above the AUC that its ε
allows.

    python -m audits.attacks --out out/audits/attacks.json
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import tempfile
import warnings
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

import lightgbm
import numpy as np
import xgboost
from scipy.stats import norm
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification

import lgb_dp
import xgb_fed
from audits.outcome import HONEST, MEASURED, PLANTED, Audit, Line, Piece, run
from gbdt_commons.statements.egress import FALSE_ALARMS, egress
from lgb_dp.accounting.gaussian import gaussian_mu

LIMITS = (
    "One data set, one model of each kind, few shadow models: these attacks are averages over rows, far from "
    "the worst row, and their AUC scatters. Structural checks look at outputs for the training rows, and "
    "know parameters of stock XGBoost only."
)
REPLACED = "true_positive_rate_at_most_replacing_one"
"""Of what `veilboost statement --egress` writes: members and others are as many in every world."""
N_ROUNDS, DEPTH, DELTA, N_PARTIES = 40, 4, 1e-5, 3
PARAMS = {"objective": "binary:logistic", "max_depth": DEPTH, "eta": 0.3, "nthread": 1, "base_score": 0.5}


class Private(ClassifierMixin, BaseEstimator):
    """`DPLGBMClassifier` with public bounds, so that it is fitted as others are.

    LiRA sets `random_state`, which is not used: seeded noise would protect nothing.
    """

    def __init__(self, epsilon: float = 1.0, random_state: int | None = None) -> None:
        self.epsilon, self.random_state = epsilon, random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> Private:
        model = lgb_dp.DPLGBMClassifier(
            epsilon=self.epsilon, delta=DELTA, n_estimators=N_ROUNDS, max_depth=DEPTH, n_jobs=1
        )
        self.model_ = model.fit(np.clip(X, -8, 8), y, bounds=(-8.0, 8.0))
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(self.model_.predict_proba(np.clip(X, -8, 8)))

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.predict_proba(X).argmax(axis=1)


class Federated(ClassifierMixin, BaseEstimator):
    """XGBoost over three parties, the rows dealt in turn.

    Parameters
    ----------
    method : {"exact", "simfl"}
    random_state : int, optional
        LiRA sets it; not used.
    """

    def __init__(self, method: str = "exact", random_state: int | None = None) -> None:
        self.method, self.random_state = method, random_state

    def fit(self, X: np.ndarray, y: np.ndarray) -> Federated:
        parties = [
            xgb_fed.HorizontalParty(
                X[k::N_PARTIES], y[k::N_PARTIES].astype(float), f"p{k}", categorical_labels=True
            )
            for k in range(N_PARTIES)
        ]
        train = xgb_fed.train_exact if self.method == "exact" else xgb_fed.train_simfl
        model = train(PARAMS, parties, N_ROUNDS, verbose_eval=False)
        self.booster_ = model if isinstance(model, xgboost.Booster) else model.booster
        self.classes_ = np.array([0, 1])
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        rows = xgboost.DMatrix(X, feature_names=self.booster_.feature_names)
        p = self.booster_.predict(rows)
        return np.column_stack([1 - p, p])

    def predict(self, X: np.ndarray) -> np.ndarray:
        return self.predict_proba(X).argmax(axis=1)


def models() -> dict[str, Any]:
    """Title to unfitted model."""
    # At LightGBM's own rate of 0.1, so few rounds do not learn 500 rows by heart.
    stock = {"n_estimators": N_ROUNDS, "max_depth": DEPTH, "learning_rate": 0.3, "n_jobs": 1}
    return {
        "stock LightGBM": lightgbm.LGBMClassifier(**stock, min_child_samples=1, verbosity=-1),
        **{f"DPLGBMClassifier, ε = {epsilon:g}": Private(epsilon) for epsilon in (1.0, 8.0, 100.0)},
        "stock XGBoost": xgboost.XGBClassifier(**stock),
        "exact, 3 parties": Federated("exact"),
        "SimFL, 3 parties": Federated("simfl"),
    }


def bound_of_auc(epsilon: float) -> float:
    """The largest AUC that an attack on members may have under the claim.

    Members and others are as many in every world, so that another row stands in for one that is left out: 2μ.
    Under that no trade-off of errors is below the Gaussian's, whose AUC is Φ(2μ/√2).
    """
    return float(norm.cdf(math.sqrt(2) * gaussian_mu(epsilon, DELTA)))


def bound_of_rate(entry: dict[str, Any], fpr: float, n: int) -> float:
    """The largest share of n members that an attack may find, wrong about that share of n others.

    By the entry for output checkers, and by 4 standard deviations and one row of chance in both shares.
    Rates grow no faster than shares of errors, so that each of the entry's points bounds the rate.
    """
    errors = fpr + 4 * math.sqrt(fpr / n) + 1 / n
    rate = min(1.0, *(rate * max(errors / float(at), 1.0) for at, rate in entry[REPLACED].items()))
    return rate + 4 * math.sqrt(rate / n) + 1 / n


def highest_rate(fprs: Any, tprs: Any, fpr: float) -> float:
    """The share of members found by the last threshold that is wrong about no larger share of others."""
    return float(np.max(np.asarray(tprs)[np.asarray(fprs) <= fpr]))


def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy rows, which a model that is not private learns by heart."""
    X, y = make_classification(n, 10, n_informative=5, flip_y=0.2, random_state=3)
    return X, y


def attacked(title: str, model: Any, n: int, n_shadow: int) -> dict[str, Any]:
    """AUC of the worst case and of LiRA, gain of attribute inference, and structural risks."""
    target_module = import_module("sacroml.attacks.target")
    X, y = rows(2 * n)
    fitted = model.fit(X[:n], y[:n])
    target = target_module.Target(
        model=fitted,
        dataset_name="generated",
        X_train=X[:n],
        y_train=y[:n],
        X_test=X[n:],
        y_test=y[n:],
        X_train_orig=X[:n],
        y_train_orig=y[:n],
        X_test_orig=X[n:],
        y_test_orig=y[n:],
        proba_train=fitted.predict_proba(X[:n]),
        proba_test=fitted.predict_proba(X[n:]),
    )
    for f in range(2):
        target.add_feature(f"column {f}", [f], "float")

    entry, is_kept = None, True
    if isinstance(fitted, Private):
        entry = egress(lgb_dp.statement(fitted.model_))
        target.add_safemodel_results([entry])
        with tempfile.TemporaryDirectory() as folder, quiet():
            target.save(folder, "pkl")
            (kept := target_module.Target()).load(folder)
            is_kept = kept.safemodel == [entry]

    def run(module: str, name: str, **settings: Any) -> dict[str, Any]:
        attack = getattr(import_module(f"sacroml.attacks.{module}"), name)
        with tempfile.TemporaryDirectory() as folder, quiet():
            found = attack(output_dir=folder, write_report=False, **settings).attack(target)
        logger: dict[str, Any] = found["attack_experiment_logger"]["attack_instance_logger"]
        return logger

    worst = run("worst_case_attack", "WorstCaseAttack", n_reps=5, n_dummy_reps=0)
    lira = run("likelihood_attack", "LIRAAttack", n_shadow_models=n_shadow, mode="offline-carlini")
    attribute = run("attribute_attack", "AttributeAttack", n_cpu=1)["instance_0"]
    structure = run("structural_attack", "StructuralAttack")["instance_0"]
    inferred = attribute["quantitative"]
    return {
        "entry": entry,
        "entry is kept": is_kept,
        "LiRA, curve": (lira["instance_0"]["fpr"], lira["instance_0"]["tpr"]),
        "worst case": float(np.mean([one["AUC"] for one in worst.values()])),
        "LiRA": float(lira["instance_0"]["AUC"]),
        "attribute, members": float(np.mean([one["train"] for one in inferred])) if inferred else None,
        "attribute, others": float(np.mean([one["test"] for one in inferred])) if inferred else None,
        "structural risks": [name for name, value in structure.items() if value is True or value == "True"],
    }


@contextlib.contextmanager
def quiet() -> Any:
    """Without the attacks' logs and progress on the screen."""
    logging.disable(logging.CRITICAL)
    with (
        open(os.devnull, "w") as nowhere,
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
    ):
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def with_sacroml(name: str, title: str, n: int, n_shadow: int) -> Iterator[Line]:
    """Lines of one model, with n members and n others."""
    warnings.simplefilter("ignore")
    model = models()[title]
    seen = attacked(title, model, n, n_shadow)
    claim = bound_of_auc(model.epsilon) if isinstance(model, Private) else None
    # An AUC of n members and n others scatters by at most 1 / sqrt(6 n) if the attack guesses.
    scatter = 4 / math.sqrt(6 * n)
    for attack in ("worst case", "LiRA"):
        auc, text = seen[attack], f"AUC {seen[attack]:.3f}"
        if claim is not None:
            yield Line(name, title, attack, auc > claim + scatter, f"{text}, allowed {claim:.3f}", HONEST)
        elif title.startswith("stock") and attack == "worst case":
            yield Line(name, title, attack, auc > 0.5 + scatter, text, PLANTED)
        else:
            yield Line(name, title, attack, False, text, MEASURED)
    if entry := seen["entry"]:
        yield Line(
            name, title, "entry for output checkers", not seen["entry is kept"], entry["recommendation"]
        )
        for fpr, found in ((at, highest_rate(*seen["LiRA, curve"], at)) for at in FALSE_ALARMS):
            allowed = entry[REPLACED][f"{fpr:g}"]
            text = f"{found:.3f} found, {allowed:.3f} allowed"
            yield Line(name, title, f"LiRA, at {fpr:g} wrong", found > bound_of_rate(entry, fpr, n), text)
    if seen["attribute, members"] is not None:
        members, others = seen["attribute, members"], seen["attribute, others"]
        text = f"{members:.3f} of members at risk, {others:.3f} of others"
        yield Line(name, title, "attribute inference", False, text, MEASURED)
    risks = ", ".join(seen["structural risks"]) or "none"
    yield Line(name, title, "structural", False, risks, MEASURED)


def pieces(audit: Audit, quick: bool) -> list[Piece]:
    n, n_shadow = (150, 8) if quick else (500, 50)
    if not ((found := audit.package("sacroml")) and audit.package("torch")):
        return []
    return [partial(with_sacroml, found[1], title, n, n_shadow) for title in models()]


if __name__ == "__main__":
    run("attacks of sacroml", LIMITS, __doc__, pieces)
