"""Messages that open and introduce every horizontal run."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from gbdt_parties.messages import MAX_INTEGER, Flag, Float64s, Int64s, Integer, Message, Octets, Text


class Introduce(Message, kind=101):
    """Coordinator to party: start a session, and describe your rows."""

    wants_classes: Flag
    """1 for classification."""


class RowShape(Message, kind=102):
    """Party to coordinator: the shape of its rows."""

    n_rows: Annotated[int, "i", 1, MAX_INTEGER]
    n_features: Annotated[int, "i", 1, MAX_INTEGER]
    names: Text
    """Column names, a JSON list; empty if the columns have none."""
    classes: Text
    """Distinct labels, a JSON list, if asked for."""


class OpenHorizontal(Message, kind=103):
    """Coordinator to party: what is trained, and your place among the parties."""

    params: Text
    """XGBoost's parameters, a JSON object."""
    classes: Text
    """All parties' labels in order, a JSON list; empty for regression."""
    place: Integer
    party_rows: Int64s
    """Rows of every party."""
    rounds_per_turn: Integer
    """Successive rounds that one party grows before it is the next one's turn."""
    max_rounds: Integer
    """Rounds that the training run has at most."""


class HorizontalOpened(Message, kind=104):
    """Party to coordinator: ready, and what the common base score needs."""

    label_sums: Float64s
    """Σ weight and Σ weight · label; empty for softprob, which needs neither."""


class Trees(Message, kind=113):
    """Builder to coordinator, and on to every other party: a round's trees, one per class."""

    lengths: Int64s
    """Bytes of each model."""
    models: Octets
    """Each tree as `write_tree` writes it, and in no other way, one after the other."""

    def split(self) -> list[bytes]:
        """The model of each class."""
        ends = np.cumsum(self.lengths).tolist()
        return [
            self.models[end - length : end] for end, length in zip(ends, self.lengths.tolist(), strict=True)
        ]
