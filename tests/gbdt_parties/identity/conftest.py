"""Fixtures of the tests of gbdt_parties.identity."""

import pytest

from gbdt_parties.identity import alignment_messages, masked_ids


@pytest.fixture
def short_messages(monkeypatch):
    """Seven points in a message, so that lists take several."""
    for module in (alignment_messages, masked_ids):
        monkeypatch.setattr(module, "IDS_PER_MESSAGE", 7)
