"""Messages of exact training that are not those of all secure sums: introductions, the task, the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gbdt_parties.messages import Integer, Message, Octets, Text

NEW_RUN = -1
"""In `OpenExact`: the run has not begun."""


@dataclass(frozen=True, eq=False)
class OpenExact(Message):
    """Coordinator to party: take part in a training run, new or known, and describe your columns."""

    kind: ClassVar[int] = 121
    run: Octets
    """16 bytes, drawn by the coordinator; what a secure sum calls the session."""
    wants_classes: Integer
    """1 for classification."""
    n_known: Integer
    """Sums of the run that the coordinator has; -1 if it has not begun."""


@dataclass(frozen=True, eq=False)
class ExactIntroduced(Message):
    """Party to coordinator: its keys for the run, and its columns; nothing of rows but their labels."""

    kind: ClassVar[int] = 122
    introduction: Octets
    """Name, certificates, nonce, public keys, commitment to a seed."""
    n_features: Integer
    names: Text
    """Column names, a JSON list; empty if the columns have none."""
    classes: Text
    """Distinct labels, a JSON list, if asked for; the coordinator and all parties learn all of them."""
    n_sets: Integer
    """Sets of held-out rows."""
    n_opened: Integer
    """Sums of the run that the party has opened, at most as many as the coordinator has."""


@dataclass(frozen=True, eq=False)
class ProposeExact(Message):
    """Coordinator to party: what is to be trained, and by whom."""

    kind: ClassVar[int] = 123
    task: Text
    """JSON: the public settings."""
    roster: Octets
    """Session, digest of the settings, and all parties' introductions; every party sees it."""


@dataclass(frozen=True, eq=False)
class ExactFinished(Message):
    """Party to coordinator: the model, which all parties have alike, and its SHA-256."""

    kind: ClassVar[int] = 124
    digest: Octets
    """32 bytes."""
    content: Octets
    """JSON: model, cuts and metrics; empty if it was not asked for."""
