"""Parties of every kind of training as a release leaves them in the middle of a run, and how the run goes on.

A recording is a party's folder, as it was when its process ended before a request, and all requests from then
on, with the answers of the party that was started again.
"""

import itertools
import shutil
import struct
import tempfile
from pathlib import Path

import numpy as np

import lgb_dp.federated
import xgb_fed
from columns_apart import bank, trained
from gbdt_parties.identity.certificates import Identity, make_authority, make_certificate
from gbdt_parties.traffic import Traffic
from gbdt_parties.transport.server import NOBODY
from kept_stores import copied, end_process
from lgb_dp.vertical.service import ColumnService
from pinned_draws import Place, drawing_at
from recording import pinned
from small_keys import KEYS
from xgb_fed.boosting.features import read_columns
from xgb_fed.ciphers.okamoto_uchiyama import OkamotoUchiyama
from xgb_fed.vertical.passive.service import Limits, PassiveService

FOLDER = Path(__file__).parents[1] / "recorded"
RNG = np.random.default_rng(1)
X = RNG.normal(size=(120, 4)).round(1).astype(np.float32)
Y = (X[:, 0] + X[:, 2] + RNG.normal(size=120) > 0).astype(int)
PARAMS = {"objective": "binary:logistic", "max_depth": 2}


class Recorded:
    """A party that ends before a request, and whose conversation is recorded from then on.

    Parameters
    ----------
    make : callable
        Makes the party of a folder.
    folder : Path
        Its own.
    ends_at : int
        Number of the request.
    """

    def __init__(self, make, folder, ends_at):
        self._make, self._folder, self._left, self.pairs = make, folder, ends_at, []
        self.party, self.copy = make(folder), None
        self.name = self.party.name

    def handle(self, request):
        """Answer a request, by the party that is there."""
        self._left -= 1
        if self._left == 0:
            self.party.close()
            end_process(self._folder)
            self.copy = copied(self._folder, self._folder.with_name("copy"))
            self.party = Restarted(self._make, self._folder)
        answer = self.party.handle(request)
        if self.copy is not None:
            self.pairs.append((bytes(request), bytes(answer)))
        return answer


class Restarted:
    """A party that was started again, with draws of its own."""

    def __init__(self, make, folder):
        self._place = Place("a party that was started again")
        with drawing_at(self._place):
            self._party = make(folder)
        self.close = self._party.close

    def handle(self, request):
        """Answer a request."""
        with drawing_at(self._place):
            return self._party.handle(request)


def exact(folder):
    return member(0, directory=folder)


def member(k, **more):
    rows = slice(k, None, 2)
    return xgb_fed.HorizontalParty(X[rows], Y[rows], f"h{k}", categorical_labels=True, n_jobs=1, **more)


def hospital(folder, k=0):
    rows = slice(k, None, 2)
    return lgb_dp.federated.Party(
        X[rows], Y[rows], name=f"h{k}", folder=folder, budget=(20.0, 1e-5), bounds=(-3, 3), max_bin=8
    )


class Passive:
    """A passive party as its server calls it."""

    def __init__(self, folder):
        class Table:
            columns, ids, has_ids = read_columns(X[:, 2:], "X"), [str(k) for k in range(len(X))], False

        limits = Limits(min_rows=2, allow_weak_key=True, max_statistics=np.inf)
        self.name = "bank"
        self._service = PassiveService(Table, folder, "bank", limits)
        self.close = self._service.close

    def handle(self, request):
        """Answer a request of the only caller."""
        return self._service.handle(Identity("acme", "", NOBODY.expires), (), request)


def certificates():
    """Folders of certificates, and fingerprints, by name: the same whenever they are made."""
    folder = Path(tempfile.mkdtemp())
    with pinned("recorded certificates"):
        make_authority(folder / "ca")
        made = {name: make_certificate(folder / name, folder / "ca", name) for name in ("hospital", "bank")}
    return {name: (folder / name, f"sha256:{one.fingerprint}") for name, one in made.items()}


class Columns:
    """A party with columns alone as its server calls it."""

    name = "bank"

    def __init__(self, folder):
        known = certificates()
        tls, self._caller = known["bank"][0], Identity("hospital", known["hospital"][1][7:], NOBODY.expires)
        party = bank(folder=folder, budget=(40.0, 1e-5), tls=tls, allowed=[known["hospital"][1]])
        self._service = ColumnService(party, folder)
        self.close = self._service.close

    def handle(self, request):
        """Answer a request of the only caller."""
        return self._service.handle(self._caller, (), request)


def tables_apart(party):
    known = certificates()
    trained(party, tls=known["hospital"][0], allowed=[known["bank"][1]], patience=10)


class Key:
    """The cipher of tests, with a short key that is made once."""

    def generate(self):
        return KEYS[OkamotoUchiyama]


def grown_apart(party):
    active, traffic = xgb_fed.ActiveData(X[:, :2], Y), Traffic()
    how = {"cipher": Key(), "verbose_eval": False, "patience": 10, "traffic": traffic}
    model = xgb_fed.train({**PARAMS, "max_bin": 8}, active, [party], 2, **how)
    model.predict(X[:, :2], [party])


def summed(party):
    xgb_fed.train_exact({**PARAMS, "max_bin": 4}, [party, member(1)], 2, verbose_eval=False, patience=10)


def similar(party):
    xgb_fed.train_simfl(PARAMS, [party, member(1)], 4, hash_seed=0, verbose_eval=False, patience=10)


def private(party):
    params, trainer = {"objective": "binary", "max_depth": 2, "verbosity": -1}, lgb_dp.NewtonBoost(10.0, 1e-5)
    lgb_dp.federated.train(params, [party, hospital(None, 1)], 4, callbacks=[trainer], patience=10)


RUNS = {
    "exact": (exact, summed, 12),
    "simfl": (exact, similar, 13),
    "private": (hospital, private, 9),
    "vertical": (Passive, grown_apart, 8),
    "columns": (Columns, tables_apart, 9),
}
"""By kind of training: what makes the party, who trains with it, and before which request it ends."""


def record(kind):
    """Record a party anew."""
    make, train, ends_at = RUNS[kind]
    with tempfile.TemporaryDirectory() as made, pinned(f"recorded {kind}"):
        party = Recorded(make, Path(made) / "party", ends_at)
        train(party)
        party.party.close()
        to = FOLDER / kind
        shutil.rmtree(to, ignore_errors=True)
        shutil.copytree(party.copy, to / "party", ignore=shutil.ignore_patterns("*-lock"))
    with open(to / "conversation", "wb") as file:
        for one in itertools.chain.from_iterable(party.pairs):
            file.write(struct.pack("<I", len(one)) + one)


def conversation(kind):
    """Requests and answers of a recording."""
    content, at, parts = (FOLDER / kind / "conversation").read_bytes(), 0, []
    while at < len(content):
        (size,) = struct.unpack_from("<I", content, at)
        parts.append(content[at + 4 : at + 4 + size])
        at += 4 + size
    return list(zip(parts[::2], parts[1::2], strict=True))
