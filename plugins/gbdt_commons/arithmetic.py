"""Arithmetic that says nothing about the numbers it is done with."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def silent_arithmetic() -> np.errstate:
    """A context in which NumPy does not warn of overflow, division by zero or invalid values.

    Private rows are read in this context only: a single extreme cell, label or score would otherwise
    make itself heard as a warning.  It holds for the calling thread; workers enter their own.
    """
    return np.errstate(all="ignore")


def silently(steps: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
    """The same generator, each of whose steps does silent arithmetic; those who answer it do their own."""
    told = None
    while True:
        with silent_arithmetic():
            try:
                question = steps.send(told)
            except StopIteration as end:
                result: T = end.value
                return result
        told = yield question
