"""Files of JSON that a command keeps for later ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gbdt_commons.sealed import read_sealed
from gbdt_parties.errors import InvalidDataError

ROUNDS_FILE = "rounds.jsonl"
"""Beside the progress of a run under way, a line for each of its rounds."""


def read_json(path: Path) -> dict[str, Any]:
    """Read an object that `write_sealed` wrote; `InvalidDataError` if the file holds anything else."""
    try:
        return read_sealed(path)
    except ValueError:
        raise InvalidDataError(f"{path} is damaged: it does not hold what was written there") from None
