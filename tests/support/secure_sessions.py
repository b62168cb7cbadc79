"""Parties of a secure sum, ready to contribute."""

from gbdt_parties.secure_sum.contributions import Attempt, SecureSession
from gbdt_parties.secure_sum.encapsulations import Encapsulations, PairSecrets, forwarded_to
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.roster import Introduction, Roster
from gbdt_parties.secure_sum.trust import Credentials

NAMES = ("ada", "bob", "cyd")
CREDENTIALS = {name: Credentials.self_signed(name) for name in NAMES}
STATEMENT = bytes(32)


def introductions(names=NAMES):
    """Fresh keys and introductions."""
    keys = [SessionKeys() for _ in names]
    return keys, [Introduction.of(n, CREDENTIALS[n], k) for n, k in zip(names, keys, strict=True)]


def sessions(session=bytes(16), names=NAMES):
    """The sides of all parties."""
    keys, own = introductions(names)
    roster = Roster(session, STATEMENT, tuple(own))
    pairs = pair_secrets(roster, keys)
    return [SecureSession(k, roster, one, two) for k, one, two in zip(keys, own, pairs, strict=True)]


def pair_secrets(roster, keys):
    """Secrets by ML-KEM-768 of all parties, by honest messages."""
    places = range(len(keys))
    made = [Encapsulations.to_earlier(roster, k) for k in places]
    sent = [made[k].signed(roster, k, keys[k]) for k in places]
    forwarded = [forwarded_to(k, roster.names, sent) for k in places]
    return [PairSecrets.of(roster, k, keys[k], made[k], forwarded[k]) for k in places]


def attempt(round=1, number=1, members=(0, 1, 2), question=bytes(32)):
    return Attempt(round, number, members, question)
