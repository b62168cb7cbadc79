"""Messages of SimFL, all in clear text: what a party learns of another is what they hold (docs/simfl.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gbdt_parties.messages import Float32s, Float64s, Int32s, Integer, Message, NumberOrNone, Octets


@dataclass(frozen=True, eq=False)
class TellMoments(Message):
    """Coordinator to party: send the moments of your columns."""

    kind: ClassVar[int] = 105
    known_features: Integer
    """Number of features that other parties may know already."""


@dataclass(frozen=True, eq=False)
class ColumnMoments(Message):
    """Party to coordinator: moments of its columns."""

    kind: ClassVar[int] = 106
    count: Float64s
    mean: Float64s
    squares: Float64s
    """Sums of squared deviations from the mean."""
    known_features: Integer
    """Number of features that count as known: the party's own or the coordinator's, whichever is larger."""


@dataclass(frozen=True, eq=False)
class CommitSeed(Message):
    """Coordinator to party: commit to your contribution to the hash seed."""

    kind: ClassVar[int] = 115


@dataclass(frozen=True, eq=False)
class SeedCommitment(Message):
    """Party to coordinator: the digest of its contribution."""

    kind: ClassVar[int] = 116
    commitment: Octets
    """32 bytes."""
    last_seed: Octets
    """Name of the seed that this party hashed by in its previous session, 32 bytes; empty without one."""


@dataclass(frozen=True, eq=False)
class RevealSeed(Message):
    """Coordinator to party: the commitments of all parties; the party reveals its contribution."""

    kind: ClassVar[int] = 117
    commitments: Octets
    """32 bytes per party, in the parties' order."""


@dataclass(frozen=True, eq=False)
class SeedContribution(Message):
    """Party to coordinator: its contribution to the hash seed."""

    kind: ClassVar[int] = 118
    contribution: Octets
    """32 bytes."""


@dataclass(frozen=True, eq=False)
class HashRows(Message):
    """Coordinator to party: hash your rows, standardised by these moments of all parties."""

    kind: ClassVar[int] = 107
    contributions: Octets
    """All parties' contributions to the seed, 32 bytes per party; empty to hash by the previous session's."""
    n_hashes: Integer
    mean: Float64s
    std: Float64s
    """0 for columns that do not count."""


@dataclass(frozen=True, eq=False)
class HashTable(Message):
    """Party to coordinator, and on to every other party: hashes of a party's rows, row by row."""

    kind: ClassVar[int] = 108
    place: Integer
    """Whose rows."""
    hashes: Int32s


@dataclass(frozen=True, eq=False)
class StartBoosting(Message):
    """Coordinator to party: the common base score of the margins."""

    kind: ClassVar[int] = 109
    base_score: Float64s


@dataclass(frozen=True, eq=False)
class ResumeBoosting(Message):
    """Coordinator to party: take up a training run of an earlier session after some finished rounds."""

    kind: ClassVar[int] = 119
    run: Octets
    """Number of the session in which boosting started, 16 bytes."""
    n_rounds: Integer
    """Rounds that all parties have."""
    max_rounds: Integer
    """Rounds that the training run has at most, these among them."""


@dataclass(frozen=True, eq=False)
class AggregateGradients(Message):
    """Coordinator to party: sum your gradients at the rows of this party that yours are similar to."""

    kind: ClassVar[int] = 110
    place: Integer


@dataclass(frozen=True, eq=False)
class AggregatedGradients(Message):
    """Party to coordinator, and added up over parties on to the builder: sums for each of its rows."""

    kind: ClassVar[int] = 111
    g: Float32s
    """Class by class."""
    h: Float32s


@dataclass(frozen=True, eq=False)
class GrowTrees(Message):
    """Coordinator to builder: grow this round's trees on what you have and were sent."""

    kind: ClassVar[int] = 112
    round: Integer


@dataclass(frozen=True, eq=False)
class FinishBoosting(Message):
    """Coordinator to party: the session ends; the model, up to this round of early stopping, is yours."""

    kind: ClassVar[int] = 114
    best_iteration: NumberOrNone
    """−1 without early stopping."""
