"""Draw the diagrams of the guides: who holds what, and what travels.

Run ``python docs/pictures/diagrams.py`` after a protocol has changed; a test compares the files.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from drawing import INK, OURS, QUIET, RISK, SAFE, SHARED, THEIRS, Drawing, exchange

HERE = Path(__file__).parent


def who_sees_what() -> Drawing:
    """The active party of vertical training, a passive one, and what travels between them."""
    return exchange(
        "Columns apart: what stays and what travels",
        ("active party", ["labels", "its columns", "secret key", "gradients", "gains", "leaf values"]),
        ("passive party", ["its columns", "its thresholds", "values of rows"]),
        [
            (True, "gradients of every row", "ciphertexts"),
            (False, "sums of all bins", "ciphertexts; counts in clear"),
            (True, "candidates, sides of rows", "clear"),
            (False, "sides of rows at its splits", "clear: one bit per row"),
        ],
    )


def columns_apart() -> Drawing:
    """Two parties of a private model, and the four flights of a round."""
    return exchange(
        "Columns apart, private: the flights of a round",
        ("with labels", ["its columns", "its scores", "gradients", "its noise"]),
        ("columns alone", ["its columns", "its scores", "leaves of rows", "its noise"]),
        [
            (False, "a point and leaves per row", "masked: random bits"),
            (True, "gradients at 16 points per row", "one of 16 opens, to a share"),
            (False, "shares of sums, its noise", "masked"),
            (True, "shares of sums, its noise", "both open noised sums"),
        ],
    )


def vertical() -> Drawing:
    """The flights of one tree of vertical training, in the order of time."""
    drawing = Drawing(392, "The flights of one tree")
    left, right = 60, 400
    for x, name, fill in ((left, "active", OURS), (right, "passive", THEIRS)):
        drawing.arrow((x, 34), (x, 388), color=QUIET)
        drawing.box((x - 55, 4), (110, 30), fill, name)
    drawing.arrow((left, 66), (right, 66), "g, h of each row", "encrypted, once for a tree")
    drawing.box((18, 98), (424, 242), "none", "for each level", dashed=True)
    drawing.arrow(
        (left, 146), (right, 146), "how the level above was split", "which rows went left", note=INK
    )
    drawing.arrow((right, 196), (left, 196), "sums of g and h in every bin", "encrypted; counts in clear")
    drawing.text((left + 8, 241), "decrypts, compares gains", anchor="start", size=12, color=QUIET)
    drawing.arrow(
        (left, 266), (right, 266), "“your bin 7 of column 3 wins”", "by position and rank; no value"
    )
    drawing.arrow((right, 316), (left, 316), "which rows go left", "name and threshold stay")
    drawing.text((230, 364), "leaf values: the active party computes them", size=12)
    return drawing


def _rows_apart(drawing: Drawing, answers: tuple[str, ...], below: tuple[str, ...]) -> None:
    """Three parties that mask their answers, a coordinator, and the sum in which masks cancel."""
    masks = ("+ m₁ − m₃", "+ m₂ − m₁", "+ m₃ − m₂")
    for x, name, mask in zip((4, 160, 316), ("north", "south", "west"), masks, strict=True):
        drawing.box((x, 4), (140, 58 + 17 * len(answers)), OURS, name, [*answers, mask])
        drawing.arrow((x + 70, 62 + 17 * len(answers)), (x + 70, 104 + 17 * len(answers)))
    y = 104 + 17 * len(answers)
    drawing.box(
        (4, y), (452, 46), SHARED, "coordinator", ["sees masked, signed vectors; passes them to all parties"]
    )
    drawing.arrow((230, y + 46), (230, y + 76))
    drawing.box(
        (40, y + 76), (380, 46 + 17 * (len(below) - 1)), THEIRS, "each party adds up: the masks cancel", below
    )


def horizontal_exact() -> Drawing:
    """A round of exact training: masked histograms, their sum, and the same split everywhere."""
    drawing = Drawing(354, "A round of exact training")
    _rows_apart(drawing, ("its rows stay", "its histogram"), ("histogram over all rows, exact",))
    drawing.arrow((230, 260), (230, 288))
    drawing.box(
        (40, 288),
        (380, 62),
        SHARED,
        "the same split at each party",
        ["signed; from it follows the next", "question, until the tree is grown"],
    )
    return drawing


def federated_private() -> Drawing:
    """A round of private training: who adds noise, and how much of it is in the sum."""
    drawing = Drawing(388, "A round of private training")
    answers = ("charges its ledger", "its sums of leaves", "+ its share of noise")
    _rows_apart(
        drawing,
        answers,
        ("sums over all rows + three shares of noise", "two suffice for ε, since each party knows its own"),
    )
    drawing.arrow((230, 294), (230, 322))
    drawing.box((40, 322), (380, 46), SHARED, "the same tree at each party", ["from noised sums alone"])
    return drawing


def dask() -> Drawing:
    """A round on a Dask cluster, and a worker that is lost."""
    return exchange(
        "A round on a Dask cluster",
        ("client", ["ledger", "noise", "model", "", "holds no row"]),
        ("workers", ["rows, binned", "scores"]),
        [
            (True, "splits of one tree", "a message, milliseconds"),
            (False, "an integer for each leaf", "exact, inside the cluster"),
            (True, "leaf values, next splits", "noise was added once"),
            (False, "a worker is lost: others", "take its rows, same model"),
        ],
    )


def spark() -> Drawing:
    """A round on a Spark data frame: one job for several trees."""
    return exchange(
        "A round on a Spark data frame",
        ("driver", ["ledger", "noise", "model", "", "no rows"]),
        ("executors", ["rows, binned", "once, as", "blocks"]),
        [
            (True, "splits of ten trees", "one job"),
            (False, "a few integers for each task", "each block counted once"),
            (True, "their leaf values, next splits", "charged, then noised"),
        ],
    )


def deploy() -> Drawing:
    """Processes, files, certificates and the port of vertical training on two machines."""
    drawing = Drawing(330, "Which process runs where")
    drawing.box((140, 4), (180, 46), SHARED, "authority, offline", ["ca.key signs both"], dashed=True)
    for x in (100, 360):
        drawing.arrow((230, 50), (x, 84), color=QUIET)
    left = [
        "acme.csv, plan.toml",
        "certs/acme",
        "",
        "veilboost train",
        "connects; no port",
        "is open",
        "",
        "model/",
        "checkpoint",
    ]
    right = [
        "bank.csv",
        "certs/bank",
        "",
        "veilboost serve",
        "listens at 7001;",
        "--allow acme",
        "",
        "bank-models/:",
        "splits, limits, record",
    ]
    drawing.box((4, 86), (150, 190), OURS, "acme", left)
    drawing.box((306, 86), (150, 190), THEIRS, "bank", right)
    drawing.arrow((158, 190), (302, 190), "TLS to bank:7001", "both certificates")
    drawing.text((230, 224), "answers return on", size=12, color=QUIET)
    drawing.text((230, 240), "the same connection", size=12, color=QUIET)
    drawing.box(
        (4, 290), (452, 36), "white", "veilboost page: 127.0.0.1 only, on either machine", dashed=True
    )
    return drawing


def data_protection() -> Drawing:
    """Each way: what leaves the house, and whether a number bounds what it tells of a person."""
    ways = (
        ("one place, private", "the model, with noise", "by ε and δ"),
        ("columns apart", "encrypted sums; sides of rows", ""),
        ("columns apart, private", "masked shares; model with noise", "if all are honest"),
        ("rows apart, exact", "sums over all organisations", ""),
        ("rows apart, private", "such sums with noise; the model", "by ε and δ"),
    )
    height = 12 + 62 * len(ways)
    drawing = Drawing(height, "What leaves, and whether ε bounds what it tells")
    drawing.box(
        (4, 4),
        (100, height - 8),
        OURS,
        "the house",
        ["", "", "", "", "in every way,", "values and", "labels of", "rows stay"],
    )
    for k, (way, leaves, bound) in enumerate(ways):
        y = 50 + 62 * k
        color = SAFE if bound else RISK
        drawing.text((227, y - 25), way, bold=True)
        drawing.arrow((108, y), (346, y), leaves, color=color)
        drawing.text((403, y - 4), "bounded" if bound else "no bound", color=color, bold=True)
        drawing.text((403, y + 13), bound or "limits only", color=color, size=12)
    return drawing


def security() -> Drawing:
    """Who stands outside of a party's machine, and what stops them there."""
    callers = (
        ("strangers", "not on the list", "certificate, --allow", "turned away", SAFE),
        ("admitted, honest", "follow the protocol", "limits, counted", "sums up to the limits", INK),
        ("admitted, cheating", "make numbers up", "checks of messages", "more: tables below", RISK),
        ("readers", "of the model", "ε, if it is private", "else no bound", INK),
    )
    drawing = Drawing(8 + 70 * len(callers), "Trust boundaries of a serving party")
    own = ["rows, keys, record", "", "", "trusted with all:", "operators;", "workers of its", "Dask cluster"]
    drawing.box((310, 4), (146, 70 * len(callers)), OURS, "its own machine", own)
    for k, (who, line, gate, got, color) in enumerate(callers):
        y = 10 + 70 * k
        drawing.box((4, y), (146, 58), THEIRS, who, [line])
        ends = ((154, y + 29), (306, y + 29))
        drawing.arrow(*(reversed(ends) if who == "readers" else ends), gate, got, color=color, note=color)
    return drawing


PICTURES: dict[str, Callable[[], Drawing]] = {
    "columns-apart": columns_apart,
    "dask": dask,
    "data-protection": data_protection,
    "deploy": deploy,
    "federated-private": federated_private,
    "horizontal-exact": horizontal_exact,
    "security": security,
    "spark": spark,
    "vertical": vertical,
    "who-sees-what": who_sees_what,
}
"""Each diagram by the name of its file."""


def main() -> None:
    """Draw all diagrams beside this script."""
    for name, draw in PICTURES.items():
        (HERE / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
