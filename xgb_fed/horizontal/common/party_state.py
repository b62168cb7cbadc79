"""The state that a horizontal party keeps across sessions, callers and processes, whatever the method.

All draws that decide which rows' gradients are added where come from its secret key and from what is agreed,
so the same question is always answered by the same selection of rows.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from contextlib import AbstractContextManager
from typing import TypeVar

from gbdt_commons.store import MemoryStore, Store, json_kind
from gbdt_parties.errors import InvalidDataError
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.horizontal.common.told_rows import ToldRows

SIZE = 32
"""Bytes of a party's contribution, of a commitment and of the seed."""

MAX_RUNS = 64
"""Runs whose counted rounds are known; a round of an older one is counted again when it is resumed."""

KEY_BYTES = 32
KEY, ROUNDS = json_kind("secret key"), json_kind("rounds")
"""Records of the key in hexadecimal digits, and of the rounds counted: all, and those of the last runs."""

C = TypeVar("C")


class PartyState:
    """The secret key, the counted rounds and the `rows` of one party, shared by all of its sessions.

    The `key`, 32 bytes that determine the draws, comes from the operating system by default. A `store` keeps
    everything and is closed if it is refused; by default it is in memory.
    """

    def __init__(self, key: bytes | None = None, store: Store | None = None) -> None:
        self.store = MemoryStore() if store is None else store
        try:
            known = self.store.get(KEY, "")
            if known is None:
                known = (os.urandom(KEY_BYTES) if key is None else key).hex()
                self.store.put(KEY, "", known)
            self.key = bytes.fromhex(known)
        except BaseException:
            self.close()
            raise
        self.rows: ToldRows | None = None

    def close(self) -> None:
        """Let go of the store: another process, or object, can use it then."""
        self.store.close()

    def tell(self) -> None:
        """Keep that the present rows have sums, before the first one leaves."""
        if self.rows is not None:
            self.rows.tell()

    def locked(self) -> AbstractContextManager[None]:
        """To be entered while anything is looked at and changed: it excludes all other threads meanwhile.

        If the block raises an error, such as that of a full disk, nothing has changed.
        """
        return self.store.transaction()

    def stream(self, purpose: str, *agreed: bytes) -> SecretStream:
        """The draws for a purpose: the same whenever they are made, and a secret to all other parties."""
        message = b"\0".join([purpose.encode(), *(hashlib.sha256(part).digest() for part in agreed)])
        return SecretStream(hmac.digest(self.key, message, "sha256"))

    @property
    def n_rounds(self) -> int:
        """Rounds in which this party has grown trees, or taken those of others."""
        return int(self._counted[0])

    @property
    def rounds_of(self) -> dict[str, int]:
        """Rounds counted of each of the last runs: one that was interrupted then is not counted twice."""
        return dict(self._counted[1])

    @property
    def _counted(self) -> tuple[int, dict[str, int]]:
        return self.store.get(ROUNDS, "") or (0, {})

    def _count(self, n_rounds: int, rounds_of: dict[str, int]) -> None:
        self.store.put(ROUNDS, "", [self.n_rounds + n_rounds, rounds_of])

    def n_counted(self, run: bytes) -> int:
        """Rounds of a run that were counted; the last one may not be in its journal."""
        return self.rounds_of.get(run.hex(), 0)

    def check_rounds(self, n_rounds: int, max_rounds: int) -> None:
        """Refuse rounds beyond those that the party takes part in, in all training runs."""
        known = self.n_rounds
        if known + n_rounds > max_rounds:
            raise InvalidDataError(
                f"{n_rounds} further rounds; this party has taken part in {known}, and takes part in "
                f"max_rounds={max_rounds} in all training runs together"
            )

    def begin_run(self, run: bytes) -> None:
        """Count the rounds of a run from its first one, whatever had its number before."""
        with self.locked():
            others = {other: count for other, count in self.rounds_of.items() if other != run.hex()}
            self._count(0, latest({**others, run.hex(): 0}))

    def count_round(self, run: bytes, number: int, max_rounds: int) -> None:
        """Count a round, once, before its trees are sent, or sums under them can be asked for."""
        with self.locked():
            known = self.rounds_of
            if number >= known.get(run.hex(), 0):
                self.check_rounds(1, max_rounds)
                self._count(1, {**known, run.hex(): number + 1} if run.hex() in known else known)

    def count_run(self, run: bytes, n_rounds: int, max_rounds: int) -> None:
        """Count all rounds of a run at once, before its first answer; once, however often it is taken up."""
        with self.locked():
            known = self.rounds_of
            if run.hex() not in known:
                self.check_rounds(n_rounds, max_rounds)
                self._count(n_rounds, latest({**known, run.hex(): n_rounds}))


def latest(counts: dict[str, C]) -> dict[str, C]:
    """The last `MAX_RUNS` of some counts."""
    return dict(list(counts.items())[-MAX_RUNS:])
