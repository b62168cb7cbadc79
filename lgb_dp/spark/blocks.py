"""Functions that run in Spark's Python workers: rows become blocks of codes, and blocks become sums.

A worker keeps nothing between jobs. A block is one cell per array, so that Spark moves it as a whole; what it
sums to is a function of the block and of the question, however often Spark computes it.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark import TaskContext

from gbdt_commons.errors import VeilboostError
from gbdt_kernels.trees import DenseCodes, by_columns, row_tags
from lgb_dp.data.groups import taken
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.losses.times import TIMES, times_of
from lgb_dp.newton.releases.leaf_sums import LocalLeafSums
from lgb_dp.newton.releases.partitions import BinnedPartition, RowRules, read_partition, training_rows
from lgb_dp.newton.releases.trees import Round

ANSWERS = "part int, block int, n_rows long, content long, fault string, sums binary"
BLOCKS = "part int, block int, n_rows long, content long, fault string, " + ", ".join(
    f"{name} binary" for name in ("codes", "label", "weight", "held", "score")
)
"""FrameColumns, as Spark names their types."""
ROWS_OF_BLOCK = 2**18


@dataclass(frozen=True)
class FrameColumns:
    """Places of features, label, weight and groups among the columns of a batch.

    Features have names, or are a matrix in one column.  Times are labels in two columns.
    """

    n_features: int
    names: tuple[str, ...] | None
    has_weight: bool
    has_groups: bool
    are_times: bool = False

    def taken(self, table: pa.Table) -> tuple[Any, ...]:
        """The arguments of `read_partition`."""
        X, width = features(table, self.names, self.n_features), len(self.names or (0,))
        others = [table.column(k) for k in range(width, table.num_columns)]
        label = others.pop(0)
        if self.are_times:
            label = times_of(label.to_numpy(), others.pop(0).to_numpy())
        weight = others[0] if self.has_weight else None
        groups = others[-1] if self.has_groups else None
        if groups is not None and groups.null_count:
            raise InvalidArgumentError("groupsCol holds null: a missing group could be any person's")
        return X, label, weight, groups


def features(table: pa.Table, names: Sequence[str] | None, n_features: int) -> Any:
    """The first columns under their own names, or the first as a matrix."""
    if names is None:
        return matrix(table.column(0), n_features)
    return table.select(range(len(names))).rename_columns(list(names))


def matrix(column: Any, n_features: int) -> NDArray[np.float64]:
    """Rows of an array column as a matrix; missing entries are NaN."""
    flat = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    values = flat.flatten().cast(pa.float64()).to_numpy(zero_copy_only=False)
    if flat.null_count or (flat.value_lengths().to_numpy() != n_features).any():
        raise InvalidArgumentError(f"featuresCol must hold arrays of {n_features} numbers in every row")
    return np.asarray(values, dtype=np.float64).reshape(-1, n_features)


@dataclass(frozen=True)
class Binning:
    """Rows to blocks, whose contents are told apart by a secret salt of 256 bits.

    What a block is follows from the salt, its place and its rows, in whichever order they come: computed
    again, it has the same rows of a person, and holds the same rows out.  Rows are sorted first; coins of
    equal rows may change places.
    """

    rules: RowRules
    columns: FrameColumns
    salt: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Blocks of one partition; a block with a fault if its rows are refused."""
        context: Any = TaskContext.get()
        part = context.partitionId()
        for k, table in enumerate(self._tables(batches)):
            try:
                binned = read_partition(self.rules, *self.columns.taken(table))
                assert binned is not None
                cells = self._cells(binned, self.salt + (part << 32) + k)
            except VeilboostError as error:
                cells = {"n_rows": 0, "content": 0, "fault": f"{type(error).__name__}: {error}"}
            except Exception as error:
                raise RuntimeError(f"a block could not be read: {type(error).__name__}") from None
            yield _batch({"part": part, "block": k, **cells}, BLOCKS)

    def _tables(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
        """Rows of about a block; with groups all rows, so that those of a person are together."""
        waiting, n_rows = list[pa.RecordBatch](), 0
        for batch in batches:
            if batch.num_rows:
                waiting.append(batch)
                n_rows += batch.num_rows
            if n_rows >= ROWS_OF_BLOCK and not self.columns.has_groups:
                yield pa.Table.from_batches(waiting)
                waiting, n_rows = [], 0
        if waiting:
            yield pa.Table.from_batches(waiting)

    def _cells(self, binned: BinnedPartition, seed: int) -> dict[str, Any]:
        words = _row_words(binned, self.salt % 2**64)
        rows = training_rows(self.rules, _sorted(binned, np.argsort(words)), seed)
        assert isinstance(rows.codes, DenseCodes)
        arrays = {"codes": rows.codes.codes, "label": rows.label, "weight": rows.weight}
        if self.rules.hold_out is not None:
            arrays["held"] = rows.is_held
        return {
            "n_rows": len(words),
            "content": int(words.sum(dtype=np.uint64).view(np.int64)),
            **{name: np.ascontiguousarray(array).tobytes() for name, array in arrays.items()},
        }


def _sorted(binned: BinnedPartition, order: NDArray[np.int64]) -> BinnedPartition:
    """The rows of a partition in an order."""
    weight, group = taken(binned.weight, order), taken(binned.group, order)
    return replace(
        binned, codes=binned.codes.take(order), label=binned.label[order], weight=weight, group=group
    )


def _row_words(binned: BinnedPartition, salt: int) -> NDArray[np.uint64]:
    """A word for each row, of all that it holds; the sum modulo 2^64 is the same in any order."""
    words = row_tags(by_columns(binned.codes, 1), salt, 1)
    for values in (binned.label, binned.weight, binned.group):
        if values is None:
            continue
        for number in np.ascontiguousarray(values).view(np.uint64).reshape(len(words), -1).T:  # two of times
            words = words + number * np.uint64(0x9E3779B97F4A7C15)
            words = (words ^ (words >> np.uint64(31))) * np.uint64(0xBF58476D1CE4E5B9)
            words ^= words >> np.uint64(29)
    return words


@dataclass(frozen=True)
class Summing:
    """Blocks to checked sums over a task's blocks, with scores after the released trees up to `last`."""

    rules: RowRules
    last: int
    answer: PackedQuestion

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A row per block; the last one has the sums."""
        told, total = list[dict[str, Any]](), None
        for block in _blocks(batches):
            told.append({name: block[name] for name in ("part", "block", "n_rows", "content", "fault")})
            if block["fault"] is None:
                own = self.answer(_rows(block, self.rules, self.last))
                total = own if total is None else total + own
        if total is not None:
            told[-1]["sums"] = total.tobytes()
        if told:
            yield _batch(told, ANSWERS)


@dataclass(frozen=True)
class Scoring:
    """Blocks without scores to blocks with the scores after the released trees of a question."""

    rules: RowRules
    packed: bytes

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same blocks."""
        question: Round = pickle.loads(zlib.decompress(self.packed))
        for block in _blocks(batches):
            cells = {name: _plain(value) for name, value in block.items()}
            score = _rows(block, self.rules, 0).scores(question).tobytes()
            yield _batch({**cells, "score": score}, BLOCKS)


class PackedQuestion:
    """A question by the name of the method of `LeafSums` that answers it, and packed arguments.

    A tree's bytes say the same many times over.
    """

    def __init__(self, method: str, *given: Any) -> None:
        self._method, self._given = method, packed(given)

    def __call__(self, rows: LocalLeafSums) -> NDArray[np.int64]:
        """The sums; of several trees one after the other."""
        answer = getattr(rows, self._method)(*pickle.loads(zlib.decompress(self._given)))
        return np.concatenate([table.ravel() for table in (answer if isinstance(answer, list) else [answer])])


def packed(value: Any) -> bytes:
    """Public trees as few bytes."""
    return zlib.compress(pickle.dumps(value), 1)


def _blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """Blocks as their cells; arrays are buffers that are not copied."""
    for batch in batches:
        for k in range(batch.num_rows):
            cells = {name: batch.column(i)[k] for i, name in enumerate(batch.schema.names)}
            yield {
                name: cell.as_buffer() if pa.types.is_binary(cell.type) and cell.is_valid else cell.as_py()
                for name, cell in cells.items()
            }


def _plain(value: Any) -> Any:
    return value.to_pybytes() if isinstance(value, pa.Buffer) else value


def _rows(block: Mapping[str, Any], rules: RowRules, last: int) -> LocalLeafSums:
    """The rows of a block, after the released trees up to number `last`."""
    n_rows = len(block["weight"]) // 4
    codes = DenseCodes(np.frombuffer(block["codes"], dtype=np.uint8).reshape(n_rows, -1))
    kind = TIMES if rules.scale.entry.labels_are_times else np.float64
    label: NDArray[Any] = np.frombuffer(block["label"], dtype=kind)
    weight: NDArray[np.int32] = np.frombuffer(block["weight"], dtype=np.int32)
    held = None
    if rules.hold_out is not None:
        is_held = np.frombuffer(block["held"], dtype=np.bool_)
        weight, held = rules.hold_out.divided(is_held, codes, label, weight)
    rows = LocalLeafSums(
        by_columns(codes, rules.n_threads),
        label,
        weight,
        rules.loss,
        rules.scale,
        None,
        rules.n_threads,
        1.0,
        lambda: np.empty(0, dtype=np.uint64),  # nothing is drawn where all rows are summed
        held,
    )
    if block["score"] is not None:
        score = np.frombuffer(block["score"], dtype=np.float64).reshape(n_rows, -1)
        rows.resume(last, score.copy())
    return rows


def _batch(cells: Any, types: str) -> pa.RecordBatch:
    """Rows as a batch of the columns."""
    kinds = {"int": pa.int32(), "long": pa.int64(), "string": pa.string(), "binary": pa.binary()}
    rows = cells if isinstance(cells, list) else [cells]
    named = [column.split(" ") for column in types.split(", ")]
    arrays = [pa.array([row.get(name) for row in rows], type=kinds[kind]) for name, kind in named]
    return pa.RecordBatch.from_arrays(arrays, [name for name, _ in named])
