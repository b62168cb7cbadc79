"""Three hospitals behind nodes of a platform: files, servers, and a carrier that relays in this process."""

from dataclasses import replace
from itertools import count

import numpy as np

import lgb_dp
from gbdt_parties import messages
from gbdt_parties.errors import PartyUnavailableError
from gbdt_parties.identity.certificates import TLS, Identity, make_authority, make_certificate
from gbdt_parties.secure_sum.keys import SessionKeys
from gbdt_parties.secure_sum.messages import Introduced
from gbdt_parties.secure_sum.roster import Introduction
from gbdt_parties.secure_sum.trust import Credentials
from gbdt_parties.transport.server import Server
from lgb_dp import federated
from lgb_dp.federated import run
from lgb_dp.mechanisms.rng import KeyStream, SecureRandom
from private_hospitals import write_rows
from veilboost import command_line
from veilboost.flower.carrier import NodeReply
from veilboost.flower.node import reply
from veilboost.plans.declared import read_declared
from veilboost.plans.plan import module_of, read_served
from veilboost.plans.tables import read_table
from xgb_fed import train_exact
from xgb_fed.horizontal.party import HorizontalParty

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
method = "{method}"
data = "{name}.csv"
tls = "certs/{name}"
allow = ["{name}-node"]
party = {others}
min_parties = 3
models = "{name}"
sessions_per_hour = {sessions}
"""
SERVED_AS = {
    "private": """
declared = "columns.toml"
budget = {budget}
""",
    "exact": """
label = "ill"
categorical_labels = true
drop = ["patient", "sex"]
max_rounds = {max_rounds}
""",
}
PLAN = """
method = "{method}"
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
min_parties = 3
timeout = {timeout}
patience = {patience}
"""
PLAN_OF = {
    "private": """
trees_per_round = {per_round}
epsilon = 1.0
delta = 1e-5

[parameters]
objective = "binary"
max_depth = 3
num_threads = 1
""",
    "exact": """
[parameters]
max_depth = 3
max_bin = 16
""",
}


def write_files(folder, method="private", budget=(1.5, 1e-5), max_rounds=100, sessions=240, **plan):
    """Certificates, rows and plans in a folder, which is the working directory; `plan` changes `PLAN`."""
    prints = {}
    # Of a name that recorded runs have: the command gives each authority one of its own.
    make_authority(folder / "certs" / "ca")
    for seed, name in enumerate(NAMES):
        assert command_line.main(["certs", name]) == 0
        make_certificate(folder / "certs" / f"{name}-node", folder / "certs" / "ca", f"{name}-node")
        certificate = (folder / "certs" / name / "party.pem").read_bytes()
        prints[name] = f"sha256:{Identity.of(certificate).fingerprint}"
        write_rows(folder / f"{name}.csv", 150, seed)
    (folder / "columns.toml").write_text(COLUMNS)
    for name in NAMES:
        others = [prints[other] for other in NAMES if other != name]
        about = {"budget": list(budget), "max_rounds": max_rounds, "sessions": sessions}
        text = (SERVED + SERVED_AS[method]).format(method=method, name=name, others=others, **about)
        (folder / f"{name}.toml").write_text(text)
    given = {"rounds": 6, "per_round": 3, "timeout": 5.0, "patience": 0.0, "method": method, **plan}
    (folder / "plan.toml").write_text((PLAN + PLAN_OF[method]).format(**given))


class Hospitals:
    """The parties' servers, in this process.

    Parameters
    ----------
    folder : Path
        Of their files.
    """

    def __init__(self, folder):
        self.folder, self._running = folder, {}

    def __enter__(self):
        for name in NAMES:
            self.start(name)
        return self

    def __exit__(self, *_):
        for name in list(self._running):
            self.stop(name)

    def start(self, name):
        """Start a party's server, on a port of its own."""
        method, served = read_served(self.folder / f"{name}.toml")
        tls = TLS.from_directory(served.tls)
        service = module_of(method, "veilboost.serving").make_service(served, tls).service
        self._running[name] = service, Server(service, "127.0.0.1:0", tls, served.allow)

    def stop(self, name):
        """Stop it; what it has not kept in its folder is lost."""
        service, server = self._running.pop(name)
        server.stop()
        service.close()

    def config(self, name):
        """The configuration of the party's node."""
        port = self._running[name][1].port if name in self._running else 1
        tls = str(self.folder / "certs" / f"{name}-node")
        return {"party": name, "address": f"127.0.0.1:{port}", "tls": tls}


class FakeCarrier:
    """Answers every message at once as a new process of a node would.

    Parameters
    ----------
    hospitals : Hospitals
    disturb : callable, optional
        Given the number of the message to a party from 1 on, 0 for the question of its name, its name, and a
        function that answers; gives the reply, or None for none.
    """

    def __init__(self, hospitals, disturb=None):
        self.hospitals, self.disturb = hospitals, disturb or (lambda number, name, answer: answer())
        self.named = dict(enumerate(NAMES, start=10))
        self.liars = {}
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
        return [*self.liars, *self.named]

    def push(self, to, requests, seconds):
        if to in self.gone:
            raise PartyUnavailableError(f"no node {to} any more")
        number, name = next(self._numbers), self.named.get(to)
        answered = None
        if to in self.liars:
            answered = self.liars[to](list(requests))
        elif name is not None:
            if requests:
                self.sent.append((name, list(requests)))
            mine = sum(one == name for one, _ in self.sent) if requests else 0
            config = self.hospitals.config(name)
            answered = self.disturb(mine, name, lambda: reply(config, list(requests), 60.0))
        if answered is not None:
            self.replies[str(number)] = answered
        return str(number)

    def pull(self, numbers):
        return {number: self.replies.pop(number) for number in numbers if number in self.replies}


class Forging:
    """A node that has a party's certificate, which is no secret, and session keys of its own.

    Parameters
    ----------
    folder : Path
        Of the hospitals' files.
    name : str
        The party's.
    """

    def __init__(self, folder, name):
        self.name, self.n_opened, self.keys = name, 0, SessionKeys()
        certificates = (folder / "certs" / name / "party.pem").read_bytes()
        self.signed_by = Credentials(certificates, Credentials.self_signed(name).key)

    def __call__(self, requests):
        return NodeReply(self.name, [self._answer(messages.read(one)) for one in requests])

    def _answer(self, asked):
        introduction = Introduction.of(self.name, self.signed_by, self.keys).to_bytes()
        said = Introduced(introduction, "{}", self.n_opened)
        self.n_opened += 1
        proof = self.signed_by.sign(said.digest(asked.session))
        return messages.write(asked.session, asked.sequence, replace(said, proof=proof))


def pinned_share(sums, variance, random):
    """A share of the noise that follows from the sums, in the place of `release_share`."""
    seed = [int(value) & 0xFFFFFFFF for value in np.asarray(sums).ravel()[:4]]
    return np.asarray(sums) + np.random.default_rng(seed).integers(-3000, 3000, np.shape(sums))


def public_stream(cls, key):
    """The stream of structures, whatever its key, in the place of `SecureRandom.public`."""
    random = SecureRandom()
    random.stream = KeyStream(bytes(range(32)))
    return random


def pin(setattr=setattr):
    """Make all that is random in a model the same in every run."""
    setattr(SecureRandom, "public", classmethod(public_stream))
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


def exact_in_process(folder, rounds):
    """The model, as JSON, that the same parties train exactly in this process."""
    parties = []
    for name in NAMES:
        table = read_table(folder / f"{name}.csv", label="ill", drop=["patient", "sex"])
        parties.append(HorizontalParty(table.columns, table.label, name, categorical_labels=True))
    params = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 16}
    return train_exact(params, parties, rounds, min_parties=3, verbose_eval=False).as_json()
