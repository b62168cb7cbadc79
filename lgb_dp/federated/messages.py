"""Messages between a coordinator and the parties of a private training run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gbdt_parties.messages import Integer, Message, Octets, Text


@dataclass(frozen=True, eq=False)
class OpenFederated(Message):
    """Coordinator to party: takes up a training run, new or known."""

    kind: ClassVar[int] = 201
    run: Octets
    """16 bytes, drawn by the coordinator; what a secure sum calls the session."""
    task: Text
    """JSON: the public settings, which all parties must agree on."""


@dataclass(frozen=True, eq=False)
class Introduced(Message):
    """Party to coordinator: its keys for the run, and digests of what it declares about its columns."""

    kind: ClassVar[int] = 202
    introduction: Octets
    """Name, certificates, nonce, public keys, commitment to a seed."""
    declaration: Text
    """JSON: a digest each of columns, types, bounds, labels, weights and unit."""
    n_opened: Integer
    """Sums that the party has opened in this run; more than 0 if it takes the run up again."""
