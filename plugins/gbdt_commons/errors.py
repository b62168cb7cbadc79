"""The root of every exception that veilboost raises on purpose, that of kept state, and logging of errors."""

import traceback


class VeilboostError(Exception):
    """Base of all refusals and failures that veilboost names; any other that escapes is a defect."""


class StoreError(VeilboostError, ValueError):
    """A store of kept state is damaged, in use, foreign, or of another release; it stays as it is.

    The text names the file without its folder, since it may go to another party.
    """


class StoreInUseError(StoreError):
    """Another process, or another object of this one, uses the store."""


def places_of(error: BaseException) -> str:
    """Kind and traceback places of an error, for logs: without its text, which may quote data."""
    lines = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    return f"{type(error).__name__} at {lines}"
