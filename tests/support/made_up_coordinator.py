"""A coordinator of SimFL without any other party: everything that it says about them is made up."""

import json
from datetime import datetime, timezone

import numpy as np

from gbdt_hosts.xgboost.boosting import write_tree
from gbdt_hosts.xgboost.model import ScalarTree
from gbdt_parties import messages
from gbdt_parties.channel import Channel
from gbdt_parties.identity.certificates import Identity
from gbdt_parties.traffic import Traffic
from xgb_fed import HorizontalParty
from xgb_fed.horizontal.common.messages import HorizontalOpened, Introduce, OpenHorizontal, RowShape, Trees
from xgb_fed.horizontal.simfl.hash_seed import commitment_to, seed_from
from xgb_fed.horizontal.simfl.messages import (
    AggregatedGradients,
    AggregateGradients,
    ColumnMoments,
    CommitSeed,
    HashRows,
    HashTable,
    RevealSeed,
    SeedCommitment,
    SeedContribution,
    StartBoosting,
    TellMoments,
)

N_ROWS, N_FEATURES = 300, 30
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((N_ROWS, N_FEATURES)).astype(np.float32)
Y = (X[:, 0] + RANDOM.standard_normal(N_ROWS) > 0).astype(int)
LOGISTIC = {"objective": "binary:logistic"}


def victim(y=Y, **options):
    return HorizontalParty(
        X, y, "victim", **{"categorical_labels": True, "random_state": 0, "n_jobs": 1, **options}
    )


class Coordinator:
    """A coordinator without any other party: everything about them is made up; their turns come first."""

    def __init__(self, party, n_others=1, params=LOGISTIC, classes="[0, 1]", rows=N_ROWS, turns=(1, 100)):
        self.channel = Channel(party, np.random.default_rng().bytes(16), Traffic(), "coordinator")
        self.n_others = n_others
        self.ask(Introduce(0), RowShape)
        party_rows = np.array([*[rows] * n_others, N_ROWS])
        opening = OpenHorizontal(json.dumps(params), classes, n_others, party_rows, *turns)
        self.ask(opening, HorizontalOpened)
        self.contributions = [bytes([k]) * 32 for k in range(1, n_others + 1)]

    def ask(self, message, answer):
        return self.channel.ask(message, answer)

    def commitments(self):
        own = self.ask(CommitSeed(), SeedCommitment).commitment
        return b"".join(commitment_to(c, k) for k, c in enumerate(self.contributions)) + own

    def agreed(self):
        revealed = self.ask(RevealSeed(self.commitments()), SeedContribution).contribution
        return b"".join(self.contributions) + revealed

    def hash_table(self, mean=None, std=None, n_hashes=None, again=False):
        self.ask(TellMoments(0), ColumnMoments)
        contributions = b"" if again else self.agreed()
        mean = np.zeros(N_FEATURES) if mean is None else mean
        std = np.ones(N_FEATURES) if std is None else std
        table = self.ask(HashRows(contributions, n_hashes or N_FEATURES - 2, mean, std), HashTable)
        return b"" if again else seed_from(contributions), table.hashes.reshape(N_ROWS, -1)

    def start(self, tables):
        for place, table in enumerate(tables):
            self.ask(HashTable(place, np.ascontiguousarray(table).reshape(-1)), messages.Done)
        self.ask(StartBoosting(np.array([0.5])), messages.Done)

    def sums(self, place=0):
        return self.ask(AggregateGradients(place), AggregatedGradients)

    def started(self, again=False):
        """Hash, by the last seed again or by a new one, show the party its own table, and begin."""
        _, table = self.hash_table(again=again)
        self.start([table] * self.n_others)
        return self

    def add_all(self, tree, times):
        for _ in times:
            self.add(tree)

    def add(self, tree):
        self.ask(Trees(np.array([len(tree)]), tree), messages.Done)


def made_up_tree(depth, column=0, thresholds=None, values=None):
    """A tree of one path: each split sends what is below its threshold to a leaf, and the rest on."""
    thresholds = [float(level) for level in range(depth)] if thresholds is None else thresholds
    values = [0.0] * (depth + 1) if values is None else values
    left, right, feature, condition = [], [], [], []
    for level in range(depth):
        node = 2 * level
        # The leaf of this split, before the next split or the last leaf.
        left += [node + 1, -1]
        right += [node + 2, -1]
        feature += [column, 0]
        condition += [thresholds[level], values[level]]
    left, right, feature = [*left, -1], [*right, -1], [*feature, 0]
    condition = [*condition, values[depth]]
    zeros = [0.0] * len(left)
    tree = ScalarTree(left, right, left, feature, condition, [False] * len(left), zeros, zeros, zeros)
    return write_tree(tree)


def one_hot(value, column=7, rest=0.0):
    vector = np.full(N_FEATURES, rest)
    vector[column] = value
    return vector


class Caller:
    """A horizontal service, as one of its coordinators meets it."""

    name = "victim"

    def __init__(self, service, name):
        self._service, self._who = service, Identity(name, "", datetime.max.replace(tzinfo=timezone.utc))

    def handle(self, request):
        return self._service.handle(self._who, (), request)
