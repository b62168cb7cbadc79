"""Answers of a passive party for explanations: rows' sides at its splits, and which splits share a column.

Both are given only with a consent of their own, which has levels: "none", "per-party", "per-feature".  Per
feature, columns are named by their positions, which the active party named itself in training.  Per party,
they are numbered anew in every tree: enough to add up what the party's columns contribute together, and too
little to know a column again in another tree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_parties import messages
from gbdt_parties.errors import ProtocolError
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.messages import Message
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.vertical.passive.held_rows import SideQuestion
from xgb_fed.vertical.passive.session import PredictionSession, TrainingSession
from xgb_fed.vertical.protocol import messages as wire

NONE, PER_PARTY, PER_FEATURE = LEVELS = ("none", "per-party", "per-feature")
"""Levels of consent, each including the ones before."""


def check_level(level: Any) -> None:
    """Raise `InvalidArgumentError` unless something is a level of consent."""
    if level not in LEVELS:
        raise InvalidArgumentError(f"allow_explanations={level!r} must be one of {', '.join(LEVELS)}")


def sides_of_rows(
    session: PredictionSession, message: wire.TellSides, level: str, memory: MemoryAllowance
) -> Message:
    """Every row's way at some splits; `ProtocolError` if unknown, too many, or told before."""
    if level == NONE:
        return _refusal()
    splits = message.split_ids
    _check(session, splits)
    columns = session.columns
    if len(splits) > wire.splits_at_once(columns.n_rows):
        raise ProtocolError("sides of more splits than one answer has room for were asked for")
    if not session.told.isdisjoint(splits.tolist()):
        raise ProtocolError("the sides of a split are sent once in a session")
    room = memory.reserve(wire.BYTES_PER_SIDE * len(splits) * columns.n_rows, "the sides of rows")
    everyone = np.arange(columns.n_rows)
    questions = [SideQuestion(session.splits.rule(split), everyone) for split in splits.tolist()]
    sides = [messages.to_bits(flags) for flags in columns.sides(questions)]
    del room
    session.told.update(splits.tolist())
    return wire.SidesTold(np.concatenate([*sides, np.empty(0, dtype=np.uint8)]))


def columns_of_splits(session: PredictionSession, message: wire.TellColumns, level: str) -> Message:
    """Which splits share a column, by consent; `ProtocolError` for splits that do not exist."""
    if level == NONE:
        return _refusal()
    _check(session, message.split_ids)
    if len(message.trees) != len(message.split_ids) or (np.diff(message.trees) < 0).any():
        raise ProtocolError("splits and trees do not match")
    columns = np.array(session.splits.features, dtype=np.int32)[message.split_ids]
    if level == PER_PARTY:
        columns = _numbered_in_each_tree(columns, message.trees)
    return wire.ColumnsTold(columns, int(level == PER_FEATURE))


def _numbered_in_each_tree(columns: NDArray[np.int32], trees: NDArray[np.int32]) -> NDArray[np.int32]:
    """Number columns in the order in which a tree's splits come to them, from 0 in every tree."""
    numbers = np.empty_like(columns)
    known: dict[int, int] = {}
    for k, column in enumerate(columns.tolist()):
        if k == 0 or trees[k] != trees[k - 1]:
            known = {}
        numbers[k] = known.setdefault(column, len(known))
    return numbers


def _check(session: PredictionSession, splits: NDArray[np.int32]) -> None:
    if isinstance(session, TrainingSession):
        raise ProtocolError("explanations are of models whose training run has ended")
    if len(np.unique(splits)) != len(splits):
        raise ProtocolError("a split is named twice")
    if len(splits) and not 0 <= splits.min() <= splits.max() < len(session.splits):
        raise ProtocolError("no such split")


def _refusal() -> Message:
    return messages.Refusal("this party does not consent to explanations", messages.NO_CONSENT)
