"""Time of the watchdogs of connections that passes only when a test says so."""

import time

from gbdt_parties.transport import streams


class StoppedClock:
    """Stands in for `time.monotonic` in watchdogs, so that a busy machine makes none of them fire."""

    def __init__(self, monkeypatch):
        self._now = time.monotonic()
        monkeypatch.setattr(streams, "monotonic", lambda: self._now)

    def forward(self, seconds):
        """Let time pass, and let the thread that watches look at the clock."""
        with streams.WATCH.changed:
            self._now += seconds
            streams.WATCH.changed.notify_all()
