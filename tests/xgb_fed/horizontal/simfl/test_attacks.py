"""What a coordinator that breaks the protocol, or parties that it makes up, cannot read of a party."""

import json
import tracemalloc

import numpy as np
import pytest
import xgboost
from scipy.special import ndtri

from gbdt_commons.errors import StoreError
from gbdt_commons.store import MemoryStore
from gbdt_hosts.xgboost.boosting import NativeTreeGrower, read_tree, write_tree
from gbdt_parties import messages
from gbdt_parties.channel import Channel
from gbdt_parties.errors import PartyRefusedError
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.traffic import Traffic
from kept_stores import end_process
from made_up_coordinator import (
    LOGISTIC,
    N_FEATURES,
    N_ROWS,
    RANDOM,
    Caller,
    Coordinator,
    X,
    Y,
    made_up_tree,
    one_hot,
    victim,
)
from native_trees import read_trees
from xgb_fed import HeuristicProtectionWarning, HorizontalParty, train_simfl
from xgb_fed.ciphers.randomness import SecretStream
from xgb_fed.horizontal.common.messages import Introduce, RowShape, Trees
from xgb_fed.horizontal.common.rows import OF_THIS_PROCESS, HorizontalLimits
from xgb_fed.horizontal.service import HorizontalService
from xgb_fed.horizontal.simfl.lsh import typical_distance
from xgb_fed.horizontal.simfl.messages import AggregatedGradients, GrowTrees, HashRows, StartBoosting
from xgb_fed.horizontal.simfl.party import SimFLSide


@pytest.mark.parametrize(
    ("mean", "std", "reason"),
    [
        (np.zeros(N_FEATURES), one_hot(1.0), "gives 1 to 0"),  # the hashes are of one column
        (np.zeros(N_FEATURES), one_hot(1e-6, rest=1.0), "too far"),  # slabs of a millionth of its range
        (np.zeros(N_FEATURES), one_hot(1.0, rest=1e6), "too far"),  # the other columns are all but removed
        (np.zeros(N_FEATURES), np.full(N_FEATURES, 5.0), "too far"),
        (np.full(N_FEATURES, -5.0), np.ones(N_FEATURES), "too far"),
        (np.zeros(N_FEATURES), np.where(np.arange(N_FEATURES) < 10, 1.0, 0.0), "gives 1 to 9"),
        (np.zeros(N_FEATURES), one_hot(np.nan, rest=1.0), "malformed"),
    ],
)
def test_attack_moments_that_make_hashes_read_columns_are_refused(mean, std, reason):
    with pytest.raises(PartyRefusedError, match=reason):
        Coordinator(victim()).hash_table(mean, std)


def test_attack_what_accepted_moments_say_of_a_column_is_coarse():
    """The moments that favour one column most; before, 500 of 500 values were read up to 5e-7 stds."""
    std = one_hot(0.3, rest=3.5)
    party = victim()
    seed, table = Coordinator(party).hash_table(std=std)
    values = X[party.simfl.disclosures.order(N_ROWS), 7]  # which nobody else can put beside the estimates
    words = SecretStream(seed).words(table.shape[1], N_FEATURES + 1).T
    uniform = ((words >> np.uint64(11)).astype(float) + 0.5) * 2.0**-53
    window = typical_distance(std)
    directions = ndtri(uniform[:-1]) / std[:, None]
    middles = (table + 0.5 - uniform[-1]) * window
    noise = window**2 / 12
    estimates = middles @ np.linalg.solve(
        directions.T @ directions + noise * np.eye(len(words[0])), directions.T
    )
    errors = np.abs(estimates[:, 7] - values)
    # The directions are those that were hashed by: what the estimates know of the column shows it.
    assert np.corrcoef(estimates[:, 7], values)[0, 1] > 0.9
    assert np.median(errors) > 0.05


def test_attack_the_order_of_a_file_is_not_read_from_its_hashes():
    """Before, of a file sorted by label, one hash table showed where the classes meet: all labels."""
    order = np.argsort(Y, kind="stable")
    rows, labels = (X + 2 * Y[:, None])[order], Y[order]
    party = HorizontalParty(rows, labels, "victim", categorical_labels=True, random_state=0)
    _, table = Coordinator(party).hash_table()

    def shift(table):
        """How far the hashes of the first class lie from those of the second, if the file is sorted."""
        return np.abs((table[labels == 0].mean(axis=0) - table[labels == 1].mean(axis=0)) / table.std(axis=0))

    random = np.random.default_rng(0)
    by_chance = [shift(table[random.permutation(N_ROWS)]).mean() for _ in range(100)]
    assert shift(table).mean() < 1.2 * max(by_chance)
    within = np.empty_like(table)
    within[party.simfl.disclosures.order(N_ROWS)] = table
    assert shift(within).mean() > 5 * max(by_chance)
    _, again = Coordinator(party).hash_table(again=True)  # to everybody in the same order
    assert np.array_equal(again, table)


def test_attack_windows_cannot_be_chosen_by_anybody():
    assert not any("window" in name for name in messages.tags(HashRows))


def test_attack_tables_of_more_rows_than_agreed_are_refused():
    with pytest.raises(PartyRefusedError, match="this party accepts 1000"):
        Coordinator(victim(max_rows=1000), rows=1000)
    with pytest.raises(PartyRefusedError, match="this party accepts"):
        Coordinator(victim(), rows=-5)


def made_up_tables(table):
    """The party's own, copies changed so that no comparison finds them, and groupings of its rows."""
    random = np.random.default_rng(1)
    changed = table.copy()
    changed[np.arange(N_ROWS), random.integers(0, table.shape[1], N_ROWS)] += 1
    return [
        table,
        changed,
        table[random.permutation(N_ROWS)],
        np.repeat(table[::2], 2, axis=0),
        np.where(np.arange(N_ROWS)[:, None] < 10, table, 10**6),
        random.integers(-2, 3, table.shape),
    ]


def test_attack_no_hash_table_makes_a_party_send_sums_of_fewer_rows():
    """Before, its own table or a changed copy gave every row's gradient by itself: all labels."""
    coordinator = Coordinator(victim(), n_others=6)
    _, table = coordinator.hash_table()
    coordinator.start(made_up_tables(table))
    for place in range(6):
        sums = coordinator.sums(place)
        coordinator.add(made_up_tree(0))
        n_added = sums.h / 0.25
        assert np.allclose(n_added, np.rint(n_added))
        assert n_added[n_added > 0].min() >= 3
        assert n_added.sum() == N_ROWS
    party = victim(min_similar=1)
    paper = Coordinator(party)
    _, table = paper.hash_table()
    paper.start([table])
    sums = paper.sums()
    labels = Y[party.simfl.disclosures.order(N_ROWS)]
    assert np.array_equal(sums.g < 0, labels == 1)  # the attack on the paper's SimFL: all labels


def told_by(party, n_others, objective):
    """Everything that a party sends when it is shown all kinds of tables, and trees that tell rows apart.

    The trees also set margins so large that gradients of single rows would be rounded.
    """
    params = {"objective": objective, "max_depth": 8}
    classes = "[0, 1]" if objective == "binary:logistic" else ""
    coordinator = Coordinator(party, n_others, params, classes, turns=(3, 100))
    _, table = coordinator.hash_table()
    coordinator.start(made_up_tables(table)[:n_others])
    answers = []
    grower = NativeTreeGrower(
        X, {"max_depth": 8, "max_bin": 256, "min_child_weight": 0, "learning_rate": 1.0}, 1
    )
    for number in range(3 * n_others):
        sums = coordinator.sums(number // 3)
        answers.append(np.concatenate([sums.g, sums.h]))
        random = np.random.default_rng(number)
        tree, _ = grower.grow(
            (random.choice([1, 2.0**27], N_ROWS) * random.standard_normal(N_ROWS)).astype(np.float32),
            np.ones(N_ROWS, dtype=np.float32),
            number,
        )
        coordinator.add(write_tree(read_tree(tree, N_FEATURES)))
    return np.stack(answers)


@pytest.mark.parametrize("objective", ["binary:logistic", "reg:squarederror"])
def test_attack_sums_of_all_rounds_and_alleged_parties_say_nothing_below_a_group(objective):
    """Labels exchanged within groups change nothing of what leaves: no differences of sums read them."""
    reference = victim()
    one = told_by(reference, 3, objective)
    groups = reference.simfl.groups
    assert groups.sizes.min() >= 3
    assert np.array_equal(np.sort(groups.order), np.arange(N_ROWS))
    exchanged = Y.copy()
    for start, size in zip(groups.starts, groups.sizes, strict=True):
        rows = groups.order[start : start + size]
        exchanged[rows] = np.roll(Y[rows], 1)
    assert np.mean(exchanged != Y) > 0.2
    two = told_by(victim(exchanged), 3, objective)
    assert np.array_equal(one, two)
    other = Y.copy()
    other[:1] = 1 - other[:1]
    assert not np.allclose(one[0], told_by(victim(other), 3, objective)[0], atol=1e-5)


def test_attack_groups_stay_the_same_in_later_sessions():
    party = victim()
    Coordinator(party).hash_table(n_hashes=2)
    first = party.simfl.groups
    Coordinator(party).hash_table(n_hashes=2)
    assert party.simfl.groups is first


def test_attack_rows_without_weight_do_not_fill_a_group():
    """Sums of one row that counts and two that do not would be sums of one."""
    weight = np.where(np.arange(N_ROWS) % 3 == 0, 1.0, 0.0)
    coordinator = Coordinator(victim(sample_weight=weight))
    _, table = coordinator.hash_table()
    coordinator.start([table])
    n_added = coordinator.sums().h / 0.25
    assert n_added[n_added > 0].min() >= 3
    assert n_added.sum() == 100
    with pytest.raises(PartyRefusedError, match="fewer than min_similar=3"):
        Coordinator(victim(sample_weight=np.arange(N_ROWS) < 2)).hash_table()


def test_attack_factors_of_gradients_that_tell_labels_in_a_group_apart_are_refused():
    params = {**LOGISTIC, "scale_pos_weight": 3.0}
    with pytest.raises(PartyRefusedError, match="scale_pos_weight=3"):
        Coordinator(victim(), params=params)
    Coordinator(victim(min_similar=1), params=params)


def test_attack_classes_are_told_only_of_labels_declared_categorical():
    """Before, a regression party told all of its distinct labels."""
    values = RANDOM.standard_normal(N_ROWS)
    for y, categorical, reason in (
        (values, False, "categorical_labels=True"),
        (np.arange(N_ROWS), True, "300"),
    ):
        channel = Channel(victim(y, categorical_labels=categorical), bytes(16), Traffic(), "coordinator")
        with pytest.raises(PartyRefusedError, match=reason):
            channel.ask(Introduce(1), RowShape)
    with pytest.raises(PartyRefusedError, match="categorical_labels=True"):
        Coordinator(victim(values, categorical_labels=False), params={"objective": "reg:squarederror"})


def test_attack_a_partys_labels_are_not_classes_because_the_coordinator_says_so():
    """Before, softprob over integers told how often each label is in a group: all labels of a regression."""
    salaries = np.random.default_rng(0).integers(20, 180, N_ROWS)
    softprob = {"objective": "multi:softprob", "num_class": 200}
    regression = {"y": salaries, "categorical_labels": False}
    with pytest.raises(PartyRefusedError, match="list of classes"):
        Coordinator(victim(**regression), params=softprob, classes="")
    with pytest.raises(PartyRefusedError, match="categorical_labels=True"):
        Coordinator(victim(**regression), params=softprob, classes=json.dumps(list(range(200))))
    with pytest.raises(PartyRefusedError, match="list of classes"):
        Coordinator(victim(), params={**softprob, "num_class": 2}, classes="")
    with pytest.raises(PartyRefusedError, match=r"2 classes.*is for 3"):
        Coordinator(victim(), params={**softprob, "num_class": 3})
    with pytest.raises(PartyRefusedError, match=r"3 classes.*is for 2"):
        Coordinator(victim(), classes="[0, 1, 2]")
    Coordinator(victim(), params={**softprob, "num_class": 2})


@pytest.mark.parametrize("n_classes", [257, 200_000])
def test_attack_more_classes_than_are_told_are_refused_before_anything_is_allocated(n_classes):
    params = {"objective": "multi:softprob", "num_class": n_classes}
    tracemalloc.start()
    try:
        with pytest.raises(PartyRefusedError, match="list of 1 to 256"):
            Coordinator(victim(), params=params, classes=json.dumps(list(range(n_classes))))
        with pytest.raises(PartyRefusedError, match="list of classes"):
            Coordinator(victim(), params=params, classes="")
        assert tracemalloc.get_traced_memory()[1] < 40 << 20  # before, 230 MB for 200,000 classes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "classes",
    ["{}", "[[0],[1]]", "7", "[0, NaN]", "[1, 0]", '["a", 1]', "[0, 0]", "[" * 100_000, "[]", "[null]"],
)
def test_attack_malformed_classes_are_refused_by_name(classes):
    with pytest.raises(PartyRefusedError, match=r"classes.*n"):
        Coordinator(victim(), classes=classes)


def test_attack_alleged_parties_are_counted_before_they_are_read():
    with pytest.raises(PartyRefusedError, match="at most 1000"):
        Coordinator(victim(), n_others=1000, rows=1)


def test_attack_weights_that_tell_labels_in_a_group_apart_are_refused():
    """Before, made-up trees read the weights, and a weighted sum of labels has one solution: all labels."""
    weight = np.random.default_rng(0).uniform(0.2, 3, N_ROWS)
    with pytest.raises(PartyRefusedError, match=r"sample_weight has different weights.* min_similar=1"):
        Coordinator(victim(sample_weight=weight)).hash_table()
    Coordinator(victim(sample_weight=weight, min_similar=1)).hash_table()
    Coordinator(victim(sample_weight=np.where(weight > 1, 2.5, 0.0))).hash_table()


def test_attack_sums_are_told_once_a_round_for_its_builder_only():
    """Before, sums could be asked for every alleged party in each round, and trees be added at any time."""
    coordinator = Coordinator(victim(), n_others=2).started()
    first = coordinator.sums(0)
    assert np.array_equal(first.g, coordinator.sums(0).g)
    with pytest.raises(PartyRefusedError, match=r"turn.*place 0"):
        coordinator.sums(1)
    coordinator = Coordinator(victim(), n_others=2).started()
    coordinator.add(made_up_tree(1))
    coordinator.sums(1)
    coordinator.add(made_up_tree(1))
    with pytest.raises(PartyRefusedError, match="in this party's turn"):
        coordinator.add(made_up_tree(1))


def victim_again(folder, **options):
    """The party in another process, after the end of the first one."""
    end_process(folder)
    return victim(directory=folder, **options)


def read_by_made_up_trees(coordinator, n_trees):
    """Sums of groups as functions of a column: what each further tree changes in them."""
    answers = [coordinator.sums().g]
    for number in range(n_trees):
        coordinator.add(made_up_tree(1, 0, [number / 5 - 1], [1.0, 0.0]))
        answers.append(coordinator.sums().g)
    return np.diff(answers, axis=0)


def test_attack_made_up_trees_read_no_more_rounds_than_the_party_takes(tmp_path):
    """Before, 158 made-up trees and their inverses read 252 of 300 rows, without any limit.

    What a round tells of a group cannot be limited, or nobody could train: the number of rounds can.
    """
    how = {"params": {"objective": "reg:squarederror"}, "classes": "", "turns": (1000, 12)}
    party = victim(max_rounds=20, directory=tmp_path)
    read = read_by_made_up_trees(Coordinator(party, **how).started(), 11)
    counts = read[1:].sum(axis=1)
    below = [(X[:, 0] < number / 5 - 1).sum() for number in range(1, 11)]
    assert np.allclose(counts, below)  # the attack: how many rows of each group are below a threshold
    for ask in (Coordinator.sums, lambda coordinator: coordinator.add(made_up_tree(1))):
        coordinator = Coordinator(victim(max_rounds=20), **how).started()
        for _ in range(12):
            coordinator.add(made_up_tree(1))
        with pytest.raises(PartyRefusedError, match="opened for 12 rounds"):
            ask(coordinator)
    # Over sessions, and processes.
    for make in (lambda: party, lambda: victim_again(tmp_path, max_rounds=20)):
        again = make()
        with pytest.raises(PartyRefusedError, match=r"12 further.*taken.*11.*max_rounds=20"):
            Coordinator(again, **how)
    Coordinator(again, **{**how, "turns": (1000, 9)})


def test_attack_rounds_are_counted_where_two_runs_are_open_side_by_side(tmp_path):
    service = HorizontalService(victim(max_rounds=10, directory=tmp_path), tmp_path, HorizontalLimits())
    first, second = (
        Coordinator(Caller(service, name), turns=(1000, 6)).started(again=name == "b") for name in "ab"
    )
    for _ in range(6):
        first.add(made_up_tree(1))
    for _ in range(4):
        second.add(made_up_tree(1))
    with pytest.raises(PartyRefusedError, match=r"1 further.*taken.*10"):
        second.add(made_up_tree(1))


def test_attack_another_number_of_hashes_tells_no_other_hashes():
    """Before, each number of hashes drew functions of its own: 435 hashes of rows of 30 columns."""
    party = victim()
    _, few = Coordinator(party).hash_table(n_hashes=3)
    for n_hashes in (1, 7, N_FEATURES - 2):
        _, table = Coordinator(party).hash_table(n_hashes=n_hashes, again=True)
        both = min(3, n_hashes)
        assert np.array_equal(table[:, :both], few[:, :both])
    assert list(party.simfl.disclosures.told.hashes.values()) == [N_FEATURES - 2]


def test_attack_two_objects_of_one_directory_know_what_the_other_has_told(tmp_path):
    """Before, a second process on the folder told as many hashes again, and had groups of its own."""
    party = victim(directory=tmp_path)
    with pytest.raises(StoreError, match=r"'horizontal.store'.*use"):
        victim(directory=tmp_path)
    memory = MemoryAllowance(1 << 30)
    first, second = (
        party.for_caller(tmp_path / name, MemoryStore(), set(), memory, OF_THIS_PROCESS) for name in "ab"
    )
    sessions = Coordinator(first), Coordinator(second)
    _, table = sessions[0].hash_table()
    with pytest.raises(PartyRefusedError, match="another session meanwhile"):
        sessions[1].hash_table()
    order = first.simfl.groups.order
    for other in (lambda: second, lambda: victim_again(tmp_path)):
        again = other()
        with pytest.raises(PartyRefusedError, match=r"hashes.*away"):
            Coordinator(again).hash_table()
        assert np.array_equal(Coordinator(again).hash_table(again=True)[1], table)
        assert np.array_equal(order, again.simfl.groups.order)


def read_own_turn(coordinator, number):
    """Sums that differ from row to row, for a tree that the party grows itself."""
    g = 1024 * np.arange(1.0, N_ROWS + 1, dtype=np.float32)
    coordinator.ask(AggregatedGradients(g, np.full(N_ROWS, 1024, dtype=np.float32)), messages.Done)
    return coordinator.ask(GrowTrees(number), Trees)


OWN_TURNS = {"params": {**LOGISTIC, "max_depth": 10, "reg_lambda": 0, "min_child_weight": 0}}


def test_attack_made_up_sums_need_the_hashes_of_other_parties():
    """Before, a coordinator without any other party read 6,390 of 9,000 values by sums of its making."""
    alone = Coordinator(victim(), n_others=0, turns=(1, 100), **OWN_TURNS)
    alone.ask(StartBoosting(np.array([0.5])), messages.Done)
    with pytest.raises(PartyRefusedError, match=r"hashes.*seen"):
        read_own_turn(alone, 0)
    unseen = Coordinator(victim(), n_others=2, turns=(1, 100), **OWN_TURNS)
    _, table = unseen.hash_table()
    unseen.start([table])
    for _ in range(2):
        unseen.add(made_up_tree(1))
    with pytest.raises(PartyRefusedError, match=r"hashes.*seen"):
        read_own_turn(unseen, 2)


def test_attack_made_up_sums_read_no_more_rounds_than_the_party_takes(tmp_path):
    """What is read in a party's own turns cannot be prevented either: they are counted, too."""
    party = victim(max_rounds=10, directory=tmp_path)
    coordinator = Coordinator(party, turns=(1, 8), **OWN_TURNS).started()
    for number in range(0, 8, 2):
        coordinator.add(made_up_tree(1))
        trees = read_own_turn(coordinator, number + 1)
        (tree,) = (read_tree(model, N_FEATURES) for model in trees.split())
        assert tree.left.count(-1) > N_ROWS // 4  # the attack: leaves of few rows
    for make in (lambda: party, lambda: victim_again(tmp_path, max_rounds=10)):
        again = make()
        with pytest.raises(PartyRefusedError, match=r"3 further.*part in 8.*max_rounds=10"):
            Coordinator(again, turns=(1, 3), **OWN_TURNS)
    Coordinator(again, turns=(1, 2), **OWN_TURNS)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda tree: tree[:-1] + b" " * (1 << 10) + b"}", "not written as agreed"),
        (lambda tree: tree[:-1] + b" " * (1 << 20) + b"}", "bytes.*6 levels"),
        (lambda tree: tree[:-1] + b',"more":"' + b"x" * 1000 + b'"}', "not written as agreed"),
        (lambda tree: tree.replace(b"0.0", b"0.00", 1), "not written as agreed"),
        (lambda tree: tree.replace(b'"sum_hessian":[2.0', b'"sum_hessian":[9.0'), "not written as agreed"),
        (lambda tree: made_up_tree(7), "deeper than 6 levels"),
    ],
)
def test_attack_rounds_hold_nothing_but_trees_of_the_agreed_depth(spoil, reason):
    """Before, a party kept each message as it came: 40 trees of one leaf took 336 MiB."""
    coordinator = Coordinator(victim()).started()
    with pytest.raises(PartyRefusedError, match=reason):
        coordinator.add(spoil(made_up_tree(1)))
    Coordinator(victim()).started().add(made_up_tree(6))


def test_attack_another_coordinator_does_not_end_a_run(tmp_path):
    """Before, any allowed certificate ended the run of another one with its introduction."""
    service = HorizontalService(victim(directory=tmp_path), tmp_path, HorizontalLimits())
    first = Coordinator(Caller(service, "acme")).started()
    before = first.sums()
    Coordinator(Caller(service, "rival")).started(again=True).add(made_up_tree(1, values=[1.0, -1.0]))
    assert np.array_equal(first.sums().g, before.g)


def trained(**options):
    parties = [(X[:150], Y[:150]), (X[150:], Y[150:])]
    return train_simfl({**LOGISTIC, "max_depth": 3}, parties, 4, verbose_eval=False, **options)


@pytest.mark.filterwarnings("ignore::xgb_fed.HeuristicProtectionWarning")
def test_attack_the_model_and_the_trees_on_their_way_have_no_counts_and_gains(monkeypatch):
    """Before, 4 · sum_hessian of each node of the first tree was its number of rows."""
    sent = []
    answer = SimFLSide.answer

    def recorded(self, session, message):
        told = answer(self, session, message)
        sent.extend([told] * isinstance(message, GrowTrees))
        return told

    monkeypatch.setattr(SimFLSide, "answer", recorded)
    booster = trained().booster
    on_their_way = [
        json.loads(one.models)["learner"]["gradient_booster"]["model"]["trees"][0] for one in sent
    ]
    assert len(on_their_way) == 4
    for tree in on_their_way + read_trees(booster):
        left, right = np.array(tree["left_children"]), np.array(tree["right_children"])
        assert not np.any(tree["loss_changes"])
        assert not np.any(tree["base_weights"])
        covers = np.array(tree["sum_hessian"])
        assert (covers[left == -1] == 1).all()
        inner = left != -1
        assert inner.any()
        assert np.array_equal(covers[inner], covers[left[inner]] + covers[right[inner]])
    shap = booster.predict(xgboost.DMatrix(X), pred_contribs=True)
    assert np.isfinite(shap).all()
    assert np.allclose(shap.sum(axis=1), booster.predict(xgboost.DMatrix(X), output_margin=True), atol=1e-4)


def test_fit_warns_once_and_says_that_its_traffic_is_clear_text():
    with pytest.warns(HeuristicProtectionWarning, match="heuristic") as caught:
        model = trained()
    assert len([w for w in caught if w.category is HeuristicProtectionWarning]) == 1
    assert model.traffic.encrypted is False
    assert "encrypted=False" in repr(model.traffic)
