"""Fixtures of the kernel tests."""

import pytest

from gbdt_kernels import threads
from gbdt_kernels.trees import binning


@pytest.fixture(scope="module")
def tiny_blocks():
    """Give every item a thread of its own, as far as threads last."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "MIN_BLOCK", 1)
        patch.setattr(binning, "ROWS_PER_BLOCK", 2)
        yield
