import time
from itertools import pairwise

import numpy as np
import pytest

import xgb_fed
from gbdt_parties.errors import ProtocolError
from gbdt_parties.memory import SPARE, MemoryAllowance
from gbdt_parties.messages import to_bits
from small_keys import KEYS
from vertical_training import problem
from xgb_fed.boosting.features import read_columns
from xgb_fed.ciphers.public_keys import read_public_key
from xgb_fed.vertical.passive import growing_tree
from xgb_fed.vertical.passive.growing_tree import GrowingTree
from xgb_fed.vertical.passive.held_rows import held, tree_rows
from xgb_fed.vertical.passive.journal import ResumptionTerms
from xgb_fed.vertical.passive.session import RANDOMNESS, ROOT, TABLE, TrainingSession
from xgb_fed.vertical.protocol.messages import SPLIT_BY_OTHERS, FindSplits, Gradients
from xgb_fed.vertical.protocol.splits import NamedSplit, Splits

N_ROWS = 60
COLUMNS = held(read_columns(problem(n=N_ROWS, n_features=3, missing=0.1)[0]))
BINS = COLUMNS.binned(6)
KEY = KEYS[xgb_fed.OkamotoUchiyama]
ALL_COLUMNS = np.arange(3, dtype=np.int32)
EMPTY = np.empty(0, dtype=np.uint8)
ROOT_NODE = np.array([0])


def sampled_rows():
    return np.random.default_rng(1).random(N_ROWS) < 0.8


def encrypted(n_groups=2):
    values = np.random.default_rng(0).integers(0, 1 << 40, (n_groups, int(sampled_rows().sum())))
    return [KEY.encrypt(row.tolist()) for row in values]


def grown(sources, cut_at, ahead):
    """A tree that received its gradients in pieces, with its root's histograms."""
    tree = GrowingTree(BINS, ALL_COLUMNS, sampled_rows(), len(sources))
    summed = []
    for group, source in enumerate(sources):
        bounds = [0, *cut_at, len(source)]
        for start, stop in pairwise(bounds):
            tree.receive(KEY.public, Gradients(group, start, KEY.public.to_bytes(source[start:stop])))
            rows = tree.rows_to_add(group)
            summed.append(len(rows))
            if ahead and rows:
                tree.add_at_root(KEY.public, group, rows)
    assert tree.is_complete
    assert tree.advance(FindSplits(EMPTY, EMPTY)) is None
    tree.build(KEY.public, tree.nodes_with_statistics(1), None)
    return tree.histograms, summed


@pytest.mark.parametrize("cut_at", [[], [1], [7, 8, 30]])
def test_sums_at_the_root_are_the_same_whether_made_ahead_or_when_asked_for(cut_at, monkeypatch):
    monkeypatch.setattr(growing_tree, "MIN_ROWS_AHEAD", 1)
    monkeypatch.setattr(growing_tree, "BINS_AHEAD", 0)
    sources = encrypted()
    now, summed = grown(sources, cut_at, ahead=True)
    assert sum(summed) == 2 * len(sources[0])
    assert all(summed)
    later, _ = grown(sources, cut_at, ahead=False)
    assert (now.counts == later.counts).all()
    assert [sums.tobytes() for sums in now.sums] == [sums.tobytes() for sums in later.sums]


def test_a_few_rows_are_not_worth_a_sum_of_their_own(monkeypatch):
    """Otherwise messages of one row each would cost an addition per bin and row."""
    monkeypatch.setattr(growing_tree, "MIN_ROWS_AHEAD", 20)
    monkeypatch.setattr(growing_tree, "BINS_AHEAD", 0)
    sources = encrypted(1)
    n_rows = len(sources[0])
    _, summed = grown(sources, list(range(1, n_rows)), ahead=True)
    assert [n for n in summed if n] == [20, 20, n_rows - 40][: 3 if n_rows > 40 else 2]
    monkeypatch.setattr(growing_tree, "BINS_AHEAD", 4)
    _, summed = grown(sources, list(range(1, n_rows)), ahead=True)
    assert [n for n in summed if n] == [n_rows]


def session(max_bytes=1 << 30, key=KEY.public):
    terms = ResumptionTerms("okamoto-uchiyama", 512, 6, "rows", "digest")
    return TrainingSession(
        COLUMNS,
        Splits(COLUMNS.names),
        key,
        BINS,
        50,
        3,
        2,
        3,
        b"m" * 16,
        terms,
        memory=MemoryAllowance(max_bytes),
    )


def answered(training, sources):
    """Begin a tree, receive its gradients and give the statistics of its root."""
    training.start_tree(ALL_COLUMNS, sampled_rows())
    for group, source in enumerate(sources):
        training.receive(Gradients(group, 0, KEY.public.to_bytes(source)))
    training.background.finish()
    ahead = len(training.tree.at_root)
    training.tree.advance(FindSplits(EMPTY, EMPTY))
    training.reserve_level()
    training.tree.build(training.key, training.tree.nodes_with_statistics(1), None)
    return ahead, training.statistics(ROOT_NODE)


def test_a_session_sums_up_the_root_and_makes_randomness_ahead():
    training, sources = session(), encrypted()
    ahead, first = answered(training, sources)
    assert ahead == 2
    assert training.n_prepared == 0
    n_sent = len(KEY.public.from_bytes(first.sums))
    training.key.obfuscators.take(len(training.key.obfuscators))
    training.start_tree(ALL_COLUMNS, sampled_rows())
    assert training.n_prepared == training.rooms[RANDOMNESS].n_bytes // KEY.public.ciphertext_bytes >= n_sent
    end = time.monotonic() + 300
    while len(training.key.obfuscators) < training.n_prepared:
        assert time.monotonic() < end
        time.sleep(0.005)
    training.background.close()


@pytest.mark.parametrize("is_room", [True, False])
def test_a_table_of_randomness_is_begun_with_the_second_tree_if_there_is_room_to_spare(is_room):
    key = read_public_key(KEY.public.public_bytes())
    training = session(1 << 30 if is_room else int(key.table_bytes / SPARE) - 1, key)
    sources = encrypted()
    answered(training, sources)
    assert TABLE not in training.rooms
    assert key.zero_table is None
    _, answer = answered(training, sources)
    assert (key.zero_table is not None) is (TABLE in training.rooms) is is_room
    if is_room:
        assert training.rooms[TABLE].n_bytes == key.table_bytes > 0
    training.background.close()
    assert len(KEY.decrypt(key.from_bytes(answer.sums))) > 0


def test_without_room_to_spare_nothing_is_done_ahead_and_the_answer_is_the_same():
    sources = encrypted()
    _, usual = answered(session(), sources)
    gradients = 2 * len(sources[0]) * KEY.public.ciphertext_bytes
    narrow = session(4 * gradients)
    ahead, same = answered(narrow, sources)
    assert ahead == 0
    assert ROOT not in narrow.rooms
    assert (usual.counts == same.counts).all()
    decrypted = [KEY.decrypt(KEY.public.from_bytes(answer.sums)) for answer in (usual, same)]
    assert decrypted[0] == decrypted[1]


def test_codes_of_all_rows_and_columns_are_not_copied_for_a_tree():
    codes = np.arange(12, dtype=np.uint8).reshape(4, 3)
    offsets, some = np.array([0, 12, 24, 36]), np.array([True, False, True, True])
    all_columns, all_rows = np.arange(3, dtype=np.int32), np.ones(4, dtype=bool)
    assert np.shares_memory(tree_rows(codes, offsets, all_columns, all_rows).codes, codes)
    for columns, sampled in ((all_columns, some), (all_columns[:2], all_rows), (all_columns[1:], some)):
        taken = tree_rows(codes, offsets, columns, sampled)
        assert taken.codes.tolist() == codes[sampled][:, columns].tolist()
        assert taken.codes.flags.c_contiguous
        assert taken.bin_offsets.tolist() == list(range(0, 12 * len(columns) + 1, 12))


def test_splits_of_others_leave_rows_on_both_sides_of_every_node():
    tree = GrowingTree(BINS, ALL_COLUMNS, sampled_rows(), 1)
    (source,) = encrypted(1)
    tree.receive(KEY.public, Gradients(0, 0, KEY.public.to_bytes(source)))

    def split_by_others(*sides):
        assignment = np.full(len(sides), SPLIT_BY_OTHERS, dtype=np.uint8)
        return FindSplits(assignment, to_bits(np.concatenate(sides)))

    def build(message):
        parents = tree.advance(message)
        tree.build(KEY.public, tree.nodes_with_statistics(1), parents)

    build(FindSplits(EMPTY, EMPTY))
    (n,) = tree.partition.sizes()
    for sides in (np.ones(n, bool), np.zeros(n, bool)):
        with pytest.raises(ProtocolError, match="side without rows"):
            tree.advance(split_by_others(sides))
    build(split_by_others(np.arange(n) % 3 == 0))
    divided, whole = (np.arange(size) % 2 == 0 for size in tree.partition.sizes())
    for bad in (np.ones_like(whole), np.zeros_like(whole)):
        with pytest.raises(ProtocolError, match="side without rows"):
            tree.advance(split_by_others(divided, bad))
    build(split_by_others(divided, whole))
    assert tree.partition.n_nodes == 4


def divides(tree, split):
    try:
        tree.check_candidate(0, split)
    except ProtocolError:
        return False
    return True


@pytest.mark.parametrize("default_left", [False, True])
@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_split_is_accepted_exactly_if_both_sides_have_sampled_rows(column, default_left):
    tree = GrowingTree(BINS, ALL_COLUMNS, sampled_rows(), 1)
    (source,) = encrypted(1)
    tree.receive(KEY.public, Gradients(0, 0, KEY.public.to_bytes(source)))
    tree.advance(FindSplits(EMPTY, EMPTY))
    with pytest.raises(ProtocolError, match="without statistics"):
        tree.check_candidate(0, NamedSplit(column, 0, default_left))
    tree.build(KEY.public, tree.nodes_with_statistics(1), None)
    first, end = BINS.bin_offsets[column : column + 2]
    counts, n_bins = tree.histograms.counts[0, first:end], int(end - first) - 1
    assert counts.sum() == sampled_rows().sum()
    for last_left in range(-3, n_bins + 3):
        n_left = counts[: max(last_left + 1, 0)].sum() + counts[-1] * default_left
        expected = -1 <= last_left < n_bins and 0 < n_left < counts.sum()
        assert divides(tree, NamedSplit(column, last_left, default_left)) == expected
    for split, node in ((NamedSplit(3, 0, False), 0), (NamedSplit(column, 0, False), 1)):
        with pytest.raises(ProtocolError, match="without statistics"):
            tree.check_candidate(node, split)
