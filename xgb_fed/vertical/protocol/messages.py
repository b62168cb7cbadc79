"""Messages between the active party and a passive one: typed, versioned, parsed strictly.

::

    magic "VBMS" | version u16 | kind u16 | session 16 bytes | sequence u64 | fields in order

A field is a tag and a value: ``i`` a signed 64-bit integer, ``b`` bytes and ``s`` UTF-8 text (u64 length
before them), ``c`` ciphertexts in the format of `wire` (u64 length); ``B``, ``I``, ``L``, ``F``, ``D`` are
vectors of uint8, int32, int64, float32 and float64 (u64 number of items before them), little-endian.
Everything but ``c`` is in clear.  A kind joins `KINDS` when its class is made, in whatever module.

The holder of both ends of a connection numbers its requests; the answer carries the request's session and
number.  A message that is cut off, extended, of another session or out of turn is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from gbdt_parties.messages import (
    MAX_INTEGER,
    Bits,
    Encrypted,
    Flag,
    Float32s,
    Int32s,
    Int64s,
    Integer,
    Message,
    Octets,
    Text,
)

MIN_ROWS = 2
"""Sampled rows of a node that can be split, at least."""

MAX_SIDES_BYTES = 1 << 20
"""Bytes of sides in one answer, unless one split has more."""

BYTES_PER_SIDE = 16
"""Memory of an answer for each split and row at most: positions of rows, values, flags, bits."""


@dataclass(frozen=True, eq=False)
class OpenTraining(Message):
    """Active to passive: start a training session."""

    kind: ClassVar[int] = 1
    public_key: Octets
    n_rows: Integer
    max_bin: Annotated[int, "i", 2, MAX_INTEGER]
    field_bits: Integer
    """Bits of one packed sum (of all classes in a ciphertext)."""
    n_groups: Annotated[int, "i", 1, 1 << 16]
    """Ciphertexts of a row."""
    max_depth: Annotated[int, "i", 1, MAX_INTEGER]
    """Levels of a tree whose statistics will be asked for, at most."""
    rows: Int32s
    """Positions of the rows in the party's data; empty means all."""
    eval_rows: Int64s
    """Rows of each evaluation set."""
    resumes: Octets = b""
    """Model of the training run that is about to be taken up, whose earlier session ends; empty if none."""


@dataclass(frozen=True, eq=False)
class TrainingOpened(Message):
    """Passive to active: ready, with these columns, which stay the same until the training run ends."""

    kind: ClassVar[int] = 2
    n_bins: Int32s
    """Bins of each column; missing values are not counted."""
    counts: Int32s
    """Rows in each bin, column by column; the last number of a column is that of its missing values."""
    min_node_rows: Integer
    """Statistics are given of nodes that have at least this many sampled rows, and of no others."""


@dataclass(frozen=True, eq=False)
class CategoriesOpened(TrainingOpened):
    """Passive to active: ready, with some categorical columns.

    Bins of a categorical column are its categories, in the order of their codes.
    """

    kind: ClassVar[int] = 41
    categorical: Int32s
    """Columns whose bins are categories, ascending."""


@dataclass(frozen=True, eq=False)
class StartTree(Message):
    """Active to passive: a tree on some rows and columns; numbers ascend."""

    kind: ClassVar[int] = 3
    tree: Integer
    sampled_rows: Bits
    """One bit per row; empty means all."""
    columns: Int32s
    """Columns that may split."""


@dataclass(frozen=True, eq=False)
class Gradients(Message):
    """Active to passive: encrypted gradients of consecutive sampled rows."""

    kind: ClassVar[int] = 4
    group: Integer
    start: Integer
    values: Encrypted


@dataclass(frozen=True, eq=False)
class FindSplits(Message):
    """Active to passive: how the level above was split; the answer is the statistics of this level.

    Which nodes have statistics depends on their sampled rows only (`TrainingOpened.min_node_rows`).
    """

    kind: ClassVar[int] = 5
    assignment: Bits
    """Of each node of the level above: `LEAF`, `SPLIT_BY_OTHERS` or `SPLIT_BY_YOU`; empty at the root."""
    left_rows: Bits
    """For nodes split by others, one after the other, one bit per row of the node: 1 goes left."""


LEAF, SPLIT_BY_OTHERS, SPLIT_BY_YOU = range(3)


@dataclass(frozen=True, eq=False)
class SplitStatistics(Message):
    """Passive to active: the sum of every bin, encrypted; row counts in clear.

    Of two siblings with statistics only the one with fewer sampled rows is sent, of equal ones the left one:
    the active party subtracts it from their parent.  Nodes come in their order, columns in the order of the
    party's data, bins in ascending order with missing values last: the order in which XGBoost tries candidate
    splits.
    """

    kind: ClassVar[int] = 6
    counts: Int32s
    """Sampled rows in each bin of the tree's columns, node by node; 0 for a bin without rows."""
    sums: Encrypted
    """For each group: the sums of the bins that have rows, compressed, re-randomised."""


@dataclass(frozen=True, eq=False)
class SplitNodes(Message):
    """Active to passive: these nodes are split by you, each at this one candidate."""

    kind: ClassVar[int] = 7
    nodes: Int32s
    columns: Int32s
    """The column that splits each node."""
    last_left: Int32s
    """Its last bin that goes left; −1 if only missing values do."""
    default_left: Bits
    """1 where missing values go left."""


@dataclass(frozen=True, eq=False)
class SplitCategories(SplitNodes):
    """Active to passive: as `SplitNodes`, and at least one of the columns is categorical."""

    kind: ClassVar[int] = 42
    right: Bits
    """For each node whose column is categorical, one after the other, one bit per category: 1 goes right."""


@dataclass(frozen=True, eq=False)
class Assignments(Message):
    """Passive to active: where the rows of the nodes go, and the number under which the split is kept."""

    kind: ClassVar[int] = 8
    split_ids: Int32s
    left_rows: Bits
    """Node by node, one bit per row of the node."""


@dataclass(frozen=True, eq=False)
class RouteRows(Message):
    """Active to passive: send rows through your splits."""

    kind: ClassVar[int] = 9
    dataset: Integer
    """0: the rows trained on (or the only ones); k: the k-th evaluation set."""
    split_ids: Int32s
    n_rows: Int32s
    """Rows that reach each split."""
    rows: Bits
    """For each split, one bit per row of the data set."""


@dataclass(frozen=True, eq=False)
class Routed(Message):
    """Passive to active: for each split, one bit for each row that reached it: 1 goes left."""

    kind: ClassVar[int] = 10
    left_rows: Bits


@dataclass(frozen=True, eq=False)
class OpenModel(Message):
    """Active to passive: a prediction session with a trained model."""

    kind: ClassVar[int] = 11
    model: Octets
    n_rows: Integer
    """Rows of the active party; 0 if it has no columns of its own."""
    rows: Int32s
    """Positions of the rows in the party's data; empty means all."""


@dataclass(frozen=True, eq=False)
class ModelOpened(Message):
    """Passive to active: ready."""

    kind: ClassVar[int] = 17
    n_rows: Integer


@dataclass(frozen=True, eq=False)
class RevealSplits(Message):
    """Active to passive: give your part of the model away, if you consent."""

    kind: ClassVar[int] = 12


@dataclass(frozen=True, eq=False)
class RevealedSplits(Message):
    """Passive to active: column, threshold and default direction of every split, by its number."""

    kind: ClassVar[int] = 13
    features: Int32s
    thresholds: Float32s
    default_left: Bits
    names: Text
    """Column names, a JSON list."""


@dataclass(frozen=True, eq=False)
class RevealedCategories(RevealedSplits):
    """Passive to active: as `RevealedSplits`, and some columns are categorical.

    The meaning of codes is not sent.  The threshold of a split by categories is 0.
    """

    kind: ClassVar[int] = 43
    categorical: Int32s
    """Columns that are categorical, ascending."""
    n_right: Int32s
    """Of each split of such a column, how many categories go right; 0 for other splits."""
    right: Int32s
    """Those categories, split by split, ascending."""


@dataclass(frozen=True, eq=False)
class ResumeTraining(Message):
    """Active to passive, in a session just opened: it resumes a training run that was interrupted."""

    kind: ClassVar[int] = 23
    model: Octets
    n_splits: Integer
    """Of the trees that are finished; later ones are forgotten."""


@dataclass(frozen=True, eq=False)
class TellSides(Message):
    """Active to passive, about a trained model: which way does every row of the session go at these splits?

    Nothing in it depends on the paths of rows.
    """

    kind: ClassVar[int] = 31
    split_ids: Int32s
    """Each split at most once in a session."""


@dataclass(frozen=True, eq=False)
class SidesTold(Message):
    """Passive to active, if it consents to explanations: for each split, one bit for each row."""

    kind: ClassVar[int] = 32
    left_rows: Bits
    """Each split's bits start a byte of their own: 1 goes left."""


@dataclass(frozen=True, eq=False)
class TellColumns(Message):
    """Active to passive, about a trained model: which of these splits are on the same column?"""

    kind: ClassVar[int] = 33
    split_ids: Int32s
    trees: Int32s
    """The number of the tree that each split is in, which never decreases."""


@dataclass(frozen=True, eq=False)
class ColumnsTold(Message):
    """Passive to active, if it consents to explanations: the column of each split, by a number."""

    kind: ClassVar[int] = 34
    columns: Int32s
    """Positions in the party's data; or numbers that begin from 0 in every tree."""
    per_feature: Flag
    """1 for positions."""


@dataclass(frozen=True, eq=False)
class ContinueTraining(Message):
    """Active to passive, before the first tree of a training run: it continues a trained model."""

    kind: ClassVar[int] = 45
    model: Octets
    n_splits: Integer
    """Of that model, which come before those of the run."""


def splits_at_once(n_rows: int) -> int:
    """Splits whose sides one answer holds at most."""
    return max(1, MAX_SIDES_BYTES // max(1, -(-n_rows // 8)))
