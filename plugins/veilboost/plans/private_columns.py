"""Sections of plans of differentially private training with columns apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from veilboost.plans.entries import entry
from veilboost.plans.file_forms import FileForm
from veilboost.plans.sections import (
    AlignedRows,
    BudgetedRows,
    KeptMessages,
    OwnBudget,
    Plan,
    Served,
    TrainingSection,
    faults_of_own_budget,
    faults_of_private,
)

_ID = "column of ids; without it the parties' files must have the same rows in the same order"


@dataclass(frozen=True, kw_only=True)
class PrivateColumnsData(KeptMessages, OwnBudget, FileForm):
    """The file of the party with the labels."""

    file: str = entry("CSV or Parquet file", is_path=True)
    declared: str = entry("file of what this party declares about its columns and the label", is_path=True)
    id: str | None = entry(_ID, None)
    allowed: list[str] = entry("the other organisation's certificate, `sha256:…`")
    state: str = entry(
        "folder of these rows' ledger, for all runs; not that of `checkpoint`", "party", writes="folder"
    )


@dataclass(frozen=True, kw_only=True)
class PrivateColumnsTraining(TrainingSection):
    """Settings of private training with columns apart."""

    rounds: int = entry("trees of both parties together", 200, least=1)
    trees_per_round: int = entry(
        "trees that share gradients; times the learning rate at most 1.5", 4, least=1
    )
    epsilon: float = entry("ε of the model, towards the world")
    delta: float = entry("its δ")


PrivateColumnsPlan: TypeAlias = Plan[PrivateColumnsData, PrivateColumnsTraining]


@dataclass(frozen=True, kw_only=True)
class PrivateColumnsServed(KeptMessages, BudgetedRows, AlignedRows, Served):
    """Settings of the party with columns alone."""

    data: str = entry("CSV or Parquet file", is_path=True, metavar="FILE")
    declared: str = entry(
        "file of what this party declares about its columns; it has neither label nor weights",
        option="TOML or YAML file of what it declares of columns",
        is_path=True,
        metavar="FILE",
    )
    id: str | None = entry(_ID, None, option="column of ids (rows are in the file's order)", metavar="COLUMN")
    party: list[str] = entry(
        "certificate of the party with the labels, `sha256:…`; rosters with another one are not signed",
        option="certificate of the party with the labels",
        metavar="sha256:…",
        is_repeated=True,
    )
    max_rows: int = entry("rows of an alignment or a training run", 50_000_000, least=1)
    models_per_row: int = entry(
        "models that a row is asked about with in predictions: each tells up to five bits of it", 10, least=1
    )


def faults(plan: PrivateColumnsPlan) -> Iterator[str]:
    """Entries of a plan that contradict each other."""
    yield from faults_of_private(plan.training)
    yield from faults_of_own_budget(plan.data)
    if len(plan.parties) != 1:
        yield f"parties has {len(plan.parties)} parties; private training with columns apart is with one"
    if not plan.data.allowed:
        yield "data.allowed is empty; it names the other organisation's certificate"
