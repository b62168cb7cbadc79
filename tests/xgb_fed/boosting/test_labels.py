"""Labels as places among classes."""

import tracemalloc

import numpy as np
import pytest

from xgb_fed.boosting.labels import places_among

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.HeuristicProtectionWarning")


def test_labels_do_not_widen_to_the_longest_class():
    labels = np.array(["a", "b"])[np.arange(100_000) % 2]
    tracemalloc.start()
    try:
        codes = places_among(["a", "b", "c" * 200], labels)
        assert tracemalloc.get_traced_memory()[1] < 100 * len(labels)
    finally:
        tracemalloc.stop()
    assert codes[:3].tolist() == [0, 1, 0]
    assert places_among(["a"], ["b", "a"]).tolist() == [-1, 0]
