"""Ways of training in a simulated world, each with the promises that every step of it must keep."""

import hashlib
import json
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np

import exact_training
import federated_training
from federated_training import NAMES
from gbdt_parties.errors import PartyRefusedError
from gbdt_parties.messages import read, write
from gbdt_parties.secure_sum.contributions import SIGNATURE_BYTES, SecureSession
from gbdt_parties.secure_sum.messages import AskSum, Contributed, OpenRun
from lgb_dp import Dataset
from lgb_dp.accounting.cost import Cost
from lgb_dp.federated.replica import NoisedQuestion
from simulated_columns import Columns
from simulated_world import Node, demand, on_disk
from simulated_xgboost import SecureBoost, SimFL

MU, STD, N_VALUES = 0.25, 1000.0, 6
HEAD_BYTES = 10


class SecureSums:
    """Rows apart: what every party sends is kept by an observer who knows all secrets."""

    store_file = kind = ""

    def __init__(self, world, n_parties):
        self.world, self.runs, self.given, self.made, self.masks = world, {}, {}, {}, {}
        self.nodes = [
            Node(world, NAMES[k], lambda folder, k=k: self.party(k, n_parties, folder), self)
            for k in range(n_parties)
        ]

    @contextmanager
    def watched(self):
        """Note the vector inside of every contribution."""
        contribute = SecureSession.contribute

        def noted(session, attempt, ring, values):
            content = contribute(session, attempt, ring, values)
            self.made[content] = session.roster, session.place, attempt, ring, values
            return content

        with patch.object(SecureSession, "contribute", noted):
            yield

    def play(self):
        """The model, or an error."""
        return self.world.lead(self.train)

    def saw(self, node, request, answer):
        """Check an answer that has left a party."""
        asked, answer = read(request), read(answer).message
        if isinstance(asked.message, OpenRun):
            self.runs[asked.session] = asked.message.run
        if isinstance(asked.message, AskSum) and isinstance(answer, Contributed) and answer.content:
            self.left(node, self.runs[asked.session], asked.message, answer.content)

    def lie(self, request):
        """A request that a coordinator, or one that pretends to be it, makes of one that was answered."""
        asked, random = read(request), self.world.random
        if not isinstance(asked.message, AskSum):
            return None
        members, places = asked.message.members, range(len(self.nodes))
        if random.random() < 0.5:
            members = np.array(sorted(random.sample(places, random.randint(1, len(places)))), np.int32)
        number = max(1, asked.message.number + random.choice((-1, 0, 0, 1)))
        lie = replace(asked.message, number=number, members=members)
        return bytes(write(asked.session, asked.sequence + 1, lie))

    def left(self, node, run, asked, content):
        """A contribution has left: it is the only one of its attempt, and has masks of its own."""
        roster, place, attempt, ring, values = self.made[content]
        demand(roster.names[place] == node.name, "a party has sent what another one made")
        demand((attempt.round, attempt.number) == (asked.round, asked.number), "another attempt was answered")
        demand(attempt.members == tuple(asked.members.tolist()), "an answer has other members")
        if self.world.is_rolled_back:
            return
        key = node.name, run, asked.number
        demand(self.given.setdefault(key, content) == content, f"{key} was answered twice differently")
        masked = ring.from_bytes(content[-SIGNATURE_BYTES - values.nbytes : -SIGNATURE_BYTES])
        mask = ring.subtract(masked, values).tobytes()
        demand(self.masks.setdefault((node.name, mask), content) == content, "a mask was used twice")
        self.is_charged(node, roster, run, asked)

    def check(self, result):
        """Check what has come out."""
        world = self.world
        world.is_calm = True
        if isinstance(result, Exception):
            # A liar can take the number that an honest coordinator would have used.
            has_lied = any(one.startswith("lie ") for one in world.trace)
            demand(world.is_rolled_back or has_lied or self.may_refuse(result), f"refused: {result}")
            return
        self.check_model(result)

    def may_refuse(self, error):
        """Whether an error may end a run in which all parties are honest and have their newest folders."""
        return False


class PrivateSums(SecureSums):
    """Private rows apart, with toy questions in the place of trees; the model is all opened sums."""

    name, n_rounds = "private", 3

    def __init__(self, world):
        self.n_spare = world.random.randint(0, 6)
        super().__init__(world, world.random.randint(2, 4))

    @contextmanager
    def watched(self):
        party, run = "lgb_dp.federated.party", "lgb_dp.federated.run"
        with (
            super().watched(),
            patch(f"{run}.train_replica", toy_replica),
            patch("lgb_dp.federated.coordinator.DPBooster", ToyModel),
            patch(f"{party}.Dataset", lambda *data, **settings: ROWS),
        ):
            yield

    def party(self, k, n_parties, folder):
        return federated_training.party(k, 4, folder=folder, budget=(30.0, 1e-5))

    def train(self, folder):
        n_attempts = self.n_rounds + self.n_spare
        how = {"max_attempts": n_attempts, "patience": 120.0, "checkpoint": folder / "kept"}
        return federated_training.train(self.nodes, self.n_rounds, **how)

    def is_charged(self, node, roster, run, asked):
        charges = on_disk(self.world, node.folder / "ledger.store", "charges")
        found = [one for one in charges if (one["run"], one["number"]) == (run.hex(), asked.number)]
        demand(len(found) == 1, f"{node.name}: {len(found)} charges for attempt {asked.number} that has left")
        demand(found[0]["session"] == roster.digest.hex(), "a charge is of another roster")
        demand(found[0]["mu"] == MU and found[0]["parties"] == len(asked.members), "a charge is too low")

    def may_refuse(self, error):
        return isinstance(error, PartyRefusedError) and "the run was granted" in str(error)

    def check_model(self, model):
        sums, made = [np.array(one) for one in json.loads(model.text)], {}
        for _, place, attempt, _, values in self.made.values():
            made.setdefault((attempt.round, attempt.number, attempt.members), {})[place] = values
        for number, opened in enumerate(sums):
            whole = [
                sum(of.values()).view(np.int64)
                for (of_round, _, members), of in made.items()
                if of_round == number and sorted(of) == list(members)
            ]
            demand(any((opened == one).all() for one in whole), f"sum {number} is not that of its parties")
        for node in self.nodes:
            for path in (node.folder / "models").glob("*.txt"):
                demand(path.read_text().startswith(model.text), f"{node.name} has another model")
        if self.world.is_rolled_back:
            return
        noises = {}
        for content in self.given.values():
            noise = (self.made[content][-1].view(np.int64) - len(ROWS.label)).tobytes()
            demand(noises.setdefault(noise, content) == content, "noise was drawn twice")


ROWS = Dataset(np.zeros((2, 1)), [0, 1], bounds=(-1, 1)).construct()


class ToyModel:
    """A model that is a text."""

    def __init__(self, model_str=""):
        self.text = model_str.partition("\n")[0]

    def model_to_string(self, num_iteration=None):
        return self.text


def toy_replica(data, task, n_parties, public_seed, own_key):
    """Sums of the number of rows; every structure follows from the sums before."""
    own = np.full(N_VALUES, len(ROWS.label), dtype=np.int64)

    def training():
        history, sums = public_seed, []
        for _ in range(task.n_rounds):
            structure = hashlib.sha256(history).digest()
            answer = yield NoisedQuestion("sums", structure, (own,), (STD,), MU, 2 * n_parties)
            sums.append(np.ravel(answer.sums).tolist())
            history += np.array(sums[-1]).tobytes()
        return ToyModel(json.dumps(sums))

    return training(), Cost(mu=MU * (task.max_attempts + 0.5) ** 0.5)


class ExactSums(SecureSums):
    """Exact rows apart: the model is that of the run without faults."""

    name, reference = "exact", {}

    def __init__(self, world):
        super().__init__(world, 3)

    def party(self, k, n_parties, folder):
        return exact_training.party(k, folder)

    def train(self, folder):
        params = {**exact_training.PARAMS, "max_depth": 1, "max_bin": 4}
        how = {"patience": 120.0, "checkpoint": folder / "kept"}
        return exact_training.train(self.nodes, 2, params, **how)

    def is_charged(self, node, roster, run, asked):
        counted = on_disk(self.world, node.folder / node.name / "horizontal.store", "rounds")
        if asked.number == 1:
            demand(counted and roster.digest.hex() in counted[0][1], f"{node.name}: rounds are not counted")

    def check_model(self, model):
        text = exact_training.text_of(model)
        demand(text == self.reference.setdefault("", text), "the model is another one")


MODES = PrivateSums, ExactSums, Columns, SecureBoost, SimFL
