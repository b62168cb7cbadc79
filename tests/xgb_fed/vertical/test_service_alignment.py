"""Alignments at a passive party's service: what either side learns if the other lies."""

import time

import numpy as np
import pytest

from gbdt_parties import messages
from gbdt_parties.errors import InvalidDataError, ProtocolError
from gbdt_parties.identity.alignment import (
    Alignment,
    AlignRows,
    BlindedIds,
    CommonIds,
    IntersectIds,
    Question,
    align,
    answered,
)
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.transport.server import NOBODY
from veilboost.tables import Table
from xgb_fed.boosting.features import read_columns
from xgb_fed.ciphers.plain import Plain
from xgb_fed.vertical.messages import OpenTraining, TrainingOpened
from xgb_fed.vertical.service import Limits, PassiveService


class Local:
    """A party that calls a service without a network."""

    name = "bank"

    def __init__(self, service, row_sets=()):
        self.service, self.row_sets = service, row_sets

    def handle(self, request):
        return self.service.handle(Identity("acme", "", NOBODY.expires), self.row_sets, request)

    def ask(self, request, session=b"s" * 16):
        return messages.read(self.handle(messages.write(session, 0, request))).message


@pytest.fixture
def bank(tmp_path):
    """Fifty customers, from 010 on."""
    X = np.random.default_rng(2).normal(size=(50, 2))
    table = Table(read_columns(X), [f"customer-{k:03d}" for k in range(10, 60)], True, None, [], {})
    return lambda **limits: PassiveService(table, tmp_path / "bank", "bank", Limits(min_rows=1, **limits))


def common(service, ids, n_rows, others=("a", "b")):
    """Answer to an alignment in which `ids` are called common, `n_rows` of them, whatever the bank has."""
    assert isinstance(Local(service).ask(IntersectIds(Question(others).blinded, len(others))), BlindedIds)
    own = Local(service).ask(AlignRows(n_rows))
    if isinstance(own, messages.Refusal):
        return own
    digest = Question([Alignment(tuple(sorted(ids))).digest.hex()])
    answer = Local(service).ask(CommonIds(*answered(own.blinded, own.n_ids, ids), digest.blinded))
    return answer if isinstance(answer, messages.Refusal) else digest.matches(answer.setup, answer.response)


def test_unknown_ids_are_not_aligned_and_malformed_points_refused(bank):
    pytest.importorskip("private_set_intersection")
    service = bank()
    blinded = Question(["a", "b"]).blinded
    for ids, n_rows in ((["customer-010", "nobody"], 2), (["customer-010"], 2), (["nobody"], 1)):
        answer = common(service, ids, n_rows)
        assert "not in common" in answer.reason or "malformed" in answer.reason
        assert "nobody" not in answer.reason
    assert "more than were in it" in common(service, ["customer-010"], 3).reason
    assert common(service, ["customer-010"], 1) == [0]
    assert "not 3 different blinded ids" in Local(service).ask(IntersectIds(blinded, 3)).reason
    for wrong in (b"", b"nonsense", blinded[:-3]):
        assert isinstance(Local(service).ask(IntersectIds(wrong, 2)), messages.Refusal)


def test_an_intersection_is_good_for_one_alignment_accepted_or_not(bank):
    pytest.importorskip("private_set_intersection")
    for ids in (["nobody"], ["customer-010"]):
        service = bank()
        common(service, ids, 1)
        assert "without an intersection" in Local(service).ask(AlignRows(1)).reason
        assert "without an intersection" in Local(service).ask(CommonIds(b"", b"", b"")).reason


class LyingBank(Local):
    """Makes all ids of the other match that are sent blinded, under a key of its own for each of them."""

    def handle(self, request):
        import private_set_intersection.python as psi

        envelope = messages.read(request)
        message = envelope.message
        if not isinstance(message, IntersectIds):
            self.heard.append(request)
            return super().handle(request)
        super().handle(request)
        asked = psi.Request()
        asked.ParseFromString(message.blinded)
        returned, setup, points = psi.Response(), psi.ServerSetup(), set()
        for _ in range(message.n_ids):
            server = psi.server.CreateWithNewKey(True)
            returned.encrypted_elements.append(server.ProcessRequest(asked).encrypted_elements[self.known])
            points |= set(
                server.CreateSetupMessage(0.0, 1, self.ids, psi.DataStructure.RAW).raw.encrypted_elements
            )
        setup.raw.encrypted_elements.extend(sorted(points))
        answer = BlindedIds(setup.SerializeToString(), returned.SerializeToString())
        return messages.write(envelope.session, envelope.sequence, answer)


@pytest.mark.parametrize("known", range(4))
def test_alignment_attack_by_a_bank_that_makes_all_ids_match_reads_none(bank, known):
    """One id in common sufficed: the other's were sent in clear, as ids in common."""
    pytest.importorskip("private_set_intersection")
    liar = LyingBank(bank())
    liar.known, liar.ids, liar.heard = known, ["customer-010"], []
    ids = ["acme-only-1", "customer-010", "acme-only-2", "acme-only-3"]
    digest = Alignment(tuple(sorted(ids))).digest
    with pytest.raises(ProtocolError if known == 1 else InvalidDataError, match=r"bank|no row"):
        align([liar], ids)
    assert len(liar.heard) == 2 * (known == 1)
    for request in liar.heard:
        assert not any(secret in request for secret in (b"acme-only", digest, digest.hex().encode()))


def test_alignment_attack_by_the_active_party_aligns_no_rows_it_cannot_name(bank):
    """It makes a row of the bank's match whose id it does not know, and tries out digests of one id."""
    pytest.importorskip("private_set_intersection")
    service = bank()
    Local(service).ask(IntersectIds(Question(["a"]).blinded, 1))
    own = Local(service).ask(AlignRows(1))
    setup, response = answered(own.blinded, own.n_ids, ["customer-010"])
    digest = Question([Alignment(("customer-011",)).digest.hex()])
    answer = Local(service).ask(CommonIds(setup, response, digest.blinded))
    assert digest.matches(answer.setup, answer.response) == []
    found = Alignment(("customer-010",)).digest
    assert found not in answer.setup + answer.response


def test_a_response_of_other_length_or_with_a_point_twice_is_refused():
    pytest.importorskip("private_set_intersection")
    ids = ["a", "b", "c"]
    question = Question(ids)
    setup, response = answered(question.blinded, 3, ["b"])
    assert question.matches(setup, response) == [1]
    point = response[:35]
    for wrong in (response[:-35], response + point, point * 3, b"", response[:-1]):
        with pytest.raises(ProtocolError, match="not 3 different blinded ids"):
            question.matches(setup, wrong)
    for wrong in (b"", setup[:-1], setup + point, b"\x12" + setup[1:]):
        with pytest.raises(ProtocolError, match="malformed"):
            question.matches(wrong, response)
    with pytest.raises(ProtocolError, match="malformed"):
        question.matches(setup, response, 2)


def test_blinded_ids_have_the_size_of_their_number(bank, monkeypatch):
    psi = pytest.importorskip("private_set_intersection.python")
    blinded = Question([str(k) for k in range(40)]).blinded
    service = bank(max_rows=40)
    assert isinstance(Local(service).ask(IntersectIds(blinded, 40)), BlindedIds)
    monkeypatch.setattr(psi, "Request", lambda: pytest.fail("parsed"))
    empty = b"\x12\x00"
    wrong = (
        blinded[:2] + empty * 700,
        blinded + empty,
        blinded[:-70] + empty * 35,
        blinded[2:],
        blinded[:-35],
        b"",
    )
    for request in wrong:
        assert "not 40 different blinded ids" in Local(service).ask(IntersectIds(request, 40)).reason
    assert "not 39 different blinded ids" in Local(service).ask(IntersectIds(blinded, 39)).reason
    assert "1 to 40 ids" in Local(service).ask(IntersectIds(blinded, 0)).reason
    assert "1 to 40 ids" in Local(service).ask(IntersectIds(blinded, 41)).reason


def test_alignments_do_not_remove_the_rows_of_a_training_run(bank, monkeypatch):
    """Before, 64 alignments for predictions did, and a run of which the bank was restarted had no rows."""
    pytest.importorskip("private_set_intersection")
    monkeypatch.setattr("gbdt_parties.transport.service.MAX_ALIGNMENTS", 3)
    ids = [f"customer-{k:03d}" for k in range(10, 60)]
    service = bank(allow_plain=True)
    rows = (align([Local(service)], ids[:20]).digest,)
    none = np.empty(0, dtype=np.int32)
    opening = OpenTraining(Plain().public.public_bytes(), 20, 8, 150, 1, 3, none, none.astype(np.int64))
    assert isinstance(Local(service, rows).ask(opening), TrainingOpened)
    for k in range(21, 26):
        time.sleep(0.01)  # files' times are not exact
        align([Local(service)], ids[:k])
    service = bank(allow_plain=True)  # the bank is restarted
    time.sleep(0.01)
    align([Local(service)], ids[:27])
    assert isinstance(Local(service, rows).ask(opening, b"t" * 16), TrainingOpened)
    for k in range(28, 31):
        time.sleep(0.01)
        align([Local(bank())], ids[:k])
    answer = Local(bank(allow_plain=True), rows).ask(opening, b"u" * 16)
    assert "align them first" in answer.reason
