"""An auditor repeats one party's side of a run from its folder and rows, and names what differs."""

import shutil
from contextlib import closing, nullcontext
from dataclasses import replace

import numpy as np
import pytest

from disturbed import Between, lost
from federated_training import X, party, rows_of, train
from gbdt_commons.key_stream import KeyStream
from gbdt_commons.store_file import StoreFile
from gbdt_parties.channel import Channel
from gbdt_parties.errors import PartyArgumentError, PartyError
from gbdt_parties.messages import Refusal, read
from gbdt_parties.run.log import ANSWERS, RUNS, THIS_PROCESS, RunLog, runs_of
from gbdt_parties.run.record import EXCHANGES, SUMMARY_BYTES
from gbdt_parties.secure_sum.messages import NEW_RUN, AskSum, Introduced, Opened, OpenRun
from gbdt_parties.secure_sum.trust import fingerprint
from gbdt_parties.traffic import Traffic
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.federated.ledger import CHARGES, LEDGER_FILE, ROLE
from lgb_dp.mechanisms.noise import release_share
from lgb_dp.newton.releases.held_out_rows import HoldOut

pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")


def trained(folder, between=lambda place, member: member, auditable=True):
    members = [party(place, folder=folder / str(place), auditable=auditable) for place in range(3)]
    try:
        return train([between(place, member) for place, member in enumerate(members)])
    finally:
        for member in members:
            member.close()


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audited")
    trained(folder)
    return folder


@pytest.mark.parametrize("place", range(3))
def test_every_byte_of_a_whole_run_is_repeated(audited, place):
    before = (audited / str(place) / LEDGER_FILE).read_bytes()
    report = party(place).replay(audited / str(place))
    assert report.difference is None
    assert report.agrees
    assert report.has_ended
    assert report.connections == 1
    assert report.rounds == report.attempts >= 4
    assert report.messages > report.rounds
    assert before == (audited / str(place) / LEDGER_FILE).read_bytes()


def test_other_rows_are_named(audited):
    report = party(0, y=np.zeros(len(rows_of(0, 3)))).replay(audited / "0")
    assert "rows" in report.difference


def run_of(folder):
    with closing(StoreFile(folder / LEDGER_FILE, ROLE, read_only=True)) as store:
        runs = runs_of(store, THIS_PROCESS)
        (key,) = runs.keys(RUNS)
        return runs.get(RUNS, key)


def forged(audited, tmp_path, change):
    """A copy of a folder whose run was changed."""
    shutil.copytree(audited / "0", tmp_path / "0")
    with closing(StoreFile(tmp_path / "0" / LEDGER_FILE, ROLE)) as store:
        runs = runs_of(store, THIS_PROCESS)
        (key,) = runs.keys(RUNS)
        change(runs, key)
    return tmp_path / "0"


def test_rows_that_a_record_hides_are_found_in_the_messages(audited, tmp_path):
    """The party trained on other rows than it shows the auditor."""
    shown = X[rows_of(0, 3)] * -1
    with closing(party(0, X=shown, folder=tmp_path / "made", auditable=True)) as made:
        train([made, party(1), party(2)])
    rows = run_of(tmp_path / "made")["rows"]
    folder = forged(
        audited, tmp_path, lambda runs, key: runs.put(RUNS, key, {**runs.get(RUNS, key), "rows": rows})
    )
    report = party(0, X=shown).replay(folder)
    assert "Contributed" in report.difference
    assert report.rounds == 1  # Label counts.


@pytest.mark.parametrize("place", [2, 40, -1])
def test_a_byte_of_the_record_that_was_flipped_is_found(audited, tmp_path, place):
    def flip(runs, key):
        store = RunLog(runs, bytes.fromhex(key)).store
        entries = list(store.entries(EXCHANGES, ""))
        entry = bytearray(entries[3])
        entry[place] ^= 1
        store.delete(EXCHANGES, "", 3)
        for one in [bytes(entry), *entries[4:]]:
            store.append(EXCHANGES, "", one)

    report = party(0).replay(forged(audited, tmp_path, flip))
    assert report.difference is not None
    assert not report.has_ended
    assert report.rounds < 4


def other_answer(_, answers):
    last = answers.size(ANSWERS, "") - 1
    kept = answers.get(ANSWERS, "", last)
    answers.delete(ANSWERS, "", last)
    answers.append(ANSWERS, "", replace(kept, content=b""))


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        (lambda _, answers: answers.delete(ANSWERS, "", answers.size(ANSWERS, "") - 1), "log is missing"),
        (other_answer, "log is another one"),
        (lambda store, _: store.delete(CHARGES, "", store.size(CHARGES, "") - 1), "charge for"),
    ],
    ids=["no answer", "another answer", "no charge"],
)
def test_answers_and_charges_that_are_not_those_of_the_messages_are_found(
    audited, tmp_path, change, difference
):
    shutil.copytree(audited / "0", tmp_path / "0")
    with closing(StoreFile(tmp_path / "0" / LEDGER_FILE, ROLE)) as store:
        runs = runs_of(store, THIS_PROCESS)
        (key,) = runs.keys(RUNS)
        change(store, RunLog(runs, bytes.fromhex(key)).store)
    report = party(0).replay(tmp_path / "0")
    assert difference in report.difference
    assert not report.has_ended


def test_a_run_with_others_of_the_party_s_own_making_is_found(tmp_path):
    others = [party(1), party(2)]
    known = [f"sha256:{fingerprint(one.side.credentials.certificates).hex()}" for one in others]
    for name, members in (("run", others), ("made up", [party(1), party(2)])):
        with closing(party(0, folder=tmp_path / name, auditable=True)) as own:
            train([own, *members])
    assert party(0, allowed=known).replay(tmp_path / "run").has_ended
    assert party(0).replay(tmp_path / "made up").agrees
    report = party(0, allowed=known).replay(tmp_path / "made up")
    assert "'bob' is not on" in report.difference
    assert not report.rounds


def test_noise_of_its_choice_is_found(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("lgb_dp.federated.run.KeyStream", lambda key: KeyStream(bytes(32)))
        trained(tmp_path)
    assert "Contributed" in party(0).replay(tmp_path / "0").difference


def test_an_honest_record_of_a_party_that_sent_other_numbers_is_found_in_the_sums(tmp_path, monkeypatch):
    """It keeps what an honest party sends: the auditor reads what all others have added up."""
    with monkeypatch.context() as patch:
        patch.setattr("lgb_dp.federated.run.release_share", lambda *given: release_share(*given) + 1)
        trained(tmp_path)
    assert "Contributed" in party(0).replay(tmp_path / "0").difference

    def forge(runs, key):
        """Without the digests of its answers, as if all had been refused."""
        store = RunLog(runs, bytes.fromhex(key)).store
        entries = list(store.entries(EXCHANGES, ""))
        store.delete(EXCHANGES, "")
        for entry in entries:
            store.append(EXCHANGES, "", bytes(SUMMARY_BYTES) + entry[SUMMARY_BYTES:])

    report = party(0).replay(forged(tmp_path, tmp_path / "copy", forge))
    assert "byte 12 of this party's contribution to sum 0" in report.difference


def test_runs_of_parties_that_were_lost_and_restarted_are_repeated(tmp_path):
    """One is lost in a round, and its process is another one afterwards."""
    asked, lost_ones = [], []

    def between(place, member):
        if place:
            return member
        one = Between(member)

        def disturb(number, message, send):
            if isinstance(message, AskSum):
                asked.append(message.number)
                if len(asked) == 2:
                    send()
                    lost()
                if len(asked) == 3:
                    one.party.close()
                    one.party = party(0, folder=tmp_path / "0", auditable=True)
                    lost()
            return send()

        one.disturb = disturb
        lost_ones.append(one)
        return one

    trained(tmp_path, between)
    lost_ones[0].party.close()
    assert len(asked) > 4
    report = party(0).replay(tmp_path / "0")
    assert report.difference is None
    assert report.has_ended
    assert report.connections >= 2


@pytest.mark.parametrize("held", [0.0, 0.3])
@pytest.mark.parametrize("auditable", [False, True])
@pytest.mark.parametrize("other_rows", [False, True])
def test_a_run_is_taken_up_as_it_began_whatever_auditable_is_now(
    tmp_path, auditable, other_rows, held, monkeypatch
):
    """Noise of an auditable run is not drawn again for other rows, nor are coins of held-out rows ever."""
    chosen, coins = HoldOut.chosen, []

    def noted(self, words):
        coins.append(chosen(self, words).tolist())
        return np.array(coins[-1])

    monkeypatch.setattr(HoldOut, "chosen", noted)
    one, asked = Between(party(0, folder=tmp_path, auditable=auditable)), []

    def disturb(number, message, send):
        if isinstance(message, AskSum):
            asked.append(message.number)
            if len(asked) == 3:
                one.party.close()
                X_now = X[rows_of(0, 3)] * (-1 if other_rows else 1)
                one.party = party(0, X=X_now, folder=tmp_path, auditable=not auditable)
                lost()
        return send()

    one.disturb = disturb
    is_refused = (auditable or held) and other_rows
    with pytest.raises(PartyError, match="other rows") if is_refused else nullcontext():
        train([one, party(1), party(2)], min_parties=3, patience=1, held=held)
    one.party.close()
    if held and not other_rows:
        assert len(coins) == 4
        assert len({tuple(one) for one in coins}) == 3
    if auditable and not other_rows:
        assert party(0).replay(tmp_path).has_ended


def test_a_party_that_refused_sums_made_up_by_the_coordinator_is_not_blamed(tmp_path):
    sums = []

    def forged(message):
        opened = Opened.from_bytes(message.opened)
        own = bytearray(opened.contributions[0])
        own[len(own) // 2] ^= 1
        return Opened(opened.round, 1 << 40, {**opened.contributions, 0: bytes(own)}).to_bytes()

    def disturb(number, message, send):
        if isinstance(message, AskSum) and message.opened:
            sums.append(message.round)
            if len(sums) == 2:
                assert isinstance(read(send(replace(message, opened=forged(message)))).message, Refusal)
                lost()
        return send()

    trained(tmp_path, lambda place, member: member if place else Between(member, disturb))
    assert len(sums) > 2
    report = party(0).replay(tmp_path / "0")
    assert report.difference is None
    assert report.has_ended


@pytest.mark.parametrize("n_left", [-1, -2, 3])
def test_messages_that_were_cut_off_a_run_that_has_ended_are_missed(audited, tmp_path, n_left):
    def cut(runs, key):
        store = RunLog(runs, bytes.fromhex(key)).store
        store.delete(EXCHANGES, "", n_left % store.size(EXCHANGES, ""))

    report = party(0).replay(forged(audited, tmp_path, cut))
    assert "end of the run" in report.difference
    assert not report.has_ended


def test_nothing_is_kept_of_runs_that_are_not_auditable(tmp_path):
    trained(tmp_path, auditable=False)
    with pytest.raises(PartyArgumentError, match="run=None"):
        party(0).replay(tmp_path / "0")
    with pytest.raises(InvalidArgumentError, match="folder"):
        party(0).replay(tmp_path)
    with pytest.raises(InvalidArgumentError, match="auditable=True"):
        party(0, auditable=True)


def test_a_run_that_has_ended_gives_no_answer(tmp_path):
    opened, members = [], [party(place, folder=tmp_path / str(place), auditable=True) for place in range(3)]

    def disturb(number, message, send):
        if isinstance(message, OpenRun):
            opened.append(message)
        return send()

    train([Between(members[0], disturb), *members[1:]])
    for n_known, error in ((0, "ended"), (NEW_RUN, "has begun already")):
        channel = Channel(members[0], bytes([n_known % 256]) * 16, Traffic())
        with pytest.raises(PartyError, match=error):
            channel.ask(replace(opened[0], n_known=n_known), Introduced)
    for member in members:
        member.close()
