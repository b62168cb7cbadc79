"""The protocol of an alignment: what honest parties find, and what each does when the other lies."""

import os
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edwards
from alignments import Asker, Bank
from gbdt_parties import messages
from gbdt_parties.curve_group import hash_to_group, multiply, random_scalar
from gbdt_parties.errors import InvalidDataError, PartyRefusedError, ProtocolError
from gbdt_parties.identity import alignment as alignment_module
from gbdt_parties.identity import alignment_messages, masked_ids
from gbdt_parties.identity.alignment import align
from gbdt_parties.identity.alignment_messages import (
    AlignmentOpened,
    AlignRows,
    AnswerIds,
    CommitIds,
    IdsAnswered,
    IdsCommitted,
    IdsMasked,
    MaskIds,
    OpenAlignment,
    ProveRows,
    RowsAligned,
    RowsFound,
    TellIds,
)
from gbdt_parties.identity.intersector import Intersector
from gbdt_parties.identity.masked_ids import (
    ACTIVE,
    PASSIVE,
    MaskedDigest,
    OwnList,
    ReceivedList,
    run_of,
)
from gbdt_parties.traffic import Traffic

pytest.importorskip("nacl")

THEIRS = [f"customer-{k:03d}" for k in range(10, 30)]
OURS = [f"customer-{k:03d}" for k in range(20)]
COMMON = tuple(f"customer-{k:03d}" for k in range(10, 20))
MIXED = edwards.encoded(edwards.add(edwards.GENERATOR, edwards.TORSION[4]))
NEUTRAL = edwards.encoded(edwards.NEUTRAL)


def bank(lies=None, ids=THEIRS, name="bank"):
    return Bank(Intersector(ids, 1000, name), lies, name)


def split(points):
    return [points[k : k + 32] for k in range(0, len(points), 32)]


def asker(service, ids=OURS, session=b"s" * 16, **how):
    def ask(message):
        return messages.read(service.handle(messages.write(session, 0, message))).message

    return Asker(ask, ids, **how)


@pytest.fixture
def short_messages(monkeypatch):
    """Seven points in a message, so that lists take several."""
    for module in (alignment_messages, masked_ids, alignment_module):
        monkeypatch.setattr(module, "IDS_PER_MESSAGE", 7)


# Honest parties.


@settings(max_examples=12, deadline=None)
@given(
    st.sets(st.integers(0, 40).map(str), min_size=1, max_size=25),
    st.sets(st.integers(0, 40).map(str), min_size=1, max_size=25),
)
def test_alignment_is_the_intersection(ours, theirs):
    party = bank(ids=sorted(theirs, reverse=True))
    if not ours & theirs:
        with pytest.raises(InvalidDataError, match="no row is held by all parties"):
            align([party], list(ours))
        return
    assert align([party], list(ours)).ids == tuple(sorted(ours & theirs))
    assert [one.ids for one in party.alignments] == [tuple(sorted(ours & theirs))]


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


def test_a_party_learns_the_rows_of_all_and_not_those_of_two():
    first, second = bank(name="a", ids=OURS[:15]), bank(name="b", ids=OURS[10:])
    assert align([first, second], OURS).ids == tuple(OURS[10:15])
    for party in (first, second):
        (request,) = (one for one in party.requests if isinstance(one, AlignRows))
        assert int(np.unpackbits(request.common).sum()) == 5
        assert [one.ids for one in party.alignments] == [tuple(OURS[10:15])]


def test_bytes_of_an_id_are_what_the_documentation_says():
    traffic, party = Traffic(), bank(ids=[f"id-{k}" for k in range(200)])
    align([party], [f"id-{k}" for k in range(100, 300)], traffic)
    assert traffic.bytes_from("active") < 200 * 32 + 200 // 8 + 700
    assert traffic.bytes_from("bank") < 200 * 64 + 700


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


def test_two_runs_cannot_be_linked():
    """Neither by their points nor, with one party's key fixed, by its hashes: the run is hashed too."""
    party = bank()
    align([party], OURS)
    align([party], OURS)
    told = [one.points for one in party.requests if isinstance(one, TellIds)]
    answered = [one for one in party.answers if isinstance(one, IdsAnswered)]
    points = [
        split(octets) for octets in (*told, *(o.points for o in answered), *(o.answers for o in answered))
    ]
    assert len({point for some in points for point in some}) == sum(map(len, points))
    opening = OpenAlignment(b"n" * 32, bytes(32), bytes(32), 20)
    assert Intersector(THEIRS, 100, "bank").answer(b"s" * 16, opening)[0].nonce != (
        Intersector(THEIRS, 100, "bank").answer(b"s" * 16, opening)[0].nonce
    )


def test_a_run_is_bound_to_everything_it_is_for():
    opening = OpenAlignment(b"a" * 32, b"b" * 32, b"c" * 32, 5)
    opened = AlignmentOpened(b"d" * 32, b"e" * 32, 6)
    runs = {run_of(opening, opened)}
    for name in ("nonce", "certificate", "addressed"):
        runs.add(run_of(replace(opening, **{name: b"x" * 32}), opened))
    for name in ("nonce", "name"):
        runs.add(run_of(opening, replace(opened, **{name: b"x" * 32})))
    runs |= {run_of(replace(opening, n_ids=6), opened), run_of(opening, replace(opened, n_ids=5))}
    assert len(runs) == 8
    commitments = set()
    for run in runs:
        for role in (ACTIVE, masked_ids.PASSIVE):
            commitments.add(masked_ids._commitment(run, role, b"p" * 64))
            commitments.add(masked_ids._commitment(run, role, b"p" * 32))
    assert len(commitments) == 32
    for wrong in (replace(opening, nonce=b"a" * 31), replace(opening, certificate=b"")):
        with pytest.raises(ProtocolError, match="not of 32 bytes"):
            run_of(wrong, opened)


def test_lists_tell_nothing_of_the_order_of_rows(monkeypatch):
    monkeypatch.setattr(masked_ids, "random_scalar", lambda: (8 * 12345).to_bytes(32, "little"))
    told = []
    for ids in (THEIRS, THEIRS[::-1]):
        own = OwnList(ids, b"r" * 32, ACTIVE)
        own.mask_more()
        told.append(own.points)
        assert split(own.points) == sorted(split(own.points))
        assert [ids[k] for k in own.order] == [THEIRS[k] for k in order_of(own.points)]
    assert told[0] == told[1]


def order_of(points):
    """Whose the points of THEIRS are, masked one by one."""
    single = [
        multiply(
            (8 * 12345).to_bytes(32, "little"), hash_to_group([b"veilboost psi", b"r" * 32], [one.encode()])
        )
        for one in THEIRS
    ]
    return [single.index(point) for point in split(points)]


# A passive party that lies.


def lie(kind, change):
    """The honest answer with some fields made from it."""
    return {kind: lambda honest: replace(honest, **change(honest))}


def swapped(points):
    one, other, *rest = split(points)
    return b"".join((other, one, *rest))


def twice(points):
    one, _, *rest = split(points)
    return b"".join((one, one, *rest))


WRONG_ANSWERS = {
    "points in another order": (lambda a: {"points": swapped(a.points)}, "not in ascending order"),
    "a point twice": (lambda a: {"points": twice(a.points)}, "or one comes twice"),
    "a point less": (lambda a: {"points": a.points[32:]}, "where 20 points of 32 bytes were due"),
    "a byte less": (lambda a: {"points": a.points[1:]}, "where 20 points of 32 bytes were due"),
    "no points": (lambda a: {"points": b""}, "where 20 points of 32 bytes were due"),
    "a point more": (lambda a: {"points": a.points + b"\xff" * 32}, "where 20 points of 32 bytes were due"),
    "another list than committed to": (
        lambda a: {"points": b"".join(sorted([NEUTRAL, *split(a.points)[1:]]))},
        "not those that were committed to",
    ),
    "an answer less": (lambda a: {"answers": a.answers[32:]}, "where 20 points were due"),
    "no answers": (lambda a: {"answers": b""}, "where 20 points were due"),
    "an answer twice": (lambda a: {"answers": twice(a.answers)}, "an answer comes twice"),
    "the neutral element": (lambda a: {"answers": NEUTRAL + a.answers[32:]}, "point 1 of 20 is not a point"),
    "a point of mixed order": (
        lambda a: {"answers": a.answers[:-32] + MIXED},
        "point 20 of 20 is not a point",
    ),
    "no point": (lambda a: {"answers": b"\2" + bytes(31) + a.answers[32:]}, "point 1 of 20 is not a point"),
    "its own points as answers": (lambda a: {"answers": a.points}, "one of the masked ids that were sent"),
}


@pytest.mark.parametrize("which", WRONG_ANSWERS)
def test_wrong_lists_and_answers_are_refused_by_name(which):
    change, message = WRONG_ANSWERS[which]
    party = bank(lie(AnswerIds, change))
    with pytest.raises(ProtocolError, match=f"party 'bank': .*{message}"):
        align([party], OURS)
    assert not any(isinstance(one, AlignRows) for one in party.requests)


def test_more_points_than_announced_are_refused(short_messages):
    party = bank(
        {AnswerIds: lambda honest: replace(honest, points=honest.points or b"\xff" * 32)}, THEIRS[:7]
    )
    with pytest.raises(ProtocolError, match="party 'bank': it sent more masked ids than it announced"):
        align([party], OURS)


class Mirror(Bank):
    """Sends back what it was sent: as its own list, or as its answers."""

    def __init__(self, what):
        super().__init__(Intersector(THEIRS, 1000, "bank"))
        self.what = what

    def handle(self, request):
        envelope = messages.read(request)
        message, answer = envelope.message, messages.read(super().handle(request)).message
        told = b"".join(one.points for one in self.requests if isinstance(one, TellIds))
        if isinstance(message, AnswerIds):
            answer = replace(answer, **{self.what: told})
        if isinstance(message, CommitIds) and self.what == "points":
            # As its own commitment it can give the one it has heard.
            answer = IdsCommitted(message.commitment)
        return messages.write(envelope.session, envelope.sequence, answer)


def test_reflected_points_are_refused():
    with pytest.raises(
        ProtocolError, match="party 'bank': masked ids were sent back that are this party's own"
    ):
        align([Mirror("answers")], OURS)
    # A copied commitment is to another role's list; and if it could be opened, the points would be our own.
    with pytest.raises(ProtocolError, match="party 'bank': masked ids are not those that were committed to"):
        align([Mirror("points")], OURS)
    own = OwnList(OURS, b"r" * 32, ACTIVE)
    own.mask_more()
    with pytest.raises(ProtocolError, match="this party's own"):
        masked_ids.refuse_reflection(own.points, b"\xff" * 32 + split(own.points)[7])


@pytest.mark.parametrize("point", [NEUTRAL, MIXED, *map(edwards.encoded, edwards.TORSION[1:])])
def test_wrong_points_in_a_list_that_was_committed_to_are_refused(point):
    """By the party that multiplies them: a lying active party and a lying passive one."""
    service = bank()
    mine = asker(service)
    mine.open()
    mine.mask()
    mine.own.points = b"".join(sorted([*split(mine.own.points)[1:], point]))
    mine.commit()
    assert isinstance(mine.tell(), messages.Done)
    assert "is not a point of the prime-order group" in mine.answer().reason
    assert "without an intersection" in mine.answer().reason

    party = bank()
    sort = OwnList.mask_more

    def with_a_wrong_point(own):
        n = sort(own)
        own.points = b"".join(sorted([*split(own.points)[1:], point]))
        return n

    class Liar(Bank):
        def handle(self, request):
            if isinstance(messages.read(request).message, MaskIds):
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(OwnList, "mask_more", with_a_wrong_point)
                    return super().handle(request)
            return super().handle(request)

    with pytest.raises(ProtocolError, match=r"party 'bank': point \d+ of 20 is not a point"):
        align([Liar(party.intersector)], OURS)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (OpenAlignment, lambda a: {"n_ids": 0}, "it has 0 ids"),
        (OpenAlignment, lambda a: {"n_ids": -1}, "it has -1 ids"),
        (OpenAlignment, lambda a: {"n_ids": 2**62}, "ids; 1 to 50000000 can be aligned"),
        (OpenAlignment, lambda a: {"nonce": b""}, "not of 32 bytes"),
        (OpenAlignment, lambda a: {"name": b"x" * 33}, "not of 32 bytes"),
        (OpenAlignment, lambda a: {"n_ids": 21}, "did not mask 21 further ids"),
        (MaskIds, lambda a: {"n_masked": 0}, "did not mask 20 further ids"),
        (MaskIds, lambda a: {"n_masked": 10**9}, "did not mask 20 further ids"),
        (CommitIds, lambda a: {"commitment": b""}, "a commitment has 0 bytes"),
        (CommitIds, lambda a: {"commitment": bytes(32)}, "not those that were committed to"),
        (AlignRows, lambda a: {"digest": b""}, "a masked digest has 0 bytes"),
        (AlignRows, lambda a: {"digest": NEUTRAL}, "is not a point"),
        (AlignRows, lambda a: {"digest": MIXED}, "is not a point"),
        (ProveRows, lambda a: {"proof": b""}, "aligned other rows"),
        (ProveRows, lambda a: {"proof": a.proof[:31]}, "aligned other rows"),
        (ProveRows, lambda a: {"proof": bytes(32)}, "aligned other rows"),
    ],
)
def test_other_wrong_answers_are_refused_by_name(kind, change, message):
    with pytest.raises(ProtocolError, match=f"party 'bank': .*{message}"):
        align([bank(lie(kind, change))], OURS)


def test_the_masked_digest_sent_back_is_not_a_proof():
    asked = []

    class Reflecting(Bank):
        def handle(self, request):
            envelope = messages.read(request)
            asked.append(envelope.message)
            if isinstance(envelope.message, AlignRows):
                answer = RowsFound(envelope.message.digest)
            elif isinstance(envelope.message, ProveRows):
                answer = RowsAligned(envelope.message.proof)
            else:
                return super().handle(request)
            return messages.write(envelope.session, envelope.sequence, answer)

    with pytest.raises(ProtocolError, match="party 'bank': aligned other rows"):
        align([Reflecting(Intersector(THEIRS, 100, "bank"))], OURS)


class LyingBank(Bank):
    """Makes all ids of the other match that it was told, by pairs of points of which it knows the relation.

    It knows one id of the other's at most: P = b·H(known) and b·(a·H(known)) match for any b.
    """

    def __init__(self, known):
        super().__init__(Intersector(["customer-010"], 1000, "bank"))
        self.known, self.keys = known, [random_scalar() for _ in range(4)]

    def handle(self, request):
        envelope = messages.read(request)
        message = envelope.message
        self.requests.append(message)
        if isinstance(message, OpenAlignment):
            self.opened = AlignmentOpened(b"m" * 32, bytes(32), 4)
            self.run = run_of(message, self.opened)
            answer = self.opened
        elif isinstance(message, MaskIds):
            hashed = hash_to_group([b"veilboost psi", self.run], [b"customer-010"])
            masked = {multiply(key, hashed): key for key in self.keys}
            self.points, self.keys = b"".join(sorted(masked)), [masked[point] for point in sorted(masked)]
            answer = IdsMasked(4)
        elif isinstance(message, CommitIds):
            self.commitment = message.commitment
            answer = IdsCommitted(masked_ids._commitment(self.run, masked_ids.PASSIVE, self.points))
        elif isinstance(message, TellIds):
            self.told = split(message.points)
            answer = messages.Done()
        elif isinstance(message, AnswerIds):
            answers = [multiply(key, self.told[self.known]) for key in self.keys]
            answer = IdsAnswered(self.points, b"".join(answers))
        elif isinstance(message, AlignRows):
            self.digest, self.asked = MaskedDigest(b"some digest", self.run, PASSIVE), message.digest
            answer = RowsFound(self.digest.point)
        else:
            proof, wanted = self.digest.proofs(self.asked, (self.commitment, bytes(32)))
            assert message.proof != wanted
            answer = RowsAligned(proof)
        return messages.write(envelope.session, envelope.sequence, answer)


def test_alignment_attack_by_a_bank_that_makes_all_ids_match_reads_none():
    """One id in common sufficed once: the others were sent in clear, as ids in common."""
    ids = ["acme-only-1", "customer-010", "acme-only-2", "acme-only-3"]
    reached = 0
    for known in range(4):
        liar = LyingBank(known)
        with pytest.raises((ProtocolError, InvalidDataError), match=r"aligned other rows|no row") as caught:
            align([liar], ids)
        reached += "other rows" in str(caught.value)
        sent = b"".join(messages.write(bytes(16), 0, one) for one in liar.requests)
        digest = alignment_module.Alignment(tuple(sorted(ids))).digest
        assert not any(secret in sent for secret in (b"acme-only", b"customer", digest))
    # The lie holds if it guesses which of the points is that of the id it knows.
    assert reached == 1


# An active party that lies.


def test_steps_out_of_order_end_the_alignment():
    steps = ("mask", "commit", "tell", "answer")
    due = ({"mask"}, {"mask", "commit"}, {"tell"}, {"answer"})
    for n_right in range(len(steps)):
        for wrong in set(steps) - due[n_right]:
            service = bank()
            mine = asker(service)
            mine.open()
            for name in steps[:n_right]:
                assert not isinstance(getattr(mine, name)(), messages.Refusal)
            assert "is not due in this alignment" in getattr(mine, wrong)().reason
            for name in steps:
                assert "without an intersection" in getattr(mine, name)().reason
            assert not service.alignments


def test_nothing_is_answered_twice():
    service = bank()
    mine = asker(service).until_answered()
    assert "AnswerIds is not due" in mine.answer().reason
    assert "without an intersection" in mine.align([0], ["x"]).reason
    mine = asker(service).until_answered()
    assert "TellIds is not due" in mine.tell().reason
    mine = asker(service).until_answered()
    assert "CommitIds is not due" in mine.commit().reason


def test_a_list_that_was_not_committed_to_is_not_answered():
    """Chosen after the other's commitment, or altered on the way: as little as one point."""
    for change in (
        lambda own: b"".join(sorted([*split(own)[1:], multiply(random_scalar(), own[:32])])),
        lambda own: b"".join(sorted([*split(own)[1:], edwards.encoded(edwards.GENERATOR)])),
    ):
        mine = asker(bank())
        mine.open(), mine.mask(), mine.commit()
        assert "not those that were committed to" in mine.tell(change(mine.own.points)).reason
        assert "without an intersection" in mine.answer().reason
    mine = asker(bank())
    mine.open(), mine.mask()
    assert "a commitment has 31 bytes" in mine.commit(b"c" * 31).reason


def test_lists_in_another_order_number_or_twice_are_refused():
    for change, reason in (
        (swapped, "not in ascending order"),
        (twice, "or one comes twice"),
        (lambda own: own[32:], "where 20 points of 32 bytes were due"),
        (lambda own: own + b"\xff" * 32, "where 20 points of 32 bytes were due"),
        (lambda own: own[:-1], "where 20 points of 32 bytes were due"),
        (lambda own: b"", "where 20 points of 32 bytes were due"),
    ):
        mine = asker(bank())
        mine.open(), mine.mask(), mine.commit()
        assert reason in mine.tell(change(mine.own.points)).reason
        assert "without an intersection" in mine.answer().reason


def test_order_holds_from_one_message_to_the_next(short_messages):
    mine = asker(bank())
    mine.open(), mine.mask(), mine.mask(), mine.mask(), mine.commit()
    assert isinstance(mine.tell(mine.own.points[: 7 * 32]), messages.Done)
    assert "not in ascending order" in mine.tell(mine.own.points[: 7 * 32]).reason


def test_the_passive_partys_points_cannot_be_known_before_the_own_ones_are_told():
    """An active party that reflects has nothing to reflect; if it had, it would be refused."""
    service = bank()
    mine = asker(service)
    mine.open(), mine.mask(), mine.commit(), mine.tell()
    told = [one for one in service.answers if isinstance(one, IdsAnswered)]
    assert not told
    mine = asker(service)
    mine.open(), mine.mask()
    mine.own.points = service.intersector._run._own.points
    mine.commit()
    assert "masked ids were sent back" in mine.tell().reason


def test_other_sessions_and_forgotten_ones_are_refused():
    service = bank()
    mine, other = asker(service), asker(service, session=b"t" * 16)
    mine.open()
    assert "without an intersection, or in another alignment's" in other.mask().reason
    assert isinstance(mine.mask(), IdsMasked)
    other.open()
    assert "without an intersection" in mine.commit().reason
    assert isinstance(other.mask(), IdsMasked)
    service.intersector.end_abandoned(1000)
    assert isinstance(other.mask(), IdsMasked)
    service.intersector.end_abandoned(-1)
    assert "without an intersection" in other.mask().reason


def test_another_certificate_than_the_one_shown_is_refused():
    """A party that passes an alignment on to another one shows its own certificate there."""
    intersector = Intersector(THEIRS, 100, "bank")
    opening = OpenAlignment(b"n" * 32, bytes.fromhex("ab" * 32), bytes(32), 20)
    assert isinstance(intersector.answer(b"s" * 16, opening, "ab" * 32)[0], AlignmentOpened)
    for shown in ("", "cd" * 32):
        with pytest.raises(ProtocolError, match="another certificate than the one shown"):
            intersector.answer(b"s" * 16, opening, shown)
    with pytest.raises(ProtocolError, match="another certificate than the one shown"):
        intersector.answer(b"s" * 16, replace(opening, certificate=bytes(32)), "ab" * 32)


def test_a_party_in_between_with_another_name_finds_no_rows():
    """It alters what each side says of the names: both then hash other points."""
    service = bank()

    class Between(Bank):
        def handle(self, request):
            envelope = messages.read(request)
            message = envelope.message
            if isinstance(message, OpenAlignment):
                message = replace(message, addressed=b"x" * 32)
            return service.handle(messages.write(envelope.session, envelope.sequence, message))

    # The passive party's commitment is to another run's list.
    with pytest.raises(ProtocolError, match="not those that were committed to"):
        align([Between(None)], OURS)


def test_wrong_sets_of_common_rows_are_refused():
    mine = asker(bank(), ids=OURS[:12]).until_answered()
    assert "0 rows were aligned" in mine.align([], ["x"]).reason
    mine = asker(bank(), ids=OURS[:12]).until_answered()
    assert "13 rows were aligned of 20, where 12 ids were told" in mine.align(range(13), ["x"]).reason
    for common in (np.zeros(2, np.uint8), np.zeros(4, np.uint8), np.full(3, 255, np.uint8)):
        mine = asker(bank(), ids=OURS[:12]).until_answered()
        answer = mine.ask(AlignRows(common, mine.own.points[:32]))
        assert "flags" in answer.reason
        assert "without an intersection" in mine.align([0], ["x"]).reason


def test_alignment_attack_by_the_active_party_aligns_no_rows_it_cannot_name():
    """It calls a row common whose id it does not know, and tries out digests of one id."""
    service = bank()
    mine = asker(service, ids=["customer-010", "b", "c"]).until_answered()
    positions, places = mine.matched()
    assert [mine.ids[k] for k in positions] == ["customer-010"]
    unknown = (int(places[0]) + 1) % 20
    assert "were not proven to be known" in mine.align([unknown], ["customer-010"]).reason
    assert not service.alignments
    # No second guess.
    assert "without an intersection" in mine.align([unknown], ["customer-011"]).reason
    for guess, right in (("customer-010", True), ("customer-011", False)):
        mine = asker(service, ids=["customer-010", "b", "c"]).until_answered()
        assert (mine.align(mine.matched()[1], [guess]) is True) is right
    assert [one.ids for one in service.alignments] == [("customer-010",)]


def test_alignment_attack_no_rows_are_kept_before_their_digest_is_proven():
    """All rows in common and one that is not, whose id 239 openings of sessions could then try out."""
    for wrong in ("nothing", "not due", "their own", "another run's", "short"):
        service = bank()
        earlier = asker(service)
        earlier.until_answered()
        assert earlier.align(earlier.matched()[1], COMMON) is True
        mine = asker(service).until_answered()
        places = mine.matched()[1]
        flags = np.zeros(20, dtype=bool)
        flags[places] = True
        flags[np.flatnonzero(~flags)[0]] = True
        if wrong == "not due":
            assert "ProveRows is not due" in mine.ask(ProveRows(bytes(32))).reason
            assert "without an intersection" in mine.align(places, COMMON).reason
        else:
            digest = MaskedDigest(b"nothing", mine.run, ACTIVE)
            found = mine.ask(AlignRows(messages.to_bits(flags), digest.point))
            assert vars(found).keys() == {"digest"}
            own, theirs = digest.proofs(found.digest, (mine.own.commitment, mine.committed.commitment))
            proofs = {"nothing": own, "their own": theirs, "another run's": earlier.proof, "short": b""}
            assert "were not proven to be known" in mine.ask(ProveRows(proofs[wrong])).reason
            # No second guess.
            assert "without an intersection" in mine.ask(ProveRows(own)).reason
        assert [one.ids for one in service.alignments] == [COMMON]


def test_rows_are_called_common_once():
    mine = asker(bank()).until_answered()
    flags = messages.to_bits(np.arange(20) == mine.matched()[1][0])
    assert isinstance(mine.ask(AlignRows(flags, mine.own.points[:32])), RowsFound)
    assert "AlignRows is not due" in mine.ask(AlignRows(flags, mine.own.points[:32])).reason


def test_a_proof_is_of_everything_that_was_said():
    digest = MaskedDigest(b"rows", b"r" * 32, ACTIVE)
    point, lists = MaskedDigest(b"rows", b"r" * 32, PASSIVE), (b"a" * 32, b"p" * 32)
    own, theirs = digest.proofs(point.point, lists)
    assert point.proofs(digest.point, lists) == (theirs, own)
    others = {own, theirs}
    for changed in ((b"x" * 32, b"p" * 32), (b"a" * 32, b"x" * 32), lists[::-1]):
        others |= set(digest.proofs(point.point, changed))
    for run, role in ((b"s" * 32, ACTIVE), (b"r" * 32, PASSIVE)):
        other = MaskedDigest(b"rows", b"r" * 32, ACTIVE)
        other._key, other.point, other._run, other._role = digest._key, digest.point, run, role
        others |= set(other.proofs(point.point, lists))
    assert len(others) == 12
    for other in (MaskedDigest(b"other", b"r" * 32, PASSIVE), MaskedDigest(b"rows", b"s" * 32, PASSIVE)):
        assert other.proofs(digest.point, lists)[1] != digest.proofs(other.point, lists)[0]


def test_digests_of_wrong_points_are_refused():
    for digest, reason in (
        (NEUTRAL, "not a point"),
        (MIXED, "not a point"),
        (b"", "0 bytes"),
        (b"x" * 64, "64"),
    ):
        service = bank()
        mine = asker(service).until_answered()
        answer = mine.ask(AlignRows(np.array([128, 0, 0], np.uint8), digest))
        assert reason in answer.reason
        assert not service.alignments


def test_ids_are_limited_and_counted_before_anything_is_made():
    intersector = Intersector(THEIRS, 40, "bank")
    for n_ids in (0, -1, 41, 2**62):
        with pytest.raises(ProtocolError, match=f"intersects 1 to 40 ids, not {n_ids}"):
            intersector.answer(b"s" * 16, OpenAlignment(bytes(32), bytes(32), bytes(32), n_ids))
    assert intersector._run is None


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=70), st.integers(-2, 30)), max_size=6))
def test_any_messages_are_answered_or_refused(requests):
    """No other error than those that are sent as refusals."""
    intersector = Intersector(THEIRS[:3], 10, "bank")
    for kind, octets, number in requests:
        made = (
            OpenAlignment(bytes(32), bytes(32), octets[:32].ljust(32), number),
            MaskIds(),
            CommitIds(octets[:32].ljust(number % 34)),
            TellIds(octets),
            AnswerIds(),
            AlignRows(np.frombuffer(octets[:2], np.uint8), octets[2:34]),
        )[kind]
        with suppress(ProtocolError):
            intersector.answer(b"s" * 16, made)


def test_a_refusal_by_the_other_party_names_it():
    with pytest.raises(PartyRefusedError, match=r"party 'bank' refuses: this party intersects 1 to 5 ids"):
        align([Bank(Intersector(THEIRS, 5, "bank"))], OURS)


def test_received_lists_take_no_more_than_comes_in():
    """A count is only a number: memory is taken by points that were sent."""
    received = ReceivedList(50_000_000, b"r" * 32, ACTIVE, bytes(32))
    assert received.n_received == 0
    with pytest.raises(ProtocolError, match="8192 points of 32 bytes were due, 0 of 50000000"):
        received.add(os.urandom(32))


def test_progress_is_shown_where_a_person_watches_and_nowhere_else(monkeypatch, capsys):
    bars = []

    class Bar(alignment_module.tqdm):
        def __init__(self, *args, **how):
            bars.append(self)
            assert how.pop("disable") is None
            super().__init__(*args, **how, disable=False)

    align([bank()], OURS)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(alignment_module, "tqdm", Bar)
    align([bank()], OURS)
    (bar,) = bars
    assert bar.n == bar.total == 2 * (len(OURS) + len(THEIRS))
    assert "aligning with bank" in capsys.readouterr().err
