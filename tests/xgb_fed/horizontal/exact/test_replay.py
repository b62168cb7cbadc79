"""An auditor repeats a party's side of an exact run from its directory and rows, and names what differs."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from disturbed import Between, lost
from exact_training import NAMES, PARAMS, X, Y, train
from gbdt_commons.store_file import StoreFile
from gbdt_parties.errors import PartyArgumentError, PartyUnavailableError
from gbdt_parties.run.log import ANSWERS, RUNS, RunLog
from gbdt_parties.run.record import EXCHANGES
from gbdt_parties.secure_sum.messages import AskSum
from xgb_fed import ExactTerms, HorizontalParty
from xgb_fed.errors import InvalidArgumentError
from xgb_fed.horizontal.common.party_state import ROUNDS
from xgb_fed.horizontal.exact.run import ExactSubject
from xgb_fed.horizontal.party import ROLE, STORE_FILE


def made(place, folder=None, y=Y, auditable=True):
    rows = slice(place, None, 3)
    return HorizontalParty(
        X[rows],
        y[rows],
        NAMES[place],
        categorical_labels=True,
        directory=None if folder is None else folder / NAMES[place],
        n_jobs=1,
        exact=ExactTerms(min_rows_per_node=1),
        auditable=auditable and folder is not None,
    )


def trained(folder, between=lambda place, member: member, auditable=True, checkpoint=None, **params):
    members = [made(place, folder, auditable=auditable) for place in range(3)]
    try:
        train(
            [between(place, member) for place, member in enumerate(members)],
            params={**PARAMS, **params},
            min_rows_per_node=1,
            checkpoint=checkpoint,
            patience=0,
        )
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
    report = made(place).replay(audited / NAMES[place])
    assert report.difference is None
    assert report.agrees
    assert report.has_ended
    assert report.rounds == report.attempts > 8
    assert report.bytes > 5000


def test_samples_of_rows_are_drawn_again(tmp_path):
    trained(tmp_path, subsample=0.3)
    report = made(0).replay(tmp_path / NAMES[0])
    assert report.difference is None
    assert report.has_ended


def test_other_rows_are_named(audited):
    assert "rows" in made(0, y=1 - Y).replay(audited / NAMES[0]).difference


def test_a_party_that_sends_other_sums_than_its_rows_give_is_found(tmp_path, monkeypatch):
    """From the eighth question on, its vector is another one."""
    asked = []

    def vector(self, question, n_members, noise_key):
        asked.append(self.name)
        values = question.values
        if self.name == NAMES[0] and asked.count(NAMES[0]) > 7:
            values = values.copy()
            values.flat[0] += np.uint64(1)
        return values

    with monkeypatch.context() as patch:
        patch.setattr(ExactSubject, "vector", vector)
        trained(tmp_path)
    report = made(0).replay(tmp_path / NAMES[0])
    assert "Contributed" in report.difference
    assert report.rounds == 7
    assert made(1).replay(tmp_path / NAMES[1]).agrees


def test_a_byte_of_the_record_that_was_flipped_is_found(tmp_path):
    trained(tmp_path)
    with closing(StoreFile(tmp_path / NAMES[0] / STORE_FILE, ROLE)) as store:
        part = store.part("exact")
        (key,) = part.keys(RUNS)
        record = RunLog(part, bytes.fromhex(key)).store
        entries = list(record.entries(EXCHANGES, ""))
        record.delete(EXCHANGES, "", 4)
        flipped = bytearray(entries[4])
        flipped[-1] ^= 1
        for entry in [bytes(flipped), *entries[5:]]:
            record.append(EXCHANGES, "", entry)
    report = made(0).replay(tmp_path / NAMES[0])
    assert "request 4" in report.difference


def other_answer(store, answers):
    last = answers.size(ANSWERS, "") - 1
    kept = answers.get(ANSWERS, "", last)
    answers.delete(ANSWERS, "", last)
    answers.append(ANSWERS, "", replace(kept, content=bytes(32)))


@pytest.mark.parametrize(
    ("change", "difference"),
    [(other_answer, "answer to attempt"), (lambda store, _: store.delete(ROUNDS, ""), "counted the rounds")],
)
def test_answers_and_rounds_that_are_not_those_of_the_messages_are_found(tmp_path, change, difference):
    trained(tmp_path)
    with closing(StoreFile(tmp_path / NAMES[0] / STORE_FILE, ROLE)) as store:
        part = store.part("exact")
        (key,) = part.keys(RUNS)
        change(store, RunLog(part, bytes.fromhex(key)).store)
    report = made(0).replay(tmp_path / NAMES[0])
    assert difference in report.difference
    assert not report.has_ended


def test_a_run_of_two_processes_is_repeated(tmp_path):
    """The first one ended in a round; the second one begins at the first sum."""
    asked = []

    def between(place, member):
        def disturb(number, message, send):
            if place == 0 and isinstance(message, AskSum):
                asked.append(message)
                if len(asked) >= 4:
                    send()
                    lost()
            return send()

        return Between(member, disturb)

    with pytest.raises(PartyUnavailableError):
        trained(tmp_path, between, checkpoint=tmp_path / "progress")
    report = made(0).replay(tmp_path / NAMES[0])
    assert report.difference is None
    assert not report.has_ended
    assert report.rounds == 3
    trained(tmp_path, checkpoint=tmp_path / "progress")
    report = made(0).replay(tmp_path / NAMES[0])
    assert report.difference is None
    assert report.has_ended
    assert report.connections == 2


def test_nothing_is_kept_of_runs_that_are_not_auditable(tmp_path):
    trained(tmp_path, auditable=False)
    with pytest.raises(PartyArgumentError, match="run=None"):
        made(0).replay(tmp_path / NAMES[0])
    with pytest.raises(InvalidArgumentError, match="directory"):
        made(0).replay(tmp_path)
    with pytest.raises(InvalidArgumentError, match="auditable=True"):
        HorizontalParty(X, Y, auditable=True)
