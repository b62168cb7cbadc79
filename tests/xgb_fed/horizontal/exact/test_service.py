"""A party of exact training behind a server: certificates, limits, record, and coordinators of their own."""

import gc
import json
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

from deployment import HandlerService
from disturbed import Between
from exact_training import NAMES, PARAMS, X, Y, answers_by_attempt, parties, party, text_of, train
from gbdt_parties import messages
from gbdt_parties.channel import Channel
from gbdt_parties.errors import AuthenticationError, PartyArgumentError, PartyRefusedError
from gbdt_parties.identity.certificates import TLS, make_authority, make_certificate
from gbdt_parties.run.agreement import Agreement
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.messages import (
    AskSum,
    BeginRounds,
    ConfirmRoster,
    Contributed,
    Introduced,
    Opened,
    OpenRun,
    ProposeRoster,
    pack,
    unpack,
)
from gbdt_parties.secure_sum.roster import Introduction, Roster
from gbdt_parties.secure_sum.trust import Credentials
from gbdt_parties.traffic import Traffic
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import Server
from served_parties import Echo, Local
from xgb_fed import ExactTerms, HorizontalParty, train_simfl
from xgb_fed.horizontal.common.rows import HorizontalLimits
from xgb_fed.horizontal.exact.exchange import OpenExactRun, request_of
from xgb_fed.horizontal.service import HorizontalService

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.HeuristicProtectionWarning")


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Folders of certificates, and the fingerprints of all three parties."""
    folder = tmp_path_factory.mktemp("certificates")
    make_authority(folder / "ca")
    made = {name: make_certificate(folder / name, folder / "ca", name) for name in (*NAMES, "acme", "eve")}
    return folder, {name: f"sha256:{one.fingerprint}" for name, one in made.items()}


def certified(certificates, place, folder=None, **terms):
    known, prints = certificates
    others = [prints[name] for name in NAMES if name != NAMES[place]]
    return party(place, folder, tls=known / NAMES[place], **{"allowed": others, **terms})


def service_of(certificates, folder, limits=None, **terms):
    member = certified(certificates, 0, folder, **terms)
    return HorizontalService(member, folder / "ada", HorizontalLimits(**(limits or {})))


def others(certificates):
    return [certified(certificates, place) for place in (1, 2)]


def test_three_parties_over_tls(tmp_path, certificates):
    known, _ = certificates
    own = TLS.from_directory(known / "acme")
    with ExitStack() as stack:
        remote = []
        for place, name in enumerate(NAMES):
            member = certified(certificates, place, tmp_path)
            service = HorizontalService(member, tmp_path / name, HorizontalLimits())
            server = Server(service, "127.0.0.1:0", TLS.from_directory(known / name), ["acme"])
            stack.callback(server.stop, grace=0)
            one = RemoteParty(f"127.0.0.1:{server.port}", own, name, timeout=60)
            stack.callback(one.close)
            remote.append(one)
        model = train(remote, checkpoint=tmp_path / "progress")
        # Sums that it was a third organisation's turn to forward are those of parties in one process.
        assert text_of(model) == text_of(train(parties()))
    for name in NAMES:
        (kept,) = (tmp_path / name / "for-acme" / "models").glob("*.json")
        assert kept.read_bytes() == model.as_json()
    flows = model.traffic.flows
    assert {sender for sender, _, _ in flows} == {"coordinator", *NAMES}


def test_a_request_is_parsed_once_at_the_edge_of_the_service_and_its_answer_by_the_caller_alone(
    tmp_path, certificates, monkeypatch
):
    """Before, the service, the handler of the session, and the record each parsed it."""
    service, counts = service_of(certificates, tmp_path), {"asked": 0, "read": 0}
    read, handle = messages.read, service.handle

    def counted(name, function):
        def count(*arguments):
            counts[name] += 1
            return function(*arguments)

        return count

    monkeypatch.setattr(messages, "read", counted("read", read))
    monkeypatch.setattr(service, "handle", counted("asked", handle))
    served = Local(service, name="ada")
    channel = Channel(served, bytes(16), Traffic())
    channel.ask(OpenExactRun(bytes(range(16)), request_of(True), -1), Introduced)
    # A refusal, too.
    with pytest.raises(PartyRefusedError, match="not begun"):
        channel.ask(AskSum(0, 1, np.arange(3, dtype=np.int32), b""), Contributed)
    assert counts == {"asked": 2, "read": 4}
    lines = [json.loads(line) for line in (tmp_path / "ada" / "record.jsonl").read_text().splitlines()]
    assert [line["message"] for line in lines] == ["OpenExactRun", "Introduced", "AskSum", "Refusal"]
    assert "not begun" in lines[-1]["reason"]


def test_coordinators_have_runs_of_their_own_and_rounds_are_counted_together(tmp_path, certificates):
    member = certified(certificates, 0, tmp_path, max_rounds=5)
    service = HorizontalService(member, tmp_path / "ada", HorizontalLimits())
    for caller in ("acme", "rival"):
        train([Local(service, caller, name="ada"), *others(certificates)])
        assert len(list((tmp_path / "ada" / f"for-{caller}" / "models").glob("*.json"))) == 1
    with pytest.raises(PartyRefusedError, match="taken part in 4"):
        train([Local(service, "third", name="ada"), *others(certificates)])
    record = (tmp_path / "ada" / "record.jsonl").read_text()
    assert '"message": "Contributed"' in record
    assert "has taken part in 4" in record


def test_another_coordinators_run_is_not_taken_up(tmp_path, certificates):
    service = service_of(certificates, tmp_path)
    members = [Between(Local(service, name="ada")), *others(certificates)]
    runs = []

    def noted(number, message, send):
        if isinstance(message, OpenRun):
            runs.append(message.run)
        return send()

    members[0].disturb = noted
    train(members)
    for caller, reason in (("rival", "does not know the run"), ("acme", "does not know the run")):
        channel = Channel(Local(service, caller, name="ada"), bytes(15) + caller[:1].encode(), Traffic(), "c")
        with pytest.raises(PartyRefusedError, match=reason):
            channel.ask(OpenExactRun(runs[0], request_of(True), 100), Introduced)


@pytest.mark.parametrize(
    ("limits", "params", "reason"),
    [
        ({"max_depth": 1}, {}, "max_depth=2; this party accepts.*1"),
        ({"max_bin": 7}, {}, "max_bin=8; this party accepts.*7"),
        ({"max_models": 0}, {}, "keeps at most 0 models"),
        ({"sessions_per_hour": 0}, {}, "0 sessions.*hour"),
        ({"max_memory": 20 << 10}, {}, "settings.*take 0 MiB"),
        ({"max_memory": 100 << 10}, {}, "gradients.*take 0 MiB"),
        ({"max_memory": 32 << 20}, {"max_depth": 10, "max_bin": 256}, "would take 108 MiB"),
    ],
)
def test_limits(tmp_path, certificates, limits, params, reason):
    service = service_of(certificates, tmp_path, limits)
    with pytest.raises(PartyRefusedError, match=reason):
        train([Local(service, name="ada"), *others(certificates)], params={**PARAMS, **params})


class Stopped(Exception):
    """The coordinator gives up."""


def refused_opening(service, certificates, folder):
    """Then no session is open, and what the party holds for the coordinator is forgotten, files included."""
    channel = Channel(Local(service, name="ada"), bytes(16), Traffic(), "c")
    with pytest.raises(PartyRefusedError, match="know the run"):
        channel.ask(OpenExactRun(bytes(16), request_of(True), 0), Introduced)
    return service


def served_again(service, certificates, folder):
    service.close()
    return service_of(certificates, folder)


@pytest.mark.parametrize("happens", [refused_opening, served_again])
def test_a_run_is_taken_up_by_another_handler(happens, tmp_path, certificates):
    service = service_of(certificates, tmp_path)
    members = [Between(Local(service, name="ada")), *(certified(certificates, k, tmp_path) for k in (1, 2))]

    def stop(number, message, send):
        if isinstance(message, AskSum) and message.round == 3:
            raise Stopped
        return send()

    gc.collect()
    gc.disable()  # it would let go of the files by chance
    try:
        members[0].disturb = stop
        with pytest.raises(Stopped):
            train(members, checkpoint=tmp_path / "progress")
        members[0] = Local(happens(service, certificates, tmp_path), name="ada")
        train(members, checkpoint=tmp_path / "progress")
    finally:
        gc.enable()
    assert len(list((tmp_path / "ada" / "for-acme" / "models").glob("*.json"))) == 1


def test_memory_is_given_back_at_the_end_of_a_run(tmp_path, certificates):
    service = service_of(certificates, tmp_path, {"max_memory": 300 << 10})
    for _ in range(4):
        train([Local(service, name="ada"), *others(certificates)])
    (caller,) = service.callers.values()
    gc.collect()
    assert caller.memory.reserved == 0


def test_a_run_that_begins_again_takes_no_more_memory_than_it_did(tmp_path, certificates):
    """The coordinator has lost its latest sums: the party goes back, and lets go of its own state first."""
    service = service_of(certificates, tmp_path, {"max_memory": 300 << 10})
    members = [Between(Local(service, name="ada")), *others(certificates)]
    opened = []

    def go_back(number, message, send):
        if isinstance(message, OpenRun):
            opened.append(message)
        if isinstance(message, AskSum) and message.round == 5 and len(opened) == 1:
            channel = Channel(Local(service, name="ada"), bytes(16), Traffic(), "c")
            opened.append(replace(opened[0], n_known=2))
            assert channel.ask(opened[1], Introduced).n_opened == 0
        return send()

    members[0].disturb = go_back
    model = train(members, checkpoint=tmp_path / "progress")
    assert len(opened) == 3
    assert text_of(model) == text_of(train(parties()))


def test_each_server_takes_part_in_one_method(tmp_path, certificates):
    """A party without an allow-list would add its numbers to anybody's: to those of its coordinator."""
    service = HorizontalService(party(0, tmp_path), tmp_path / "ada", HorizontalLimits())
    with pytest.raises(PartyRefusedError, match="allow-list for exact"):
        train([Local(service, name="ada"), *parties()[1:]])
    service.close()
    service = service_of(certificates, tmp_path)
    with pytest.raises(PartyRefusedError, match="not in SimFL"):
        train_simfl(PARAMS, [Local(service, name="ada"), *parties()[1:]], 1, verbose_eval=False)


# Who is who.


def test_parties_that_are_not_on_the_list_are_refused_by_everybody_else(tmp_path, certificates):
    _, prints = certificates
    service = service_of(certificates, tmp_path, allowed=[prints["bob"], prints["eve"]])
    with pytest.raises(PartyRefusedError, match=r"'cyd'.*allow-list"):
        train([Local(service, name="ada"), *others(certificates)])
    with pytest.raises(PartyRefusedError, match="from an authority"):
        train([Local(service, name="ada"), certified(certificates, 1), party(2)])
    assert "is not on this party" in (tmp_path / "ada" / "record.jsonl").read_text()
    with pytest.raises(PartyArgumentError, match="without its fingerprint"):
        certified(certificates, 0, allowed=["bob"])


def disturbed(members, alter):
    members[0] = Between(members[0], lambda number, message, send: send(alter(message)))
    return members


def test_a_coordinator_that_forges_keys_is_refused(tmp_path, certificates):
    """With a key of its own between two parties it could take the masks off."""
    forged = SessionKeys()

    def with_other_keys(message):
        if not isinstance(message, ProposeRoster):
            return message
        roster = Roster.from_bytes(message.roster)
        victim = roster.introductions[1]
        other = replace(victim, exchange_key=forged.exchange.public_key().public_bytes_raw())
        introductions = (roster.introductions[0], other, roster.introductions[2])
        return replace(message, roster=replace(roster, introductions=introductions).to_bytes())

    service = service_of(certificates, tmp_path)
    # The party signs what it cannot know to be forged, and goes on with nobody who has signed something else.
    members = disturbed([Local(service, name="ada"), *others(certificates)], with_other_keys)
    with pytest.raises(PartyRefusedError, match=r"'(ada|bob)'.*signed"):
        train(members)
    assert not answers_by_attempt(members[0])


def test_a_coordinator_that_is_all_other_parties_is_refused(tmp_path, certificates):
    """It has certificates of the names, of its own making."""
    made = {name: Credentials.self_signed(name) for name in NAMES}

    def with_other_parties(message):
        if not isinstance(message, ProposeRoster):
            return message
        roster = Roster.from_bytes(message.roster)
        own = [Introduction.of(name, made[name], SessionKeys()) for name in NAMES[1:]]
        return replace(
            message, roster=replace(roster, introductions=(roster.introductions[0], *own)).to_bytes()
        )

    service = service_of(certificates, tmp_path)
    with pytest.raises(PartyRefusedError, match="from an authority"):
        train(disturbed([Local(service, name="ada"), *others(certificates)], with_other_parties))


def test_without_its_certificates_key_nobody_signs_for_a_party(tmp_path, certificates, monkeypatch):
    """A party that presents another one's certificate cannot sign the roster."""
    known, _ = certificates
    stolen = Credentials.of(TLS.from_directory(known / "bob")).certificates
    signing = Credentials.self_signed("bob")

    def introduced(name, credentials, allowed, session, kept=None):
        member = Agreement(name, credentials, allowed, session, kept)
        if name == "bob":
            member.introduction = replace(member.introduction, certificates=stolen)
            member.credentials = signing
        return member

    monkeypatch.setattr("gbdt_parties.run.party_run.Agreement", introduced)
    service = service_of(certificates, tmp_path)
    with pytest.raises(PartyRefusedError, match=r"'bob'.*signed"):
        train([Local(service, name="ada"), party(1), certified(certificates, 2)])


def altered_seed(message):
    if isinstance(message, BeginRounds):
        seeds = unpack(message.seeds)
        return BeginRounds(pack([seeds[0], bytes(32), seeds[2]]))
    return message


def altered_signature(message):
    if isinstance(message, ConfirmRoster):
        signatures = unpack(message.signatures)
        return replace(message, signatures=pack([signatures[0], signatures[0], signatures[2]]))
    return message


def other_settings(message):
    if isinstance(message, ProposeRoster):
        return replace(message, task=message.task.replace('"max_bin": 8', '"max_bin": 9'))
    return message


def wrong_sum(message):
    """The contributions of another round in place of this one's."""
    if isinstance(message, AskSum) and message.opened and message.round == 4:
        opened = Opened.from_bytes(message.opened)
        contents = {
            place: content[:12] + bytes(len(content) - 12) for place, content in opened.contributions.items()
        }
        return replace(message, opened=Opened(opened.round, opened.number, contents).to_bytes())
    return message


def other_members(message):
    if isinstance(message, AskSum) and message.round == 3:
        return replace(message, members=np.array([0, 1], dtype=np.int32))
    return message


@pytest.mark.parametrize(
    ("alter", "reason"),
    [
        (altered_seed, "the seed of party 'bob' is not the one"),
        (altered_signature, "'bob' are not signed by its certificate"),
        (other_settings, "for other settings"),
        (wrong_sum, "is not signed by it for this attempt"),
        (other_members, "every sum here is over all of them"),
    ],
)
def test_lies_are_refused_and_recorded(tmp_path, certificates, alter, reason):
    service = service_of(certificates, tmp_path)
    with pytest.raises(PartyRefusedError, match=reason):
        train(disturbed([Local(service, name="ada"), *others(certificates)], alter))
    lines = map(json.loads, (tmp_path / "ada" / "record.jsonl").read_text().splitlines())
    assert any(reason in line.get("reason", "") for line in lines)


def test_certificates_are_checked_again_when_a_run_is_taken_up(tmp_path, certificates):
    _, prints = certificates
    members = [certified(certificates, place, tmp_path) for place in range(3)]
    members[1] = Between(members[1], stopped)
    with pytest.raises(RuntimeError):
        train(members, checkpoint=tmp_path / "progress")
    for member in (members[0], members[1].party, members[2]):
        member.close()
    members = [certified(certificates, place, tmp_path) for place in range(3)]
    members[0].close()
    members[0] = certified(certificates, 0, tmp_path, allowed=[prints["bob"], prints["eve"]])
    with pytest.raises(PartyRefusedError, match=r"'cyd'.*allow-list"):
        train(members, checkpoint=tmp_path / "progress")


@pytest.mark.parametrize("trained", [train, lambda members: train_simfl(PARAMS, members, 1)])
def test_a_server_that_a_party_of_this_process_does_not_allow_is_sent_nothing(certificates, trained):
    """Its labels and column names would be in the roster that it refuses."""
    known, prints = certificates
    one, service = certified(certificates, 0, allowed=[prints["bob"]]), HandlerService(Echo())
    server = Server(service, "127.0.0.1:0", TLS.from_directory(known / "eve"), ["acme"])
    tls = replace(TLS.from_directory(known / "acme"), server_name="eve")
    remote = RemoteParty(f"127.0.0.1:{server.port}", tls, "bob")
    try:
        with pytest.raises(AuthenticationError, match=rf"was not asked.*{prints['eve']}"):
            trained([one, remote])
    finally:
        remote.close()
        server.stop(grace=0)
    assert not service.exchanges


def stopped(number, message, send):
    if isinstance(message, AskSum) and message.round == 5:
        raise RuntimeError("the coordinator is killed")
    return send()


def test_the_name_is_that_of_the_certificate(certificates):
    known, prints = certificates
    terms = ExactTerms(tls=known / "ada", allowed=[prints["bob"]])
    with pytest.raises(ValueError, match="party's certificate"):
        HorizontalParty(X, Y, "bob", exact=terms)
