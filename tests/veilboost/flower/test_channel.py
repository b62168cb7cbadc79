"""Parties behind nodes that relay each message in a new process, without the platform's processes."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from flower_hospitals import (
    NAMES,
    FakeCarrier,
    Forging,
    Hospitals,
    exact_in_process,
    in_process,
    pin,
    write_files,
)
from gbdt_parties import messages
from gbdt_parties.errors import PartyRefusedError, PartyUnavailableError, ProtocolError
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.messages import Refusal
from gbdt_parties.secure_sum.messages import (
    AskSum,
    Contributed,
    Endorsed,
    FinishedModel,
    Introduced,
    Opened,
    OpenRun,
    OpenSum,
    pack,
    unpack,
)
from lgb_dp import federated
from lgb_dp.errors import FederatedCheckpointError
from lgb_dp.federated.task import OpenPrivateRun
from veilboost import command_line
from veilboost.flower import channel, node
from veilboost.flower.carrier import NodeReply
from veilboost.flower.channel import NodeParty, Nodes
from veilboost.flower.training import train_over

pytest.importorskip("pyarrow")
pytest.importorskip("grpc")
MODELS = {"private": "model.txt", "exact": "model.json"}
BOTH = ["private", pytest.param("exact", marks=pytest.mark.slow)]
"""Ways of training of a test whose fault the nodes meet in the same way in both."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(channel, "SECONDS_BETWEEN_LOOKS", 0.01)
    return tmp_path


@pytest.fixture
def pinned(monkeypatch):
    pin(monkeypatch.setattr)


@pytest.fixture
def hospitals(folder):
    """Gives the servers of files of a kind, which end with the test."""
    running = []

    def started(method="private", **how):
        write_files(folder, method, **how)
        running.append(Hospitals(folder).__enter__())
        return running[-1]

    yield started
    for one in running:
        one.__exit__()


def model(folder, method="private"):
    return (folder / "model" / MODELS[method]).read_bytes()


def expected(folder, method="private", rounds=6):
    return in_process(folder).encode() if method == "private" else exact_in_process(folder, rounds)


def relayed(config, requests):
    """A node's reply to requests of another coordinator."""
    return node.reply(config, requests, 60.0)


def of_kind(carrier, name, kind):
    """Messages of a kind that a party was sent, in their order."""
    sent = [messages.read(one).message for to, requests in carrier.sent if to == name for one in requests]
    return [one for one in sent if isinstance(one, kind)]


def test_the_private_model_is_the_one_in_process_to_the_byte(folder, hospitals, pinned):
    carrier = FakeCarrier(hospitals())
    train_over(carrier, "plan.toml")
    assert model(folder) == expected(folder)
    trips = [requests for name, requests in carrier.sent if name == "south"]
    # Introduction, roster, signatures, seeds; label counts, two rounds and the end; digest and Finish.
    assert len(trips) == 4 + 4 + 2
    assert {len(requests) for requests in trips} == {1}
    for name in NAMES:
        (kept,) = folder.glob(f"{name}/for-{name}-node/models/*.txt")
        assert kept.read_bytes() == model(folder)


@pytest.mark.parametrize("method", ["private", "exact"])
def test_same_model_for_all_is_checked_in_the_app_s_folder_and_in_each_party_s(
    folder, hospitals, pinned, method, capsys
):
    """The platform runs the app, and can write any model: not the signatures of the parties beside it."""
    train_over(FakeCarrier(hospitals(method, rounds=3)), "plan.toml")
    signed = folder / "model" / "model.signatures"
    places = [signed, *folder.glob("*/for-*-node/models/*.signatures")]
    assert len(places) == 4
    for path in places:
        capsys.readouterr()
        assert command_line.main(["inspect", str(path)]) == 0
        about, *lines = capsys.readouterr().out.splitlines()
        assert about == f"{path.with_suffix(Path(MODELS[method]).suffix)}: signed by 3 of 3 parties"
        for name, line in zip(NAMES, lines, strict=True):
            certificate = (folder / "certs" / name / "party.pem").read_bytes()
            assert line == f"{name}  sha256:{Identity.of(certificate).fingerprint}"
    text, ends = signed.read_text(), json.loads(signed.read_text())
    (folder / "model" / MODELS[method]).write_bytes(model(folder, method).replace(b"0", b"1"))
    assert command_line.main(["inspect", str(signed)]) == command_line.WRONG_USE
    assert f"another model than {signed.with_name(MODELS[method])}" in capsys.readouterr().err
    signed.write_text(text.replace(ends["digests"][0], hashlib.sha256(model(folder, method)).hexdigest()))
    assert command_line.main(["inspect", str(signed)]) == command_line.REFUSED
    assert "party 'north' has not signed this end of the run" in capsys.readouterr().err


def test_same_model_for_all_though_a_node_changes_the_model_on_its_way(folder, hospitals):
    """The first answer of one node has the model; those of the others, and signatures, are of another one."""

    def disturb(number, name, answer):
        reply = answer()
        (one,) = [messages.read(content) for content in reply.answers] or [None]
        if one is None or not isinstance(one.message, FinishedModel) or name != "north":
            return reply
        parts = [part.replace(b"0", b"1") for part in unpack(one.message.content)]
        digests = b"".join(hashlib.sha256(part).digest() for part in parts) or one.message.digests
        changed = replace(one.message, content=pack(parts), digests=digests)
        return replace(reply, answers=[messages.write(one.session, one.sequence, changed)])

    carrier = FakeCarrier(hospitals("exact", rounds=1), disturb)
    with pytest.raises(ProtocolError, match=r"another.*others"):
        train_over(carrier, "plan.toml")
    assert not (folder / "model").exists()
    assert list(folder.glob("*/for-*-node/models/*")) == []


def test_the_exact_model_is_the_one_in_process_to_the_byte(folder, hospitals):
    carrier = FakeCarrier(hospitals("exact", rounds=3))
    train_over(carrier, "plan.toml")
    assert model(folder, "exact") == expected(folder, "exact", 3)
    assert {len(requests) for _, requests in carrier.sent} == {1}
    assert not of_kind(carrier, "south", OpenSum)


@pytest.mark.parametrize("method", BOTH)
def test_a_node_that_was_killed_comes_back_as_another_one_and_the_run_goes_on(
    folder, hospitals, pinned, method
):
    killed = []

    def disturb(number, name, answer):
        if name == "south" and number == 6 and not killed:
            killed.append(answer())  # it was answered, and charged for, before the node was lost
            carrier.restart("south")
            return None
        return answer()

    carrier = FakeCarrier(hospitals(method, timeout=2.0, patience=60.0), disturb)
    train_over(carrier, "plan.toml")
    assert len(killed) == 1
    assert model(folder, method) == expected(folder, method)


@pytest.mark.parametrize("method", BOTH)
@pytest.mark.parametrize("number", [3, 7])
def test_a_server_that_was_killed_goes_on_with_what_its_folder_has(folder, hospitals, pinned, method, number):
    """Behind the third message, as the run begins, it begins again; behind the seventh, it goes on."""
    killed = []

    def disturb(now, name, answer):
        if (now, name) == (number, "south") and not killed:
            killed.append(answer())  # which is lost
            running.stop("south")
            running.start("south")
            return None
        return answer()

    running = hospitals(method, timeout=1.5, patience=60.0)
    carrier = FakeCarrier(running, disturb)
    train_over(carrier, "plan.toml")
    assert killed
    assert model(folder, method) == expected(folder, method)
    # The sums that it had opened travel with the next question.
    assert len(of_kind(carrier, "south", OpenSum)) == (2 if number == 7 else 0)
    assert [len(requests) for name, requests in carrier.sent if len(requests) > 1] == [3] * (number == 7)


def test_a_restarted_party_never_answers_two_questions_under_one_mask(folder, hospitals):
    """Whoever holds the node's certificate asks again, asks otherwise, and tells the party other sums."""
    running = hospitals("exact", rounds=3, timeout=0.5, patience=60.0)
    given = []

    def answers(number, name, answer):
        if name != "south" or number != 9:
            return answer()
        asked = of_kind(carrier, "south", AskSum)
        opening = replace(of_kind(carrier, "south", OpenRun)[0], n_known=len(asked) - 1)
        sums = [OpenSum(one.opened) for one in asked[1:]]
        question = replace(asked[-1], opened=b"")
        assert len(sums) == question.round >= 3

        def after_restart(*told):
            running.stop("south")
            running.start("south")
            requests = [messages.write(bytes([len(given)]) * 16, k, one) for k, one in enumerate(told)]
            answered = relayed(running.config("south"), requests).answers[-1]
            given.append(messages.read(answered).message)
            return given[-1]

        first = after_restart(opening, *sums, question)
        assert isinstance(first, Contributed)
        again = after_restart(opening, *sums, question)
        assert again.content == first.content
        for other in (
            replace(question, round=question.round - 1, number=question.number - 1),
            replace(question, number=question.number + 1),
            replace(question, members=question.members[1:]),
            replace(question, members=question.members[::-1].copy()),
        ):
            assert isinstance(after_restart(opening, *sums, other), Refusal)
        # Other sums: one left out, two exchanged, one twice, a contribution from another one.
        assert "is next" in after_restart(opening, *sums[:-1], question).reason
        assert isinstance(after_restart(opening, sums[1], sums[0], *sums[2:], question), Refusal)
        last, before = (Opened.from_bytes(one.opened) for one in (sums[-1], sums[-2]))
        for place in last.contributions:
            mixed = {**last.contributions, place: before.contributions[place]}
            forged = OpenSum(Opened(last.round, last.number, mixed).to_bytes())
            assert isinstance(after_restart(opening, *sums[:-1], forged, question), Refusal)
        # The run goes on as if nothing had been.
        assert after_restart(opening, *sums, question).content == first.content
        running.stop("south")
        running.start("south")
        return None

    carrier = FakeCarrier(running, answers)
    train_over(carrier, "plan.toml")
    assert len(given) >= 12
    assert model(folder, "exact") == expected(folder, "exact", 3)


def test_a_node_that_the_platform_has_no_more_is_looked_for_again(folder, hospitals, pinned):
    gone = []

    def disturb(number, name, answer):
        reply = answer()
        if name == "south" and number == 6 and not gone:
            carrier.restart("south", is_known=False)  # behind this answer
            gone.append(number)
        return reply

    carrier = FakeCarrier(hospitals(patience=60.0), disturb)
    listed = carrier.nodes
    carrier.nodes = lambda: [99, *listed()]  # listed, and gone whenever it is asked
    carrier.gone.add(99)
    train_over(carrier, "plan.toml")
    assert gone
    assert model(folder) == expected(folder)


def test_a_process_that_fails_is_asked_again(folder, hospitals, pinned):
    failed = []

    def disturb(number, name, answer):
        if name == "west" and number in (1, 3, 5, 9) and number not in failed:
            failed.append(number)
            return NodeReply("", (), "Flower's error 8: crashed")
        return answer()

    train_over(FakeCarrier(hospitals(patience=60.0), disturb), "plan.toml")
    assert failed == [1, 3, 5, 9]
    assert model(folder) == expected(folder)


@pytest.mark.parametrize("method", BOTH)
def test_a_coordinator_that_died_goes_on(folder, hospitals, pinned, method):
    running = hospitals(method, timeout=1.0)

    def disturb(number, name, answer):
        return None if number > 6 else answer()

    with pytest.raises(PartyUnavailableError):
        train_over(FakeCarrier(running, disturb), "plan.toml")
    train_over(FakeCarrier(running), "plan.toml")
    assert model(folder, method) == expected(folder, method)


def test_a_run_over_the_budget_is_refused_by_the_party(folder, hospitals):
    with pytest.raises(PartyRefusedError, match="of the party's budget"):
        train_over(FakeCarrier(hospitals(budget=(0.5, 1e-5))), "plan.toml")
    assert not (folder / "model").exists()
    for name in NAMES:
        assert not federated.read_ledger(folder / name).rows


def test_exact_rounds_are_counted_over_runs_and_refused(folder, hospitals):
    running = hospitals("exact", rounds=3, max_rounds=5)
    train_over(FakeCarrier(running), "plan.toml")
    with pytest.raises(PartyRefusedError, match=r"taken.*3.*max_rounds=5"):
        train_over(FakeCarrier(running), "plan.toml", overwrite=True)


def test_sums_that_wait_are_sent_before_there_are_too_many(folder, hospitals, monkeypatch):
    monkeypatch.setattr(channel, "BATCH_BYTES", 20_000)
    restarted = []

    def disturb(number, name, answer):
        if name == "south" and number == 16 and not restarted:
            restarted.append(number)
            running.stop("south")
            running.start("south")
            return NodeReply("", (), "Flower's error 8: crashed")
        return answer()

    running = hospitals("exact", rounds=3, patience=60.0)
    carrier = FakeCarrier(running, disturb)
    train_over(carrier, "plan.toml")
    lengths = [len(requests) for name, requests in carrier.sent if name == "south"]
    assert max(lengths) > 1
    together = [requests for _, requests in carrier.sent if len(requests) > 1]
    assert max(sum(map(len, requests[:-1])) for requests in together) < 20_000
    assert len(of_kind(carrier, "south", OpenSum)) > max(lengths)
    assert model(folder, "exact") == expected(folder, "exact", 3)


# Nodes that say that they have a party, and have not.


def honest(carrier, name, change=lambda messages: messages):
    """A node that passes a party's answers on, changed; it says its name by itself."""

    def answer(requests):
        if not requests:
            return NodeReply(name, ())
        reply = relayed(carrier.hospitals.config(name), requests)
        read = [messages.read(one) for one in reply.answers]
        changed = change([one.message for one in read])
        return NodeReply(
            name,
            [messages.write(one.session, one.sequence, new) for one, new in zip(read, changed, strict=True)],
        )

    return answer


def refusing(name):
    """A node that refuses whatever it is asked."""

    def answer(requests):
        refused = [messages.write(*messages.address(one), messages.refusal("no")) for one in requests[:1]]
        return NodeReply(name, refused)

    return answer


def signed_otherwise(found):
    return [Endorsed(bytes(64)) if isinstance(one, Endorsed) else one for one in found]


def introduced_otherwise(found):
    return [replace(one, introduction=b"none") if isinstance(one, Introduced) else one for one in found]


def of_other_columns(found):
    return [replace(one, description="{}") if isinstance(one, Introduced) else one for one in found]


def refused_roster(found):
    return [messages.refusal("no") if isinstance(one, Endorsed) else one for one in found]


LIARS = {
    "silent": lambda carrier, name: lambda requests: None if requests else NodeReply(name, ()),
    "failing": lambda carrier, name: lambda requests: NodeReply(name, (), "no" if requests else ""),
    "nonsense": lambda carrier, name: lambda requests: NodeReply(name, [b"x"] if requests else ()),
    "nothing": lambda carrier, name: lambda requests: NodeReply(name, ()),
    "too many": lambda carrier, name: lambda requests: NodeReply(name, [b"x", b"y"] if requests else ()),
    "refusing": lambda carrier, name: refusing(name),
    "of another name": lambda carrier, name: (
        lambda requests: (
            relayed(carrier.hospitals.config("north"), requests) if requests else NodeReply(name, ())
        )
    ),
    "without keys": lambda carrier, name: honest(carrier, name, introduced_otherwise),
    "with keys of its own": lambda carrier, name: Forging(carrier.hospitals.folder, name),
    "of other columns": lambda carrier, name: honest(carrier, name, of_other_columns),
    "without signature": lambda carrier, name: honest(carrier, name, signed_otherwise),
    "refusing the roster": lambda carrier, name: honest(carrier, name, refused_roster),
}


QUICK_LIARS = ("silent", "too many", "with keys of its own", "refusing the roster")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in QUICK_LIARS else pytest.mark.slow) for kind in LIARS]
)
def test_a_node_that_claims_anothers_name_ends_no_run(folder, hospitals, pinned, kind, capsys):
    carrier = FakeCarrier(hospitals(timeout=1.0, patience=60.0))
    carrier.liars = {5: LIARS[kind](carrier, "west")}
    train_over(carrier, "plan.toml")
    assert model(folder) == expected(folder)
    if kind not in ("silent", "failing"):
        said = capsys.readouterr().err
        ignored = "node 5 is ignored, which says that it is party 'west'" in said
        assert ignored != ("refusing" in kind or kind == "of another name")
        assert ignored or "party 'west' behind node 5 refuses" in said


def test_a_party_behind_no_node_is_named_with_what_was_ignored(folder, hospitals):
    carrier = FakeCarrier(hospitals(timeout=0.05))
    del carrier.named[12]
    with pytest.raises(PartyUnavailableError, match="'west' is behind"):
        train_over(carrier, "plan.toml")
    carrier.liars = {5: LIARS["nonsense"](carrier, "west")}
    with pytest.raises(PartyUnavailableError, match=r"node 5.*short"):
        train_over(carrier, "plan.toml")


def test_the_second_of_two_runs_at_once_is_refused_by_name(folder, hospitals, pinned):
    """The one under way goes on: its next message ends the beginning of the other one."""
    running = hospitals(timeout=2.0, patience=60.0)
    other = (folder / "plan.toml").read_text() + "lambda_l2 = 0.5\n"
    other = other.replace("[training]", '[training]\ncheckpoint = "other"\nmodel = "other-model"')
    (folder / "other.toml").write_text(other)
    refused = []

    def begun(number, name, answer):
        if (number, name) == (6, "south"):
            # In the middle of this beginning, the first run asks its next question everywhere.
            with pytest.raises(PartyRefusedError) as error:
                train_over(FakeCarrier(running, meanwhile), "other.toml")
            refused.append(str(error.value))
        return answer()

    first = FakeCarrier(running, begun)

    def meanwhile(number, name, answer):
        if number == 3:
            requests = [messages.write(bytes(16), 0, replace(of_kind(first, name, OpenRun)[0], n_known=1))]
            relayed(running.config(name), requests)
        return answer()

    train_over(first, "plan.toml")
    assert len(refused) == 1
    assert "has begun another run since, or was restarted: start one run at a time" in refused[0]
    assert model(folder) == expected(folder)
    assert not (folder / "other-model").exists()


def test_a_run_with_the_checkpoint_of_one_under_way_is_refused(folder, hospitals, pinned):
    running, said = hospitals(), []

    def disturb(number, name, answer):
        if (number, name) == (6, "south"):
            with pytest.raises(FederatedCheckpointError, match="in use") as error:
                train_over(FakeCarrier(running), "plan.toml")
            said.append(str(error.value))
        return answer()

    train_over(FakeCarrier(running, disturb), "plan.toml")
    assert said
    assert model(folder) == expected(folder)


def test_answers_to_another_message_are_refused(folder, hospitals):
    earlier = []

    def disturb(number, name, answer):
        reply = answer()
        if name == "north" and number:
            earlier.append(reply)
        return earlier[0] if number > 1 and earlier else reply

    with pytest.raises(ProtocolError, match="answered another message"):
        train_over(FakeCarrier(hospitals(), disturb), "plan.toml")


# Refusals, which are not signed.


def own_nodes_first(carrier):
    """A carrier that lists the parties' own nodes before those of liars."""
    listed = carrier.nodes
    carrier.nodes = lambda: sorted(listed(), reverse=True)
    return carrier


@pytest.mark.parametrize(
    "kind",
    ["with keys of its own"]
    + [pytest.param(kind, marks=pytest.mark.slow) for kind in ("nonsense", "refusing the roster")],
)
def test_a_refusal_of_the_party_is_named_whoever_else_says_that_it_is_the_party(folder, hospitals, kind):
    """The roster has a certificate that west does not allow."""
    running = hospitals(timeout=1.0, patience=60.0)
    served = (folder / "west.toml").read_text()
    (folder / "west.toml").write_text(re.sub(r"party = .*", f'party = ["sha256:{"0" * 64}"]', served))
    running.stop("west")
    running.start("west")
    carrier = own_nodes_first(FakeCarrier(running))
    carrier.liars = {5: LIARS[kind](carrier, "west")}
    with pytest.raises(PartyRefusedError, match=r"'west'.*allow-list"):
        train_over(carrier, "plan.toml")


def test_a_refused_opening_is_named_in_the_end(folder, hospitals):
    """It is not signed, and could be that of any node."""
    running = hospitals()
    served = folder / "west.toml"
    served.write_text(f"{served.read_text()}colluding = 2\n")
    running.stop("west")
    running.start("west")
    with pytest.raises(PartyUnavailableError, match=r"'west' behind node 12.*demands 2"):
        train_over(FakeCarrier(running), "plan.toml")


def test_a_party_that_refuses_an_opening_for_now_is_asked_again(folder, hospitals, pinned):
    """As one whose sessions of the hour are used up, when another node says that it is the party."""
    refused = []

    def disturb(number, name, answer):
        if (number, name) == (1, "west"):
            (request,) = carrier.sent[-1][1]
            refused.append(messages.write(*messages.address(request), messages.refusal("too many sessions")))
            return NodeReply(name, refused)
        return answer()

    carrier = own_nodes_first(FakeCarrier(hospitals(timeout=1.0, patience=60.0), disturb))
    carrier.liars = {5: LIARS["without keys"](carrier, "west")}
    train_over(carrier, "plan.toml")
    assert refused
    assert model(folder) == expected(folder)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize(
    "code",
    [messages.NO_RUN]
    + [pytest.param(code, marks=pytest.mark.slow) for code in (messages.OTHER_REASON, messages.NO_SESSION)],
)
def test_a_refusal_of_a_node_that_proves_nothing_ends_no_run(folder, hospitals, pinned, code, begun, caplog):
    """It is alone at first, since the party's own node is started later, or again."""
    n_refused = []

    def answer(requests):
        if not requests:
            return NodeReply("west", ())
        n_refused.append(len(requests))
        if len(n_refused) == 2:
            carrier.named[112] = "west"
        refused = messages.refusal("a reason of its own", code)
        return NodeReply("west", [messages.write(*messages.address(requests[0]), refused)])

    def disturb(number, name, reply):
        if begun and (number, name) == (6, "west") and not carrier.liars:
            del carrier.named[12]
            carrier.liars = {5: answer}
            return None
        return reply()

    carrier = FakeCarrier(hospitals(timeout=0.5, patience=60.0), disturb)
    if not begun:
        del carrier.named[12]
        carrier.liars = {5: answer}
    train_over(carrier, "plan.toml")
    assert len(n_refused) >= 2
    assert model(folder) == expected(folder)


# Messages and nodes that are late.


def test_an_opening_that_comes_late_is_waited_for(folder, hospitals, pinned):
    """It was given up, and ends the session of the beginning that has taken its place."""
    late = []

    def disturb(number, name, answer):
        if (number, name) == (1, "south"):
            late.append(answer)
            return None
        if (number, name) == (3, "south"):
            late[0]()
        return answer()

    carrier = FakeCarrier(hospitals(timeout=1.5, patience=60.0), disturb)
    train_over(carrier, "plan.toml")
    assert len(of_kind(carrier, "south", OpenRun)) == 3
    assert model(folder) == expected(folder)


def test_a_node_that_did_not_say_its_name_is_asked_again(folder, hospitals, pinned):
    silent = []

    def disturb(number, name, answer):
        if (number, name) == (0, "south") and not silent:
            silent.append(number)
            return None
        return answer()

    train_over(FakeCarrier(hospitals(timeout=1.0, patience=60.0), disturb), "plan.toml")
    assert silent
    assert model(folder) == expected(folder)


def test_without_patience_a_lost_message_ends_the_run(folder, hospitals):
    def disturb(number, name, answer):
        return None if (number, name) == (6, "south") else answer()

    carrier = FakeCarrier(hospitals(timeout=1.5, patience=0.0), disturb)
    with pytest.raises(PartyUnavailableError, match=r"\['north', 'west'\].*reply"):
        train_over(carrier, "plan.toml")


def test_a_question_that_is_given_up_ends(folder, hospitals):
    carrier = FakeCarrier(hospitals(timeout=60.0), lambda number, name, answer: None)
    nodes = Nodes(carrier, 60.0)
    one = NodeParty(nodes, "north", b"")
    one.interrupt()
    for work in (
        lambda: nodes.ask(10, "north", [b""], one.given_up),
        lambda: nodes.found("north", one.given_up),
    ):
        with pytest.raises(PartyUnavailableError, match="given up"):
            work()


def test_a_question_that_was_given_up_before_it_was_asked_is_not_asked(folder, hospitals):
    carrier = FakeCarrier(hospitals())
    one = NodeParty(Nodes(carrier, 60.0), "north", b"")
    one.interrupt()
    for _ in range(2):
        with pytest.raises(PartyUnavailableError, match="given up"):
            one.handle(messages.write(bytes(16), 0, OpenPrivateRun(bytes(16), "", -1)))
    assert not carrier.sent
