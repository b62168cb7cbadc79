"""Payments of a budget: charges kept in memory, or in one file that processes share.

A file is opened for each change and let go of at its end, so that processes and threads take turns.  A
charge is on the disk before `change` returns, and stays there however its run ends.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gbdt_commons.errors import StoreError, StoreInUseError
from gbdt_commons.files import write_atomically
from gbdt_commons.key_stream import this_process
from gbdt_commons.locks import OwnLock
from gbdt_commons.store import Kind, Store, json_kind
from gbdt_commons.store_file import StoreFile
from lgb_dp.accounting.cost import Cost
from lgb_dp.accounting.unit import Unit
from lgb_dp.errors import ArgumentTypeError, ForkedProcessError, InvalidArgumentError

ROLE = "a privacy budget"
SECONDS_TO_WAIT = 60.0
"""Until other processes let go of the file, as they do after some milliseconds."""
_PAUSE = 0.005
_NOTE = "-charged"
"""End of the name of the note beside a file."""

Note = tuple[str, int]
"""The id of a budget, and how many charges it had when it was changed last."""

Limits = Mapping[str, float]
"""Arguments of a `Budget`, by name."""


@dataclass(frozen=True)
class Payment:
    """Payment for one result of a kind, such as "NewtonBoost"; its cost is without secret samples.

    `once` names the thing that is not paid for again. `objective` is a model's, and empty for other results.
    `date` is by the clock of that machine (UTC): information, which nothing depends on. A time of the day
    would tell how long runs take, which may depend on their rows.
    """

    what: str
    cost: Cost
    unit: Unit
    once: Hashable
    objective: str
    date: str


@dataclass(frozen=True)
class Book:
    """Charges of a budget, and the reasons why results are not private."""

    charges: tuple[Payment, ...] = ()
    reasons: tuple[str, ...] = ()


class Account:
    """The book of one budget, named by its `id`, which ends with the process or is kept in a file."""

    path: Path | None = None

    def __init__(self) -> None:
        self.id = secrets.token_hex(8)
        self._book, self._lock, self._process = Book(), OwnLock(), this_process()

    def read(self) -> Book:
        """The book as it is now."""
        return self._book

    def key_of(self, once: Hashable) -> Hashable:
        """The name of a thing that is paid once, as the book has it."""
        return once

    def change(self, changed: Callable[[Book], Book]) -> Book:
        """Keep what a function adds to the book, which nothing else changes meanwhile; the new book."""
        if self._process != this_process():
            raise ForkedProcessError(
                "a budget in memory cannot be spent in a forked process: its parent spends it, too; open it "
                "from a file: lgb_dp.Budget.open(path, epsilon, delta)"
            )
        with self._lock.held():
            self._book = changed(self._book)
            return self._book


def _written(charge: Payment) -> dict[str, Any]:
    cost, unit = charge.cost, charge.unit.neighbouring
    return vars(charge) | {"cost": [cost.epsilon, cost.delta, cost.mu], "unit": unit}


def _read(kept: dict[str, Any]) -> Payment:
    return Payment(**kept | {"cost": Cost(*kept["cost"]), "unit": Unit.of_relation(kept["unit"])})


_JSON = json_kind("charge")
_CHARGE = Kind(
    "charge", lambda charge: _JSON.write(_written(charge)), lambda content: _read(_JSON.read(content))
)
_REASON, _ABOUT = json_kind("reason"), json_kind("about")


class FileAccount(Account):
    """The book in one file (`gbdt_commons.store_file`), whose absolute path and perhaps `id` are given.

    The file notes its number in the file system, which a copy or a restored backup does not have.  A backup
    that was written into the file itself lacks charges that a note beside it has counted.
    """

    path: Path

    def __init__(self, path: Path, id: str | None = None) -> None:
        super().__init__()
        self.path = path
        with self._reading() as (store, noted):
            about = self._about(store, id, noted)
        self.id, self.limits = about["id"], about["limits"]

    @classmethod
    def begun(cls, path: Path, limits: Limits, *, accept_copy: bool) -> FileAccount:
        """The book in a file, which is made with these limits if it is missing."""
        with _turn(path, ROLE) as store, store.transaction():
            kept = store.get(_ABOUT, "")
            if kept is None and not store.size(_CHARGE, ""):
                _begin(store, path, limits)
            elif kept is not None and kept["limits"] != limits:
                differ = [
                    f"{name} = {kept['limits'][name]!r}, not {value!r}"
                    for name, value in limits.items()
                    if value != kept["limits"][name]
                ]
                raise InvalidArgumentError(
                    f"the budget in {path.name!r} has {', '.join(differ)}: it keeps the limits that it began "
                    "with; Budget.open(path) takes them from the file"
                )
            elif kept is not None and accept_copy:
                if kept["place"] == os.stat(path).st_ino and not _lacks(store, _noted(path), kept["id"]):
                    raise InvalidArgumentError(
                        f"accept_copy must be left out: {path.name!r} is no copy, and one that took its "
                        "place later would go unnoticed"
                    )
                # Under a new name: what was paid from the other file may be missing in this one.
                _begin(store, path, limits)
        return cls(path)

    def read(self) -> Book:
        """The book as it is now."""
        with self._lock.held(), self._reading() as (store, noted):
            return self._book_in(store, noted)

    def change(self, changed: Callable[[Book], Book]) -> Book:
        """The same on the disk, when no other process or thread changes the file."""
        with self._lock.held(), _turn(self.path, None) as store:
            with store.transaction():
                before = self._book_in(store, _noted(self.path))
                after = changed(before)
                for charge in after.charges[len(before.charges) :]:
                    store.append(_CHARGE, "", charge)
                for reason in after.reasons[len(before.reasons) :]:
                    store.append(_REASON, "", reason)
            if after.charges != before.charges:
                _note(self.path, self.id, len(after.charges))
        self._book = after
        return after

    def key_of(self, once: Hashable) -> Hashable:
        """The name of a thing that is paid once, as a text that all processes write alike."""
        if once is None:
            return None
        if not _is_plain(once):
            raise ArgumentTypeError(
                "once must be made of texts, numbers and tuples, which every process writes alike, for a "
                f"budget in a file, got {type(once).__name__}"
            )
        return repr(once)

    @contextmanager
    def _reading(self) -> Iterator[tuple[Store, Note | None]]:
        noted = _noted(self.path)  # first: another process may be about to charge and note
        try:
            store = StoreFile(self.path, ROLE, read_only=True)
        except FileNotFoundError:
            raise _missing(self.path) from None
        with closing(store):
            yield store, noted

    def _about(self, store: Store, id: str | None, noted: Note | None) -> Mapping[str, Any]:
        """The file's entry about itself, if it is this budget's and no copy."""
        about: Mapping[str, Any] | None = store.get(_ABOUT, "")
        found = os.stat(self.path)
        if about is None or id not in (None, about["id"]):
            raise StoreError(f"{self.path.name!r} holds another budget, or none")
        if about["place"] != found.st_ino or _lacks(store, noted, about["id"]):
            raise StoreError(
                f"{self.path.name!r} is a copy, or was restored or moved to another disk: charges that the "
                "other file has had since would not count; accept_copy=True goes on with it, where the other "
                "file is used no more"
            )
        if found.st_nlink > 1:
            raise StoreError(f"{self.path.name!r} has a second name (a hard link): remove one of the two")
        return about

    def _book_in(self, store: Store, noted: Note | None) -> Book:
        self._about(store, self.id, noted)
        book = Book(tuple(store.entries(_CHARGE, "")), tuple(store.entries(_REASON, "")))
        seen = self._book.charges
        if book.charges[: len(seen)] != seen:
            raise StoreError(
                f"{self.path.name!r} is an older copy: it lacks charges that were seen in it before"
            )
        self._book = book
        return book


def _begin(store: Store, path: Path, limits: Limits) -> None:
    id = secrets.token_hex(8)
    about = {"id": id, "limits": dict(limits), "place": os.stat(path).st_ino}
    store.put(_ABOUT, "", about)
    _note(path, id, store.size(_CHARGE, ""))


def _note(path: Path, id: str, n_charges: int) -> None:
    """Note beside the file how many charges the budget has; behind the charge, so never too many."""
    write_atomically(path.with_name(path.name + _NOTE), f"{id} {n_charges}")


def _noted(path: Path) -> Note | None:
    """The note beside a file, if there is one."""
    try:
        known, _, n_charges = path.with_name(path.name + _NOTE).read_text(errors="replace").partition(" ")
    except FileNotFoundError:
        return None
    return (known, int(n_charges)) if n_charges.isascii() and n_charges.isdecimal() else ("", 0)


def _lacks(store: Store, noted: Note | None, id: str) -> bool:
    """Whether the note beside the file is of another budget, or has counted charges that are not in it."""
    return noted is not None and (noted[0] != id or noted[1] > store.size(_CHARGE, ""))


@contextmanager
def _turn(path: Path, role: str | None) -> Iterator[Store]:
    """The file, once no other process or thread holds it; without a role, one that must be there."""
    end = time.monotonic() + SECONDS_TO_WAIT
    while True:
        try:
            store = StoreFile(path, role)
            break
        except StoreInUseError:
            if time.monotonic() > end:
                raise
            time.sleep(_PAUSE)
        except FileNotFoundError:
            raise _missing(path) from None
    with closing(store):
        yield store


def _missing(path: Path) -> StoreError:
    return StoreError(
        f"no budget is at {str(path)!r}: restore the file, or begin one by Budget.open(path, epsilon, delta)"
    )


def _is_plain(value: Hashable) -> bool:
    """Whether equal values, and they alone, have the same text in all processes."""
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return type(value) in (str, bytes, int, float, bool, Cost)
