"""Messages of SimFL, all in clear text: what a party learns of another is what they hold (docs/simfl.md)."""

from __future__ import annotations

from gbdt_parties.messages import Float32s, Float64s, Int32s, Integer, Message, NumberOrNone, Octets


class TellMoments(Message, kind=105):
    """Coordinator to party: send the moments of your columns."""

    known_features: Integer
    """Number of features that other parties may know already."""


class ColumnMoments(Message, kind=106):
    """Party to coordinator: moments of its columns."""

    count: Float64s
    mean: Float64s
    squares: Float64s
    """Sums of squared deviations from the mean."""
    known_features: Integer
    """Number of features that count as known: the party's own or the coordinator's, whichever is larger."""


class CommitSeed(Message, kind=115):
    """Coordinator to party: commit to your contribution to the hash seed."""


class SeedCommitment(Message, kind=116):
    """Party to coordinator: the digest of its contribution."""

    commitment: Octets
    """32 bytes."""
    last_seed: Octets
    """Name of the seed that this party hashed by in its previous session, 32 bytes; empty without one."""


class RevealSeed(Message, kind=117):
    """Coordinator to party: the commitments of all parties; the party reveals its contribution."""

    commitments: Octets
    """32 bytes per party, in the parties' order."""


class SeedContribution(Message, kind=118):
    """Party to coordinator: its contribution to the hash seed."""

    contribution: Octets
    """32 bytes."""


class HashRows(Message, kind=107):
    """Coordinator to party: hash your rows, standardised by these moments of all parties."""

    contributions: Octets
    """All parties' contributions to the seed, 32 bytes per party; empty to hash by the previous session's."""
    n_hashes: Integer
    mean: Float64s
    std: Float64s
    """0 for columns that do not count."""


class HashTable(Message, kind=108):
    """Party to coordinator, and on to every other party: hashes of a party's rows, row by row."""

    place: Integer
    """Whose rows."""
    hashes: Int32s


class StartBoosting(Message, kind=109):
    """Coordinator to party: the common base score of the margins."""

    base_score: Float64s


class ResumeBoosting(Message, kind=119):
    """Coordinator to party: take up a training run of an earlier session after some finished rounds."""

    run: Octets
    """Number of the session in which boosting started, 16 bytes."""
    n_rounds: Integer
    """Rounds that all parties have."""
    max_rounds: Integer
    """Rounds that the training run has at most, these among them."""


class AggregateGradients(Message, kind=110):
    """Coordinator to party: sum your gradients at the rows of this party that yours are similar to."""

    place: Integer


class AggregatedGradients(Message, kind=111):
    """Party to coordinator, and added up over parties on to the builder: sums for each of its rows."""

    g: Float32s
    """Class by class."""
    h: Float32s


class GrowTrees(Message, kind=112):
    """Coordinator to builder: grow this round's trees on what you have and were sent."""

    round: Integer


class FinishBoosting(Message, kind=114):
    """Coordinator to party: the session ends; the model, up to this round of early stopping, is yours."""

    best_iteration: NumberOrNone
    """−1 without early stopping."""
