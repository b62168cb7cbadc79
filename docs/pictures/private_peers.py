"""Draw test AUC against ε for NewtonBoost and every peer, from the published table.

Run ``python docs/pictures/private_peers.py`` after the table has changed.
"""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

HERE = Path(__file__).parent
PICTURE = HERE / "private-peers.svg"
OURS, NOT_PRIVATE = "NewtonBoost", "LightGBM"
PEERS = {
    "DP logistic regression": ("#0072B2", "<"),
    "DP perceptron": ("#5D3A9B", ">"),
    "DP-EBM": ("#E69F00", "s"),
    "DPBoost": ("#009E73", "^"),
    "MBoost": ("#CC79A7", "v"),
    "dp-xgboost": ("#56B4E9", "D"),
    "OpenDP forest": ("#8C6D31", "P"),
    "diffprivlib RF": ("#999999", "X"),
    "DPBoost (paper)": ("#B2DF8A", "o"),
}
"""Every private learner but ours: colour and marker, in the order of the legend."""

Table = dict[str, dict[float, dict[str, float]]]
"""Mean score by data set, ε and learner."""


def table_file() -> Path:
    """The published table of scores."""
    return HERE.parent / "experiments" / "data" / "private-peers-scores.csv"


def read_scores(text: str) -> Table:
    """Read mean scores from the table; spreads and absent learners are left out."""
    header, *body = csv.reader(text.splitlines())
    scores: Table = {}
    for data, epsilon, *cells in body:
        means = {
            learner: float(cell.split("±")[0])
            for learner, cell in zip(header[2:], cells, strict=True)
            if cell != "-"
        }
        scores.setdefault(data, {})[float(epsilon)] = means
    return scores


def classification_sets(scores: Table) -> list[str]:
    """Data sets whose score is an AUC: all others have negative scores, which are errors."""
    return [data for data, rows in scores.items() if min(row[OURS] for row in rows.values()) > 0]


def _draw_panel(axes: Axes, rows: dict[float, dict[str, float]]) -> None:
    epsilons = list(rows)

    def line(learner: str) -> list[float]:
        return [rows[epsilon][learner] for epsilon in epsilons]

    axes.plot(epsilons, line(NOT_PRIVATE), "--", color="#333333", lw=1.3, label="LightGBM, not private")
    for learner, (color, marker) in PEERS.items():
        axes.plot(epsilons, line(learner), color=color, marker=marker, ms=4, lw=1.2, label=learner)
    axes.plot(epsilons, line(OURS), color="#D40000", marker="o", ms=5.5, lw=2.6, label=OURS, zorder=5)


def draw(scores: Table) -> Figure:
    """One panel per classification data set."""
    names = classification_sets(scores)
    figure, grid = plt.subplots(
        (len(names) + 1) // 2, 2, figsize=(5.6, 8.2), sharex=True, sharey=True, layout="constrained"
    )
    for axes, name in zip(grid.flat, names, strict=True):
        _draw_panel(axes, scores[name])
        axes.set_title(name, fontsize=12, fontweight="bold")
        axes.set(xscale="log", ylim=(0.42, 1.0))
        axes.set_xticks([0.05, 0.1, 0.5, 1, 4], ["0.05", "0.1", "0.5", "1", "4"])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.tick_params(labelsize=10.5)
        axes.grid(color="#DDDDDD", lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("ε (log scale); δ = 1e-5", fontsize=12)
    figure.supylabel("test AUC", fontsize=12)
    handles, labels = grid.flat[0].get_legend_handles_labels()
    order = [len(labels) - 1, *range(len(labels) - 1)]
    figure.legend(
        [handles[k] for k in order],
        [labels[k] for k in order],
        loc="outside upper center",
        ncols=2,
        fontsize=11,
        frameon=False,
    )
    return figure


def digest(text: str) -> str:
    """What ties a picture to the table it was drawn from; it stands in the picture's description."""
    return hashlib.sha256(repr(read_scores(text)).encode()).hexdigest()


def main() -> None:
    """Draw the picture beside this script."""
    text = table_file().read_text(encoding="utf-8")
    plt.rcParams.update({"svg.hashsalt": "veilboost", "svg.fonttype": "none"})
    figure = draw(read_scores(text))
    metadata = {"Date": None, "Description": f"table {digest(text)}"}
    figure.savefig(PICTURE, metadata=metadata, facecolor="white")


if __name__ == "__main__":
    main()
