"""Draw who sees what in vertical federated training, and in private training with columns apart.

Run ``python docs/pictures/who_sees_what.py`` after a protocol has changed.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

HERE = Path(__file__).parent
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


def _axes() -> tuple[plt.Figure, Axes]:
    figure, axes = plt.subplots(figsize=(9.2, 5.4))
    axes.set(xlim=(0, 12), ylim=(0.3, 7.2))
    axes.axis("off")
    return figure, axes


def vertical() -> plt.Figure:
    """The active party, a passive one, and what travels between them."""
    figure, axes = _axes()
    own = ["labels", "its columns", "secret key", "gradients", "gains", "leaf values"]
    _party(axes, 0.2, "active party", OURS, own)
    theirs = ["its columns", "its thresholds", "values of rows", "its splits"]
    _party(axes, 8.8, "passive party", THEIRS, theirs)
    _arrow(axes, 5.7, True, "gradients of every row", "ciphertexts")
    _arrow(axes, 4.35, False, "sums of the bins of a level", "fresh ciphertexts; row counts in clear")
    _arrow(axes, 3.0, True, "chosen candidates, assignments", "clear: which rows go left")
    _arrow(axes, 1.65, False, "which rows go left at its splits", "clear: one bit per row of the node")
    return figure


def columns_apart() -> plt.Figure:
    """Two parties of a private model, and the four flights of a round."""
    figure, axes = _axes()
    own = ["labels", "its columns", "its part of scores", "gradients", "its noise"]
    _party(axes, 0.2, "has the labels", OURS, own)
    theirs = ["its columns", "its part of scores", "its leaves of rows", "its noise"]
    _party(axes, 8.8, "columns alone", THEIRS, theirs)
    _arrow(axes, 5.7, False, "choices: a point and leaves per row", "masked: looks like random bits")
    _arrow(axes, 4.35, True, "gradients at 16 points per row", "masked: one of 16 opens, to a random share")
    _arrow(axes, 3.0, False, "shares of its sums, and its noise", "masked")
    _arrow(axes, 1.65, True, "shares of sums, and its noise", "together: noised sums of leaves, for both")
    return figure


def main() -> None:
    """Draw the pictures beside this script."""
    for name, figure in (("who-sees-what", vertical()), ("columns-apart", columns_apart())):
        plt.rcParams["svg.hashsalt"] = "veilboost"
        figure.savefig(HERE / f"{name}.svg", metadata={"Date": None}, facecolor="white", bbox_inches="tight")


if __name__ == "__main__":
    main()
