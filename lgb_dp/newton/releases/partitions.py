"""A partition on its worker: how its rows become codes, integer weights and labels.

The rules are public and the same for all partitions, so that rows are treated as in one process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from gbdt_commons.tables.frames import check_types, is_table
from gbdt_kernels.trees import Codes, DenseCodes, SparseCodes
from gbdt_kernels.trees.layout import offsets
from lgb_dp import errors
from lgb_dp.data.arguments import checked_label
from lgb_dp.data.bins import PublicBins
from lgb_dp.data.classes import as_labels, class_numbers
from lgb_dp.data.dataset import LabelOverflow
from lgb_dp.data.groups import GroupWeight, draw_words, group_numbers, kept_rows, taken
from lgb_dp.data.weights import check_weight_bound, checked_weight, quantise_group_means, quantise_weights
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.loss import Loss
from lgb_dp.mechanisms.rng import SecureRandom
from lgb_dp.newton.releases.held_out_rows import HoldOut

_HASH_BYTES = 8
PublicPartition = tuple[Codes, NDArray[np.float64], NDArray[np.float64] | None]
"""Codes, labels and weights of public rows."""


@dataclass(frozen=True)
class RowRules:
    """Public rules by which the rows of every partition are prepared."""

    bins: PublicBins
    dtypes: tuple[str, ...]  # of the columns of a table, or one of a matrix
    scale: LabelScale
    loss: Loss
    label_overflow: LabelOverflow
    weight_bound: float | None
    rows_per_group: int | None
    group_weight: GroupWeight | None
    subsample: float  # share of the rows that a round sums
    n_threads: int  # of a worker; 0 takes as many as it has
    classes: NDArray[Any] | None = None  # sorted labels; their positions are trained on
    hold_out: HoldOut | None = None  # which rows train nothing


@dataclass(frozen=True)
class BinnedPartition:
    """The binned rows of a partition, before rows of groups are chosen."""

    codes: Codes
    label: NDArray[np.float64]
    weight: NDArray[np.float64] | None
    group: NDArray[np.int64] | None  # numbers from 0 on
    group_hash: NDArray[np.uint64]  # of the groups as they were given
    digest: bytes  # of all of these


@dataclass(frozen=True)
class TrainingRows:
    """The rows of a partition that are trained on or held out, with labels that fit the scale."""

    codes: Codes
    label: NDArray[np.float64]
    weight: NDArray[np.int32]
    group: NDArray[np.int64] | None
    is_held: NDArray[np.bool_]


def read_partition(rules: RowRules, X: Any, y: Any, weight: Any, groups: Any) -> BinnedPartition | None:
    """A partition's rows, binned, or None; `InvalidArgumentError`, quoting no value, for a mismatch."""
    n_rows = _checked_rows(rules.dtypes, X, {"y": y, "weight": weight, "groups": groups})
    if not n_rows:
        return None
    codes = rules.bins.transform(X)
    label = _checked_label(y, n_rows, rules.classes, must_be_finite=rules.label_overflow == "raise")
    checked = checked_weight(_flat(weight), n_rows)
    if checked is not None:
        check_weight_bound(checked, rules.weight_bound)
    group, hashes = None, np.empty(0, dtype=np.uint64)
    if groups is not None:
        values = np.asarray(_flat(groups))
        group = group_numbers(values, n_rows)
        hashes = hash_values(values[np.unique(group, return_index=True)[1]])
    digest = _digest(codes, label, checked, group, hashes)
    return BinnedPartition(codes, label, checked, group, hashes, digest)


def read_public_partition(
    bins: PublicBins, dtypes: tuple[str, ...], classes: NDArray[Any] | None, X: Any, y: Any, weight: Any
) -> PublicPartition | None:
    """Check and bin public rows, for the client to evaluate; as `read_partition`."""
    n_rows = _checked_rows(dtypes, X, {"y": y, "weight": weight})
    if not n_rows:
        return None
    label = _checked_label(y, n_rows, classes, must_be_finite=False)
    return bins.transform(X), label, checked_weight(_flat(weight), n_rows)


def _checked_rows(dtypes: tuple[str, ...], X: Any, others: Mapping[str, Any]) -> int:
    """Number of rows of a partition, after checking columns and equal lengths."""
    if not (is_table(X) or isinstance(X, np.ndarray) or scipy.sparse.issparse(X)):
        raise InvalidArgumentError(
            f"X must consist of tables, arrays or sparse matrices, got {type(X).__name__}"
        )
    check_types(X, dtypes, InvalidArgumentError)
    for name, values in others.items():
        if values is not None and len(values) != X.shape[0]:
            raise InvalidArgumentError(f"{name} has another number of rows than X")
    return int(X.shape[0])


def _checked_label(
    y: Any, n_rows: int, classes: NDArray[Any] | None, *, must_be_finite: bool
) -> NDArray[np.float64]:
    """Labels as numbers: as they are, or the positions of classes, NaN for one that is none of them."""
    values = _flat(y)
    if classes is not None:
        values = class_numbers(as_labels(values), classes)
    return checked_label(values, n_rows, must_be_finite=must_be_finite)


def _flat(values: Any) -> Any:
    """One column of a table, or a matrix of one column, as a vector; two columns of times stay."""
    if values is None:
        return None
    is_column = getattr(values, "ndim", 1) == 2 and values.shape[1] == 1
    return np.asarray(values).reshape(-1) if is_column else values


def hash_values(values: NDArray[Any]) -> NDArray[np.uint64]:
    """Equal values have equal hashes in all partitions, whatever data type holds them."""
    if values.dtype.kind in "mM":
        values = values.astype(f"{values.dtype.kind}8[ns]").astype(np.int64)
    texts = (_text_of(value) for value in values.tolist())
    hashed = (hashlib.blake2b(text, digest_size=_HASH_BYTES).digest() for text in texts)
    return np.frombuffer(b"".join(hashed), dtype=np.uint64)


def _text_of(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # -0.0, too
    return str(int(value) if isinstance(value, bool) else value).encode()


def _digest(codes: Codes, *arrays: NDArray[Any] | None) -> bytes:
    hashed = hashlib.blake2b(digest_size=32)
    of_codes = (codes.codes,) if isinstance(codes, DenseCodes) else (codes.indptr, codes.indices, codes.codes)
    for array in (*of_codes, *arrays):
        hashed.update(b"none" if array is None else np.ascontiguousarray(array).view(np.uint8).data)
    return hashed.digest()


def refusal(index: int, kind: str, text: str) -> Exception:
    """The error of a partition, by the name of our own error if reading it raised one."""
    if not kind:
        return errors.PartitionError(f"partition {index} could not be read ({text})")
    error: Exception = getattr(errors, kind, errors.PartitionError)(f"partition {index}: {text}")
    return error


def training_rows(rules: RowRules, partition: BinnedPartition, seed: int) -> TrainingRows:
    """The rows to use, of every group at most as many as are to be used.

    The seed, secret and of 256 bits, decides which rows of a group are used, and which are held out,
    whenever the partition is loaded. `InvalidArgumentError` if a label does not fit, or groups are missing.
    """
    codes, label, weight, group = partition.codes, partition.label, partition.weight, partition.group
    most, random = rules.rows_per_group, SecureRandom(seed)
    if (group is None) != (most is None):
        raise InvalidArgumentError("groups and rows_per_group are given together, for every partition")
    if group is not None and most is not None:
        kept = kept_rows(group, random.words(len(group)), most)
        if len(kept) < len(group):
            codes, label, group = codes.take(kept), label[kept], group[kept]
            weight = taken(weight, kept)
    counts = None
    if rules.label_overflow == "clip":
        label, counts = rules.scale.clipped(label)
    else:
        rules.scale.check(label)
    if group is not None and rules.group_weight == "mean":
        steps, _ = quantise_group_means(weight, rules.weight_bound, group)
    else:
        steps, _ = quantise_weights(weight, rules.weight_bound, len(label))
    if counts is not None:
        steps = np.where(counts, steps, 0).astype(np.int32)
    is_held = np.zeros(len(label), dtype=np.bool_)
    if rules.hold_out is not None:
        is_held = rules.hold_out.chosen(draw_words(random, len(label), group))
    return TrainingRows(codes, label, steps, group, is_held)


def joined_codes(parts: Sequence[Codes]) -> Codes:
    """Codes of several partitions' rows in order; `InvalidArgumentError` if dense and sparse ones mix."""
    if len(parts) == 1:
        return parts[0]
    dense = [part for part in parts if isinstance(part, DenseCodes)]
    if len(dense) == len(parts):
        return DenseCodes(np.concatenate([part.codes for part in dense]))
    sparse = [part for part in parts if isinstance(part, SparseCodes)]
    if dense:
        raise InvalidArgumentError(
            f"blocks of X must be all dense or all sparse, got {len(dense)} dense and {len(sparse)} sparse"
        )
    starts = offsets(np.array([part.indptr[-1] for part in sparse]))
    indptr = [part.indptr[:-1] + start for part, start in zip(sparse, starts[:-1], strict=True)]
    return SparseCodes(
        np.concatenate([*indptr, starts[-1:]]),
        np.concatenate([part.indices for part in sparse]),
        np.concatenate([part.codes for part in sparse]),
        sparse[0].zero_codes,
    )
