"""Turns of the parties: party ⌊r / s⌋ mod M grows the trees of round r, and the others take them."""

from __future__ import annotations

from dataclasses import dataclass

from gbdt_parties.errors import ProtocolError


@dataclass(frozen=True)
class Turns:
    """The rounds of a training run.

    Attributes
    ----------
    n_parties : int
        Number M.
    rounds_per_turn : int
        Number s of successive rounds that one party grows.
    max_rounds : int
        Rounds that the training run has at most.

    Raises
    ------
    ProtocolError
        For numbers that no training run has.
    """

    n_parties: int
    rounds_per_turn: int
    max_rounds: int

    def __post_init__(self) -> None:
        """Check the numbers, which come from another party."""
        if self.rounds_per_turn < 1 or self.max_rounds < 0:
            raise ProtocolError("the number of rounds, or of rounds per turn, is malformed")

    def builder(self, number: int) -> int:
        """The place of the party whose turn round `number` is, counted from 0.

        Raises
        ------
        ProtocolError
            If the training run has fewer rounds.
        """
        if number >= self.max_rounds:
            raise ProtocolError(f"the training run was opened for {self.max_rounds} rounds")
        return number // self.rounds_per_turn % self.n_parties
