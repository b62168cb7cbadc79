"""Messages of exact training that are not those of all secure sums: introductions and the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gbdt_parties.messages import Integer, Message, Octets, Text


@dataclass(frozen=True, eq=False)
class OpenExact(Message):
    """Coordinator to party: start a session of exact training, and describe your columns."""

    kind: ClassVar[int] = 121
    wants_classes: Integer
    """1 for classification."""


@dataclass(frozen=True, eq=False)
class ExactIntroduced(Message):
    """Party to coordinator: its keys for the session, and its columns; nothing of rows but their labels."""

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


@dataclass(frozen=True, eq=False)
class ProposeExact(Message):
    """Coordinator to party: what is to be trained, and by whom."""

    kind: ClassVar[int] = 123
    task: Text
    """JSON: the public settings."""
    roster: Octets
    """Session, digest of the settings, and everybody's introduction; every party sees it."""
