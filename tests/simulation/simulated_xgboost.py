"""SecureBoost and SimFL in a simulated world: both end in the model of the run without faults."""

import json
import warnings
from contextlib import nullcontext

import numpy as np

import xgb_fed
from gbdt_commons.store_file import StoreFile
from gbdt_parties.messages import read, write
from simulated_world import Node, demand, on_disk
from xgb_fed.boosting.features import read_columns
from xgb_fed.horizontal.common.messages import OpenHorizontal, Trees
from xgb_fed.horizontal.simfl.messages import (
    AggregatedGradients,
    AggregateGradients,
    GrowTrees,
    ResumeBoosting,
)
from xgb_fed.vertical.passive.disclosed_statistics import GIVEN, DisclosedStatistics
from xgb_fed.vertical.passive.journal import FOUND, Journals
from xgb_fed.vertical.passive.party import PassiveParty
from xgb_fed.vertical.protocol.messages import (
    Assignments,
    OpenTraining,
    SplitNodes,
    SplitStatistics,
    StartTree,
)

N = 40
RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(3 * N, 4)).astype(np.float32)
Y = (X @ [1.0, -1.0, 1.0, 0.5] + RANDOM.normal(size=3 * N) > 0).astype(int)


def body(message):
    """The bytes of a message, whatever session it is in."""
    return write(bytes(16), 0, message)


class Dialogue:
    """A run whose questions and answers are told apart by the run, the place in it, and the question."""

    def __init__(self, world, names):
        self.world, self.runs, self.given = world, {}, {}
        self.nodes = [
            Node(world, name, lambda folder, k=k: self.party(k, folder), self) for k, name in enumerate(names)
        ]

    def watched(self):
        """See `SecureSums`."""
        return nullcontext()

    def play(self):
        """The model, or an error."""
        return self.world.lead(self.train)

    def lie(self, request):
        """None: an active party that deviates is left to other tests."""

    def given_once(self, node, key, answer):
        """Check that a question has no second answer."""
        is_same = self.given.setdefault((node.name, *key), answer) == answer
        demand(is_same or self.world.is_rolled_back, f"{node.name} answered twice differently: {key[:3]}")

    def check(self, result):
        """The model is that of the run without faults."""
        if isinstance(result, Exception):
            demand(self.world.is_rolled_back, f"refused: {result}")
            return
        text = self.text_of(result)
        demand(text == self.reference.setdefault("", text), "the model is another one")


class SecureBoost(Dialogue):
    """Columns apart; the passive party's splits, and counts, are on the disk before it tells of them."""

    name, reference = "secureboost", {}

    def __init__(self, world):
        self.splits, self.n_told = {}, {}
        super().__init__(world, ["bank"])

    def party(self, k, folder):
        """The passive party."""
        store = StoreFile(folder / "party.store", "a tester")
        journals, given = Journals(store), DisclosedStatistics(store=store)
        columns, evals = read_columns(X[:N, 2:]), [read_columns(X[N : 2 * N, 2:])]
        return Closing(store, PassiveParty(columns, evals, self.splits, journals=journals, given=given))

    def train(self, folder):
        """Two trees of four leaves, with a held-out set."""
        params = {"objective": "binary:logistic", "max_depth": 2, "max_bin": 4, "subsample": 0.7}
        active, held = (xgb_fed.ActiveData(X[s, :2], Y[s]) for s in (slice(N), slice(N, 2 * N)))
        how = {"evals": [(held, "held")], "verbose_eval": False, "cipher": xgb_fed.Plain()}
        how |= {"patience": 120.0, "checkpoint": folder / "kept"}
        return xgb_fed.train({**params, "random_state": 7}, active, self.nodes, 2, **how)

    def saw(self, node, request, answer):
        """Check an answer that has left the passive party."""
        asked, answer = read(request), read(answer).message
        question, session = asked.message, asked.session
        if isinstance(question, OpenTraining):
            self.runs[session] = [bytes(question.resumes) or session, -1]
        elif isinstance(question, StartTree):
            self.runs[session][1] = question.tree
        if session not in self.runs or self.world.is_rolled_back:
            return
        (model, tree), path = self.runs[session], node.folder / "party.store"
        if isinstance(question, SplitNodes) and isinstance(answer, Assignments):
            self.given_once(node, (model, tree, body(question)), body(answer))
            last = max(answer.split_ids.tolist(), default=-1)
            kept = on_disk(self.world, path, f"run {model.hex()}/{FOUND.name}")
            demand(sum(map(len, kept)) > last, "a split was told of before it was on the disk")
        if isinstance(answer, SplitStatistics):
            self.n_told["sums"] = self.n_told.get("sums", 0) + 1
            (given,) = on_disk(self.world, path, GIVEN.name) or [0]
            demand(given >= 3 * self.n_told["sums"] / N, "sums were given before they were counted")

    def text_of(self, model):
        """All but the model's random name, and its restarts."""
        text = json.loads(model.to_json())
        del text["restarts"], text["model_id"]
        splits = self.splits[model.model_id]
        return json.dumps([text, model.evals_result]), repr(splits.entries(0))


class Closing:
    """A party with its store."""

    def __init__(self, store, party):
        self._store, self.handle = store, party.handle

    def close(self):
        """Let go of the store."""
        self._store.close()


class SimFL(Dialogue):
    """Rows apart by SimFL; rounds are counted before their trees are sent."""

    name, reference = "simfl", {}

    def __init__(self, world):
        super().__init__(world, ["ada", "bob", "cyd"])

    def party(self, k, folder):
        """One of three."""
        rows, name = slice(k, None, 3), self.nodes[k].name
        how = {"categorical_labels": True, "random_state": k, "n_jobs": 1, "directory": folder}
        return xgb_fed.HorizontalParty(X[rows], Y[rows], name, **how)

    def train(self, folder):
        """Three trees, one of each party."""
        params = {"objective": "binary:logistic", "max_depth": 2, "subsample": 0.8, "random_state": 3}
        how = {"patience": 120.0, "checkpoint": folder / "kept", "verbose_eval": False, "n_hashes": 2}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return xgb_fed.train_simfl(params, self.nodes, 3, **how)

    def saw(self, node, request, answer):
        """Check an answer that has left a party."""
        asked, answer = read(request), read(answer).message
        question, session = asked.message, asked.session
        if isinstance(question, OpenHorizontal):
            self.runs[session] = session
        elif isinstance(question, ResumeBoosting):
            self.runs[session] = question.run
        if session not in self.runs:
            return
        run = self.runs[session]
        if isinstance(question, AggregateGradients) and isinstance(answer, AggregatedGradients):
            self.given_once(node, (run, "sums", body(question)), body(answer))
        if isinstance(question, GrowTrees) and isinstance(answer, Trees):
            self.given_once(node, (run, "trees", question.round), body(answer))
            (counted,) = on_disk(self.world, node.folder / "horizontal.store", "rounds") or [[0, {}]]
            is_counted = counted[1].get(run.hex(), 0) > question.round
            demand(is_counted or self.world.is_rolled_back, "trees were sent before they were counted")

    def text_of(self, model):
        """The native model."""
        return bytes(model.booster.save_raw("json"))
