"""After a run with columns apart has ended, no folder has what its noise could be drawn again from."""

import logging
from contextlib import closing
from functools import partial

import pytest

from columns_apart import BUDGET, CLASSES, OF_CLASSES, bank, text_of, trained
from drawn_secrets import DrawnSecrets
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyRefusedError, PartyUnavailableError
from gbdt_parties.messages import Finish, read
from gbdt_parties.run.flights.kept import EVENTS, Charge
from gbdt_parties.run.log import RUNS, THIS_PROCESS, RunLog, runs_of
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.two_party.session import Draws
from lgb_dp.federated.ledger import LEDGER_FILE, ROLE, read_ledger
from lgb_dp.vertical.noise import sum_noise
from lgb_dp.vertical.run import ColumnSessions
from lgb_dp.vertical.sums import PointHolder

pytestmark = pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")


@pytest.fixture
def secrets(monkeypatch):
    return DrawnSecrets(monkeypatch)


def run(folder, *, auditable=False, between=lambda party: party, **kw):
    """One process of each side, from its beginning on."""
    party = bank(folder=folder / "bank", budget=BUDGET, auditable=auditable)
    try:
        return trained(between(party), checkpoint=folder / "labels", auditable=auditable, **kw)
    finally:
        party.close()


def lost_at(message, monkeypatch, *, answered):
    """Lose the first message of a kind on its way to the bank, or its answer."""
    handle, lost = ColumnSessions.handle, []

    def lossy(self, request):
        is_it = isinstance(read(request).message, message) and not lost
        if is_it:
            lost.append(True)
        if is_it and not answered:
            raise PartyUnavailableError("lost")
        answer = handle(self, request)
        if is_it:
            raise PartyUnavailableError("lost")
        return answer

    monkeypatch.setattr(ColumnSessions, "handle", lossy)
    return lost


class Thief:
    """Draws the bank's noise again from its folder alone, and counts the rounds whose noise it has."""

    def __init__(self, monkeypatch):
        self.noises, made = {}, PointHolder.inputs

        def noted(holder, refresh, draws):
            given = made(holder, refresh, draws)
            self.noises[refresh.number] = refresh.numbers, [one.tolist() for one in given.noise]
            return given

        monkeypatch.setattr(PointHolder, "inputs", noted)

    def redrawn(self, folder):
        n = 0
        with closing(StoreFile(folder / LEDGER_FILE, ROLE, read_only=True)) as store:
            runs = runs_of(store, THIS_PROCESS)
            for key in filter(partial(runs.get, RUNS), runs.keys(RUNS)):
                log = RunLog(runs, bytes.fromhex(key))
                seed = SessionKeys.from_secret(bytes.fromhex(log.begun()["agreement"]["keys"])).seed
                events = list(log.store.entries(EVENTS, ""))
                for charge in (one for one in events if isinstance(one, Charge)):
                    stream = Draws(seed, charge.digest).stream(b"noise")
                    numbers, noise = self.noises[charge.round]
                    n += noise == [sum_noise(numbers, len(one), stream).tolist() for one in noise]
        return n


KINDS = {1: {}, 3: {"params": OF_CLASSES, "y": CLASSES}}


@pytest.mark.parametrize("n_classes", [1, 3])
def test_an_ended_run_keeps_no_seed(tmp_path, secrets, monkeypatch, n_classes):
    """Before, the bank kept the seed, and both sides the nonces: its folder gave all of its noise."""
    thief = Thief(monkeypatch)
    run(tmp_path / "audited", auditable=True, **KINDS[n_classes])
    assert thief.redrawn(tmp_path / "audited" / "bank") == 2 * n_classes
    for name in ("labels", "bank"):
        assert secrets.found_in(tmp_path / "audited" / name, name, "nonces")
    secrets.of.clear()
    thief.noises.clear()
    booster = run(tmp_path, **KINDS[n_classes])
    assert len(secrets.of["nonces"]) > 4
    for name in ("labels", "bank"):
        assert not secrets.found_in(tmp_path / name)
        assert read_ledger(tmp_path / name).rows
    assert thief.redrawn(tmp_path / "bank") == 0
    (kept,) = (tmp_path / "bank" / "models").glob("*.txt")
    assert kept.read_text() == text_of(booster)
    # The model is given again, and a run that has ended is not gone on with.
    assert text_of(run(tmp_path, **KINDS[n_classes])) == text_of(booster)
    assert not secrets.found_in(tmp_path / "labels")


@pytest.mark.parametrize("answered", [False, True])
def test_a_lost_end_of_a_run_leaves_both_the_model_and_an_ended_run_keeps_no_seed(
    tmp_path, secrets, monkeypatch, caplog, answered
):
    """The model was paid for: it is there although the bank could not be told; the next call tells it."""
    lost = lost_at(Finish, monkeypatch, answered=answered)
    with caplog.at_level(logging.WARNING):
        booster = run(tmp_path)
    assert lost
    assert "'bank' was not told the end" in caplog.text
    assert secrets.found_in(tmp_path / "labels", "labels")
    assert bool(secrets.found_in(tmp_path / "bank", "bank")) != answered
    before = [read_ledger(tmp_path / name).rows for name in ("labels", "bank")]
    assert text_of(run(tmp_path)) == text_of(booster)
    assert [read_ledger(tmp_path / name).rows for name in ("labels", "bank")] == before
    for name in ("labels", "bank"):
        assert not secrets.found_in(tmp_path / name)


def test_a_run_that_was_interrupted_keeps_its_seed_and_an_ended_run_keeps_no_seed(
    tmp_path, secrets, monkeypatch
):
    inputs, killed = PointHolder.inputs, []

    def killing(self, refresh, draws):
        if refresh.number == 1 and not killed:
            killed.append(True)
            raise PartyUnavailableError("interrupted")
        return inputs(self, refresh, draws)

    monkeypatch.setattr(PointHolder, "inputs", killing)
    with pytest.raises(PartyUnavailableError):
        run(tmp_path)
    for name in ("labels", "bank"):
        assert secrets.found_in(tmp_path / name, name)
    run(tmp_path)
    for name in ("labels", "bank"):
        assert not secrets.found_in(tmp_path / name)


def test_a_refused_run_keeps_no_seed(tmp_path, secrets):
    with pytest.raises(PartyRefusedError, match="of the party's budget"):
        run(tmp_path, epsilon=60.0)
    for name in ("labels", "bank"):
        assert not secrets.found_in(tmp_path / name)
