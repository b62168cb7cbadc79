"""Draw who sees what in vertical federated training.

Run ``python docs/pictures/who_sees_what.py`` after the protocol has changed.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

PICTURE = Path(__file__).parent / "who-sees-what.svg"
INK, QUIET, OURS, THEIRS = "#222222", "#666666", "#FBE3E0", "#E0ECFB"


def _party(axes: Axes, left: float, title: str, color: str, stays: list[str]) -> None:
    box = FancyBboxPatch((left, 0.6), 3.0, 6.2, boxstyle="round,pad=0.12", fc=color, ec=INK, lw=1.2)
    axes.add_patch(box)
    axes.text(left + 1.5, 6.35, title, ha="center", va="center", fontsize=13, fontweight="bold", color=INK)
    axes.text(left + 0.1, 5.6, "stays here", fontsize=10, color=QUIET, va="center")
    for k, line in enumerate(stays):
        axes.text(left + 0.2, 5.05 - 0.62 * k, "• " + line, fontsize=11, color=INK, va="center")


def _arrow(axes: Axes, height: float, to_right: bool, what: str, how: str) -> None:
    ends = ((3.35, height), (8.65, height)) if to_right else ((8.65, height), (3.35, height))
    axes.add_patch(FancyArrowPatch(*ends, arrowstyle="-|>", mutation_scale=16, lw=1.6, color=INK))
    axes.text(6.0, height + 0.13, what, ha="center", va="bottom", fontsize=11.5, color=INK)
    axes.text(6.0, height - 0.13, how, ha="center", va="top", fontsize=10, color=QUIET, style="italic")


def draw() -> plt.Figure:
    """The active party, a passive one, and what travels between them."""
    figure, axes = plt.subplots(figsize=(9.2, 5.4))
    axes.set(xlim=(0, 12), ylim=(0.3, 7.2))
    axes.axis("off")
    own = ["labels", "its columns", "secret key", "gradients", "gains", "leaf values"]
    _party(axes, 0.2, "active party", OURS, own)
    theirs = ["its columns", "its thresholds", "values of rows", "its splits"]
    _party(axes, 8.8, "passive party", THEIRS, theirs)
    _arrow(axes, 5.7, True, "gradients of every row", "ciphertexts")
    _arrow(axes, 4.35, False, "sums of the bins of a level", "fresh ciphertexts; row counts in clear")
    _arrow(axes, 3.0, True, "chosen candidates, assignments", "clear: which rows go left")
    _arrow(axes, 1.65, False, "which rows go left at its splits", "clear: one bit per row of the node")
    return figure


def main() -> None:
    """Draw the picture beside this script."""
    plt.rcParams["svg.hashsalt"] = "veilboost"
    draw().savefig(PICTURE, metadata={"Date": None}, facecolor="white", bbox_inches="tight")


if __name__ == "__main__":
    main()
