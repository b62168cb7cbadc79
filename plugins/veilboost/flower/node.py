"""A Flower node as a relay to the party's own server, which holds rows, keys and ledger elsewhere.

Flower starts a process for every message, which connects to the server with a certificate of the node, as a
coordinator does, and passes bytes on.  So the platform's sender is not trusted: it can ask for whatever the
server allows this certificate, and no more.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from gbdt_commons.errors import VeilboostError
from gbdt_parties import messages
from gbdt_parties.errors import PartyArgumentError, places_of
from gbdt_parties.transport.remote import RemoteParty
from veilboost.flower.carrier import NodeReply

logger = logging.getLogger(__name__)
ENTRIES = ("party", "address", "tls")
"""Of a node's configuration: the party's name, its server's address, the folder of the node's certificate."""

FAILURE = "the party cannot be asked for now; the node's log says why"


def reply(config: Mapping[str, Any], requests: Sequence[bytes], seconds: float) -> NodeReply:
    """A party's reply to requests that travelled together; the node's log alone has the reason of a failure.

    `config` is the node's, with `ENTRIES`. `requests` are answered in order, up to the first that is refused;
    none asks for the party's name. A server is unavailable after `seconds` of silence.
    """
    try:
        return _reply(config, requests, seconds)
    except (VeilboostError, OSError) as error:
        logger.error("%s", error)
    except Exception as error:
        logger.error("a message failed: %s", places_of(error))
    return NodeReply("", (), FAILURE)


def _reply(config: Mapping[str, Any], requests: Sequence[bytes], seconds: float) -> NodeReply:
    for entry in ENTRIES:
        if not (isinstance(config.get(entry), str) and config[entry]):
            raise PartyArgumentError(f"the node's configuration has no {entry}, which must be a text")
    name, answers = config["party"], list[bytes]()
    if requests:
        with closing(RemoteParty(config["address"], config["tls"], name, seconds)) as party:
            for request in requests:
                answers.append(bytes(party.handle(request)))
                if messages.is_refusal(answers[-1]):
                    break
    return NodeReply(name, answers)
