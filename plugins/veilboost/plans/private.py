"""Sections of plans of differentially private horizontal training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from veilboost.plans.entries import entry
from veilboost.plans.sections import (
    BudgetedRows,
    KeptMessages,
    OwnBudget,
    OwnRows,
    Plan,
    Served,
    SummedRows,
    TrainingSection,
    faults_of_budget,
    faults_of_kept_messages,
    faults_of_own_budget,
    faults_of_private,
)


@dataclass(frozen=True, kw_only=True)
class PrivateData(KeptMessages, OwnBudget, OwnRows):
    """The coordinator's file."""

    file: str | None = entry("CSV or Parquet file of rows that take part", None, is_path=True)
    declared: str | None = entry(
        "file of what all declare about their columns; needed with `file` and for predictions",
        None,
        is_path=True,
    )
    allowed: list[str] = entry("the other organisations' certificates, `sha256:…`; needed with `file`", [])
    min_parties: int = entry("parties that must take part in every sum, as these rows demand", 2)
    colluding: int = entry("parties that may pool what they know, as these rows demand at least", 1)


@dataclass(frozen=True, kw_only=True)
class PrivateTraining(TrainingSection):
    """Settings of private training."""

    epsilon: float = entry("ε of the model, against what up to `colluding` parties know together")
    delta: float = entry("its δ")
    min_parties: int | None = entry(
        "parties that must take part in every sum; one more than `colluding` by default", None
    )
    colluding: int = entry("parties whose noise may be known to all", 1)
    max_attempts: int | None = entry(
        "releases that the noise is planned for; 6 per cent more than `rounds` by default", None
    )
    parties_per_person: int = entry("parties that may have rows of one person", 1)
    trees_per_round: int = entry(
        "trees that share gradients and one round trip; times the learning rate at most 1.5", 1, least=1
    )
    validation_fraction: float = entry(
        "share of the rows, below 1, that train nothing and show how good the model is", 0.0, least=0
    )
    by: str | None = entry("column of categories, for each of which the model's evaluation has figures", None)


PrivatePlan: TypeAlias = Plan[PrivateData, PrivateTraining]


@dataclass(frozen=True, kw_only=True)
class PrivateServed(KeptMessages, BudgetedRows, SummedRows, Served):
    """Settings of a party in private training."""

    data: str = entry("CSV or Parquet file", is_path=True, metavar="FILE")
    spark: str | None = entry(
        "server of Spark Connect (`sc://…`), or master, that [reads the Parquet files](spark-party)",
        None,
        option="Spark master or server that reads the file",
        metavar="ADDRESS",
    )
    declared: str = entry(
        "file of what all declare about their columns, the same at all parties",
        option="TOML or YAML file of what all declare of columns",
        is_path=True,
        metavar="FILE",
    )
    colluding: int = entry(
        "parties that may pool what they know, which a run must assume at least", 1, least=0
    )
    parties_per_person: int = entry(
        "parties that may have rows of one person; runs that assume fewer are refused", 1, least=1
    )


def faults_of_served(served: PrivateServed, called: Callable[[str], str]) -> Iterator[str]:
    """Settings that contradict each other."""
    yield from faults_of_budget(served, called)
    if served.spark is not None and served.auditable:
        yield f"{called('auditable')} is not supported with {called('spark')}"


def faults(plan: PrivatePlan) -> Iterator[str]:
    """Entries of a plan that contradict each other."""
    data = plan.data
    yield from faults_of_private(plan.training)
    if data.file is not None and (data.declared is None or not data.allowed):
        yield "data.file needs data.declared and data.allowed"
    yield from faults_of_own_budget(data)
    yield from faults_of_kept_messages(data)
