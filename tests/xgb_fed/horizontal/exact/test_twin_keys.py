"""Exact training with a coordinator that takes part under a key made of another party's."""

from contextlib import ExitStack

import pytest

from exact_training import NAMES, PARAMS, Between, X, lost, parties, party, train
from gbdt_commons.sealed import read_sealed, write_sealed
from gbdt_parties.errors import PartyRefusedError, PartyUnavailableError
from gbdt_parties.identity.certificates import TLS, make_authority, make_certificate
from gbdt_parties.secure_sum.messages import AskSum
from gbdt_parties.secure_sum.roster import Roster
from gbdt_parties.secure_sum.trust import Credentials
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import Server
from twin_keys import TWINS, Twin, are_masked
from xgb_fed.horizontal.exact.messages import NEW_RUN, ExactIntroduced, OpenExact, ProposeExact
from xgb_fed.horizontal.exact.task import ExactTask
from xgb_fed.horizontal.service import HorizontalLimits, HorizontalService

RUN = bytes(16)
TASK = ExactTask(PARAMS, 2, X.shape[1], [], [0, 1], "grid", 10, 3, None, 0)


def vectors(members, credentials, derive):
    """What two parties send for the first sum."""
    twin = Twin(members, NAMES[2], credentials, derive)
    twin.introduced(OpenExact(RUN, 1, NEW_RUN), ExactIntroduced)
    roster = twin.roster(RUN, TASK.statement)
    return twin.first_vectors(ProposeExact(TASK.to_json(), roster.to_bytes()))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("certificates")
    make_authority(folder / "ca")
    made = {name: make_certificate(folder / name, folder / "ca", name) for name in NAMES}
    return folder, {name: f"sha256:{one.fingerprint}" for name, one in made.items()}


@pytest.fixture
def served(tmp_path, certificates):
    """Two parties behind servers that let the third coordinate, and its credentials."""
    folder, prints = certificates
    own = TLS.from_directory(folder / NAMES[2])
    with ExitStack() as stack:
        remote = []
        for place, name in enumerate(NAMES[:2]):
            allowed = [prints[other] for other in NAMES if other != name]
            member = party(place, tmp_path, tls=folder / name, allowed=allowed)
            service = HorizontalService(member, tmp_path / name, HorizontalLimits())
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
    """Before, the vector of the party between the two left as it is: the number of its rows first."""
    monkeypatch.setattr(Roster, "check_keys", lambda self: None)
    first, between = vectors(*attacked, TWINS[twin])
    assert are_masked(first)
    assert are_masked(between)


def test_a_twin_key_of_a_run_that_another_release_has_kept_is_refused_by_name(tmp_path):
    """A run with keys of the first format, whose masks did not say whose they are, is not taken up."""
    members = [Between(one) for one in parties(tmp_path)]
    members[1].disturb = lambda number, message, send: lost() if isinstance(message, AskSum) else send()
    with pytest.raises(PartyUnavailableError):
        train(members, checkpoint=tmp_path / "progress")
    members[0].party.close()
    (path,) = (tmp_path / NAMES[0] / "exact").glob("*.json")
    kept = read_sealed(path)
    del kept["member"]["format"]
    write_sealed(path, kept)
    members[0].party = party(0, tmp_path)
    members[1].disturb = lambda number, message, send: send()
    with pytest.raises(PartyRefusedError, match="'ada' refuses: the run was begun by another release"):
        train(members, checkpoint=tmp_path / "progress")
