"""What an active party keeps of an auditable run beside its checkpoint: a seed, and the messages it received.

Keys, ciphertexts, the model's number and all draws follow from the seed (`xgb_fed.ciphers.randomness`), and
all messages from these, the party's rows and what the others answered (`replaying`).
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from gbdt_commons.store import MemoryStore, Store, bytes_kind, json_kind
from gbdt_commons.store_file import StoreFile
from gbdt_parties.channel import check_parties
from gbdt_parties.run.record import Record
from xgb_fed.ciphers.base import Scheme
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.ciphers.paillier import Paillier
from xgb_fed.ciphers.plain import Plain
from xgb_fed.errors import CheckpointError, InvalidArgumentError
from xgb_fed.vertical.training.checkpoint import VerticalJournal

AUDIT_FILE, AUDIT_ROLE = "audit.store", "the messages of an active party"
AUDIT_SEED = bytes_kind("seed of keys and draws")

PARTIES, PROCESSES = json_kind("names of parties"), json_kind("processes")
"""The parties in their order; for each process of a run, how far the journal had come before."""


class Audit(Protocol):
    """Gives the randomness of a process."""

    def begun(self, journal: VerticalJournal) -> AbstractContextManager[bytes]:
        """The seed of a process that begins, or goes on with, the run of a journal."""


def seed_of(store: Store, process: int) -> bytes:
    """The seed of one process of a run; a CheckpointError if the run has none."""
    seed = store.get(AUDIT_SEED, "")
    if seed is None:
        raise CheckpointError("the run in the checkpoint was begun with auditable=False; go on so")
    return hmac.digest(seed, b"veilboost process %d" % process, "sha256")


class ActiveAudit:
    """Keeps the messages of a run.

    Parameters
    ----------
    checkpoint : path or None
    cipher : Scheme

    Raises
    ------
    InvalidArgumentError
        Without a checkpoint, or if the cipher's keys cannot be generated again.
    """

    def __init__(self, checkpoint: str | Path | None, cipher: Scheme) -> None:
        if checkpoint is None:
            raise InvalidArgumentError("auditable=True needs a checkpoint, where messages are kept")
        if not isinstance(cipher, (Paillier, OkamotoUchiyama, Plain)):
            raise InvalidArgumentError(
                f"auditable=True with cipher={cipher!r}, whose keys cannot be generated again; accepted are "
                "Paillier and OkamotoUchiyama"
            )
        self._folder, self._records = Path(checkpoint), dict[str, Record]()

    def recording(self, parties: Sequence[Any]) -> list[Any]:
        """The parties of the run, whose messages are kept."""
        return [RecordedParty(party, self._records) for party in check_parties(parties)]

    @contextmanager
    def begun(self, journal: VerticalJournal) -> Iterator[bytes]:
        """See `Audit`; what is kept of an earlier run is removed when another one begins."""
        with closing(StoreFile(self._folder / AUDIT_FILE, AUDIT_ROLE)) as store:
            if not journal.n_entries:
                store.clear()
                store.put(AUDIT_SEED, "", os.urandom(32))
                store.put(PARTIES, "", list(self._records))
            number = store.size(PROCESSES, "")
            seed = seed_of(store, number)
            store.append(PROCESSES, "", journal.n_entries)
            for name in self._records:
                self._records[name] = Record(store.part(name))
                self._records[name].begin()
            yield seed


class RecordedParty:
    """A party whose requests and answers are kept; in all else it is the party."""

    def __init__(self, party: Any, records: dict[str, Record]) -> None:
        self._party, self._records = party, records
        # Kept as they are sent, not while they are made.
        self.name, self.takes_parts = party.name, False
        records[party.name] = Record(MemoryStore())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._party, name)

    def handle(self, request: bytes) -> bytes:
        """See `gbdt_parties.channel.Party`."""
        answer: bytes = b""
        try:
            answer = self._party.handle(request)
        finally:
            self._records[self.name].keep(request, answer)
        return answer
