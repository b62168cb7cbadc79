"""A party with columns alone behind a server: over TLS, with refusals by name, over restarts."""

import os
import subprocess
import sys
import time
from contextlib import ExitStack
from threading import Timer

import numpy as np
import pytest

import lgb_dp
from columns_apart import (
    BUDGET,
    IDS,
    PARAMS,
    N,
    X,
    assert_rows_are,
    bank,
    own_rows,
    rows_used,
    text_of,
    trained,
)
from deployment import HandlerService
from free_ports import free_port
from full_disks import FullDisk
from gbdt_parties import curve_group
from gbdt_parties.channel import Channel as Session
from gbdt_parties.errors import AuthenticationError, PartyError, PartyRefusedError, PartyUnavailableError
from gbdt_parties.identity.alignment import align
from gbdt_parties.identity.certificates import TLS, make_authority, make_certificate
from gbdt_parties.messages import Done, Finish, read, write
from gbdt_parties.run.agreement import Agreement
from gbdt_parties.run.log import RUNS, THIS_PROCESS, runs_of
from gbdt_parties.secure_sum.messages import NEW_RUN, ConfirmRoster, Endorsed, Introduced, ProposeRoster, pack
from gbdt_parties.secure_sum.roster import Introduction, Roster
from gbdt_parties.secure_sum.trust import AllowList, Credentials
from gbdt_parties.traffic import Traffic
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import Server
from lgb_dp.errors import FederatedCheckpointError
from lgb_dp.federated.ledger import read_ledger
from lgb_dp.vertical import ColumnLimits, ColumnParty, ColumnService, Consent, MaskedTraffic, predict
from lgb_dp.vertical import party as party_module
from lgb_dp.vertical.prediction import models, questions
from lgb_dp.vertical.prediction.answers import AnswerKind
from lgb_dp.vertical.replica import ReplicaAnswers
from lgb_dp.vertical.sums import TableHolder
from lgb_dp.vertical.task import Flights, OpenColumns, statement
from lgb_dp.vertical.train import check, task_of
from quick_group import CURVE
from served_parties import Echo

pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")


@pytest.fixture(scope="module")
def certified(tmp_path_factory):
    """Folders of certificates, and fingerprints, by name."""
    folder = tmp_path_factory.mktemp("certificates")
    make_authority(folder / "ca")
    names = ("hospital", "bank", "stranger")
    return {
        name: (folder / name, f"sha256:{make_certificate(folder / name, folder / 'ca', name).fingerprint}")
        for name in names
    }


class Served:
    """A bank's server, which can be killed and started again."""

    def __init__(self, certified, folder, limits=None, **data):
        self.certified, self.folder, self.limits, self.data = certified, folder, limits, data
        self.address = f"127.0.0.1:{free_port()}"
        self.start()

    def start(self):
        tls, _ = self.certified["bank"]
        allowed = [self.certified["hospital"][1]]
        party = bank(folder=self.folder, budget=BUDGET, tls=tls, allowed=allowed, **self.data)
        self.service = ColumnService(party, self.folder, self.limits)
        callers = ["hospital", "stranger"]
        self.server = Server(self.service, self.address, TLS.from_directory(tls), callers)

    def stop(self):
        self.server.stop(grace=0)
        self.service.close()

    def remote(self, name="hospital", allowed=("bank",)):
        known = None if allowed is None else [self.certified[one][1] for one in allowed]
        tls = TLS.from_directory(self.certified[name][0])
        return RemoteParty(self.address, tls, "bank", timeout=60, allowed=known)


@pytest.fixture
def serve(certified, tmp_path):
    with ExitStack() as stack:

        def make(**kw):
            served = Served(certified, tmp_path / "bank", **kw)
            stack.callback(lambda: served.stop())
            return served

        yield make


def remotely(served, name="hospital", **kw):
    tls, _ = served.certified[name]
    party = served.remote(name)
    try:
        return trained(party, tls=tls, allowed=[served.certified["bank"][1]], **kw)
    finally:
        party.close()


def charged(folder):
    return {row["release"]: row["answers"] for row in read_ledger(folder).rows}


def test_a_run_over_tls_ends_with_one_model_at_both(serve, tmp_path):
    served, traffic = serve(), MaskedTraffic()
    booster = remotely(served, checkpoint=tmp_path / "own", traffic=traffic)
    (kept,) = (served.folder / "models").glob("*.txt")
    assert kept.read_text() == text_of(booster)
    assert charged(tmp_path / "own") == {"label counts": 1, "leaf sums": 2}
    assert charged(served.folder) == {"leaf sums": 2}
    here = MaskedTraffic()
    trained(bank(), traffic=here, name="hospital")
    assert here.to_dicts() == traffic.to_dicts()


def test_ids_are_aligned_and_both_take_the_rows_in_common(serve, tmp_path, monkeypatch):
    used = rows_used(monkeypatch)
    ids = [f"row-{k:03d}" for k in range(N)]
    order = np.random.default_rng(3).permutation(N)[:250]
    served = serve(x=X[order, 2:], ids=[ids[k] for k in order])
    remotely(served, ids=ids, checkpoint=tmp_path / "own")
    assert_rows_are(used, np.sort(order))
    about = {"callbacks": [lgb_dp.NewtonBoost(30.0, 1e-5)], "trees_per_round": 2, "name": "hospital"}
    about |= {"checkpoint": tmp_path / "own", "ids": ids}
    check(PARAMS, own_rows(), 4, **about)
    with pytest.raises(FederatedCheckpointError, match=r"settings.*differ"):
        check(PARAMS, own_rows(), 5, **about)
    with pytest.raises(FederatedCheckpointError, match=r"250 of 250 ids.*common"):
        check(PARAMS, own_rows(), 4, **{**about, "ids": [f"other-{k}" for k in range(N)]})
    with pytest.raises(PartyRefusedError, match="named by aligned"):
        remotely(served)


def test_what_a_served_party_needs_is_named(certified, tmp_path):
    tls, allowed = certified["bank"][0], [certified["hospital"][1]]
    for has, missing in (
        ({}, "no folder"),
        ({"folder": tmp_path / "a", "budget": BUDGET}, "no allow-list"),
        ({"folder": tmp_path / "b", "tls": tls, "allowed": allowed}, "no budget"),
    ):
        with pytest.raises(lgb_dp.InvalidArgumentError, match=missing):
            ColumnService(bank(**has), tmp_path)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="allowed=None"):
        bank(tls=tls)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="tls=None"):
        trained(RemoteParty("127.0.0.1:1", insecure=True))


def test_strangers_other_rows_and_spent_budgets_are_refused_by_name(serve, certified):
    served = serve()
    with pytest.raises(PartyRefusedError, match="party's allow-list"):
        remotely(served, "stranger")
    with pytest.raises(PartyRefusedError, match=r"300 rows and party 'bank'.*301"):
        remotely(served, rows=slice(1, None))
    with pytest.raises(PartyRefusedError, match="of the party's budget"):
        remotely(served, epsilon=50.0)
    with pytest.raises(lgb_dp.InvalidArgumentError, match="party's cert"):
        bank(tls=certified["hospital"][0], allowed=[])
    assert not read_ledger(served.folder).rows


def test_requests_beyond_the_limits_are_refused(serve):
    served = serve(limits=ColumnLimits(max_request_bytes=10_000))
    with pytest.raises(PartyRefusedError, match="this party accepts 10000"):
        remotely(served)
    served.service.limits = ColumnLimits(max_models=0)
    with pytest.raises(PartyRefusedError, match="at most 0 runs"):
        remotely(served)


@pytest.mark.parametrize("when", ["released", "opened"])
def test_a_server_that_is_killed_and_started_again_goes_on(serve, tmp_path, monkeypatch, when):
    served, killed = serve(), []

    do = getattr(ReplicaAnswers, when)

    def kill(self, *args):
        result = yield from do(self, *args)
        if self.place == 0 and not killed:
            killed.append(True)
            served.stop()
            served.start()
        return result

    monkeypatch.setattr(ReplicaAnswers, when, kill)
    booster = remotely(served, checkpoint=tmp_path / "own", patience=120.0)
    assert killed
    (kept,) = (served.folder / "models").glob("*.txt")
    assert kept.read_text() == text_of(booster)
    counts = charged(served.folder)
    assert 2 <= counts["leaf sums"] <= 3
    assert charged(tmp_path / "own")["label counts"] == 1


def test_a_caller_that_is_killed_and_started_again_goes_on(serve, tmp_path, monkeypatch):
    served, killed = serve(), []

    def kill(self, asked, do=ReplicaAnswers.opened):
        result = yield from do(self, asked)
        if self.place == 0 and not killed:
            killed.append(True)
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(ReplicaAnswers, "opened", kill)
    with pytest.raises(KeyboardInterrupt):
        remotely(served, checkpoint=tmp_path / "own")
    booster = remotely(served, checkpoint=tmp_path / "own")
    (kept,) = (served.folder / "models").glob("*.txt")
    assert kept.read_text() == text_of(booster)
    with pytest.raises(PartyUnavailableError):
        trained(
            RemoteParty(
                "127.0.0.1:1", TLS.from_directory(served.certified["hospital"][0]), "bank", timeout=1
            ),
            tls=served.certified["hospital"][0],
            allowed=[],
        )


def test_messages_out_of_order_and_of_other_runs_are_refused_by_name(tmp_path):
    """Of a caller that writes its own: nothing of the rows leaves, and nothing is charged."""
    party = bank(folder=tmp_path, budget=BUDGET, auditable=True)
    trainer = lgb_dp.NewtonBoost(30.0, 1e-5)
    request = task_of(PARAMS, own_rows().construct(), trainer, 4, 2, "hospital", N).to_json()

    def opened(run=b"r" * 16, n_known=NEW_RUN, text=request):
        session = Session(party, os.urandom(16), Traffic(), "hospital")
        return session, session.ask(OpenColumns(run, text, n_known), Introduced)

    def refused(match, message, answer=Done, run=b"r" * 16):
        session, _ = opened(run)
        with pytest.raises(PartyError, match=match):
            session.ask(message, answer)

    refused("not signed by all parties", Flights(b"", 0), Flights)
    refused("not signed by all parties", Flights(bytes(1 << 20), 1), Flights)
    refused("no roster yet", ConfirmRoster(pack([b"a", b"b"])))
    refused("has not ended yet", Finish())
    refused("those of its request", ProposeRoster("{}", b""), Endorsed)
    refused("unexpected|cut off|parts", ProposeRoster("", b"short"), Endorsed)
    for arguments, match in (
        ({"run": b"short"}, "run must have 16 bytes"),
        ({"n_known": 0}, "does not know the run"),
        ({"text": "{}"}, "not those of this version"),
        ({"text": request.replace('"hospital"', '"bank"')}, "is that of both parties"),
        ({"text": request.replace('"n_rows": 301', '"n_rows": 300')}, "300 rows and party 'bank' has 301"),
    ):
        with pytest.raises(PartyError, match=match):
            opened(**arguments)
    session, introduced = opened()
    own = Agreement("hospital", Credentials.self_signed("hospital"), AllowList(), b"r" * 16)
    roster = Roster(
        b"r" * 16,
        statement(request, introduced.description + " "),
        (own.introduction, Introduction.from_bytes(introduced.introduction)),
    )
    with pytest.raises(PartyRefusedError, match="settings, columns"):
        session.ask(ProposeRoster("", roster.to_bytes()), Endorsed)
    trained(party, name="hospital")
    (known,) = runs_of(party.ledger.store, THIS_PROCESS).keys(RUNS)
    with pytest.raises(PartyRefusedError, match="has begun already"):
        opened(bytes.fromhex(known))
    # What is kept of it, for an auditor, is that of its own settings.
    other = request.replace('"per_round": 2', '"per_round": 1')
    with pytest.raises(PartyRefusedError, match=r"settings.*began"):
        opened(bytes.fromhex(known), 0, other)
    party.close()
    assert charged(tmp_path) == {"leaf sums": 2}


class MadeUpFinish:
    """Ends a session after its first messages: the other side waits for more of them then."""

    def __init__(self, party):
        self.party, self.name, self.answers, self.seconds = party, party.name, [], None

    def handle(self, request):
        envelope = read(request)
        if isinstance(envelope.message, Flights):
            self.party.handle(write(envelope.session, envelope.sequence, Flights(b"", 1)))
            begun = time.monotonic()
            answer = self.party.handle(write(envelope.session, envelope.sequence + 1, Finish()))
            self.answers.append(read(answer).message)
            self.seconds = time.monotonic() - begun
            raise PartyUnavailableError("enough")
        return self.party.handle(request)


def test_a_made_up_end_does_not_wait_for_messages(certified, tmp_path):
    """Before, it waited for ten minutes, as long as the computation waits for a message."""
    own, theirs = certified["hospital"], certified["bank"]
    party = bank(folder=tmp_path, budget=BUDGET, tls=theirs[0], allowed=[own[1]])
    liar = MadeUpFinish(party)
    with pytest.raises(PartyUnavailableError, match="enough"):
        trained(liar, tls=own[0], allowed=[theirs[1]])
    assert "has not ended yet" in liar.answers[0].reason
    assert liar.seconds < 60
    party.close()


LONG_ROUNDS = {**PARAMS, "max_depth": 6, "learning_rate": 0.02}


def test_a_plan_whose_rounds_take_too_much_memory_is_refused_before_a_charge(serve, tmp_path, monkeypatch):
    served = serve(limits=ColumnLimits(max_memory=16 << 20))
    how = {"n_trees": 64, "per_round": 64, "params": LONG_ROUNDS, "checkpoint": tmp_path / "own"}
    with pytest.raises(PartyRefusedError, match=r"trees_per_round=64.*holds.*16 MiB"):
        remotely(served, **how)
    with pytest.raises(PartyError, match="nothing is in"):
        charged(tmp_path / "own")
    assert charged(served.folder) == {}
    for limit, match in ((1 << 24, r"0\.02 GiB of memory"), (1 << 40, r"GiB in one answer")):
        monkeypatch.setattr(sys.modules[task_of.__module__], "memory_limit", lambda limit=limit: limit)
        monkeypatch.setattr("lgb_dp.vertical.task.MAX_ANSWER_BYTES", 1 << 20)
        with pytest.raises(lgb_dp.InvalidArgumentError, match=f"trees_per_round=64: 64 leaves .* {match}"):
            remotely(served, **{**how, "checkpoint": tmp_path / str(limit)})


def test_a_party_that_starts_late_is_waited_for_from_the_alignment_on(serve):
    served = serve(ids=IDS)
    served.stop()
    start = Timer(1.0, served.start)
    start.start()
    try:
        assert remotely(served, ids=IDS, patience=60.0).num_trees() == 4
    finally:
        start.join()


SERVE = """
import sys
from pathlib import Path
from columns_apart import BUDGET, bank
from gbdt_parties.identity.certificates import TLS
from gbdt_parties.transport.server import Server
from lgb_dp.vertical import ColumnService

folder, tls, allowed, address = sys.argv[1:]
party = bank(folder=folder, budget=BUDGET, tls=tls, allowed=[allowed])
server = Server(ColumnService(party, folder), address, TLS.from_directory(tls), ["hospital"])
print(server.port, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_a_serving_process_that_is_killed_in_every_round_goes_on(certified, tmp_path, monkeypatch):
    monkeypatch.setattr(curve_group, "sodium", CURVE)
    folder, killed, processes = tmp_path / "bank", [], []

    def serve(address):
        tls, _ = certified["bank"]
        command = [sys.executable, "-c", SERVE, str(folder), str(tls), certified["hospital"][1], address]
        path = os.pathsep.join(sys.path)
        env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        processes.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
        )
        assert address.endswith(f":{processes[-1].stdout.readline().strip()}")

    drawn = TableHolder.inputs

    def inputs(self, refresh, draws):
        if refresh.number not in killed:
            killed.append(refresh.number)
            processes[-1].kill()
            processes[-1].wait()
            serve(address)
        return drawn(self, refresh, draws)

    address = f"127.0.0.1:{free_port()}"
    serve(address)
    monkeypatch.setattr(TableHolder, "inputs", inputs)
    party = RemoteParty(address, TLS.from_directory(certified["hospital"][0]), "bank", timeout=60)
    try:
        booster = trained(
            party,
            n_trees=3,
            per_round=1,
            tls=certified["hospital"][0],
            allowed=[certified["bank"][1]],
            checkpoint=tmp_path / "own",
            patience=60.0,
        )
    finally:
        party.close()
        for process in processes:
            process.kill()
            process.communicate()
    assert killed == [0, 1, 2]
    (kept,) = (folder / "models").glob("*.txt")
    assert kept.read_text() == text_of(booster)
    assert charged(folder)["leaf sums"] >= 3


def test_a_served_party_answers_questions_about_rows(serve, certified, tmp_path):
    """Once: neither a restart of its server nor a lost folder of the other side makes it answer again."""
    served = serve()
    tls, (_, fingerprint) = certified["hospital"][0], certified["bank"]
    booster = trained(served.remote(), tls=tls, allowed=[fingerprint])
    found = predict(booster, X[:, :2], parties=[served.remote()], folder=tmp_path / "answers")
    assert np.abs(found - booster.predict(X)).max() < 0.2
    served.stop()
    served.start()
    again = predict(booster, X[:, :2], parties=[served.remote()], folder=tmp_path / "answers")
    np.testing.assert_array_equal(again, found)
    with pytest.raises(PartyRefusedError, match=f"{N} of {N} rows.*asked"):
        predict(booster, X[:, :2], parties=[served.remote()])


def test_a_caller_asks_about_the_models_of_its_own_runs_alone():
    """Before, each caller that had a copy of a model was answered, in the place of the one it is for."""
    party = bank()
    booster, refusals = trained(party), []
    party.answers.remember(booster, party.bins, None, "hospital")
    for model in (booster, trained(bank())):
        with pytest.raises(PartyRefusedError, match=r"model.*'bank' has trained") as raised:
            predict(model, X[:, :2], parties=[party.for_caller("another hospital")])
        refusals.append(str(raised.value).rpartition(" ")[0])
    # It does not learn that there is such a model.
    assert refusals[0] == refusals[1]
    assert len(predict(booster, X[:, :2], parties=[party.for_caller("hospital")])) == N


def test_a_namesake_by_the_authority_is_refused_whatever_it_asks(serve, certified, tmp_path):
    """Before, it could align rows, and ask about them in the place of the party that is allowed."""
    served = serve(ids=IDS)
    tls, (_, fingerprint) = certified["hospital"][0], certified["bank"]
    booster = trained(served.remote(), tls=tls, allowed=[fingerprint], ids=IDS)
    make_certificate(tmp_path / "namesake", certified["bank"][0].parent / "ca", "hospital")
    own = TLS.from_directory(tmp_path / "namesake")
    twin = RemoteParty(served.address, own, "bank", timeout=30, allowed=[fingerprint])
    common = align([served.remote()], IDS)
    with pytest.raises(PartyRefusedError, match="party's allow-list"):
        align([twin], IDS[:9])
    with pytest.raises(PartyRefusedError, match="party's allow-list"):
        predict(booster, X[:, :2], parties=[twin.with_rows(common.digest)], ids=list(common.ids))
    twin.close()


@pytest.mark.parametrize("ids", [None, IDS], ids=["in their order", "with ids"])
def test_a_server_by_name_alone_is_sent_nothing(serve, certified, tmp_path, ids):
    """Before, a namesake of the bank by the same authority was refused after ids were aligned with it."""
    served = serve(ids=ids)
    tls, (folder, fingerprint) = certified["hospital"][0], certified["bank"]
    booster = trained(served.remote(), tls=tls, allowed=[fingerprint], ids=ids)
    common = None if ids is None else align([served.remote()], ids)
    make_certificate(tmp_path / "bank2", folder.parent / "ca", "bank")
    heard = HandlerService(Echo())
    namesake = Server(heard, "127.0.0.1:0", TLS.from_directory(tmp_path / "bank2"), ["hospital"])
    address, own = f"127.0.0.1:{namesake.port}", TLS.from_directory(tls)
    known = RemoteParty(address, own, "bank", timeout=60, allowed=[fingerprint])
    by_name = RemoteParty(address, own, "bank", timeout=60)
    rows = (lambda party: party) if common is None else (lambda party: party.with_rows(common.digest))
    how = {"ids": None if common is None else list(common.ids)}
    try:
        for party in (known, by_name):
            with pytest.raises(AuthenticationError, match="party's allow-list"):
                trained(party, tls=tls, allowed=[fingerprint], ids=ids, patience=30.0)
        with pytest.raises(AuthenticationError, match="party's allow-list"):
            align([known], IDS)
        with pytest.raises(AuthenticationError, match="party's allow-list"):
            predict(booster, X[:, :2], parties=[rows(known)], **how)
        with pytest.raises(lgb_dp.InvalidArgumentError, match=r"known.*alone"):
            predict(booster, X[:, :2], parties=[RemoteParty(address, own, "bank")])
        assert not heard.exchanges
    finally:
        namesake.stop()


def test_ids_are_not_aligned_with_a_relay_that_shows_no_certificate(serve, certified):
    served = serve(ids=IDS)

    class Relay:
        name, handle = "bank", served.remote().handle

    with pytest.raises(lgb_dp.InvalidArgumentError, match="shows no certificate"):
        trained(Relay(), tls=certified["hospital"][0], allowed=[certified["bank"][1]], ids=IDS)


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_question_leaves_the_callers_own_run_alone(serve, tmp_path, monkeypatch, is_refused):
    """Before, the session of the run ended, and its attempt was abandoned and stayed charged."""
    served, opened, found = serve(), [], []
    booster = remotely(served, epsilon=5.0)
    before = charged(served.folder)["leaf sums"]

    def asked_meanwhile(self, asked, do=ReplicaAnswers.opened):
        if self.place == 0:
            opened.append(asked.refresh.number)
            if asked.refresh.number == 1:
                how = {"parties": [served.remote()], "answer": "point" if is_refused else "label"}
                try:
                    found.append(predict(booster, X[:, :2], **how))
                except PartyRefusedError as error:
                    found.append(error)
        return (yield from do(self, asked))

    monkeypatch.setattr(ReplicaAnswers, "opened", asked_meanwhile)
    again = remotely(served, epsilon=5.0, checkpoint=tmp_path / "own")
    assert isinstance(found[0], PartyRefusedError) == is_refused
    assert opened == [0, 1]
    assert charged(tmp_path / "own")["leaf sums"] == 2
    assert sum(row["answers"] for row in read_ledger(served.folder).rows) == before + 2
    assert text_of(again) in [path.read_text() for path in (served.folder / "models").glob("*.txt")]


def test_questions_and_runs_of_a_caller_replace_older_ones_of_their_kind_alone(tmp_path):
    """A caller that has crashed leaves a session open, which the next one of its kind ends."""
    party = bank(folder=tmp_path, budget=BUDGET)
    text = models.text_of(trained(party, epsilon=5.0))
    sessions, trainer = party.for_caller(THIS_PROCESS), lgb_dp.NewtonBoost(5.0, 1e-5)
    request = task_of(PARAMS, own_rows().construct(), trainer, 4, 2, "hospital", N).to_json()
    opened = []
    for number, is_run in enumerate((True, False, False, True, False)):
        session = Session(sessions, bytes(15) + bytes([number]), Traffic(), "hospital")
        if is_run:
            session.ask(OpenColumns(bytes([number]) * 16, request, NEW_RUN), Introduced)
        else:
            session.ask(questions.OpenQuestions(models.digest_of(text)), questions.QuestionsOpened)
        opened.append(session)
    for session, is_open in zip(opened, (False, False, False, True, True), strict=True):
        with pytest.raises(PartyError) as refused:
            session.ask(Flights(bytes(1), 0), Flights)
        assert ("no such session" not in str(refused.value)) == is_open
    party.close()


def test_rows_with_ids_are_aligned_before_they_are_asked_about(serve, certified):
    served = serve(ids=IDS)
    tls, (_, fingerprint) = certified["hospital"][0], certified["bank"]
    booster = trained(served.remote(), tls=tls, allowed=[fingerprint], ids=IDS)
    with pytest.raises(PartyRefusedError, match=r"named.*ids"):
        predict(booster, X[:, :2], parties=[served.remote()], ids=IDS)
    remote = served.remote()
    aligned = align([remote], IDS[:9])
    rows = aligned.positions(IDS)
    found = predict(
        booster, X[rows, :2], parties=[remote.with_rows(aligned.digest)], ids=[IDS[k] for k in rows]
    )
    assert np.abs(found - booster.predict(X[rows])).max() < 0.2


def test_more_rows_than_a_question_may_be_about_are_refused_before_they_are_named(monkeypatch):
    """Names of the rows of a large table would take memory that no allowance counts."""
    named = []
    monkeypatch.setattr(questions, "MAX_ROWS", N - 1)
    monkeypatch.setattr(ColumnParty, "own", lambda *args: named.append(args))
    session = Session(bank().for_caller("acme"), bytes(16), Traffic())
    with pytest.raises(PartyRefusedError, match=f"selection has {N} rows"):
        session.ask(questions.OpenQuestions("0"), questions.QuestionsOpened)
    assert not named


def test_an_operator_resets_the_hour_of_questions_about_rows_too(serve):
    """Before, alignments and sessions alone; answers stay counted."""
    service = serve().service
    answered = service.party.answers.answered
    answered.consent = Consent(questions_per_hour=1)
    answered.begin("hospital")
    answered.take("a model", AnswerKind.LABEL, [bytes(16)])
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"1 questions.*hour"):
        answered.begin("hospital")
    service.reset_questions()
    answered.begin("hospital")
    assert answered.count("a model") == 1


def test_a_full_disk_at_the_bank_is_no_refusal_but_waited_for(certified, tmp_path, monkeypatch):
    """Before, the bank said that it had to stop, and the run was over; `patience` was for nothing."""
    disk = FullDisk(tmp_path / "bank", monkeypatch, party_module)
    served = Served(certified, tmp_path / "bank")
    try:
        n_before = disk.n
        remotely(served, checkpoint=tmp_path / "own")
        n_writes = disk.n - n_before
        assert n_writes > 20
        # Only the first run has made the caller known.
        for k in range(0, n_writes - 4, n_writes // 4):
            disk.n, disk.full_at, disk.for_good = 0, k + 1, False
            booster = remotely(served, epsilon=1.0, checkpoint=tmp_path / f"own-{k}", patience=60.0)
            assert disk.n > k
            assert text_of(booster) in {path.read_text() for path in served.folder.glob("models/*.txt")}
        disk.n, disk.full_at, disk.for_good = 0, n_writes // 2, True
        with pytest.raises(PartyUnavailableError, match="out of resources"):
            remotely(served, epsilon=1.0, checkpoint=tmp_path / "own-full")
        disk.full_at = None
        remotely(served, epsilon=1.0, checkpoint=tmp_path / "own-full")
    finally:
        served.stop()


def test_a_full_disk_at_a_party_of_this_process_is_raised_as_it_is(tmp_path, monkeypatch):
    disk = FullDisk(tmp_path / "bank", monkeypatch, party_module)
    party = bank(folder=tmp_path / "bank", budget=BUDGET)
    trained(party, checkpoint=tmp_path / "own")
    for place in (0.2, 0.5, 0.9):
        n_writes, disk.n, disk.full_at = disk.n, 0, int(place * disk.n)
        where = tmp_path / f"own-{place}"
        with pytest.raises(OSError, match="No space left"):
            trained(party, epsilon=1.0, checkpoint=where)
        disk.full_at = None
        trained(party, epsilon=1.0, checkpoint=where)
        disk.n = n_writes
    party.close()
