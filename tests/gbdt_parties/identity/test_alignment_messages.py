"""Messages of an alignment."""

import pytest

from alignments import OURS, THEIRS, bank, split
from gbdt_parties import messages
from gbdt_parties.curve_group import hash_to_group, random_scalar
from gbdt_parties.identity import masked_ids
from gbdt_parties.identity.alignment import align
from gbdt_parties.identity.alignment_messages import AnswerIds, MaskIds, TellIds
from gbdt_parties.identity.masked_ids import run_of


@pytest.mark.parametrize(("n_ours", "n_theirs"), [(1, 1), (20, 3), (3, 20), (7, 14), (14, 7), (8, 15)])
def test_lists_of_any_length_are_sent_in_chunks(short_messages, n_ours, n_theirs):
    party = bank(ids=THEIRS[:n_theirs])
    ours = [*THEIRS[:1], *(f"other-{k}" for k in range(n_ours - 1))]
    assert align([party], ours).ids == tuple(THEIRS[:1])
    for sent in (*party.requests, *party.answers):
        assert all(len(value) <= 7 * 32 for value in vars(sent).values() if isinstance(value, bytes))
    kinds = [type(one) for one in party.requests]
    assert kinds.count(TellIds) == -(-n_ours // 7)
    assert kinds.count(MaskIds) == -(-n_theirs // 7)
    assert kinds.count(AnswerIds) == -(-max(n_ours, n_theirs) // 7)


def test_no_id_digest_or_key_is_sent(monkeypatch):
    scalars = []
    monkeypatch.setattr(masked_ids, "random_scalar", lambda: scalars.append(random_scalar()) or scalars[-1])
    party = bank()
    found = align([party], OURS)
    # A list's and a digest's on each side, all different.
    assert len(set(scalars)) == 4
    sent = b"".join(messages.write(bytes(16), 0, one) for one in (*party.requests, *party.answers))
    for secret in (b"customer", found.digest, found.digest.hex().encode(), *scalars):
        assert secret not in sent
    for ids in (OURS, THEIRS):
        run = run_of(party.requests[0], party.answers[0])
        points = split(hash_to_group([b"veilboost psi", run], [one.encode() for one in ids]))
        assert not any(point in sent for point in points)
