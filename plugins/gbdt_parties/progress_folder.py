"""A folder with the store of one training run's progress, which no other run uses at the same time."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from gbdt_commons.errors import StoreError, VeilboostError
from gbdt_commons.store import Store
from gbdt_commons.store_file import StoreFile, remove_store

logger = logging.getLogger(__name__)


class ProgressFolder:
    """A folder for one run's progress at its coordinator, made when opened; `error` is its errors' type."""

    store_file: ClassVar[str]
    role: ClassVar[str]

    def __init__(self, folder: str | Path, error: type[VeilboostError]) -> None:
        self.folder, self.error = Path(folder), error

    @contextmanager
    def opened(self) -> Iterator[Store]:
        """The store in the folder, which keeps other training runs, also of other processes, out of it.

        Raises the kind `error` if another one is in there, or it is damaged, foreign or of another release.
        """
        try:
            store = StoreFile(self.folder / self.store_file, self.role)
        except StoreError as error:
            raise self.unreadable(error) from None
        try:
            yield store
        finally:
            store.close()

    def of_another_run(self) -> VeilboostError:
        """The error for a folder with the progress of another training run."""
        return self.error(
            f"checkpoint={str(self.folder)!r} is of a training run with other data, parameters or parties, "
            "or another objective; give another directory, or remove this one"
        )

    def unreadable(self, error: Exception) -> VeilboostError:
        """The error for a folder whose store cannot be used."""
        reason = error if isinstance(error, StoreError) else type(error).__name__
        return self.error(
            f"checkpoint={str(self.folder)!r} cannot be read: {reason}; each training run needs a directory "
            "of its own; remove it to train anew, which the parties count as another run"
        )

    def clear(self) -> None:
        """Remove the progress, if the store is not in use by another training run."""
        try:
            remove_store(self.folder / self.store_file)
        except StoreError as error:
            logger.warning("checkpoint=%r is not cleared: %s", str(self.folder), error)
