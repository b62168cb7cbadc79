"""Connections of a training run's initiator to the parties that a plan names."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from gbdt_parties.identity.certificates import TLS
from gbdt_parties.transport.remote import RemoteParty
from veilboost.plans.plan import Plan


def connect(
    plan: Plan, timeout: float, stack: ExitStack, row_sets: Sequence[bytes] = ()
) -> list[RemoteParty]:
    """Parties of a plan, whose connections end with the stack.

    Parameters
    ----------
    plan : Plan
    timeout : float
        Seconds of silence after which a party is unavailable.
    stack : ExitStack
    row_sets : sequence of bytes
        Alignments of the rows that requests are about.
    """
    parties = []
    for party in plan.parties:
        tls = TLS.from_directory(plan.path(plan.tls), party.server_name)
        remote = RemoteParty(party.address, tls, party.name, timeout, row_sets=row_sets)
        stack.callback(remote.close)
        parties.append(remote)
    return parties
