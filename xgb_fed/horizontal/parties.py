"""Parties as users give them: tables, party objects, addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gbdt_parties.channel import Party, check_parties
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.horizontal.common.rows import MIN_SIMILAR
from xgb_fed.horizontal.exact.terms import ExactTerms
from xgb_fed.horizontal.party import HorizontalParty


def as_parties(
    parties: Any,
    random_state: int | None = None,
    *,
    categorical_labels: bool = True,
    min_similar: int = MIN_SIMILAR,
    as_published: bool = False,
    at_least: int = 2,
    exact: Callable[[int], ExactTerms] = lambda _: ExactTerms(),
) -> list[Party]:
    """Make parties of pairs (X, y) and triples (X, y, sample_weight), and check those given as objects.

    There must be `at_least` so many. `random_state` determines all draws of the parties that are made here;
    `categorical_labels`, `min_similar` and `as_published` are `HorizontalParty`'s for them, and `exact` gives
    the terms of exact training of the k-th. Raises `InvalidArgumentError`, `PartyArgumentError` or
    `PartyArgumentTypeError`, naming the party, or for too few.
    """
    if random_state is not None and not (
        isinstance(random_state, (int, np.integer)) and 0 <= random_state < 2**63
    ):
        raise InvalidArgumentError(
            f"hash_seed={random_state!r} must be an integer of at least 0 and below 2**63"
        )
    found: list[Any] = []
    for k, given in enumerate(parties):
        if isinstance(given, (tuple, list)):
            if len(given) not in (2, 3):
                raise InvalidArgumentError(
                    f"parties[{k}] has {len(given)} members; (X, y) or (X, y, sample_weight) are accepted"
                )
            given = HorizontalParty(
                given[0],
                given[1],
                f"party{k}",
                sample_weight=given[2] if len(given) == 3 else None,
                categorical_labels=categorical_labels,
                min_similar=min_similar,
                as_published=as_published,
                random_state=None if random_state is None else int(random_state) * 65_537 + k,
                exact=exact(k),
            )
        found.append(given)
    if len(found) < at_least:
        raise InvalidArgumentError(f"parties has {len(found)}; federated training needs at least two")
    return check_parties(found)
