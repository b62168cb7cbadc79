"""Sections of plans of horizontal training by SimFL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from veilboost.plans.entries import entry
from veilboost.plans.sections import InitiatorRows, KnownParties, Plan, ServedLabels, TrainingSection


@dataclass(frozen=True, kw_only=True)
class SimFLTerms:
    """Limits of SimFL, as a party sets them for its rows."""

    min_similar: int = entry(
        "rows whose gradients are sent as one sum, at least; 1 lets others read single labels", 3, least=1
    )
    known_features: int = entry(
        "features of a row that others may know; lowers the number of hashes", 0, least=0
    )


@dataclass(frozen=True, kw_only=True)
class SimFLData(SimFLTerms, KnownParties, InitiatorRows):
    """The coordinator's file."""

    name: str = entry("name of these rows among the parties", "own")
    valid: str | None = entry("file of rows to evaluate the model on after every round", None, is_path=True)


@dataclass(frozen=True, kw_only=True)
class SimFLTraining(TrainingSection):
    """Settings of SimFL."""

    n_hashes: int | None = entry("hashes per row; the paper's min(40, d − 1), or fewer, by default", None)
    known_features: int = entry("features of a row that others may know, at every party", 0)


SimFLPlan: TypeAlias = Plan[SimFLData, SimFLTraining]


@dataclass(frozen=True, kw_only=True)
class SimFLServed(SimFLTerms, ServedLabels):
    """Settings of a party in SimFL."""

    name: str | None = entry("name in the record; the certificate's by default", None, metavar="NAME")


def faults(plan: SimFLPlan) -> Iterator[str]:
    """Entries of a plan that contradict each other."""
    if plan.training.early_stopping_rounds is not None and plan.data.valid is None:
        yield "training.early_stopping_rounds needs data.valid"
