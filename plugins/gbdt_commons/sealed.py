"""JSON files that carry a digest of their content, so that damage is found when they are read."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from gbdt_commons.files import write_atomically


def write_sealed(path: str | Path, content: dict[str, Any]) -> None:
    """Write an object and its digest; an existing file is replaced only when the new one is complete."""
    write_atomically(path, json.dumps({"sha256": _digest(content), "content": content}))


def read_sealed(path: str | Path) -> dict[str, Any]:
    """Read what `write_sealed` wrote.

    Raises
    ------
    ValueError
        If the file holds anything else, or its content is not that of the digest.
    OSError
        If it cannot be read.
    """
    try:
        sealed = json.loads(Path(path).read_text(encoding="utf-8"))
        content, digest = sealed["content"], sealed["sha256"]
        if len(sealed) != 2 or not isinstance(content, dict) or digest != _digest(content):
            raise ValueError("the content is not that of the digest")
    except (KeyError, TypeError, RecursionError):
        raise ValueError("not a file with a digest") from None
    return content


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()
