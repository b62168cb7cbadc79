"""Private training with a coordinator that takes part under a key made of another party's."""

import json
from contextlib import ExitStack

import pytest

import lgb_dp
from federated_training import BINARY, DELTA, NAMES, parties, party
from gbdt_commons.sealed import read_sealed, write_sealed
from gbdt_parties.errors import PartyRefusedError, ProtocolError
from gbdt_parties.identity.certificates import TLS, make_authority, make_certificate
from gbdt_parties.secure_sum.messages import ProposeRoster
from gbdt_parties.secure_sum.roster import Roster
from gbdt_parties.secure_sum.trust import Credentials
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import Server
from lgb_dp.federated.messages import Introduced, OpenFederated
from lgb_dp.federated.service import FederatedService
from lgb_dp.federated.task import FederatedTask, settings_of, statement
from twin_keys import TWINS, Twin, are_masked

RUN = bytes(16)
TASK = FederatedTask({**BINARY}, settings_of(lgb_dp.NewtonBoost(5.0, DELTA)), 4, 5, 1, 3, 1).to_json()


def vectors(members, credentials, derive):
    """What two parties send for the first sum."""
    twin = Twin(members, NAMES[2], credentials, derive)
    first, _ = twin.introduced(OpenFederated(RUN, TASK), Introduced)
    roster = twin.roster(RUN, statement(TASK, json.loads(first.declaration)))
    return twin.first_vectors(ProposeRoster(roster.to_bytes()))


@pytest.fixture
def served(tmp_path):
    """Two parties behind servers that let the third coordinate, and its credentials."""
    folder = tmp_path / "certificates"
    make_authority(folder / "ca")
    known = [
        f"sha256:{make_certificate(folder / name, folder / 'ca', name).fingerprint}" for name in NAMES[:3]
    ]
    own = TLS.from_directory(folder / NAMES[2])
    with ExitStack() as stack:
        remote = []
        for place, name in enumerate(NAMES[:2]):
            member = party(
                place, folder=tmp_path / name, tls=folder / name, allowed=known, budget=(100.0, DELTA)
            )
            service = FederatedService(member, tmp_path / name / "served")
            server = Server(service, "127.0.0.1:0", TLS.from_directory(folder / name), [NAMES[2]])
            stack.callback(server.stop, grace=0)
            one = RemoteParty(f"127.0.0.1:{server.port}", own, name, timeout=20)
            stack.callback(one.close)
            remote.append(one)
        yield remote, Credentials.of(own)


@pytest.fixture(params=["here", "over TLS"])
def attacked(request):
    if request.param == "here":
        return parties()[:2], Credentials.self_signed(NAMES[2])
    return request.getfixturevalue("served")


@pytest.mark.parametrize("twin", TWINS)
def test_a_twin_key_is_refused(attacked, twin):
    with pytest.raises(PartyRefusedError, match=r"'ada'.* refuses: the public keys? for masks of .*'cyd'"):
        vectors(*attacked, TWINS[twin])


@pytest.mark.parametrize("twin", TWINS)
def test_a_twin_key_that_is_not_noticed_takes_no_mask_off(attacked, twin, monkeypatch):
    """Before, one party's counts left under its own share of the noise, which is half of what is stated."""
    monkeypatch.setattr(Roster, "check_keys", lambda self: None)
    first, between = vectors(*attacked, TWINS[twin])
    assert are_masked(first)
    assert are_masked(between)


def test_a_twin_key_of_a_run_that_another_release_has_kept_is_refused_by_name(tmp_path):
    """A run with keys of the first format, whose masks did not say whose they are, is not taken up."""
    for spoil in (lambda kept: kept.pop("format"), lambda kept: kept.update(format=1)):
        member = party(0, folder=tmp_path)
        member.open(OpenFederated(RUN, TASK), RUN)
        (path,) = (tmp_path / "runs").glob("*.json")
        kept = read_sealed(path)
        spoil(kept)
        write_sealed(path, kept)
        member.close()
        member = party(0, folder=tmp_path)
        with pytest.raises(ProtocolError, match="begun by another release of veilboost"):
            member.open(OpenFederated(RUN, TASK), RUN)
        member.close()
        path.unlink()
