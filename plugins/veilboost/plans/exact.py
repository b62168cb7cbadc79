"""Sections of plans of exact horizontal training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from veilboost.plans.entries import entry
from veilboost.plans.sections import (
    InitiatorRows,
    KeptMessages,
    Plan,
    ServedLabels,
    SummedRows,
    TrainingSection,
    faults_of_kept_messages,
)

MAX_SAMPLES = 10_000
MIN_ROWS_PER_NODE = 10


@dataclass(frozen=True, kw_only=True)
class ExactData(KeptMessages, InitiatorRows):
    """The coordinator's file; the demands of its rows on a run are those of the plan."""

    allowed: list[str] = entry("the other organisations' certificates, `sha256:…`; needed with `file`", [])
    max_samples: int = entry(
        "samples of rows that trees are grown on (`subsample`), in all training runs together", MAX_SAMPLES
    )
    valid: str | None = entry(
        "file of rows that are not trained on; metrics are of those of all parties together; needs `file`",
        None,
        is_path=True,
    )


@dataclass(frozen=True, kw_only=True)
class ExactSection(TrainingSection):
    """Settings of exact training."""

    cuts: str = entry(
        '`"grid"` or `"exact"`: columns are cut at pooled quantiles of values rounded to 12 bits, or as they '
        "are",
        "grid",
        choices=("grid", "exact"),
    )
    min_rows_per_node: int = entry(
        "rows of all parties that both sides of a split must have", MIN_ROWS_PER_NODE
    )
    min_parties: int = entry("parties that must take part", 2)


ExactPlan: TypeAlias = Plan[ExactData, ExactSection]


@dataclass(frozen=True, kw_only=True)
class ExactServed(KeptMessages, SummedRows, ServedLabels):
    """Settings of a party in exact training."""

    cuts: list[str] = entry(
        'how columns may be cut, of `"grid"`, `"exact"` and `"given"`; exact and given cuts tell more',
        ["grid"],
        option="cuts: grid,exact,given; the last two tell more",
        metavar="A,B,C",
    )
    valid: str | None = entry(
        "file of rows that are not trained on; metrics are of those of all parties together",
        None,
        option="rows that are not trained on, for metrics",
        is_path=True,
        metavar="FILE",
    )
    min_rows_per_node: int = entry(
        "rows of all parties that both sides of a split must have", MIN_ROWS_PER_NODE, least=1
    )
    max_samples: int = entry(
        "samples of rows that trees are grown on with `subsample`, in all training runs together",
        MAX_SAMPLES,
        least=0,
    )


def faults(plan: ExactPlan) -> Iterator[str]:
    """Entries of a plan that contradict each other."""
    if plan.data.file is not None and not plan.data.allowed:
        yield "data.file needs data.allowed, the certificates of the other organisations"
    if plan.data.valid is not None and plan.data.file is None:
        yield "data.valid needs data.file; the parties' servers have their own (--valid)"
    yield from faults_of_kept_messages(plan.data)
