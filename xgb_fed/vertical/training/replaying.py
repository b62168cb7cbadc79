"""An auditor's repetition of the active party's side of a run, from its rows, seed and received messages."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from gbdt_commons.errors import VeilboostError
from gbdt_commons.store import MemoryStore, Store
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.messages import Abort, address, read, readdressed
from gbdt_parties.run.record import KeptExchange, Record, summary
from gbdt_parties.run.replay import Compared, DifferenceError, Replay
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.vertical.training.auditing import AUDIT_FILE, AUDIT_ROLE, PARTIES, PROCESSES, seed_of
from xgb_fed.vertical.training.checkpoint import ENTRY, VerticalCheckpoint, VerticalJournal
from xgb_fed.vertical.training.task import ActiveData
from xgb_fed.vertical.training.train import prepared, run


class _RecordEndsError(Exception):
    """The process ended here."""


class _RepeatedParty:
    """A party that answers what it has answered, and compares what it is asked."""

    def __init__(self, name: str, exchanges: Iterator[KeptExchange], compared: Compared, lock: Lock) -> None:
        self.name, self._exchanges, self._compared, self._lock = name, exchanges, compared, lock
        self.next, self._number = next(exchanges, None), 0

    def handle(self, request: bytes) -> bytes:
        """Compare a request with the next one of the record, and give its answer."""
        kept = self.next
        gives_up = isinstance(read(request).message, Abort)
        if kept is None or (gives_up and kept.sent != summary(request)):
            raise _RecordEndsError
        with self._lock:
            self._compared.check(kept, request, f"request {self._number} to party {self.name!r}")
        self.next, self._number = next(self._exchanges, None), self._number + 1
        if not kept.received:
            raise PartyUnavailableError(f"party {self.name!r} was lost")
        return readdressed(kept.received, *address(request))


class _Progress(VerticalCheckpoint):
    """Progress of the repetition."""

    def __init__(self, store: Store, training: str) -> None:
        super().__init__("", training)
        self._store = store

    @contextmanager
    def opened(self) -> Iterator[Store]:
        """The store in memory."""
        yield self._store


class _SameSeed:
    """The randomness of a process that is repeated."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    @contextmanager
    def begun(self, journal: VerticalJournal) -> Iterator[bytes]:
        """See `Audit`."""
        yield self._seed


def replay(
    checkpoint: str | Path,
    params: Mapping[str, Any],
    active_data: ActiveData,
    num_boost_round: int = 10,
    **settings: Any,
) -> Replay:
    """Repeat the active party's side of a vertical training run, and compare every message that it sent.

    The party has trained with ``auditable=True``.  If the result `agrees`, it has encrypted the gradients
    that follow from these rows and the other parties' answers, and sent nothing else.  **The checkpoint is
    private**: with its seed all ciphertexts of the run can be decrypted.

    Parameters
    ----------
    checkpoint : path
        The party's.  It is only read.
    params, active_data, num_boost_round
        As `train` was called with.
    **settings
        `evals`, `cipher`, `early_stopping_rounds`, `callbacks`, `obj`, `custom_metric` and `xgb_model`, as
        `train` was called with.

    Returns
    -------
    Replay
        Rounds, trees (as attempts), processes (as connections), messages and bytes that agree, and the name
        of the first difference.

    Raises
    ------
    InvalidArgumentError
        If no messages were kept.
    StoreError
        If what was kept is damaged, or in use.
    """
    path = Path(checkpoint) / AUDIT_FILE
    if not path.exists():
        raise InvalidArgumentError(f"checkpoint={str(checkpoint)!r} has no {AUDIT_FILE}: auditable=False")
    store, compared, difference, has_ended = MemoryStore(), Compared(), None, False
    with closing(StoreFile(path, AUDIT_ROLE, read_only=True)) as kept:
        names = kept.get(PARTIES, "") or []
        for process, n_entries in enumerate(kept.entries(PROCESSES, "")):
            if store.size(ENTRY, "") < n_entries:
                difference = f"the progress before process {process} is not what follows from the messages"
                break
            # What the party had not kept when its process ended.
            store.delete(ENTRY, "", n_entries)
            lock = Lock()
            parties = [
                _RepeatedParty(name, _of_process(Record(kept.part(name)), process), compared, lock)
                for name in names
            ]
            compared.n_connections += 1
            has_ended = False
            try:
                task, options = prepared(
                    params, active_data, parties, num_boost_round, verbose_eval=False, **settings
                )
                progress, again = _Progress(store, task.digest()), _SameSeed(seed_of(kept, process))
                run(task, options, None, progress, math.inf, audit=again)
                has_ended = True
            except DifferenceError as error:
                difference = str(error)
                break
            except (_RecordEndsError, VeilboostError):
                # The process ended, or failed: then nothing was sent after it.
                pass
            left = next((party.name for party in parties if party.next is not None), None)
            if left is not None:
                difference = (
                    f"a message to party {left!r} was sent, and does not follow from what was received"
                )
                break
        kinds = [content.get("kind") for content, _ in store.entries(ENTRY, "")]
    sizes = kinds.count("round"), kinds.count("tree"), compared.n_connections
    ended = has_ended and difference is None
    return Replay(*sizes, compared.n_messages, compared.n_bytes, ended, difference)


def _of_process(record: Record, process: int) -> Iterator[KeptExchange]:
    """The messages of one process."""
    number = -1
    for exchange in record.entries():
        if exchange is None:
            number += 1
        elif number == process:
            yield exchange
