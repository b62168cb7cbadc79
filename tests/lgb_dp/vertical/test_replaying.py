"""An auditor repeats one party's side of a whole run from its folder and rows, and names what differs."""

import shutil
from contextlib import closing

import numpy as np
import pytest

import lgb_dp
from columns_apart import BUDGET, PARAMS, N, X, Y, bank, own_rows, text_of, trained
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyArgumentError, PartyRefusedError, PartyUnavailableError
from gbdt_parties.run.flights.kept import EVENTS, Opening
from gbdt_parties.run.log import RUNS, THIS_PROCESS, RunLog, runs_of
from gbdt_parties.run.record import EXCHANGES, SUMMARY_BYTES
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.roster import Roster
from gbdt_parties.secure_sum.trust import fingerprint
from kept_stores import kept_of_runs
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.federated.ledger import CHARGES, LEDGER_FILE, ROLE, read_ledger
from lgb_dp.newton import arithmetic
from lgb_dp.vertical import MaskedTraffic, replay
from lgb_dp.vertical.party import remove_model
from lgb_dp.vertical.replica import ReplicaAnswers
from lgb_dp.vertical.run import OWN_RUNS, digest_of_rows
from lgb_dp.vertical.train import train

pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")

NAMES = ("labels", "bank")
ROWS = {"labels": own_rows, "bank": lambda: X[:, 2:]}
CALLERS = {"labels": OWN_RUNS, "bank": THIS_PROCESS}


def process(folder, auditable=True, n_trees=4, **kw):
    party = bank(folder=folder / "bank", budget=BUDGET, auditable=auditable)
    try:
        return trained(party, n_trees, checkpoint=folder / "labels", auditable=auditable, **kw)
    finally:
        party.close()


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """Folders of both parties after a run, and its traffic."""
    folder, traffic = tmp_path_factory.mktemp("audited"), MaskedTraffic()
    process(folder, traffic=traffic)
    return folder, traffic


def record_of(store, name):
    part = runs_of(store, CALLERS[name])
    (key,) = part.keys(RUNS)
    return part, key, part.get(RUNS, key)


def changed(audited, tmp_path, name, change):
    """A report on a copy of a party's folder that was changed: ``change(store, its run's part)``."""
    shutil.copytree(audited[0] / name, tmp_path / name)
    with closing(StoreFile(tmp_path / name / LEDGER_FILE, ROLE)) as store:
        part, key, _ = record_of(store, name)
        change(store, RunLog(part, bytes.fromhex(key)).store)
    return replay(tmp_path / name, ROWS[name]())


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_of_a_whole_run_is_repeated(audited, name):
    folder, traffic = audited
    before = (folder / name / LEDGER_FILE).read_bytes(), read_ledger(folder / name)
    report = replay(folder / name, ROWS[name]())
    assert report.agrees
    assert report.has_ended
    assert (report.rounds, report.attempts, report.connections) == (2, 2, 1)
    other = NAMES[1 - NAMES.index(name)]
    assert report.bytes == traffic.flows[name, other][1]
    assert before == ((folder / name / LEDGER_FILE).read_bytes(), read_ledger(folder / name))


def test_a_charge_that_is_not_in_the_ledger_is_missed(audited, tmp_path):
    def forget(store, _):
        store.delete(CHARGES, "", store.size(CHARGES, "") - 1)

    report = changed(audited, tmp_path, NAMES[0], forget)
    assert "1 charges for 2 attempts" in report.difference
    assert not report.has_ended


@pytest.mark.parametrize("name", NAMES)
def test_a_run_with_another_party_than_is_allowed_is_named(audited, name):
    with closing(StoreFile(audited[0] / name / LEDGER_FILE, ROLE, read_only=True)) as store:
        roster = Roster.from_bytes(bytes.fromhex(record_of(store, name)[2]["agreement"]["roster"]))
    known = {one.name: f"sha256:{fingerprint(one.certificates).hex()}" for one in roster.introductions}
    other = NAMES[1 - NAMES.index(name)]
    assert replay(audited[0] / name, ROWS[name](), allowed=[known[other]]).agrees
    report = replay(audited[0] / name, ROWS[name](), allowed=[known[name]])
    assert f"{other!r} is not on" in report.difference


@pytest.mark.parametrize("place", [0, 1])
def test_runs_that_were_interrupted_are_repeated_too(tmp_path, monkeypatch, place):
    """In the first connection before a round, in the second one after another one."""
    left = [(0, True), (1, False)]

    def opened(self, asked, do=ReplicaAnswers.opened):
        before = left[0] if left and self.place == place else None
        if before == (asked.refresh.number, True):
            left.pop(0)
            raise PartyUnavailableError("interrupted")
        sums = yield from do(self, asked)
        if before == (asked.refresh.number, False):
            left.pop(0)
            raise PartyUnavailableError("interrupted")
        return sums

    with monkeypatch.context() as patch:
        patch.setattr(ReplicaAnswers, "opened", opened)
        for _ in range(2):
            with pytest.raises((PartyUnavailableError, PartyRefusedError)):
                process(tmp_path)
        booster = process(tmp_path)
    assert not left
    assert text_of(booster)
    for name in NAMES:
        report = replay(tmp_path / name, ROWS[name]())
        assert report.difference is None
        assert report.has_ended
        assert (report.rounds, report.connections) == (2, 3)


@pytest.mark.parametrize("name", NAMES)
def test_other_rows_are_named_and_found_in_the_messages_if_the_record_hides_them(audited, tmp_path, name):
    x = X.copy()
    # Each threshold has a row between it and its negative, so that leaves change; a single row may not move.
    assert all((np.abs(X) > 1 - 1 / 40).any(axis=0))
    x *= -1
    rows = lgb_dp.Dataset(x[:, :2], Y, bounds=(-1, 1), max_bin=64) if name == "labels" else x[:, 2:]
    report = replay(audited[0] / name, rows)
    assert report.difference == f"rows: those of party {name!r} were others"

    def forge(store, exchanges):
        part, key, record = record_of(store, name)
        party = bank(x=x[:, 2:])
        made = own_rows_of(x) if name == "labels" else (party.codes, None)
        part.put(RUNS, key, {**record, "rows": digest_of_rows(*made)})

    def own_rows_of(x):
        made = lgb_dp.Dataset(x[:, :2], Y, bounds=(-1, 1), max_bin=64).construct()
        return made.codes, made.label

    changed(audited, tmp_path, name, forge)
    report = replay(tmp_path / name, rows)
    assert report.difference.startswith("message ")
    assert report.rounds == 0


def test_two_labels_that_change_places_are_found_out(audited, tmp_path):
    """Label counts, which are released, stay as they are."""
    y = Y.copy()
    first, second = np.flatnonzero(Y == 0)[0], np.flatnonzero(Y == 1)[0]
    y[[first, second]] = y[[second, first]]
    rows = lgb_dp.Dataset(X[:, :2], y, bounds=(-1, 1), max_bin=64)
    made = rows.construct()

    def forge(store, exchanges):
        part, key, record = record_of(store, "labels")
        part.put(RUNS, key, {**record, "rows": digest_of_rows(made.codes, made.label)})

    changed(audited, tmp_path, "labels", forge)
    report = replay(tmp_path / "labels", rows)
    assert "(round) of round 0, attempt 1, flight 2, in connection 0 is not what" in report.difference


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_is_named(audited, tmp_path, name):
    def forge(store, exchanges):
        part, key, record = record_of(store, name)
        secret = bytearray(bytes.fromhex(record["agreement"]["keys"]))
        at = bytes(secret).index(SessionKeys.from_secret(bytes(secret)).seed)
        secret[at] ^= 1
        agreement = {**record["agreement"], "keys": secret.hex()}
        part.put(RUNS, key, {**record, "agreement": agreement})

    report = changed(audited, tmp_path, name, forge)
    assert "keys of the run differ" in report.difference


@pytest.mark.parametrize("name", NAMES)
def test_other_settings_than_those_that_were_signed_are_named(audited, tmp_path, name):
    def forge(store, exchanges):
        part, key, record = record_of(store, name)
        request = record["request"].replace('"max_depth": 2', '"max_depth": 3')
        assert request != record["request"]
        part.put(RUNS, key, {**record, "request": request})

    report = changed(audited, tmp_path, name, forge)
    assert report.difference.endswith("differ from the signed ones")


@pytest.mark.parametrize("name", NAMES)
def test_a_flipped_byte_a_missing_round_and_other_numbers_are_named(audited, tmp_path, name):
    def flip(store, exchanges):
        entries = list(exchanges.entries(EXCHANGES, ""))
        *_, at, _, _ = (k for k, entry in enumerate(entries) if len(entry) > SUMMARY_BYTES)
        exchanges.delete(EXCHANGES, "", at)
        for entry in (entries[at][:-1] + bytes([entries[at][-1] ^ 1]), *entries[at + 1 :]):
            exchanges.append(EXCHANGES, "", entry)

    def without_a_round(store, exchanges):
        events = list(exchanges.entries(EVENTS, ""))
        events.remove(next(event for event in events if isinstance(event, Opening)))
        exchanges.delete(EVENTS, "")
        for event in events:
            exchanges.append(EVENTS, "", event)

    for number, (change, difference) in enumerate(
        ((flip, "message "), (without_a_round, ("signature of round 0, kept in", "attempt 1, kept in")))
    ):
        report = changed(audited, tmp_path / str(number), name, change)
        assert report.difference.startswith(difference)
        assert not report.has_ended


def test_messages_are_kept_only_if_it_is_asked_for(tmp_path):
    process(tmp_path, auditable=False)
    for name in NAMES:
        with closing(StoreFile(tmp_path / name / LEDGER_FILE, ROLE, read_only=True)) as store:
            assert not kept_of_runs(store)
        with pytest.raises(PartyArgumentError, match="auditable=True"):
            replay(tmp_path / name, ROWS[name]())
    with pytest.raises(InvalidArgumentError, match="auditable=True needs a folder"):
        bank(auditable=True)
    with pytest.raises(InvalidArgumentError, match=r"auditable=True.*checkpoint"):
        trained(bank(), auditable=True)


@pytest.mark.parametrize("auditable", [False, True])
def test_a_run_goes_on_as_it_began_whatever_auditable_is_now(tmp_path, monkeypatch, auditable):
    """Before, the seed of a run that was not auditable stayed, or messages of one that was were missing."""

    def opened(self, asked, do=ReplicaAnswers.opened):
        if asked.refresh.number:
            raise PartyUnavailableError("interrupted")
        return (yield from do(self, asked))

    with monkeypatch.context() as patch:
        patch.setattr(ReplicaAnswers, "opened", opened)
        with pytest.raises((PartyUnavailableError, PartyRefusedError)):
            process(tmp_path, auditable)
    process(tmp_path, not auditable)
    for name in NAMES:
        if auditable:
            report = replay(tmp_path / name, ROWS[name]())
            assert report.difference is None
            assert report.has_ended
        else:
            with closing(StoreFile(tmp_path / name / LEDGER_FILE, ROLE, read_only=True)) as store:
                assert not kept_of_runs(store)


def test_folders_runs_and_rows_of_another_kind_are_refused_by_name(audited, tmp_path):
    folder = audited[0]
    with pytest.raises(InvalidArgumentError, match="not a party's"):
        replay(tmp_path, X)
    with pytest.raises(PartyArgumentError, match=r"run='ab'.*runs.*folder"):
        replay(folder / "bank", X[:, 2:], run="ab")
    with pytest.raises(PartyArgumentError, match="run=None"):
        replay(folder / "labels", X[:, :2])
    narrow = lgb_dp.Dataset(X[:, :2], Y, bounds=(-2, 2), max_bin=64)
    with pytest.raises(InvalidArgumentError, match="bounds and bins"):
        replay(folder / "labels", narrow)


def test_a_machine_that_rounds_otherwise_cannot_audit(audited, monkeypatch):
    found = {**arithmetic.digests(), "numpy.exp": "0" * 32}
    monkeypatch.setattr(arithmetic, "digests", lambda: found)
    with pytest.raises(InvalidArgumentError, match=r"numpy\.exp diff"):
        replay(audited[0] / "bank", X[:, 2:])


def test_numbers_with_labels_in_a_range_are_repeated_too(tmp_path):
    party = bank(folder=tmp_path / "bank", budget=BUDGET, auditable=True)
    label = X[:, 0] + X[:, 2]
    rows = lgb_dp.Dataset(X[:, :2], label, bounds=(-1, 1), max_bin=64, label_bounds=(-2, 2))
    train(
        {**PARAMS, "objective": "regression"},
        rows,
        2,
        parties=[party],
        callbacks=[lgb_dp.NewtonBoost(30.0, 1e-5)],
        checkpoint=tmp_path / "labels",
        auditable=True,
    )
    party.close()
    assert len(label) == N
    for name, given in (("labels", rows), ("bank", X[:, 2:])):
        report = replay(tmp_path / name, given)
        assert report.difference is None
        assert report.has_ended


def test_messages_and_seed_go_with_the_model(audited, tmp_path):
    shutil.copytree(audited[0] / "bank", tmp_path / "bank")
    (path,) = (tmp_path / "bank" / "models").glob("*.txt")
    assert replay(tmp_path / "bank", X[:, 2:], run=path.stem).agrees
    remove_model(path, THIS_PROCESS)
    with closing(StoreFile(tmp_path / "bank" / LEDGER_FILE, ROLE, read_only=True)) as store:
        assert not kept_of_runs(store)
    with pytest.raises(PartyArgumentError, match=r"run=None.*runs"):
        replay(tmp_path / "bank", X[:, 2:])
