"""Sections of plans of vertical training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from veilboost.plans.entries import entry
from veilboost.plans.file_forms import FileForm
from veilboost.plans.sections import KeptMessages, KnownParties, Plan, ServedTable, TrainingSection

if TYPE_CHECKING:
    from xgb_fed.ciphers.base import Scheme

CIPHERS = {"paillier": "Paillier", "okamoto-uchiyama": "OkamotoUchiyama"}
"""Classes of `xgb_fed`, by the names that plans give them."""


@dataclass(frozen=True, kw_only=True)
class VerticalData(KeptMessages, KnownParties, FileForm):
    """The active party's file."""

    file: str = entry("CSV, Parquet or LIBSVM file", is_path=True)
    label: str = entry("column of labels")
    id: str | None = entry(
        "column of ids; without it the parties' files must have the same rows in the same order", None
    )
    drop: list[str] = entry("columns not to use", [])
    one_hot: list[str] = entry(
        "text columns to encode; a value that was not seen in training counts as missing, and the command "
        "says in how many rows",
        [],
    )
    categorical: list[str] = entry(
        "text columns to split [by category](vertical.md#categories); sets `enable_categorical`", []
    )
    aligned: str = entry("file of the ids in common, which `align` writes", "aligned.ids", writes="aligned")
    valid: str | None = entry(
        "file of rows to evaluate the model on after every tree; needs `id`", None, is_path=True
    )
    aligned_valid: str = entry("file of the ids in common of those", "aligned-valid.ids", writes="aligned")


@dataclass(frozen=True, kw_only=True)
class VerticalTraining(TrainingSection):
    """Settings of vertical training."""

    cipher: str = entry('`"paillier"` or `"okamoto-uchiyama"`', "paillier", choices=tuple(CIPHERS))
    key_length: int = entry("bits of the modulus, at least 2048", 2048)

    @property
    def scheme(self) -> Scheme:
        """The cipher, with its key length."""
        import xgb_fed

        scheme: Scheme = getattr(xgb_fed, CIPHERS[self.cipher])(self.key_length)
        return scheme


VerticalPlan: TypeAlias = Plan[VerticalData, VerticalTraining]


@dataclass(frozen=True, kw_only=True)
class VerticalServed(KeptMessages, ServedTable):
    """Settings of a passive party."""

    id: str | None = entry(
        "column of ids; without it, rows are taken in the file's order",
        None,
        option="column of ids (rows are in the file's order)",
        metavar="COLUMN",
    )
    name: str | None = entry("name in the record; the certificate's by default", None, metavar="NAME")
    one_hot: list[str] = entry(
        "text columns to encode, whose values are kept for later; other text is refused by name",
        [],
        option="text columns to encode; values are kept for later",
        metavar="A,B,C",
    )
    categorical: list[str] = entry(
        "text columns to split [by category](vertical.md#categories); their values stay here",
        [],
        option="text columns to split by category",
        metavar="A,B,C",
    )
    dask: str | None = entry(
        "scheduler of a Dask cluster whose workers [read the file and hold it](dask-party)",
        None,
        option="Dask scheduler whose workers hold the file",
        metavar="ADDRESS",
    )
    allow_explanations: str = entry(
        '`"none"`, or `"per-party"` or `"per-feature"` to answer explanations, and predictions that hide '
        "paths, by giving every row's side at this party's splits, and columns for their sum only or by "
        "position ([effects](vertical-security.md#explanations-and-predictions-that-hide-paths))",
        "none",
        choices=("none", "per-party", "per-feature"),
        option="none, per-party, per-feature: give rows' sides",
        metavar="HOW",
    )
    allow_export: bool = entry(
        "whether splits are given to `veilboost export` and `export_booster`",
        False,
        option="give splits to veilboost export",
    )
    min_rows: int = entry("rows of a training run", 100, least=1)
    max_rows: int = entry("rows of a training run", 50_000_000, least=1)
    min_node_rows: int = entry(
        "rows of a node, at least, if statistics of it are given; those of a smaller one still follow from "
        "its parent's less its sibling's",
        10,
        least=1,
    )
    max_statistics: float = entry(
        "statistics per row that an active party gets in all its training runs, three for each node and bin "
        "and one for each opening: about one per row shows the bins of most values "
        "([why](vertical-security.md#default-mode)); a few hundred rows need more than the default; from 0.5 "
        "on the log warns; `inf` is no limit",
        0.25,
        least=0,
    )
    max_thresholds: float = entry(
        "thresholds of a column, or sets of its categories, at which an active party gets the sides of rows "
        "in all its training runs and predictions; `inf` is no limit",
        1024.0,
        least=0,
    )


def faults(plan: VerticalPlan) -> Iterator[str]:
    """Entries of a plan that contradict each other."""
    if plan.training.early_stopping_rounds is not None and plan.data.valid is None:
        yield "training.early_stopping_rounds needs data.valid"
    if plan.data.valid is not None and plan.data.id is None:
        yield "data.valid needs data.id; rows to evaluate are found by their ids"


def faults_of_served(served: VerticalServed, called: Callable[[str], str]) -> Iterator[str]:
    """Settings that contradict each other."""
    if served.dask is not None and served.categorical:
        yield f"{called('categorical')} is not supported with {called('dask')}; {called('one_hot')} is"
    if served.dask is not None and served.exclude is not None:
        yield f"{called('exclude')} is not supported with {called('dask')}; leave the rows out of the file"
