"""Three hospitals behind nodes of a platform: their files, and a carrier that answers in this process."""

from itertools import count

import numpy as np

import lgb_dp
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.identity.certificates import Identity
from lgb_dp import federated
from lgb_dp.federated import replica, run
from lgb_dp.mechanisms.rng import KeyStream, SecureRandom
from private_hospitals import write_rows
from veilboost import command_line
from veilboost.flower import node
from veilboost.plans.declared import read_declared

NAMES = ("north", "south", "west")
COLUMNS = """
label = "ill"
max_bin = 32

[bounds]
age = [0, 100]
pressure = [60, 200]

[categories]
sex = ["f", "m"]
"""
SERVED = """
method = "private"
declared = "columns.toml"
data = "{name}.csv"
tls = "certs/{name}"
allow = ["flower"]
party = {others}
budget = {budget}
min_parties = 3
models = "{name}"
"""
PLAN = """
method = "private"
tls = "certs/north"

[[parties]]
name = "north"
address = "unused:1"

[[parties]]
name = "south"
address = "unused:1"

[[parties]]
name = "west"
address = "unused:1"

[training]
rounds = {rounds}
trees_per_round = {per_round}
epsilon = 1.0
delta = 1e-5
min_parties = 3
timeout = {timeout}
patience = {patience}

[parameters]
objective = "binary"
max_depth = 3
num_threads = 1
"""


def write_files(folder, budget=(1.5, 1e-5), **plan):
    """Certificates, rows and plans in a folder, which is the working directory; `plan` changes `PLAN`."""
    prints = {}
    for seed, name in enumerate(NAMES):
        assert command_line.main(["certs", name]) == 0
        certificate = (folder / "certs" / name / "party.pem").read_bytes()
        prints[name] = f"sha256:{Identity.of(certificate).fingerprint}"
        write_rows(folder / f"{name}.csv", 150, seed)
    (folder / "columns.toml").write_text(COLUMNS)
    for name in NAMES:
        others = [prints[other] for other in NAMES if other != name]
        (folder / f"{name}.toml").write_text(SERVED.format(name=name, others=others, budget=list(budget)))
    given = {"rounds": 6, "per_round": 3, "timeout": 5.0, "patience": 0.0, **plan}
    (folder / "plan.toml").write_text(PLAN.format(**given))


class FakeCarrier:
    """Answers every message at once as a new process would, from the party's folder alone.

    Parameters
    ----------
    folder : Path
    disturb : callable, optional
        Given the number of the message to a party from 1 on, 0 for the question of its name, its name, and a
        function that answers; gives the reply, or None for none.
    """

    def __init__(self, folder, disturb=None):
        self.folder, self.disturb = folder, disturb or (lambda number, name, answer: answer())
        self.named = dict(enumerate(NAMES, start=10))
        self.gone = set()
        self.sent, self.replies, self._numbers = [], {}, count(1)

    def restart(self, name, *, is_known=True):
        """The party's node comes back as another one; the old one is silent, or no node any more."""
        (node,) = (node for node, one in self.named.items() if one == name)
        del self.named[node]
        if not is_known:
            self.gone.add(node)
        self.named[node + 100] = name

    def nodes(self):
        return list(self.named)

    def push(self, to, requests, seconds):
        if to in self.gone:
            raise PartyUnavailableError(f"no node {to} any more")
        number, name = next(self._numbers), self.named.get(to)
        if requests:
            self.sent.append((name, list(requests)))
        if name is not None:
            mine = sum(one == name for one, _ in self.sent) if requests else 0
            reply = self.disturb(mine, name, lambda: node.reply(self.folder / f"{name}.toml", list(requests)))
            if reply is not None:
                self.replies[str(number)] = reply
        return str(number)

    def pull(self, numbers):
        return {number: self.replies.pop(number) for number in numbers if number in self.replies}


def pinned_share(sums, variance, random):
    """A share of the noise that follows from the sums, in the place of `release_share`."""
    seed = [int(value) & 0xFFFFFFFF for value in np.asarray(sums).ravel()[:4]]
    return np.asarray(sums) + np.random.default_rng(seed).integers(-3000, 3000, np.shape(sums))


def public_stream(cls, key):
    """The stream of structures, whatever its key, in the place of `SecureRandom.public`."""
    random = SecureRandom()
    random._stream = KeyStream(bytes(range(32)))
    return random


def pin(setattr=setattr):
    """Make all that is random in a model the same in every run."""
    setattr(replica.SecureRandom, "public", classmethod(public_stream))
    setattr(run, "release_share", pinned_share)


def in_process(folder, rounds=6, per_round=3):
    """The text of the model that the same parties train in this process."""
    declared = read_declared(folder / "columns.toml")
    parties = []
    for name in NAMES:
        rows = declared.table_of(folder / f"{name}.csv")
        own = {**declared.arguments(), **rows.own}
        parties.append(federated.Party(rows.features, rows.label, name=name, min_parties=3, **own))
    booster = federated.train(
        {"objective": "binary", "max_depth": 3, "num_threads": 1},
        parties,
        rounds,
        callbacks=[lgb_dp.NewtonBoost(1.0, 1e-5)],
        min_parties=3,
        trees_per_round=per_round,
    )
    return booster.model_to_string(num_iteration=-1)
