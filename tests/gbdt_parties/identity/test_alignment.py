"""The protocol of an alignment: what honest parties find, and what each does when the other lies."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alignments import MIXED, NEUTRAL, OURS, THEIRS, Bank, asker, bank, split, swapped, twice
from gbdt_parties import messages
from gbdt_parties.curve_group import hash_to_group, multiply, random_scalar
from gbdt_parties.errors import InvalidDataError, PartyRefusedError, ProtocolError
from gbdt_parties.identity import alignment as alignment_module
from gbdt_parties.identity import masked_ids
from gbdt_parties.identity.alignment import align
from gbdt_parties.identity.alignment_messages import (
    AlignmentOpened,
    AlignRows,
    AnswerIds,
    AskForm,
    CommitIds,
    FormTold,
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
from gbdt_parties.identity.masked_ids import ACTIVE, PASSIVE, MaskedDigest, run_of
from gbdt_parties.identity.row_ids import FORMS

pytest.importorskip("nacl")

COMMON = tuple(f"customer-{k:03d}" for k in range(10, 20))


# Honest parties.


@settings(max_examples=12, deadline=None)
@given(
    st.sets(st.integers(0, 40).map(str), min_size=1, max_size=25),
    st.sets(st.integers(0, 40).map(str), min_size=1, max_size=25),
)
def test_alignment_is_the_intersection(ours, theirs):
    party = bank(ids=sorted(theirs, reverse=True))
    if not ours & theirs:
        with pytest.raises(InvalidDataError, match="row is held"):
            align([party], list(ours))
        return
    assert align([party], list(ours)).ids == tuple(sorted(ours & theirs))
    assert [one.ids for one in party.alignments] == [tuple(sorted(ours & theirs))]


def test_a_party_learns_the_rows_of_all_and_not_those_of_two():
    first, second = bank(name="a", ids=OURS[:15]), bank(name="b", ids=OURS[10:])
    assert align([first, second], OURS).ids == tuple(OURS[10:15])
    for party in (first, second):
        (request,) = (one for one in party.requests if isinstance(one, AlignRows))
        assert int(np.unpackbits(request.common).sum()) == 5
        assert [one.ids for one in party.alignments] == [tuple(OURS[10:15])]


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
            commitments.add(masked_ids.commitment_to(run, role, b"p" * 64))
            commitments.add(masked_ids.commitment_to(run, role, b"p" * 32))
    assert len(commitments) == 32
    for wrong in (replace(opening, nonce=b"a" * 31), replace(opening, certificate=b"")):
        with pytest.raises(ProtocolError, match="not of 32 bytes"):
            run_of(wrong, opened)


@pytest.mark.parametrize(
    ("ours", "theirs", "own_form", "their_form"),
    [
        (["7", "8"], ["7.0", "8.0"], "integers", "decimal numbers"),
        (["AB-1", "AB-2"], ["ab-1", "ab-2"], "text in upper case", "text in lower case"),
        (["2024-01-02T03:04:05"], ["2024-01-02 03:04:05Z"], "times with a T", "times with a blank"),
    ],
)
def test_where_no_row_is_in_common_the_error_has_the_forms_of_ids_and_no_id(
    ours, theirs, own_form, their_form
):
    with pytest.raises(InvalidDataError, match="row is held") as caught:
        align([bank(ids=theirs)], ours)
    assert f"most ids here are {own_form}, those of bank {their_form}" in str(caught.value)
    assert not any(one in str(caught.value) for one in (*ours, *theirs))


def test_the_form_of_ids_is_not_asked_for_where_rows_are_in_common():
    party = bank()
    align([party], OURS)
    assert not any(isinstance(one, AskForm) for one in party.requests)
    # Nor told before all ids were: it would be known of ids that are not compared.
    mine = asker(bank(ids=["1"]), ["2"])
    mine.open(), mine.mask(), mine.commit(), mine.tell()
    assert "AskForm is not due" in mine.ask(AskForm()).reason


@pytest.mark.parametrize("place", [-1, len(FORMS), 2**62, -(2**63)])
def test_a_form_that_there_is_not_is_refused(place):
    with pytest.raises(ProtocolError, match=r"party 'bank': .*(told a form|FormTold)"):
        align([bank(lie(AskForm, lambda _: {"form": place}), ids=["x"])], ["y"])


def test_a_party_of_an_earlier_release_tells_no_form():
    refused = {AskForm: lambda _: messages.refusal("unknown kind of message 71")}
    with pytest.raises(InvalidDataError, match=r"ids.*integers"):
        align([bank(refused, ids=["x"])], ["1"])


# A passive party that lies.


def lie(kind, change):
    """The honest answer with some fields made from it."""
    return {kind: lambda honest: replace(honest, **change(honest))}


WRONG_ANSWERS = {
    "points in another order": (lambda a: {"points": swapped(a.points)}, "must ascend"),
    "a point twice": (lambda a: {"points": twice(a.points)}, "each sent once"),
    "a point less": (lambda a: {"points": a.points[32:]}, "where 20 points of 32 bytes were due"),
    "a byte less": (lambda a: {"points": a.points[1:]}, "where 20 points of 32 bytes were due"),
    "no points": (lambda a: {"points": b""}, "where 20 points of 32 bytes were due"),
    "a point more": (lambda a: {"points": a.points + b"\xff" * 32}, "where 20 points of 32 bytes were due"),
    "another list than committed to": (
        lambda a: {"points": b"".join(sorted([NEUTRAL, *split(a.points)[1:]]))},
        "differ from the commitment",
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
    with pytest.raises(ProtocolError, match=r"party 'bank'.*announced"):
        align([party], OURS)


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        (OpenAlignment, lambda a: {"n_ids": 0}, "it has 0 ids"),
        (OpenAlignment, lambda a: {"n_ids": -1}, "n_ids of AlignmentOpened must be"),
        (OpenAlignment, lambda a: {"n_ids": 2**62}, "n_ids of AlignmentOpened must be"),
        (OpenAlignment, lambda a: {"n_ids": 2**30}, "ids; 1 to 50000000 can be aligned"),
        (OpenAlignment, lambda a: {"nonce": b""}, "not of 32 bytes"),
        (OpenAlignment, lambda a: {"name": b"x" * 33}, "not of 32 bytes"),
        (OpenAlignment, lambda a: {"n_ids": 21}, "did not mask 21 further ids"),
        (MaskIds, lambda a: {"n_masked": 0}, "did not mask 20 further ids"),
        (MaskIds, lambda a: {"n_masked": 10**9}, "did not mask 20 further ids"),
        (CommitIds, lambda a: {"commitment": b""}, "a commitment has 0 bytes"),
        (CommitIds, lambda a: {"commitment": bytes(32)}, "differ from the commitment"),
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

    with pytest.raises(ProtocolError, match="'bank': aligned"):
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
            answer = IdsCommitted(masked_ids.commitment_to(self.run, masked_ids.PASSIVE, self.points))
        elif isinstance(message, TellIds):
            self.told = split(message.points)
            answer = messages.Done()
        elif isinstance(message, AnswerIds):
            answers = [multiply(key, self.told[self.known]) for key in self.keys]
            answer = IdsAnswered(self.points, b"".join(answers))
        elif isinstance(message, AlignRows):
            self.digest, self.asked = MaskedDigest(b"some digest", self.run, PASSIVE), message.digest
            answer = RowsFound(self.digest.point)
        elif isinstance(message, AskForm):
            answer = FormTold(0)
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
        with pytest.raises((ProtocolError, InvalidDataError), match=r"aligned other|no row") as caught:
            align([liar], ids)
        reached += "other rows" in str(caught.value)
        sent = b"".join(messages.write(bytes(16), 0, one) for one in liar.requests)
        digest = alignment_module.Alignment(tuple(sorted(ids))).digest
        assert not any(secret in sent for secret in (b"acme-only", b"customer", digest))
    # The lie holds if it guesses which of the points is that of the id it knows.
    assert reached == 1


# An active party that lies.


def test_the_passive_partys_points_cannot_be_known_before_the_own_ones_are_told():
    """An active party that reflects has nothing to reflect; if it had, it would be refused."""
    service = bank()
    mine = asker(service)
    mine.open(), mine.mask(), mine.commit(), mine.tell()
    told = [one for one in service.answers if isinstance(one, IdsAnswered)]
    assert not told
    mine = asker(service)
    mine.open(), mine.mask()
    mine.own.points = service.intersector.run.own.points
    mine.commit()
    assert "masked ids were sent back" in mine.tell().reason


def test_another_certificate_than_the_one_shown_is_refused():
    """A party that passes an alignment on to another one shows its own certificate there."""
    intersector = Intersector(THEIRS, 100, "bank")
    opening = OpenAlignment(b"n" * 32, bytes.fromhex("ab" * 32), bytes(32), 20)
    assert isinstance(intersector.answer(b"s" * 16, opening, "ab" * 32)[0], AlignmentOpened)
    for shown in ("", "cd" * 32):
        with pytest.raises(ProtocolError, match=r"certificate.*shown"):
            intersector.answer(b"s" * 16, opening, shown)
    with pytest.raises(ProtocolError, match=r"certificate.*shown"):
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
    with pytest.raises(ProtocolError, match="commitment"):
        align([Between(None)], OURS)


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
        other.key, other.point, other.run, other.role = digest.key, digest.point, run, role
        others |= set(other.proofs(point.point, lists))
    assert len(others) == 12
    for other in (MaskedDigest(b"other", b"r" * 32, PASSIVE), MaskedDigest(b"rows", b"s" * 32, PASSIVE)):
        assert other.proofs(digest.point, lists)[1] != digest.proofs(other.point, lists)[0]


def test_a_refusal_by_the_other_party_names_it():
    with pytest.raises(PartyRefusedError, match=r"'bank'.*intersects 1 to 5 ids"):
        align([Bank(Intersector(THEIRS, 5, "bank"))], OURS)


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
