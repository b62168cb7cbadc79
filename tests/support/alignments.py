"""Two sides of an alignment without a network: a party behind an `Intersector`, and one that asks by hand."""

import numpy as np

import edwards
from gbdt_parties import messages
from gbdt_parties.errors import ProtocolError
from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.identity.alignment_messages import (
    AlignmentOpened,
    AlignRows,
    AnswerIds,
    CommitIds,
    IdsAnswered,
    MaskIds,
    OpenAlignment,
    ProveRows,
    TellIds,
)
from gbdt_parties.identity.intersector import Intersector
from gbdt_parties.identity.masked_ids import (
    ACTIVE,
    PASSIVE,
    MaskedDigest,
    OwnList,
    ReceivedList,
    matches,
    run_of,
)

THEIRS = [f"customer-{k:03d}" for k in range(10, 30)]
OURS = [f"customer-{k:03d}" for k in range(20)]
MIXED = edwards.encoded(edwards.add(edwards.GENERATOR, edwards.TORSION[4]))
NEUTRAL = edwards.encoded(edwards.NEUTRAL)


class Bank:
    """A party that answers by its intersector, and may change the answer to one kind of message.

    Parameters
    ----------
    intersector : Intersector
    lies : dict
        For a kind of request, what makes another answer from the honest one.
    """

    def __init__(self, intersector, lies=None, name="bank"):
        self.intersector, self.lies, self.name = intersector, lies or {}, name
        self.requests, self.answers, self.alignments = [], [], []

    def handle(self, request):
        envelope = messages.read(request)
        self.requests.append(envelope.message)
        try:
            answer, alignment = self.intersector.answer(envelope.session, envelope.message)
            self.alignments += [alignment] if alignment else []
        except ProtocolError as error:
            answer = messages.refusal(str(error))
        answer = self.lies.get(type(envelope.message), lambda honest: honest)(answer)
        self.answers.append(answer)
        return messages.write(envelope.session, envelope.sequence, answer)


class Asker:
    """The active party step by step; `ask` sends a message and gives the answer or the refusal."""

    def __init__(self, ask, ids, certificate=bytes(32)):
        self.ask, self.ids = ask, list(ids)
        self.opening = OpenAlignment(b"n" * 32, certificate, bytes(32), len(self.ids))

    def open(self):
        self.opened = self.ask(self.opening)
        if isinstance(self.opened, AlignmentOpened):
            self.run = run_of(self.opening, self.opened)
            self.own = OwnList(self.ids, self.run, ACTIVE)
            while not self.own.is_masked:
                self.own.mask_more()
        return self.opened

    def mask(self):
        return self.ask(MaskIds())

    def commit(self, commitment=None):
        self.committed = self.ask(CommitIds(self.own.commitment if commitment is None else commitment))
        return self.committed

    def tell(self, points=None):
        return self.ask(TellIds(self.own.points if points is None else points))

    def answer(self):
        self.answered = self.ask(AnswerIds())
        return self.answered

    def matched(self):
        """Own positions and the other's places of the ids that both have."""
        theirs = ReceivedList(self.opened.n_ids, self.run, PASSIVE, self.committed.commitment)
        theirs.add(self.answered.points)
        return matches(self.own, theirs, self.own.answers(theirs.points), self.answered.answers)

    def until_answered(self):
        for step in (self.open, self.mask, self.commit, self.tell, self.answer):
            assert not isinstance(step(), messages.Refusal)
        assert isinstance(self.answered, IdsAnswered)
        return self

    def align(self, places, ids):
        """Call these places of the other's list common, and name the rows as if they were these ids.

        Returns
        -------
        bool or Refusal
            Whether the other party proved to have found the same ids.
        """
        flags = np.zeros(self.opened.n_ids, dtype=bool)
        flags[list(places)] = True
        self.digest = MaskedDigest(Alignment(tuple(sorted(ids))).digest, self.run, ACTIVE)
        self.found = self.ask(AlignRows(messages.to_bits(flags), self.digest.point))
        if isinstance(self.found, messages.Refusal):
            return self.found
        commitments = (self.own.commitment, self.committed.commitment)
        self.proof, wanted = self.digest.proofs(self.found.digest, commitments)
        self.aligned = self.ask(ProveRows(self.proof))
        if isinstance(self.aligned, messages.Refusal):
            return self.aligned
        return self.aligned.proof == wanted


def bank(lies=None, ids=THEIRS, name="bank"):
    return Bank(Intersector(ids, 1000, name), lies, name)


def split(points):
    return [points[k : k + 32] for k in range(0, len(points), 32)]


def asker(service, ids=OURS, session=b"s" * 16, **how):
    def ask(message):
        return messages.read(service.handle(messages.write(session, 0, message))).message

    return Asker(ask, ids, **how)


def swapped(points):
    one, other, *rest = split(points)
    return b"".join((other, one, *rest))


def twice(points):
    one, _, *rest = split(points)
    return b"".join((one, one, *rest))
