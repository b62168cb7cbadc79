"""Draw the figures of the guides by training the models that they show.

Run ``python docs/pictures/measured.py [NAME ...]`` after the examples or the drawing have changed.  Noise is
drawn afresh, so that no two runs give the same file.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

import lgb_dp
from lgb_dp.accounting.plotting import plot_charges

HERE = Path(__file__).parent
WIDTH = 4.8
"""Inches: 460 units, in which the words can be read on a telephone."""


def example(name: str) -> dict[str, Any]:
    """The names of an example that ran; its figures are open."""
    plt.close("all")
    return runpy.run_path(str(HERE.parents[1] / "examples" / f"{name}.py"))


def epsilons() -> Figure:
    """Five models at each of three ε: the first figure of the walk."""
    example("recommended")
    figure = plt.figure(1)
    figure.set_size_inches(WIDTH, 2.7)
    return figure


def evaluation() -> Figure:
    """Curves of held-out rows: ROC, calibration and lift."""
    model = example("how_good")["model"]
    figure, axes = plt.subplots(3, 1, figsize=(WIDTH, 8.4), layout="constrained")
    model.evaluation_.plot(axes=axes)
    return figure


def noise_bands() -> Figure:
    """Effects with their bands."""
    model = example("explain_private")["model"]
    figure, axes = plt.subplots(3, 2, figsize=(WIDTH, 6.4), layout="constrained")
    lgb_dp.plot_effects(model, axes=axes)
    for ax in axes.flat:
        ax.set_ylabel("")
    figure.supylabel("effect on the raw score")
    return figure


def budget() -> Figure:
    """Twelve monthly models from one budget, as if a year had passed."""
    whole = lgb_dp.Budget(epsilon=2.0, delta=1e-5)
    share = whole.plan(12)
    random = np.random.default_rng(0)
    X = random.uniform(size=(2_000, 2))
    for _ in range(12):
        model = lgb_dp.DPLGBMClassifier(share.epsilon, delta=share.delta, n_estimators=10)
        model.fit(X, X[:, 0] > 0.5, bounds=(0, 1), classes=[False, True], budget=whole)
    figure, ax = plt.subplots(figsize=(WIDTH, 2.9), layout="constrained")
    charges = [{**row, "date": f"2025-{month:02}-01"} for month, row in enumerate(whole.charges, 1)]
    plot_charges(charges, whole.limit, title="ε = 2, δ = 1e-5: twelve models of ε = 0.51", ax=ax)
    ax.set_xlim(np.datetime64("2024-12-20"), np.datetime64("2026-01-01"))
    return figure


def bounds() -> Figure:
    """One column of incomes between bounds that are too narrow, that suit, and that are too wide."""
    random = np.random.default_rng(0)
    income = random.gamma(3, 20_000, (20_000, 1))
    unpaid = random.random(20_000) < 1 / (1 + income[:, 0] / 40_000)
    figure, axes = plt.subplots(3, 1, figsize=(WIDTH, 5.6), layout="constrained")
    choices = {"too narrow": 30_000, "fitting": 250_000, "too wide": 100_000_000}
    for ax, (name, high) in zip(axes, choices.items(), strict=True):
        model = lgb_dp.DPLGBMClassifier(epsilon=1.0, delta=1e-6)
        model.fit(income, unpaid, bounds=(0, high), classes=[False, True])
        lgb_dp.plot_bounds(model, axes=[ax])
        ax.set_title(f"{name}: (0, {high:,})")
    return figure


PICTURES: dict[str, Callable[[], Figure]] = {
    "bounds": bounds,
    "budget": budget,
    "epsilons": epsilons,
    "evaluation": evaluation,
    "noise-bands": noise_bands,
}
"""Each figure by the name of its file."""


def main() -> None:
    """Draw the figures beside this script."""
    plt.rcParams.update({"svg.fonttype": "none", "font.size": 9.5})
    for name in sys.argv[1:] or PICTURES:
        plt.rcParams["svg.hashsalt"] = name
        figure = PICTURES[name]()
        figure.savefig(HERE / f"{name}.svg", metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
