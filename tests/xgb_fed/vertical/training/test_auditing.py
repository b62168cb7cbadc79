"""An auditor repeats the active party's side of a run: keys, ciphertexts and questions, to the byte."""

from contextlib import closing

import numpy as np
import pytest

import xgb_fed
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyUnavailableError, ProtocolError
from gbdt_parties.messages import readdressed
from gbdt_parties.run.record import EXCHANGES, SUMMARY_BYTES
from vertical_training import parts, problem, train
from xgb_fed import OkamotoUchiyama, Paillier, Plain, replay
from xgb_fed.errors import CheckpointError, InvalidArgumentError
from xgb_fed.vertical.growing.gradients import FixedPointGradients
from xgb_fed.vertical.training.auditing import AUDIT_FILE, AUDIT_ROLE

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.errors.NotEncryptedWarning")

PARAMS = {"max_depth": 2, "objective": "binary:logistic", "max_bin": 8}
X, Y = problem(n=150)
ACTIVE, *PASSIVE = parts(X, 2, 4)
CIPHERS = {
    "plain": Plain(),
    "paillier": Paillier(512, allow_weak_key=True),
    "okamoto-uchiyama": OkamotoUchiyama(768, allow_weak_key=True),
}


class Party:
    """A party in this process, which is lost at some of its requests."""

    def __init__(self, number, lost_at=()):
        self.party = xgb_fed.LocalParty(PASSIVE[number], f"party {number}")
        self.name, self.n_asked, self.lost_at = self.party.name, 0, lost_at

    def handle(self, request):
        self.n_asked += 1
        if self.n_asked in self.lost_at:
            raise PartyUnavailableError("lost")
        return self.party.handle(request)


class Elsewhere(Plain):
    """A scheme whose ciphertexts are made in other processes."""

    def generate(self):
        return Cluster(Paillier(512, allow_weak_key=True).generate())


class Cluster:
    def __init__(self, key):
        self.public = key.public


def trained(folder, cipher="plain", parties=None, rounds=2, params=PARAMS, **how):
    members = parties or [Party(0), Party(1)]
    how = {"checkpoint": folder, "auditable": True, **how}
    return train(params, ACTIVE, Y, members, rounds, cipher=CIPHERS[cipher], **how)


def repeated(folder, cipher="plain", y=Y, rounds=2, params=PARAMS):
    def again(parties, checkpoint):
        return train(params, ACTIVE, y, parties, rounds, cipher=CIPHERS[cipher], checkpoint=checkpoint)

    return replay(folder, again)


@pytest.mark.parametrize("cipher", CIPHERS)
def test_every_byte_of_a_whole_run_is_repeated(tmp_path, cipher):
    model = trained(tmp_path, cipher)
    sent = sum(flow.bytes for (sender, *_), flow in model.traffic.flows.items() if sender == "active")
    report = repeated(tmp_path, cipher)
    assert report.difference is None
    assert report.has_ended
    assert (report.rounds, report.attempts, report.connections) == (2, 2, 1)
    assert report.bytes == sent


def test_models_do_not_depend_on_the_seed_and_numbers_of_runs_do(tmp_path):
    one, other = trained(tmp_path / "one"), trained(tmp_path / "other")
    assert one.model_id != other.model_id
    assert [tree.to_dict() for tree in one.trees] == [tree.to_dict() for tree in other.trees]


def test_another_label_is_found_in_the_ciphertexts(tmp_path):
    trained(tmp_path, "paillier")
    y = Y.copy()
    one, other = np.flatnonzero(y == 0)[0], np.flatnonzero(y == 1)[0]
    y[[one, other]] = y[[other, one]]
    report = repeated(tmp_path, "paillier", y)
    assert report.difference.startswith("Gradients, ")
    assert not report.has_ended
    assert report.rounds == 0


def test_a_party_that_encrypts_other_numbers_than_gradients_is_found(tmp_path, monkeypatch):
    """From the second tree on, two rows change places, which no sum over all rows shows."""
    trees, stumps = [], {**PARAMS, "max_depth": 1}

    def plaintexts(self, rows, do=FixedPointGradients.plaintexts):
        made = do(self, rows).copy()
        trees.append(1)
        if len(trees) > 1:
            places = np.unique(made[0], axis=0, return_index=True)[1][:2]
            made[0, places] = made[0, places[::-1]]
        return made

    with monkeypatch.context() as patch:
        patch.setattr(FixedPointGradients, "plaintexts", plaintexts)
        trained(tmp_path, "paillier", params=stumps)
    report = repeated(tmp_path, "paillier", params=stumps)
    assert report.difference.startswith("Gradients, ")
    assert report.rounds == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: bytes([entry[0] ^ 1]) + entry[1:],
        lambda entry: bytes(SUMMARY_BYTES) + entry[SUMMARY_BYTES:],
    ],
)
def test_a_byte_of_the_record_that_was_flipped_is_found(tmp_path, change):
    trained(tmp_path)
    with closing(StoreFile(tmp_path / AUDIT_FILE, AUDIT_ROLE)) as store:
        part = store.part("party 1")
        entries = list(part.entries(EXCHANGES, ""))
        part.delete(EXCHANGES, "", 3)
        for number, entry in enumerate(entries[3:]):
            part.append(EXCHANGES, "", change(entry) if number == 0 else entry)
    assert "to party 'party 1'" in repeated(tmp_path).difference


@pytest.mark.parametrize("at", range(3, 16, 3))
@pytest.mark.parametrize("patience", [0.0, 5.0])
def test_runs_whose_parties_were_lost_are_repeated(tmp_path, at, patience):
    """Within one call, or over two of them."""
    how = {"cipher": "okamoto-uchiyama", "patience": patience, "rounds": 3}
    lost = [Party(0), Party(1, lost_at=(at,))]
    if not patience:
        with pytest.raises(PartyUnavailableError):
            trained(tmp_path, parties=lost, **how)
    trained(tmp_path, parties=lost, **how)
    report = repeated(tmp_path, "okamoto-uchiyama", rounds=3)
    assert report.difference is None
    assert report.has_ended
    assert report.rounds == 3


@pytest.mark.parametrize("at", [2, 5, 9])
@pytest.mark.parametrize(
    "change",
    [
        lambda answer: answer[:-1] + bytes([answer[-1] ^ 1]),
        lambda answer: readdressed(answer),
        lambda answer: b"x" * len(answer),
        lambda answer: answer[:-3],
        lambda answer: b"x",
    ],
)
def test_a_party_that_was_answered_nonsense_is_not_blamed(tmp_path, at, change):
    liar = Party(1)

    def lie(request):
        answer = Party.handle(liar, request)
        return change(answer) if liar.n_asked == at else answer

    liar.handle = lie
    with pytest.raises(ProtocolError):
        trained(tmp_path, parties=[Party(0), liar])
    report = repeated(tmp_path)
    assert report.difference is None
    assert not report.has_ended


def test_no_process_of_a_run_that_is_auditable_is_without_a_record(tmp_path):
    how, lost = {"patience": 0.0, "rounds": 4}, [Party(0), Party(1, lost_at=(16,))]
    with pytest.raises(PartyUnavailableError):
        trained(tmp_path, parties=lost, **how)
    with pytest.raises(CheckpointError, match="auditable=True"):
        trained(tmp_path, parties=lost, **how, auditable=False)
    trained(tmp_path, parties=lost, **how)
    assert repeated(tmp_path, rounds=4).has_ended
    (tmp_path / "training.store").unlink()
    trained(tmp_path, auditable=False)
    assert not (tmp_path / AUDIT_FILE).exists()


def test_another_run_takes_the_place_of_one_that_is_kept(tmp_path):
    trained(tmp_path)
    (tmp_path / "training.store").unlink()
    trained(tmp_path, rounds=1)
    assert repeated(tmp_path, rounds=1).agrees
    assert not repeated(tmp_path, rounds=2).has_ended


def test_what_cannot_be_kept_is_refused(tmp_path):
    with pytest.raises(InvalidArgumentError, match="auditable=True needs a checkpoint"):
        trained(None)
    with pytest.raises(InvalidArgumentError, match="auditable=True with keys of Cluster"):
        train(PARAMS, ACTIVE, Y, [Party(0)], cipher=Elsewhere(), checkpoint=tmp_path / "a", auditable=True)
    with pytest.raises(InvalidArgumentError, match="checkpoint="):
        repeated(tmp_path)
    with pytest.raises(PartyUnavailableError):
        trained(tmp_path, parties=[Party(0), Party(1, lost_at=(9,))], auditable=False)
    with pytest.raises(CheckpointError, match="auditable=False"):
        trained(tmp_path)
