"""A party behind a server: over TLS, for several coordinators, with one ledger."""

from contextlib import ExitStack
from datetime import datetime, timezone

import pytest

from federated_training import journal, parties, party, train
from gbdt_hosts.lightgbm import tree_blocks
from gbdt_parties.errors import PartyRefusedError
from gbdt_parties.identity.certificates import TLS, Identity, make_authority, make_certificate
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import Server
from lgb_dp.federated.service import FederatedLimits, FederatedService

NAMES = ("ada", "bob", "cyd")


class Served:
    """The service as a party of one coordinator."""

    def __init__(self, service, name, caller="acme"):
        self.service, self.name = service, name
        self.caller = Identity(caller, "", datetime.max.replace(tzinfo=timezone.utc))

    def handle(self, request):
        return self.service.handle(self.caller, (), request)


def test_three_parties_over_tls(tmp_path):
    make_authority(tmp_path / "ca")
    known = [
        f"sha256:{make_certificate(tmp_path / name, tmp_path / 'ca', name).fingerprint}" for name in NAMES
    ]
    make_certificate(tmp_path / "acme", tmp_path / "ca", "acme")
    own = TLS.from_directory(tmp_path / "acme")
    members = [
        party(place, folder=tmp_path / name / "kept", tls=tmp_path / name, allowed=known)
        for place, name in enumerate(NAMES)
    ]
    with ExitStack() as stack:
        remote = []
        for member, name in zip(members, NAMES, strict=True):
            service = FederatedService(member, tmp_path / name / "served")
            server = Server(service, "127.0.0.1:0", TLS.from_directory(tmp_path / name), ["acme"])
            stack.callback(server.stop, grace=0)
            one = RemoteParty(f"127.0.0.1:{server.port}", own, name, timeout=20)
            stack.callback(one.close)
            remote.append(one)
        booster = train(remote, 3)
    assert len(tree_blocks(booster.model_to_string())) == 3
    assert [len(journal(member).answered) for member in members] == [4, 4, 4]


def test_coordinators_have_runs_of_their_own_and_one_ledger(tmp_path):
    member = party(0, folder=tmp_path / "kept", budget=(60.0, 1e-5))
    service = FederatedService(member, tmp_path / "served")
    train([Served(service, "ada"), *parties()[1:]], epsilon=40.0)
    with pytest.raises(PartyRefusedError, match="of the party's budget"):
        train([Served(service, "ada", "rival"), *parties()[1:]], epsilon=40.0)
    assert len(journal(member).answered) == 5
    record = (tmp_path / "served" / "record.jsonl").read_text()
    assert record.count('"message": "Contributed"') == 6
    assert "rival" in record


def test_sessions_and_lengths_are_limited(tmp_path):
    def limited(**limits):
        return Served(FederatedService(party(0), tmp_path, FederatedLimits(**limits)), "ada")

    with pytest.raises(PartyRefusedError, match="more than 0 sessions"):
        train([limited(sessions_per_hour=0), *parties()[1:]])
    with pytest.raises(PartyRefusedError, match="this party accepts 100"):
        train([limited(max_request_bytes=100), *parties()[1:]])
