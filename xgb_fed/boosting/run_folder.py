"""A folder for the progress of one training run, which no other run uses at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gbdt_commons.errors import StoreError
from gbdt_commons.files import locked_folder, make_folder
from xgb_fed.errors import CheckpointError


class RunFolder:
    """A folder that is made if it is missing.

    Parameters
    ----------
    directory : path
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = make_folder(directory)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other training runs, also of other processes, out of the directory.

        Two at once, with seeds of their own, would replace each other's progress in turn.

        Raises
        ------
        CheckpointError
            If another training run has the lock.
        """
        with locked_folder(self.directory) as is_ours:
            if not is_ours:
                raise CheckpointError(
                    f"checkpoint={str(self.directory)!r} is in use by another training run; give each run a "
                    "directory of its own"
                )
            yield

    def of_another_run(self) -> CheckpointError:
        """The error for a folder that holds the progress of another training run."""
        return CheckpointError(
            f"checkpoint={str(self.directory)!r} is of a training run with other data, parameters or "
            "parties, or another objective; give another directory, or remove this one"
        )

    def unreadable(self, error: Exception) -> CheckpointError:
        """The error for a folder whose files are damaged, or of another release."""
        reason = error if isinstance(error, StoreError) else type(error).__name__
        return CheckpointError(f"checkpoint={str(self.directory)!r} cannot be read: {reason}")
