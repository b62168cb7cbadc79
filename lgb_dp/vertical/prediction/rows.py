"""Names of the rows that are asked about: an id names a row for ever, a place only within a selection.

A name that follows from an id is known to both parties.  Stores have names under a key of their own, so that
a record, or an error that quotes its place, confirms no guess of an id.  The key is in the same store: a
thief of all of it can still try ids.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Iterable, Sequence
from typing import Any

from gbdt_commons.store import Store, bytes_kind
from gbdt_parties.identity.row_ids import check_ids
from lgb_dp.errors import InvalidArgumentError

ROW_BYTES = 16
"""Of a row's name."""

SECRET = bytes_kind("secret of names of rows")
_SECRET_BYTES = 32


def as_kept(store: Store, purpose: bytes, names: Iterable[bytes]) -> list[bytes]:
    """Names of rows, or of anything else, as a store has them: the same ones for the same, after a restart.

    They are values of HMAC-SHA256 of purpose and name under a secret of the store, drawn when it is first
    needed.
    """
    with store.transaction():
        secret = store.get(SECRET, "")
        if secret is None:
            secret = os.urandom(_SECRET_BYTES)
            store.put(SECRET, "", secret)
    return [hmac.digest(secret, purpose + b":" + name, "sha256")[:ROW_BYTES] for name in names]


def digest_of_names(names: Iterable[bytes]) -> bytes:
    """32 bytes that stand for rows in their order.

    They are for a party that has the rows' ids: they would confirm a guess of the ids to others.
    """
    return hashlib.sha256(b"rows:" + b"".join(names)).digest()


def named_by_ids(ids: Sequence[Any], n_rows: int) -> list[bytes]:
    """Names of rows with ids, the same in every selection that has them.

    `InvalidArgumentError` if there is not one id for each row; `InvalidDataError` if an id is not a canonical
    text, or is there twice.
    """
    if len(ids) != n_rows:
        raise InvalidArgumentError(f"ids has {len(ids)} entries for {n_rows} rows")
    return [_name(b"id", one.encode()) for one in check_ids(list(ids), "ids")]


def named_by_place(selection: bytes, n_rows: int) -> list[bytes]:
    """Names of rows without ids: their places in a selection, whose own name is drawn when it is made.

    A name that followed from cells would tell whether two rows have the same ones.  So the rows of another
    selection are other rows, and the party that makes selections decides how often its rows are asked about.
    """
    return [_name(b"place", selection, place.to_bytes(8, "little")) for place in range(n_rows)]


def _name(kind: bytes, *parts: bytes) -> bytes:
    return hashlib.sha256(kind + b":" + b"".join(parts)).digest()[:ROW_BYTES]
