"""A passive party's splits in clear, for an active party that it consents to give them to."""

from __future__ import annotations

import json

import numpy as np

from xgb_fed.vertical.protocol.messages import RevealedCategories, RevealedSplits
from xgb_fed.vertical.protocol.splits import Splits


def revealed(splits: Splits) -> RevealedSplits:
    """Column, threshold and default direction of every split, and its categories, as a message."""
    message = RevealedSplits(
        np.array(splits.features, dtype=np.int32),
        np.array(splits.thresholds, dtype=np.float32),
        np.array(splits.default_left, dtype=np.uint8),
        json.dumps(splits.names),
    )
    if not splits.categories:
        return message
    right = [splits.right.get(split, ()) for split in range(len(splits))]
    return RevealedCategories(
        **message.__dict__,
        categorical=np.array(sorted(splits.categories), dtype=np.int32),
        n_right=np.array([len(one) for one in right], dtype=np.int32),
        right=np.array([code for one in right for code in one], dtype=np.int32),
    )
