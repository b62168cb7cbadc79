"""How long a session of transfers may be used: in one process, once, until a check fails."""

from __future__ import annotations

from collections.abc import Generator
from threading import RLock
from typing import NoReturn

from gbdt_commons.key_stream import this_process
from gbdt_commons.locks import block
from gbdt_parties.errors import ProtocolError, TransferCheckError

MAX_FAILURES = 3
"""Failed checks after which a pair of parties begins no session any more."""


class Failures:
    """Failed checks of one pair of parties, over all its sessions.

    A party that sends inconsistent corrections guesses bits of the other's secret difference, and passes the
    check with probability 2**-b if it guesses b of them.  A failure tells it that a guess was wrong; the next
    session has a fresh difference, so that failures add up to nothing but chances to guess.  They are limited
    so that an attack is noticed, and not tried until it succeeds.  `count` begins with those of earlier
    sessions, as they were kept.
    """

    def __init__(self, count: int = 0) -> None:
        self.count = count

    def check(self) -> None:
        """Raise `TransferCheckError` for another session after `MAX_FAILURES`."""
        if self.count >= MAX_FAILURES:
            raise TransferCheckError(
                f"checks on transfers with this party failed {self.count} times; it begins no other session"
            )


class Life:
    """Whether the secrets of a session may still be used; all its objects share one.

    A copy, in this process or a forked one, would make the same pads for other values: their difference is
    the difference of the values.  So a session lives in one process, and its objects refuse to be copied. The
    failures count up when a check of this session fails.
    """

    def __init__(self, failures: Failures) -> None:
        failures.check()
        self._failures, self._process, self._over = failures, this_process(), ""
        self._lock = RLock()

    def check(self) -> None:
        """Raise `ProtocolError` after a failure, and in a forked process."""
        if self._process != this_process():
            raise ProtocolError("transfers cannot go on in a forked process: pads would repeat")
        if self._over:
            raise ProtocolError(f"this session of transfers is over: {self._over}")

    @block
    def held(self) -> Generator[None, None, None]:
        """Let one thread at a time use the session, if it may be used; raises the error of `check`."""
        # Before the lock: a thread of the parent may have held it when the process forked.
        self.check()
        with self._lock:
            self.check()
            yield

    def end(self, reason: str) -> None:
        """Let nothing of the session be used any more."""
        self._over = self._over or reason

    def fail(self, reason: str) -> NoReturn:
        """End the session because a check failed, and count the failure."""
        self.check()
        # First, since a count that is kept may find no room.
        self.end(reason)
        self._failures.count += 1
        raise TransferCheckError(f"{reason}; the session is over")


class Unrepeatable:
    """Base of objects with secrets that may serve once: they refuse to be copied or pickled."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled: its secrets serve once")

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        self.__reduce__()
