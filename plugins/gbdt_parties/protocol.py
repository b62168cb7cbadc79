"""Minor versions of the protocol: two neighbours understand each other, and speak the older of theirs.

Every message names the version that it is written in.  A caller asks in its own.  A party answers in that of
the request, or refuses one that is later than its own, in its own; then the caller asks again in that one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gbdt_parties.errors import ProtocolError

VERSION = 2
"""Of the layout of messages, and of their order and meaning: those that this release speaks best."""

OLDEST = 2
"""Speaks this one, too: ``VERSION - 1`` once there are two."""


class Addition(NamedTuple):
    """A field that a kind of message has had from a version on, or the whole kind."""

    since: int
    default: Any = None
    """The field's value in messages of the version before, which cannot have anything else."""


ADDED: dict[str, Addition] = {}
"""All that an older neighbour does not know: ``"Kind"`` or ``"Kind.field"``.  Fields are added at the end.

Statements that parties sign together have a format of their own, which changes for all of them on one day.
"""


def check_spoken(version: int) -> None:
    """Refuse messages of other versions; the error names those that are spoken here."""
    if not OLDEST <= version <= VERSION:
        spoken = " and ".join(map(str, range(VERSION, OLDEST - 1, -1)))
        raise ProtocolError(f"message version {version}; this release speaks version {spoken}")


def lacking(version: int, kind: str) -> dict[str, Any]:
    """Fields of a kind of message that a version does not have, with defaults; "" for the kind itself."""
    if version >= VERSION:
        return {}
    parts = ((*name.partition(".")[::2], added) for name, added in ADDED.items())
    return {field: added.default for of, field, added in parts if of == kind and version < added.since}
