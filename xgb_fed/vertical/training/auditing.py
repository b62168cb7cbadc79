"""An active party's side of a run, kept beside its checkpoint, and repeated by an auditor to the byte.

Kept are a seed, the key, and what the other parties answered.  The model's number, all draws and ciphertexts
follow from the seed; with the party's rows, so does every message.  No other party signs what is kept: one
that knows all bins could make it up, but for the requests that a passive party keeps (`passive.auditing`).
"""

from __future__ import annotations

import hmac
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from gbdt_commons.errors import VeilboostError
from gbdt_commons.store import Store
from gbdt_commons.store_file import StoreFile, remove_store
from gbdt_parties.channel import check_parties
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.messages import Abort, address, read, readdressed
from gbdt_parties.run.log import RUNS
from gbdt_parties.run.record import KeptExchange, MessageRecord, summary
from gbdt_parties.run.replay import Compared, DifferenceError, Replay
from xgb_fed.ciphers.plain import Plain
from xgb_fed.errors import CheckpointError, InvalidArgumentError
from xgb_fed.vertical.training.checkpoint import ENTRY, ROLE, STORE_FILE, VerticalJournal, steps_in

AUDIT_FILE, AUDIT_ROLE = "audit.store", "the messages of an active party"


def _about(store: Store) -> dict[str, Any]:
    """Record of a run: seed, parties in their order, keys of processes, and steps finished before each."""
    return store.get(RUNS, "") or {"seed": "", "parties": [], "steps": [], "keys": {}}


class ProcessSecrets:
    """All that is random in one process of a run; processes are counted from 0 on."""

    def __init__(self, store: Store, process: int) -> None:
        seed = bytes.fromhex(_about(store)["seed"])
        if not seed:
            raise CheckpointError("the run in the checkpoint was begun with auditable=False; go on so")
        self._store, self._process, self._seed, self._n_trees = store, str(process), seed, 0

    def drawn(self, what: str) -> bytes:
        """32 bytes for one use."""
        return hmac.digest(self._seed, f"veilboost process {self._process} {what}".encode(), "sha256")

    def key(self, fresh: Any) -> Any:
        """The key of the process, which is kept; of one that is repeated, the kept one."""
        if isinstance(fresh, Plain):
            return fresh
        if not hasattr(fresh, "random"):
            raise InvalidArgumentError(
                f"auditable=True with keys of {type(fresh).__name__}, which cannot encrypt the same again; "
                "accepted are Paillier and OkamotoUchiyama"
            )
        keys = (about := _about(self._store))["keys"]
        if self._process not in keys:
            keys[self._process] = fresh.private_bytes().hex()
            self._store.put(RUNS, "", about)
            return fresh
        return type(fresh).from_private_bytes(bytes.fromhex(keys[self._process]), allow_weak_key=True)

    def begin_tree(self, key: Any) -> None:
        """Draw ciphertexts anew: of a tree that was given up, threads have made as many as time allowed."""
        self._n_trees += 1
        if hasattr(key, "random"):
            key.random.begin(self.drawn(f"tree {self._n_trees}"))


def go_without_record(checkpoint: Path, journal: VerticalJournal) -> None:
    """Refuse to go on without a record with a run that has one; another run takes its place."""
    if journal.has_begun and (checkpoint / AUDIT_FILE).exists():
        raise CheckpointError("the run in the checkpoint was begun with auditable=True; go on so")
    remove_store(checkpoint / AUDIT_FILE)


class Recording:
    """Keeps the messages of a run; its parties have it as `audit`."""

    patience = 0.0

    def __init__(self, checkpoint: str | Path | None, parties: Sequence[Any]) -> None:
        if checkpoint is None:
            raise InvalidArgumentError("auditable=True needs a checkpoint, where messages are kept")
        self._path, self._records = Path(checkpoint) / AUDIT_FILE, dict[str, MessageRecord]()
        self.parties = [_RecordedParty(party, self) for party in check_parties(parties)]

    @contextmanager
    def begun(self, journal: VerticalJournal) -> Iterator[ProcessSecrets]:
        """The secrets of a process; another run that begins takes the place of what is kept."""
        with closing(StoreFile(self._path, AUDIT_ROLE)) as store:
            names = [party.name for party in self.parties]
            if not journal.has_begun:
                store.clear()
                store.put(RUNS, "", {**_about(store), "seed": os.urandom(32).hex(), "parties": names})
            about = _about(store)
            secrets = ProcessSecrets(store, len(about["steps"]))
            store.put(RUNS, "", {**about, "steps": [*about["steps"], journal.n_steps]})
            self._records = {name: MessageRecord(store.part(name)) for name in names}
            for record in self._records.values():
                record.begin()
            yield secrets

    def keep(self, name: str, sent: bytes, received: bytes) -> None:
        """Keep a request to a party, and its answer."""
        self._records[name].keep(sent, received)


class _RecordedParty:
    """A party whose messages are kept once they are whole; in all else it is the party."""

    takes_parts = False

    def __init__(self, party: Any, audit: Recording) -> None:
        self._party, self.name, self.audit = party, party.name, audit

    def __getattr__(self, name: str) -> Any:
        return getattr(self._party, name)

    def handle(self, request: bytes) -> bytes:
        answer: bytes = b""
        try:
            answer = self._party.handle(request)
        finally:
            # Addresses are not kept: an answer to another request is refused as one without a header is.
            is_answer = address(answer) == address(request)
            self.audit.keep(self.name, request, answer if is_answer else answer[:1])
        return answer


class _RecordEndsError(Exception):
    """The process ended here."""


class _RepeatedParty:
    """A party that answers what it has answered, and compares what it is asked."""

    def __init__(self, name: str, exchanges: Iterator[KeptExchange], audit: _Repeating) -> None:
        self.name, self._exchanges, self.audit = name, exchanges, audit
        self.next, self._number = next(exchanges, None), 0

    def handle(self, request: bytes) -> bytes:
        kept, gives_up = self.next, isinstance(read(request).message, Abort)
        if kept is None or (gives_up and kept.sent != summary(request)):
            raise _RecordEndsError
        self.audit.check(kept, request, f"request {self._number} to party {self.name!r}")
        self.next, self._number = next(self._exchanges, None), self._number + 1
        if not kept.received:
            raise PartyUnavailableError(f"party {self.name!r} was lost")
        return readdressed(kept.received, *address(request))


class _Repeating:
    """The audit of a process that is repeated."""

    patience = math.inf

    def __init__(self, store: Store, process: int, compared: Compared) -> None:
        self._secrets, self._compared, self._lock = ProcessSecrets(store, process), compared, Lock()
        self.parties = [
            _RepeatedParty(name, MessageRecord(store.part(name)).of_process(process), self)
            for name in _about(store)["parties"]
        ]

    @contextmanager
    def begun(self, journal: VerticalJournal) -> Iterator[ProcessSecrets]:
        yield self._secrets

    def check(self, kept: KeptExchange, request: bytes, name: str) -> None:
        with self._lock:
            self._compared.check(kept, request, name)

    def check_end(self) -> None:
        """Check that nothing else was sent."""
        for party in self.parties:
            if party.next is not None:
                self._compared.differs(f"what was sent to party {party.name!r} at the end")


Again = Callable[[Any, str], object]
"""``again(parties, checkpoint)`` calls `train` as the party did, with these two in place of its own."""


def replay(checkpoint: str | Path, again: Again) -> Replay:
    """Repeat the active party's side of a vertical training run, and compare every message that it sent.

    If the result `agrees`, the party has encrypted the gradients that follow from the rows and the answers of
    the others, and sent nothing else.  **The checkpoint is private**: its seed decrypts all that was sent.

    Parameters
    ----------
    checkpoint : path
        Of a party that has trained with ``auditable=True``.  It is only read.
    again : callable
        ``again(parties, checkpoint)`` calls `train` with the party's rows and arguments, but for these two.

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

    Examples
    --------
    >>> report = xgb_fed.replay(                                            # doctest: +SKIP
    ...     "checkpoint", lambda parties, at: xgb_fed.train(params, data, parties, 20, checkpoint=at))
    """
    path = Path(checkpoint) / AUDIT_FILE
    if not path.exists():
        raise InvalidArgumentError(f"checkpoint={str(checkpoint)!r} has no {AUDIT_FILE}: auditable=False")
    compared, difference, has_ended = Compared(), None, False
    with closing(StoreFile(path, AUDIT_ROLE, read_only=True)) as store, TemporaryDirectory() as folder:
        for process, n_steps in enumerate(_about(store)["steps"]):
            with closing(StoreFile(Path(folder) / STORE_FILE, ROLE)) as progress:
                # Without what the party had not kept when its process ended.
                places = steps_in(progress)[:n_steps]
                progress.delete(ENTRY, "", places[-1] + 1 if places else 0)
            audit, has_ended = _Repeating(store, process, compared), False
            compared.n_connections += 1
            try:
                again(audit.parties, folder)
                has_ended = True
            except (_RecordEndsError, VeilboostError):
                pass  # The process ended, or failed: then nothing was sent after it.
            except DifferenceError as error:
                difference = str(error)
            try:
                audit.check_end()
            except DifferenceError as error:
                difference = difference or str(error)
            if difference is not None:
                break
        with closing(StoreFile(Path(folder) / STORE_FILE, ROLE)) as progress:
            kinds = [content.get("kind") for content, _ in progress.entries(ENTRY, "")]
    ended = has_ended and difference is None
    return compared.report(kinds.count("round"), kinds.count("tree"), ended, difference)
