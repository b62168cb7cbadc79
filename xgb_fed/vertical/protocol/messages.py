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

from typing import Annotated

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


class OpenTraining(Message, kind=1):
    """Active to passive: start a training session."""

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
    n_trees: Integer = 0
    """Trees whose statistics will be asked for; 0 if early stopping, or a number of leaves, decides."""


class TrainingOpened(Message, kind=2):
    """Passive to active: ready, with these columns, which stay the same until the training run ends."""

    n_bins: Int32s
    """Bins of each column; missing values are not counted."""
    counts: Int32s
    """Rows in each bin, column by column; the last number of a column is that of its missing values."""
    min_node_rows: Integer
    """Statistics are given of nodes that have at least this many sampled rows, and of no others."""


class CategoriesOpened(TrainingOpened, kind=41):
    """Passive to active: ready; a categorical column's bins are its categories, ordered by code."""

    categorical: Int32s
    """Columns whose bins are categories, ascending."""


class StartTree(Message, kind=3):
    """Active to passive: a tree on some rows and columns; numbers ascend."""

    tree: Integer
    sampled_rows: Bits
    """One bit per row; empty means all."""
    columns: Int32s
    """Columns that may split."""


class Gradients(Message, kind=4):
    """Active to passive: encrypted gradients of consecutive sampled rows."""

    group: Integer
    start: Integer
    values: Encrypted


class FindSplits(Message, kind=5):
    """Active to passive: how the level above was split; the answer is the statistics of this level.

    Which nodes have statistics depends on their sampled rows only (`TrainingOpened.min_node_rows`).
    """

    assignment: Bits
    """Of each node of the level above: `LEAF`, `SPLIT_BY_OTHERS` or `SPLIT_BY_YOU`; empty at the root."""
    left_rows: Bits
    """For nodes split by others, one after the other, one bit per row of the node: 1 goes left."""


LEAF, SPLIT_BY_OTHERS, SPLIT_BY_YOU = range(3)


class SplitStatistics(Message, kind=6):
    """Passive to active: the sum of every bin, encrypted; row counts in clear.

    Of two siblings with statistics only the one with fewer sampled rows is sent, of equal ones the left one:
    the active party subtracts it from their parent.  Nodes come in their order, columns in the order of the
    party's data, bins in ascending order with missing values last: the order in which XGBoost tries candidate
    splits.
    """

    counts: Int32s
    """Sampled rows in each bin of the tree's columns, node by node; 0 for a bin without rows."""
    sums: Encrypted
    """For each group: the sums of the bins that have rows, compressed, re-randomised."""


class SplitNodes(Message, kind=7):
    """Active to passive: these nodes are split by you, each at this one candidate."""

    nodes: Int32s
    columns: Int32s
    """The column that splits each node."""
    last_left: Int32s
    """Its last bin that goes left; −1 if only missing values do."""
    default_left: Bits
    """1 where missing values go left."""


class SplitCategories(SplitNodes, kind=42):
    """Active to passive: as `SplitNodes`, and at least one of the columns is categorical."""

    right: Bits
    """For each node whose column is categorical, one after the other, one bit per category: 1 goes right."""


class Assignments(Message, kind=8):
    """Passive to active: where the rows of the nodes go, and the number under which the split is kept."""

    split_ids: Int32s
    left_rows: Bits
    """Node by node, one bit per row of the node."""


class RouteRows(Message, kind=9):
    """Active to passive: send rows through your splits."""

    dataset: Integer
    """0: the rows trained on (or the only ones); k: the k-th evaluation set."""
    split_ids: Int32s
    n_rows: Int32s
    """Rows that reach each split."""
    rows: Bits
    """For each split, one bit per row of the data set."""


class Routed(Message, kind=10):
    """Passive to active: for each split, one bit for each row that reached it: 1 goes left."""

    left_rows: Bits


class OpenModel(Message, kind=11):
    """Active to passive: a prediction session with a trained model."""

    model: Octets
    n_rows: Integer
    """Rows of the active party; 0 if it has no columns of its own."""
    rows: Int32s
    """Positions of the rows in the party's data; empty means all."""


class ModelOpened(Message, kind=17):
    """Passive to active: ready."""

    n_rows: Integer


class RevealSplits(Message, kind=12):
    """Active to passive: give your part of the model away, if you consent."""


class RevealedSplits(Message, kind=13):
    """Passive to active: column, threshold and default direction of every split, by its number."""

    features: Int32s
    thresholds: Float32s
    default_left: Bits
    names: Text
    """Column names, a JSON list."""


class RevealedCategories(RevealedSplits, kind=43):
    """Passive to active: as `RevealedSplits`, and some columns are categorical.

    The meaning of codes is not sent.  The threshold of a split by categories is 0.
    """

    categorical: Int32s
    """Columns that are categorical, ascending."""
    n_right: Int32s
    """Of each split of such a column, how many categories go right; 0 for other splits."""
    right: Int32s
    """Those categories, split by split, ascending."""


class ResumeTraining(Message, kind=23):
    """Active to passive, in a session just opened: it resumes a training run that was interrupted."""

    model: Octets
    n_splits: Integer
    """Of the trees that are finished; later ones are forgotten."""


class TellSides(Message, kind=31):
    """Active to passive, about a trained model: which way does every row of the session go at these splits?

    Nothing in it depends on the paths of rows.
    """

    split_ids: Int32s
    """Each split at most once in a session."""


class SidesTold(Message, kind=32):
    """Passive to active, if it consents to explanations: for each split, one bit for each row."""

    left_rows: Bits
    """Each split's bits start a byte of their own: 1 goes left."""


class TellColumns(Message, kind=33):
    """Active to passive, about a trained model: which of these splits are on the same column?"""

    split_ids: Int32s
    trees: Int32s
    """The number of the tree that each split is in, which never decreases."""


class ColumnsTold(Message, kind=34):
    """Passive to active, if it consents to explanations: the column of each split, by a number."""

    columns: Int32s
    """Positions in the party's data; or numbers that begin from 0 in every tree."""
    per_feature: Flag
    """1 for positions."""


class ContinueTraining(Message, kind=45):
    """Active to passive, before the first tree of a training run: it continues a trained model."""

    model: Octets
    n_splits: Integer
    """Of that model, which come before those of the run."""


def splits_at_once(n_rows: int) -> int:
    """Splits whose sides one answer holds at most."""
    return max(1, MAX_SIDES_BYTES // max(1, -(-n_rows // 8)))
