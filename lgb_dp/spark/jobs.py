"""Spark jobs with a name, a tag and a time limit."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from typing import Any

from lgb_dp.errors import ClusterError

_SECONDS_TO_CANCEL = 10.0


class Jobs:
    """The jobs of one training run in a session, each at most `timeout` seconds long.

    They run in threads of their own, so that a session that is lost holds nothing up. Tags begin with
    `tag`: they are in Spark's UI.
    """

    def __init__(self, session: Any, timeout: float) -> None:
        self.tag = f"veilboost-{secrets.token_hex(4)}"
        self._session, self._timeout = session, timeout

    def result(self, name: str, work: Callable[[], Any]) -> Any:
        """The result of a job; `ClusterError` with its name if it fails or takes too long."""
        tag, found = f"{self.tag}-{name.replace(' ', '-')}", dict[str, Any]()

        def run() -> None:
            try:
                self._session.addTag(tag)  # tags belong to threads
                found["result"] = work()
            except BaseException as error:
                found["fault"] = _fault(error)

        thread = threading.Thread(target=run, name=tag, daemon=True)
        thread.start()
        try:
            thread.join(self._timeout)
        finally:
            if thread.is_alive():  # too long, or interrupted
                self._cancel(tag)
        if "result" in found:
            return found["result"]
        fault = found.get("fault", f"took longer than timeout={self._timeout:g} seconds and was cancelled")
        raise ClusterError(
            f"Spark job {name!r} {fault}; it has the tag {tag}, and the trees trained so far are in the "
            "trainer's booster_"
        )

    def _cancel(self, tag: str) -> None:
        """Ask Spark to end a job, without waiting for a session that does not answer."""

        def interrupt() -> None:
            try:
                self._session.interruptTag(tag)
            except BaseException:
                return  # the session is lost, and the job with it

        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        thread.join(_SECONDS_TO_CANCEL)


def _fault(error: BaseException) -> str:
    """How a job failed; Spark's own text may quote cells, and stays in its log."""
    condition = getattr(error, "getCondition", lambda: None)
    try:
        kind = condition() or type(error).__name__
    except Exception:  # a session that is stopped cannot say
        kind = type(error).__name__
    return f"failed ({kind}): its executors need veilboost[spark], and its session must not be stopped"
