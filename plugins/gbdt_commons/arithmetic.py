"""Arithmetic that says nothing about the numbers it is done with."""

from __future__ import annotations

import numpy as np


def silent_arithmetic() -> np.errstate:
    """A context in which NumPy does not warn of overflow, division by zero or invalid values.

    Private rows are read in this context only: a single extreme cell, label or score would otherwise
    make itself heard as a warning.  It holds for the calling thread; workers enter their own.
    """
    return np.errstate(all="ignore")
