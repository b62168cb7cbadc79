"""A party behind a Flower node: each message opens the party's folder, as ``veilboost serve`` does, and ends.

The folder has its ledger, its keys of runs, the record and the counts of sessions, so that nothing depends on
a process.  The platform's sender is not trusted: it can ask for whatever a coordinator may, and no more.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path

from gbdt_commons.errors import VeilboostError
from gbdt_parties import messages
from gbdt_parties.errors import places_of
from gbdt_parties.identity.certificates import TLS, Identity
from gbdt_parties.messages import Refusal
from veilboost.flower.channel import Reply
from veilboost.plans.entries import PlanError
from veilboost.plans.plan import module_of, read_served
from veilboost.plans.private import PrivateServed

logger = logging.getLogger(__name__)
SENDER = Identity("flower", "", datetime.max.replace(tzinfo=timezone.utc))
"""The coordinator, as allow-list, ledger and record call it: all apps of the platform are one caller."""

FAILURE = "the party cannot answer for now; its log says why"


def reply(plan: str | Path, requests: Sequence[bytes]) -> Reply:
    """A party's reply to requests that travelled together; the reason of a failure is for its own log alone.

    Parameters
    ----------
    plan : path
        The file that ``veilboost serve`` takes, with ``method = "private"`` and ``"flower"`` in `allow`.
    requests : sequence of bytes
        In order; none asks for the party's name.
    """
    try:
        return _reply(plan, requests)
    except (VeilboostError, OSError) as error:
        logger.error("%s", error)
    except Exception as error:
        logger.error("a message failed: %s", places_of(error))
    return Reply("", (), FAILURE)


def _reply(plan: str | Path, requests: Sequence[bytes]) -> Reply:
    method, served = read_served(plan)
    if not isinstance(served, PrivateServed):
        raise PlanError(f"{plan}: method={method!r} must be 'private' for a Flower app")
    if SENDER.known_as(served.allow) is None:
        raise PlanError(f"{plan}: allow={served.allow} must have {SENDER.name!r} for a Flower app")
    tls = TLS.from_directory(served.tls)
    name = Identity.of(tls.certificate).name
    if not requests:
        return Reply(name, ())
    answers: list[bytes] = []
    # Loaded now, with the libraries that training needs: a name is answered without.
    serving = module_of(method, "veilboost.serving")
    with closing(serving.make_service(served, tls).service) as service:
        for request in requests:
            answers.append(service.handle(SENDER, (), request))
            if isinstance(messages.read(answers[-1]).message, Refusal):
                break
    return Reply(name, answers)
