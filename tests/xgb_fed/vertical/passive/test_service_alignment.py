"""Alignments at a passive party's service: what either side learns if the other lies."""

import os
import time

import numpy as np
import pytest

import xgb_fed
from alignments import Asker
from counted_answers import layout
from deployment import connected, serving, tls
from gbdt_commons.store import json_kind
from gbdt_parties.errors import InvalidDataError, PartyRefusedError
from gbdt_parties.identity import masked_ids
from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.identity.alignment import align
from gbdt_parties.identity.alignment_messages import OpenAlignment
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.identity.record import read_record
from gbdt_parties.quota import TAKEN
from gbdt_parties.transport.remote import RemoteParty
from gbdt_parties.transport.server import NOBODY
from kept_stores import end_process, restarted
from served_parties import Local
from small_keys import key_of
from veilboost.plans.tables import Table
from xgb_fed.boosting.features import read_columns
from xgb_fed.ciphers.plain import Plain
from xgb_fed.vertical.passive.service import ROLE, Limits, PassiveService
from xgb_fed.vertical.protocol.messages import OpenModel, OpenTraining, TrainingOpened

pytest.importorskip("nacl")


@pytest.fixture
def bank(tmp_path):
    """Fifty customers, from 010 on."""
    X = np.random.default_rng(2).normal(size=(50, 2))
    table = Table(read_columns(X), [f"customer-{k:03d}" for k in range(10, 60)], True, None, [], {})

    def start(**limits):
        end_process(tmp_path)
        return PassiveService(table, tmp_path / "bank", "bank", Limits(min_rows=1, **limits))

    return start


KEY = key_of(xgb_fed.OkamotoUchiyama, 1024)
OPENING = OpenTraining(
    KEY.public.public_bytes(), 2, 16, 111, 1, 3, np.arange(2, dtype=np.int32), np.empty(0, np.int64)
)


def asker(service, ids, session=b"s" * 16):
    return Asker(lambda message: Local(service).ask(message, session=session), ids)


def common(service, ids, n_rows, others=("customer-010", "customer-011")):
    """Answer to an alignment in which `ids` are called common, `n_rows` of them, whatever the bank has."""
    mine = asker(service, others).until_answered()
    return mine.align([int(place) for place in mine.matched()[1][:n_rows]], ids)


def test_an_alignment_is_counted_once_when_it_is_opened(bank):
    service = bank(questions_per_hour=2)
    for _ in range(2):
        mine = asker(service, ["customer-010"]).until_answered()
        assert mine.align(mine.matched()[1], ["customer-010"]) is True
    assert "more than 2 alignments and predictions in an hour" in asker(service, ["a"]).open().reason
    assert "more than 2 alignments" in asker(bank(questions_per_hour=2), ["a"]).open().reason


def test_alignment_attack_a_row_whose_id_is_not_known_is_not_kept(bank, tmp_path):
    """Kept rows could be named by guesses of the hidden id, one for each opening of a session."""
    service = bank()
    known = [f"customer-{k:03d}" for k in range(10, 40)]
    mine = asker(service, [*known, "x"]).until_answered()
    places = set(mine.matched()[1].tolist())
    hidden = next(place for place in range(50) if place not in places)
    assert "were not proven to be known" in mine.align([*places, hidden], [*known, "customer-000"]).reason
    assert not list(tmp_path.glob("bank/**/*.ids"))
    for k in range(40, 60):
        guess = Alignment((*known, f"customer-{k:03d}")).digest
        assert "no such rows" in Local(service, row_sets=(guess,)).ask(OPENING).reason


@pytest.mark.parametrize("opening", ["OpenTraining", "OpenModel"])
def test_guesses_of_rows_are_counted_as_questions(bank, opening):
    service = bank(questions_per_hour=4)
    message = OPENING if opening == "OpenTraining" else OpenModel(b"m" * 16, 0, np.empty(0, np.int32))
    mine = asker(service, ["customer-010"]).until_answered()
    assert mine.align(mine.matched()[1], ["customer-010"]) is True
    for k in range(3):
        assert "no such rows" in Local(service, row_sets=(bytes([k]) * 32,)).ask(message).reason
    assert (
        "more than 4 alignments and predictions" in Local(service, row_sets=(b"g" * 32,)).ask(message).reason
    )
    assert "more than 4 alignments and predictions" in asker(service, ["a"]).open().reason


def test_rows_that_are_aligned_are_opened_without_a_question(bank):
    service = bank(questions_per_hour=1, allow_weak_key=True, max_statistics=np.inf)
    mine = asker(service, ["customer-010", "customer-011"]).until_answered()
    ids = ("customer-010", "customer-011")
    assert mine.align(mine.matched()[1], ids) is True
    for _ in range(2):
        opened = Local(service, row_sets=(Alignment(ids).digest,)).ask(OPENING, session=os.urandom(16))
        assert isinstance(opened, TrainingOpened)


def test_a_damaged_count_is_a_refusal_until_its_operator_removes_it(bank, tmp_path):
    asker(bank(), ["customer-010"]).until_answered()
    end_process(tmp_path)
    store = restarted(tmp_path / "bank", role=ROLE)
    store.put(json_kind(TAKEN.name), "questions of acme", [1e300])
    service = bank()
    for _ in range(2):
        reason = asker(service, ["a"]).open().reason
        assert "a record of times of the last hour cannot be read" in reason
        assert str(tmp_path) not in reason
    assert "cannot be read" in asker(bank(), ["a"]).open().reason
    service = bank()
    service.reset_questions()
    asker(service, ["customer-010"]).until_answered()


def test_rows_are_kept_under_the_digest_that_was_not_sent(bank, tmp_path):
    service = bank()
    mine = asker(service, ["customer-010", "x"]).until_answered()
    assert mine.align(mine.matched()[1], ["customer-010"]) is True
    (path,) = tmp_path.glob("bank/for-acme/rows/*.ids")
    assert path.read_text() == "customer-010\n"
    assert path.name == f"{Alignment(('customer-010',)).digest.hex()}.ids"


def test_every_message_of_an_alignment_is_recorded(bank, tmp_path):
    align([Local(bank())], ["customer-010", "x"])
    traffic, refusals, damaged = read_record(tmp_path / "bank" / "record.jsonl")
    assert not refusals
    assert not damaged
    kinds = [kind for _, _, kind in traffic.flows]
    requests = ["OpenAlignment", "MaskIds", "CommitIds", "TellIds", "AnswerIds", "AlignRows", "ProveRows"]
    answers = [
        "AlignmentOpened",
        "IdsMasked",
        "IdsCommitted",
        "Done",
        "IdsAnswered",
        "RowsFound",
        "RowsAligned",
    ]
    assert sorted(kinds) == sorted(requests + answers)


def test_a_table_whose_ids_are_not_canonical_is_not_served(tmp_path):
    X = np.zeros((2, 1))
    for ids in (["a", "b "], ["a", "a"], ["Zoe\u0308", "b"]):
        table = Table(read_columns(X), ids, True, None, [], {})
        with pytest.raises(InvalidDataError, match=r"ids.*rows"):
            PassiveService(table, tmp_path / "bank", "bank", Limits())


def test_blinded_ids_have_the_size_of_their_number(bank, monkeypatch):
    ids = [str(k) for k in range(40)]
    service = bank(max_rows=40)
    asker(service, ids).until_answered()
    monkeypatch.setattr(masked_ids, "hash_to_group", lambda *args: pytest.fail("hashed"))
    for n_ids in (0, 41):
        wrong = OpenAlignment(bytes(32), bytes(32), bytes(32), n_ids)
        assert f"1 to 40 ids, not {n_ids}" in Local(service).ask(wrong).reason


def test_alignments_do_not_remove_the_rows_of_a_training_run(bank, monkeypatch):
    """Before, 64 alignments for predictions did, and a run of which the bank was restarted had no rows."""
    monkeypatch.setattr("gbdt_parties.transport.service.MAX_ALIGNMENTS", 3)
    ids = [f"customer-{k:03d}" for k in range(10, 60)]
    service = bank(allow_plain=True)
    rows = (align([Local(service)], ids[:20]).digest,)
    none = np.empty(0, dtype=np.int32)
    bits = layout(20)[0]
    opening = OpenTraining(Plain().public.public_bytes(), 20, 8, bits, 1, 3, none, none.astype(np.int64))
    assert isinstance(Local(service, row_sets=rows).ask(opening), TrainingOpened)
    for k in range(21, 26):
        time.sleep(0.01)  # files' times are not exact
        align([Local(service)], ids[:k])
    service = bank(allow_plain=True)  # the bank is restarted
    time.sleep(0.01)
    align([Local(service)], ids[:27])
    assert isinstance(Local(service, row_sets=rows).ask(opening, session=b"t" * 16), TrainingOpened)
    for k in range(28, 31):
        time.sleep(0.01)
        align([Local(bank())], ids[:k])
    answer = Local(bank(allow_plain=True), row_sets=rows).ask(opening, session=b"u" * 16)
    assert "align them first" in answer.reason


def test_the_certificate_that_is_shown_is_the_one_that_is_hashed(bank, tmp_path, monkeypatch):
    """Over TLS: a party in between would show another one, and the ids it passed on would match nothing."""
    seen = []
    ids = ["customer-010", "x"]
    service = bank()
    answer = service.known_caller(Identity("acme", "", NOBODY.expires)).intersector.answer
    intersector = service.known_caller(Identity("acme", "", NOBODY.expires)).intersector
    monkeypatch.setattr(intersector, "answer", lambda *args: seen.append(args) or answer(*args))
    with serving(service) as server, connected(server) as party:
        assert align([party], ids).ids == ("customer-010",)
        fingerprint = party.own_fingerprint
        assert len(bytes.fromhex(fingerprint)) == 32
        assert fingerprint == Identity.of(tls("acme").certificate).fingerprint
        assert party.with_rows(b"r" * 32).own_fingerprint == fingerprint
        _, opening, shown = seen[0]
        assert isinstance(opening, OpenAlignment)
        assert opening.certificate.hex() == shown == fingerprint
        monkeypatch.setattr(RemoteParty, "own_fingerprint", "ab" * 32)
        with pytest.raises(PartyRefusedError, match=r"certificate.*shown"):
            align([party], ids)
    monkeypatch.undo()
    assert RemoteParty("127.0.0.1:1", name="bank", insecure=True).own_fingerprint == ""
