"""At how many thresholds an active party has been told the sides of rows, over all its models.

A split of a passive party tells the active one, row by row, whether a value is below a threshold: when a
tree is grown, for evaluation rows, in predictions and explanations.  All of these answers follow from the
thresholds of the splits and the party's values, so it is the thresholds that are counted, once each, whatever
rows are asked about afterwards and however often.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from threading import Lock

from gbdt_commons.files import digest_of
from gbdt_commons.store import Kind, MemoryStore, Store
from gbdt_parties.errors import ProtocolError
from xgb_fed.boosting.features import SplitRule

MAX_THRESHOLDS = 1024
"""Thresholds of a column at which a server tells one active party sides by default.

100 trees of depth 5 on 150,000 rows in 256 bins used 181 of the column that they split most.
"""


def _by_column(content: bytes) -> dict[str, list[str]]:
    return {str(name): list(map(str, thresholds)) for name, thresholds in json.loads(content).items()}


TOLD = Kind[dict[str, list[str]]]("told thresholds", lambda new: json.dumps(new).encode(), _by_column)
"""Records of new thresholds by column."""


class ToldThresholds:
    """The different thresholds of each column, and sets of categories, that an active party knows sides at.

    With k of them, the sides of all rows at all splits of the column tell in which of k + 1 intervals each
    value lies, or that it is missing, and nothing more.  They are at most k + 1 linear equations for each
    row: one for each threshold, and one for missing values, which a split adds to either side.

    Splits beyond `limit` thresholds of a column are refused.  The store keeps them; raises `StoreError` if a
    record is damaged.
    """

    def __init__(self, limit: float = math.inf, store: Store | None = None) -> None:
        self._limit, self.store, self._lock = limit, MemoryStore() if store is None else store, Lock()
        self._known: dict[str, set[str]] = {}
        for content in self.store.entries(TOLD, ""):
            self._keep(content)

    def __len__(self) -> int:
        """Thresholds of the column that has most of them."""
        return max(map(len, self._known.values()), default=0)

    def of(self, column: str) -> int:
        """Thresholds of a column."""
        return len(self._known.get(column, ()))

    def add(self, names: Sequence[str], rules: Iterable[SplitRule]) -> None:
        """Count splits before sides at them are disclosed; those at known thresholds disclose nothing new.

        Columns have these names.  Raises `ProtocolError` if a column would have more thresholds than the
        limit; none of the splits is counted then.
        """
        with self._lock:
            new: dict[str, set[str]] = {}
            for rule in rules:
                name, threshold = names[rule.feature], _threshold_of(rule)
                if threshold not in self._known.get(name, ()):
                    new.setdefault(name, set()).add(threshold)
            for name, thresholds in new.items():
                if not self.of(name) + len(thresholds) <= self._limit:
                    raise ProtocolError(
                        f"this party has told the sides of rows at {self.of(name)} thresholds of a column in "
                        f"all training runs, and tells those at {self._limit:g} at most; its operator can "
                        "allow more (--max-thresholds, Limits.max_thresholds)"
                    )
            if new:
                content = {name: sorted(thresholds) for name, thresholds in new.items()}
                self.store.append(TOLD, "", content)
                self._keep(content)

    def _keep(self, content: dict[str, list[str]]) -> None:
        for name, thresholds in content.items():
            self._known.setdefault(name, set()).update(thresholds)


def _threshold_of(rule: SplitRule) -> str:
    """A threshold without the side of missing values, or a set of categories, as text."""
    return float(rule.threshold).hex() if rule.right is None else digest_of(list(rule.right))[:32]
