"""The entries of a store by kind, key and place, with a way back to how they were before a transaction."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Index(Generic[T]):
    """Sequences of entries by kind and key.

    Each change takes the place of a sequence's tail.  Changes are undone until they are kept.  An interrupt
    of `keep` or `undo` does no harm: either can be called again.
    """

    def __init__(self) -> None:
        self._sequences: dict[str, dict[str, list[tuple[int, T]]]] = {}
        self._n_changes = 0
        self._undone: list[tuple[str, str, int, list[tuple[int, T]]]] = []

    def get(self, kind: str, key: str, place: int) -> T | None:
        """An entry; None if there is none."""
        found = self._sequence(kind, key)[place : place + 1]
        return found[0][1] if found else None

    def size(self, kind: str, key: str) -> int:
        """Number of entries of a sequence."""
        return len(self._sequence(kind, key))

    def keys(self, kind: str) -> list[str]:
        """All keys with entries, those whose entries changed last at the end."""
        last = {key: found[-1][0] for key, found in self._sequences.get(kind, {}).items() if found}
        return sorted(last, key=last.__getitem__)

    def __iter__(self) -> Iterator[tuple[str, str, int, T]]:
        """Kind, key, place and entry of all entries, in the order in which they were written."""
        numbers = {
            number: (kind, key, place, entry)
            for kind, sequences in self._sequences.items()
            for key, sequence in sequences.items()
            for place, (number, entry) in enumerate(sequence)
        }
        return (numbers[number] for number in sorted(numbers))

    def replace(self, kind: str, key: str, place: int, *entry: T) -> list[T]:
        """Put an entry, or none, in the place of a sequence's tail; gives the entries that were there."""
        sequence = self._sequences.setdefault(kind, {}).setdefault(key, [])
        self._n_changes += 1
        tail = sequence[place:]
        self._undone.append((kind, key, place, tail))
        sequence[place:] = [(self._n_changes, one) for one in entry]
        return [one for _, one in tail]

    def keep(self) -> None:
        """Make the changes since the last call final."""
        for kind, key, _, _ in self._undone:
            if not self._sequence(kind, key):
                self._sequences[kind].pop(key, None)
        self._undone.clear()

    def undo(self) -> None:
        """Take back the changes that were not kept."""
        # A step that is repeated after an interrupt changes nothing before the lowest of the places, and the
        # step of that place, which comes later, restores all from there on.
        for kind, key, place, tail in reversed(self._undone):
            self._sequences[kind].setdefault(key, [])[place:] = tail
        self._undone.clear()

    def _sequence(self, kind: str, key: str) -> list[tuple[int, T]]:
        return self._sequences.get(kind, {}).get(key, [])
