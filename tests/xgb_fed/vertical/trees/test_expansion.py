"""`grow_policy`, `max_leaves` and no maximum depth: the trees are those of stock XGBoost."""

import numpy as np
import pytest

import xgb_fed
from gbdt_parties.errors import ProtocolError
from vertical_training import Recorder, assert_same_trees, parties_of, parts, problem, stock, train
from xgb_fed.boosting.features import bin_features, read_columns
from xgb_fed.vertical.growing.bin_sums import BinSums
from xgb_fed.vertical.passive.disclosed_statistics import DisclosedStatistics
from xgb_fed.vertical.passive.party import PassiveParty
from xgb_fed.vertical.protocol.messages import SplitStatistics
from xgb_fed.vertical.trees.expansion import Expansion

BASE = {"objective": "binary:logistic", "max_bin": 16, "grow_policy": "lossguide"}


def compare(params, missing=0.1, rounds=2, bounds=(3,), n=400, **kwargs):
    params = {**BASE, **params}
    X, y = problem(params["objective"], n=n, missing=missing)
    active, *passive = parts(X, *bounds)
    recorders = [Recorder(party) for party in parties_of(passive)]
    model = train(params, active, y, recorders, rounds, **kwargs)
    assert_same_trees(model.export_booster(recorders), stock(params, X, y, rounds))
    return model, recorders


CASES = {
    "7 leaves": {"max_leaves": 7},
    "7 leaves of any depth": {"max_leaves": 7, "max_depth": 0},
    "40 leaves of any depth": {"max_leaves": 40, "max_depth": 0, "min_child_weight": 0.1},
    "3 leaves": {"max_leaves": 3},
    "any number": {"max_depth": 4},
    "anything": {"max_depth": 0},
    "gamma": {"max_leaves": 9, "gamma": 1.0},
    "softprob": {"max_leaves": 6, "objective": "multi:softprob", "num_class": 3},
    "regression": {"max_leaves": 11, "max_depth": 0, "objective": "reg:squarederror"},
    "constraints": {"max_leaves": 12, "max_depth": 0, "monotone_constraints": (1, -1, 0, 0, 1)},
    "interactions": {"max_leaves": 12, "interaction_constraints": "[[0,3],[1,2,4]]"},
    "depthwise, 9 leaves": {"max_leaves": 9, "grow_policy": "depthwise"},
    "depthwise, 9 leaves of any depth": {"max_leaves": 9, "max_depth": 0, "grow_policy": "depthwise"},
    "depthwise of any depth": {"max_depth": 0, "grow_policy": "depthwise"},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_trees_are_those_of_xgboost(case):
    compare(case)


class Handler(Recorder):
    """A party whose handler the test has made."""

    def __init__(self, handler):
        handler.name = "bank"
        super().__init__(handler)


def depth(tree):
    depths = [0]
    for parent in tree.parent[1:]:
        depths.append(depths[parent] + 1)
    return max(depths)


@pytest.mark.parametrize("case", ["7 leaves of any depth", "40 leaves of any depth", "depthwise, 9 leaves"])
def test_a_level_costs_one_question_however_many_leaves_there_are(case):
    model, (recorder,) = compare(CASES[case], rounds=1)
    names = [type(message).__name__ for message in recorder.messages()]
    # One for each level with splits, and one for the level that has none.
    assert names.count("FindSplits") <= depth(model.trees[0]) + 1
    assert names.count("SplitNodes") <= names.count("FindSplits")


def test_several_parties_and_none():
    for bounds in ((2, 4), (0, 3), ()):
        compare({"max_leaves": 9, "max_depth": 0}, rounds=1, bounds=bounds)


@pytest.mark.parametrize(
    "mode", [{"tree_mode": "mix"}, {"tree_mode": "layered"}, {"multi_output": True}], ids=str
)
def test_other_modes_have_as_many_leaves_as_asked_for(mode):
    X, y = problem("multi:softprob")
    params = {**BASE, "objective": "multi:softprob", "num_class": 3, "max_leaves": 5, **mode}
    model = train(params, X[:, :3], y, parties_of([X[:, 3:]]), 2)
    assert {tree.owner.count(-1) for tree in model.trees} == {5}


def test_splits_that_were_cut_off_are_in_no_tree_and_change_nothing(tmp_path):
    """The party keeps them; predictions, files, exports and runs that are taken up again do without."""
    X, y = problem(missing=0.1)
    params = {**BASE, "max_leaves": 12, "max_depth": 0, "min_child_weight": 0.1, "random_state": 0}
    party = xgb_fed.LocalParty(X[:, 3:], "bank", allow_export=True)
    model = train(params, X[:, :3], y, [party], 4)
    n_used = sum(tree.owner.count(0) for tree in model.trees)
    assert n_used < len(model.splits), "nothing was cut off"

    class Stop(Exception):
        pass

    class Lost:
        name, left = "bank", 25

        def handle(self, request):
            self.left -= 1
            if not self.left:
                raise Stop
            return again.handle(request)

    again = xgb_fed.LocalParty(X[:, 3:], "bank", allow_export=True)
    with pytest.raises(Stop):
        train(params, X[:, :3], y, [Lost()], 4, checkpoint=tmp_path)
    resumed = train(params, X[:, :3], y, [again], 4, checkpoint=tmp_path)
    assert [tree.to_dict() for tree in resumed.trees] == [tree.to_dict() for tree in model.trees]
    assert_same_trees(resumed.export_booster([again]), model.export_booster([party]))
    np.testing.assert_array_equal(resumed.predict(X[:, :3], [again]), model.predict(X[:, :3], [party]))


def test_the_depth_that_a_party_is_told_follows_from_the_number_of_leaves():
    X, y = problem(n=60)
    for params, told in (
        ({"max_leaves": 5, "max_depth": 0}, 4),
        ({"max_depth": 0}, 59),
        ({"max_depth": 3}, 3),
    ):
        recorder = Recorder(xgb_fed.LocalParty(X[:, 3:], "bank"))
        train({**BASE, **params}, X[:, :3], y, [recorder], 1)
        assert recorder.messages()[0].max_depth == told


def one_by_one(loss_change, children, max_leaves):
    """Lossguide as it is defined: the best leaf known, until there are enough."""
    order, numbers = [], {0: 0}
    while len(order) + 1 < max_leaves:
        able = [node for node in numbers if node in loss_change and node not in order]
        if not able:
            break
        best = max(able, key=lambda node: (loss_change[node], -numbers[node]))
        order.append(best)
        for k, child in enumerate(children[best]):
            numbers[child] = 2 * len(order) - 1 + k
    return order


def test_levels_are_known_to_the_extent_that_the_order_needs():
    """On random trees with many ties: nothing is missing at the end, and the order is XGBoost's."""
    rng = np.random.default_rng(0)
    cut = 0
    for _ in range(200):
        max_leaves = int(rng.integers(2, 20))
        expansion, level, depth_of_known = Expansion(True, max_leaves), [0], 0
        changes, all_children, n_nodes = {}, {}, 1
        while level:
            for node in level:
                if rng.random() < 0.8 and depth_of_known < 8:
                    changes[node] = float(rng.integers(1, 6))
            expansion.loss_change |= {node: changes[node] for node in level if node in changes}
            chosen = expansion.to_split(level)
            level = []
            for node in sorted(chosen):
                all_children[node] = expansion.children[node] = (n_nodes, n_nodes + 1)
                level += [n_nodes, n_nodes + 1]
                n_nodes += 2
            if chosen and not expansion.has_room_below(chosen):
                break
            depth_of_known += 1
        order = expansion.order()
        assert order == one_by_one(expansion.loss_change, all_children, max_leaves)
        cut += len(expansion.children) > len(order)
    assert cut > 20


@pytest.mark.parametrize(("more", "n_trees"), [({}, 1), ({"num_parallel_tree": 3}, 3)], ids=str)
def test_all_statistics_that_are_given_are_counted(more, n_trees, monkeypatch):
    """Those of nodes that are cut off, that follow from others', and of every tree of a forest, too."""
    known, digest = [], BinSums.digest
    monkeypatch.setattr(BinSums, "digest", lambda sums: known.append(len(sums.nodes)) or digest(sums))
    X, y = problem(missing=0.1)
    params = {**BASE, "max_leaves": 12, "max_depth": 0, "min_child_weight": 0.1, **more}
    given = DisclosedStatistics()
    party = Handler(PassiveParty(read_columns(X[:, 3:]), [], {}, given=given))
    model = train(params, X[:, :3], y, [party], 1)
    assert len(model.trees) == n_trees
    n_bins = sum(len(cuts) + 1 for cuts in bin_features(read_columns(X[:, 3:]), 16).cuts)
    answers = [m for m in party.messages() if isinstance(m, SplitStatistics)]
    n_sent, n_nodes = sum(len(answer.counts) // n_bins for answer in answers), sum(known)
    assert len(answers) == len(known)
    assert n_sent < 0.6 * n_nodes
    # One of the opening; of each bin of a node its rows, g and h.
    assert given.per_row == pytest.approx((1 + 3 * n_nodes) / len(y))
    assert n_nodes > sum(len(tree) for tree in model.trees), "nothing was cut off"


def test_a_limit_of_statistics_ends_a_lossguide_run():
    X, y = problem()
    handler = PassiveParty(read_columns(X[:, 3:]), [], {}, given=DisclosedStatistics(limit=0.2))
    with pytest.raises(ProtocolError, match=r"gives at most 0\.2"):
        train({**BASE, "max_leaves": 40, "max_depth": 0}, X[:, :3], y, [Handler(handler)], 3)
