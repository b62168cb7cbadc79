"""Of two siblings one is sent: the active party has exact sums of both, and no party can lie about either."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest

from gbdt_parties import messages
from gbdt_parties.errors import ProtocolError
from packed_fields import fields_of
from vertical_training import Recorder, problem, train
from xgb_fed import LocalParty, OkamotoUchiyama, Plain
from xgb_fed.boosting.features import bin_features, read_columns
from xgb_fed.ciphers.public_keys import read_public_key
from xgb_fed.vertical.growing.bin_sums import BinSums
from xgb_fed.vertical.growing.passive_columns import PassiveFinder
from xgb_fed.vertical.protocol.messages import OpenTraining, SplitNodes, SplitStatistics
from xgb_fed.vertical.protocol.packing import packing_for
from xgb_fed.vertical.trees.partition import NodesWithStatistics

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")

PARAMS = {"objective": "binary:logistic", "max_depth": 4, "max_bin": 8, "base_score": 0.5, "random_state": 1}
N = 120
FAILS = "party 'liar': its split statistics fail the checks"


@pytest.mark.filterwarnings("ignore::xgb_fed.LabelLeakWarning")
@pytest.mark.parametrize(
    ("params", "smallest", "kinds"),
    [
        ({}, 2, None),
        ({}, 30, None),
        ({"subsample": 0.6}, 10, None),
        ({"goss": (0.2, 0.3)}, 2, None),
        ({"colsample_bytree": 0.7, "colsample_bylevel": 0.7, "colsample_bynode": 0.7}, 2, None),
        ({"grow_policy": "lossguide", "max_leaves": 9, "max_depth": 6}, 2, None),
        ({"tree_mode": "layered", "active_depth": 1}, 2, None),
        ({"tree_mode": "mix"}, 2, None),
        ({"num_parallel_tree": 2}, 2, None),
        ({"objective": "multi:softprob", "num_class": 3, "multi_output": True}, 2, None),
        ({"enable_categorical": True}, 2, [*"qcq"]),
    ],
    ids=str,
)
def test_the_sums_of_every_node_are_those_of_its_rows(params, smallest, kinds, monkeypatch):
    """To the last bit, of nodes that are sent and of their siblings, at two passive parties."""
    params = {**PARAMS, **params}
    X, y = problem(params["objective"], n=300, n_features=8, missing=0.1)
    if kinds:
        X[:, 3] = np.clip(np.round(2 * X[:, 3]) + 2, 0, 5)
    held = [dict(X=X[:, 2:5], enable_categorical=bool(kinds), feature_types=kinds), dict(X=X[:, 5:])]
    codes = [bin_features(read_columns(**part), 8).codes.astype(int) for part in held]
    seen = []

    def check(finder, level, siblings, bins):
        seen.append((level.above is None, len(bins.nodes)))
        of_tree, g = codes[finder.number - 1][:, finder.columns], level.gradients
        for place, node in enumerate(bins.nodes):
            rows = level.sampled.of(node)
            assert len(rows) >= smallest
            for k, column in enumerate(finder.columns):
                assert finder.columns.tolist() == sorted(finder.columns)
                own = finder.walk.bins_of(column)
                for at, code in enumerate(range(own.stop - own.start), start=own.start):
                    inside = rows[of_tree[rows, k] == code]
                    assert bins.counts[place, at] == len(inside)
                    high, low = bins.sums[:, :, :, place, at].astype(object).swapaxes(0, 1)
                    sums = [part[inside].astype(object).sum(axis=0) for part in (g.g, g.h)]
                    assert ((high << 27) + low == np.array(sums)).all()
        return honest(finder, level, siblings, bins)

    honest = PassiveFinder.check
    monkeypatch.setattr(PassiveFinder, "check", check)
    parties = [LocalParty(**part, name=f"party {k}") for k, part in enumerate(held)]
    for party in parties:
        party.handler.min_node_rows = smallest
    train(params, X[:, :2], y, parties, 3 if params.get("tree_mode") == "mix" else 2)
    assert sum(not is_root and n > 1 for is_root, n in seen) >= 4


def sent(chosen):
    """Another rule of which nodes are sent: ``chosen(nodes, sizes)`` of a level below the root."""

    class Other:
        @staticmethod
        def of(sizes, min_rows):
            nodes = NodesWithStatistics.of(sizes, min_rows)
            return nodes if len(sizes) == 1 else replace(nodes, sent=chosen(nodes, sizes))

    return Other


RULES = {
    "the larger sibling": lambda nodes, sizes: nodes.sent ^ 1,
    "both siblings": lambda nodes, sizes: nodes.all,
    "neither": lambda nodes, sizes: nodes.sent[:0],
    "one of the pairs": lambda nodes, sizes: nodes.sent[:-1],
    "the left one": lambda nodes, sizes: np.unique(nodes.sent & ~1),
    "the right one": lambda nodes, sizes: np.unique(nodes.sent | 1),
}


@pytest.mark.parametrize("scheme", [Plain(), OkamotoUchiyama(512, True)], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_attack_by_other_nodes_than_those_that_are_due(rule, scheme, monkeypatch):
    """A party has no choice of the sibling that it sends; neither has one of an earlier release."""
    monkeypatch.setattr("xgb_fed.vertical.passive.growing_tree.NodesWithStatistics", sent(rule))
    X, y = problem(n=150, n_features=5)
    party = Recorder(LocalParty(X[:, 2:], "liar"))
    with pytest.raises(ProtocolError) as caught:
        train({**PARAMS, "max_depth": 3}, X[:, :2], y, [party], 3, cipher=scheme)
    assert str(caught.value) == FAILS


def data():
    """The active party's column wins the root, the passive party's the nodes below.

    Where the passive one's are large, most rows are in the smaller child.
    """
    rng = np.random.default_rng(5)
    b = rng.normal(size=N).astype(np.float32)
    a = b + rng.normal(size=N).astype(np.float32) / 2
    y = (3 * np.sign(a - 0.6) + b + 0.8 * rng.normal(size=N) > 0) ^ (rng.random(N) < 0.2)
    return a[:, None], b[:, None], y.astype(np.float32)


class LiesBelowTheRoot:
    """Changes the statistics of the first level below the root: ``lie(g, h, counts)``, in place."""

    def __init__(self, lie):
        self.lie, self.told, self.lied = lie, [], False

    def __call__(self, request, answer):
        question, envelope = messages.read(request).message, messages.read(answer)
        if isinstance(question, OpenTraining):
            self.opening = question
        if isinstance(question, SplitNodes):
            self.told.append(question)
        if not isinstance(envelope.message, SplitStatistics) or not len(question.assignment) or self.lied:
            return answer
        self.lied = True
        key, bits = read_public_key(self.opening.public_key), self.opening.field_bits
        per, h_bits = (key.plaintext_limit.bit_length() - 1) // bits, packing_for(N, 1, 1 << 600).gh.h_bits
        counts = envelope.message.counts.copy()
        plaintexts = key.decrypt(key.from_bytes(envelope.message.sums))
        packed = [f for value in plaintexts for f in fields_of(value, bits, per)]
        g, h = (np.zeros(len(counts), dtype=object) for _ in range(2))
        g[counts > 0] = [f >> h_bits for f in packed[: np.count_nonzero(counts)]]
        h[counts > 0] = [f & ((1 << h_bits) - 1) for f in packed[: np.count_nonzero(counts)]]
        self.lie(g, h, counts)
        values = [(a << h_bits) + b for a, b in zip(g[counts > 0], h[counts > 0], strict=True)]
        values += [0] * (-len(values) % per)
        again = [
            sum(f << bits * (per - 1 - k) for k, f in enumerate(values[at : at + per]))
            for at in range(0, len(values), per)
        ]
        lie = SplitStatistics(counts, key.to_bytes(key.encrypt(again)))
        return messages.write(envelope.session, envelope.sequence, lie)


def rows_of_the_sibling(g, h, counts):
    """All rows in one bin, more than both siblings have there: its sibling's would be negative."""
    g[0], h[0], counts[0] = g.sum(), h.sum(), counts.sum()
    g[1:], h[1:], counts[1:] = 0, 0, 0


def more_g(g, h, counts):
    """g of one bin from another, all that its own rows can have: too little is left for its sibling."""
    to, other = np.argsort(counts)[[-1, -2]]
    moved = min(g[other], 2 * UNIT * int(counts[to]) - g[to])
    g[other] -= moved
    g[to] += moved


def less_h(g, h, counts):
    """h of one bin to another: more is left for its sibling than its rows can have."""
    whence, other = np.argsort(counts)[[-1, -2]]
    moved = min(h[whence], UNIT * int(counts[other]) - h[other])
    assert moved
    h[whence] -= moved
    h[other] += moved


def a_row_moved(g, h, counts):
    """A row of one bin in another, and the other way round at its sibling: possible at both of them."""
    low, high = np.flatnonzero(counts)[[1, 3]]
    one_g, one_h = g[low] // int(counts[low]), h[low] // int(counts[low])
    for bin, sign in ((low, -1), (high, 1)):
        g[bin], h[bin], counts[bin] = g[bin] + sign * one_g, h[bin] + sign * one_h, counts[bin] + sign


UNIT = 1 << 53


def lied(lie):
    a, b, y = data()
    liar = LiesBelowTheRoot(lie)
    try:
        train({**PARAMS, "base_score": 0.3}, a, y, [Recorder(LocalParty(b, "liar"), liar)], 1)
    finally:
        assert liar.lied
        lied.told = liar.told


@pytest.mark.parametrize("lie", [rows_of_the_sibling, more_g, less_h], ids=lambda lie: lie.__name__)
def test_attack_by_sums_that_leave_the_sibling_impossible_ones(lie, monkeypatch):
    """They would pass at the node itself; no candidate is named."""
    with pytest.raises(ProtocolError) as caught:
        lied(lie)
    assert str(caught.value) == FAILS
    assert not lied.told
    monkeypatch.setattr(BinSums, "check_possible", lambda *_: None)
    monkeypatch.setattr(PassiveFinder, "check_left", lambda *_: None)
    with contextlib.suppress(ProtocolError):
        lied(lie)
    assert lied.told, "candidates of such sums are named where siblings are not checked"


def test_attack_by_sums_that_are_possible_at_both_siblings():
    """Both would pass if both were sent; if they win, the rows that go left do not add up to them."""
    with pytest.raises(ProtocolError, match="'liar' sends"):
        lied(a_row_moved)
    assert lied.told
