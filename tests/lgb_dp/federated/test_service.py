"""A party behind a server: over TLS, for several coordinators, with one ledger."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Barrier
from types import SimpleNamespace

import pytest

import lgb_dp
from deployment import HandlerService
from federated_training import charges, parties, party, train
from gbdt_hosts.lightgbm import tree_blocks
from gbdt_parties.errors import AuthenticationError, PartyRefusedError
from gbdt_parties.identity.certificates import TLS, make_authority, make_certificate
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import Server
from lgb_dp.federated.service import FederatedLimits, FederatedService
from served_parties import Echo, Local

NAMES = ("ada", "bob", "cyd")
BUDGET = (100.0, 1e-5)


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """Makes parties with certificates, which have each other on their allow-lists."""
    folder = tmp_path_factory.mktemp("certificates")
    make_authority(folder / "ca")
    known = [f"sha256:{make_certificate(folder / name, folder / 'ca', name).fingerprint}" for name in NAMES]
    make_certificate(folder / "acme", folder / "ca", "acme")

    def make(place, **settings):
        settings = {"tls": folder / NAMES[place], "allowed": known, **settings}
        return party(place, **settings)

    make.folder, make.others = folder, lambda: [make(1), make(2)]
    return make


def test_three_parties_over_tls(tmp_path, certified):
    own = TLS.from_directory(certified.folder / "acme")
    members = [
        certified(place, folder=tmp_path / name / "kept", budget=BUDGET) for place, name in enumerate(NAMES)
    ]
    with ExitStack() as stack:
        remote = []
        for member, name in zip(members, NAMES, strict=True):
            service = FederatedService(member, tmp_path / name / "served")
            server = Server(service, "127.0.0.1:0", TLS.from_directory(certified.folder / name), ["acme"])
            stack.callback(server.stop, grace=0)
            one = RemoteParty(f"127.0.0.1:{server.port}", own, name, timeout=60)
            stack.callback(one.close)
            remote.append(one)
        booster = train(remote, 3)
    assert len(tree_blocks(booster.model_to_string())) == 3
    assert [len(charges(member)) for member in members] == [4, 4, 4]


def test_a_server_that_a_party_of_this_process_does_not_allow_is_sent_nothing(certified):
    own, service = TLS.from_directory(certified.folder / "acme"), HandlerService(Echo())
    server = Server(service, "127.0.0.1:0", TLS.from_directory(certified.folder / "bob"), ["acme"])
    remote = RemoteParty(f"127.0.0.1:{server.port}", own, "bob")
    try:
        with pytest.raises(AuthenticationError, match=r"'bob'.*was not asked"):
            train([certified(0, allowed=[f"sha256:{64 * '0'}"]), remote], 1)
    finally:
        remote.close()
        server.stop(grace=0)
    assert not service.exchanges


def test_coordinators_have_runs_of_their_own_and_one_ledger(tmp_path, certified):
    member = certified(0, folder=tmp_path / "kept", budget=(60.0, 1e-5))
    service = FederatedService(member, tmp_path / "served")
    train([Local(service, name="ada"), *certified.others()], epsilon=40.0)
    with pytest.raises(PartyRefusedError, match="of the party's budget"):
        train([Local(service, "rival", name="ada"), *certified.others()], epsilon=40.0)
    assert len(charges(member)) == 5
    record = (tmp_path / "served" / "record.jsonl").read_text()
    assert record.count('"message": "Contributed"') == 6
    assert "rival" in record


def test_side_door_a_party_without_a_folder_is_not_served(tmp_path):
    """Before, keys outlived the ledger: after a restart an attempt was answered again, with new noise."""
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"party 'ada'.*pass folder="):
        FederatedService(party(0), tmp_path)
    member = party(0).for_caller(tmp_path, set(), MemoryAllowance(2**30))
    train([member, *parties()[1:]], 1)
    assert list(tmp_path.iterdir()) == []


def test_side_door_a_coordinator_is_not_all_other_parties(tmp_path):
    """Before, a server's party without an allow-list added its numbers and little noise to anybody's."""
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"party 'ada'.*allow-list.*tls="):
        FederatedService(party(0, folder=tmp_path, budget=BUDGET), tmp_path)


def test_side_door_a_coordinator_does_not_choose_the_budget(tmp_path, certified):
    """Before, the ε of the first run, which any coordinator could make a million, became the budget."""
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"'ada'.*pass budget="):
        FederatedService(certified(0, folder=tmp_path), tmp_path)
    certified(0, folder=tmp_path, budget=BUDGET).close()
    FederatedService(certified(0, folder=tmp_path), tmp_path)


def test_side_door_two_runs_of_one_number_are_two_runs(tmp_path, monkeypatch, certified):
    """Before, a coordinator could end another's run, and spend what it was granted, under its number."""
    monkeypatch.setattr("gbdt_parties.run.coordinator.os", SimpleNamespace(urandom=lambda n: b"s" * n))
    service = FederatedService(certified(0, folder=tmp_path / "kept", budget=BUDGET), tmp_path / "served")
    for caller in ("acme", "rival"):
        train([Local(service, caller, name="ada"), *certified.others()], 2, epsilon=5.0)
    assert len(charges(service.party)) == 6


def test_first_runs_of_coordinators_at_the_same_time_open_the_ledger_once(tmp_path):
    member = party(0, folder=tmp_path)
    together = Barrier(8)

    def ledger_of(caller):
        together.wait(timeout=60)
        runs = member.for_caller(tmp_path / str(caller), set(), MemoryAllowance(2**30)).runs
        return runs.subject_of.args[0].ledger

    with ThreadPoolExecutor(8) as pool:
        ledgers = list(pool.map(ledger_of, range(8)))
    assert set(map(id, ledgers)) == {id(member.ledger)}


def test_sessions_and_lengths_are_limited(tmp_path, certified):
    def limited(**limits):
        member = certified(0, folder=tmp_path / next(iter(limits)), budget=BUDGET)
        service = FederatedService(member, tmp_path / next(iter(limits)), FederatedLimits(**limits))
        return Local(service, name="ada")

    with pytest.raises(PartyRefusedError, match="more than 0 sessions"):
        train([limited(sessions_per_hour=0), *certified.others()])
    with pytest.raises(PartyRefusedError, match="this party accepts 100"):
        train([limited(max_request_bytes=100), *certified.others()])
