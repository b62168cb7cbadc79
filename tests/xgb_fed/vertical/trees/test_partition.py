import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xgb_fed.vertical.trees.partition import NodesWithStatistics, Partition


@st.composite
def levels(draw):
    """A partition below the root, the node of every row (−1 if a leaf above has it), and a generator."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_rows = draw(st.integers(1, 40))
    partition, node_of = Partition.root(n_rows), np.zeros(n_rows, dtype=int)
    for _ in range(draw(st.integers(0, 3))):
        split = np.flatnonzero(random.random(partition.n_nodes) < 0.7).tolist()
        left = random.random(n_rows) < random.choice([0.0, 0.3, 0.5, 1.0])
        partition = partition.children({node: left[partition.of(node)] for node in reversed(split)})
        place = {node: 2 * k for k, node in enumerate(split)}
        node_of = np.array(
            [place[n] + (not goes) if n in place else -1 for n, goes in zip(node_of, left, strict=True)]
        )
        assert partition.n_nodes == 2 * len(split)
    return partition, node_of, random


@given(levels())
@settings(max_examples=40)
def test_children_share_out_the_rows_of_their_parents(level):
    """Every row is in the node that following it down gives, in ascending order, for any flags."""
    partition, node_of, _ = level
    for node in range(partition.n_nodes):
        assert partition.of(node).tolist() == np.flatnonzero(node_of == node).tolist()
    assert partition.sizes().tolist() == [np.sum(node_of == node) for node in range(partition.n_nodes)]
    assert len(partition.rows) == np.sum(node_of >= 0)
    assert (partition.rows.dtype, partition.starts.dtype) == (np.int32, np.int64)


@given(levels())
@settings(max_examples=40)
def test_sampled_rows_stay_in_their_nodes(level):
    partition, node_of, random = level
    mask = random.random(len(node_of)) < 0.5
    kept = partition.kept(mask)
    assert kept.n_nodes == partition.n_nodes
    for node in range(partition.n_nodes):
        assert kept.of(node).tolist() == np.flatnonzero(mask & (node_of == node)).tolist()


@given(levels())
@settings(max_examples=40)
def test_some_nodes_in_any_order(level):
    partition, _, random = level
    nodes = random.permutation(partition.n_nodes)[: random.integers(0, partition.n_nodes + 1)]
    chosen = partition.selected(nodes)
    assert chosen.n_nodes == len(nodes)
    for k, node in enumerate(nodes):
        assert chosen.of(k).tolist() == partition.of(node).tolist()


@given(levels())
@settings(max_examples=40)
def test_flags_are_of_the_nodes_they_were_made_from(level):
    partition, _, random = level
    nodes = np.flatnonzero(random.random(partition.n_nodes) < 0.5).tolist()
    expected = {node: random.random(len(partition.of(node))) < 0.5 for node in nodes}
    together = np.concatenate([np.empty(0, dtype=bool), *expected.values()])
    flags = partition.split_flags(nodes, together)
    assert list(flags) == nodes
    for node in nodes:
        assert flags[node].tolist() == expected[node].tolist()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=8), st.integers(1, 9))
@settings(max_examples=100)
def test_of_two_siblings_the_smaller_one_is_sent_if_it_may_be(pairs, min_rows):
    nodes = NodesWithStatistics.of(np.array(pairs).ravel(), min_rows)
    assert nodes.all.tolist() == [k for k, size in enumerate(np.ravel(pairs)) if size >= min_rows]
    sent = []
    for k, (left, right) in enumerate(pairs):
        if min(left, right) >= min_rows:
            sent.append(2 * k + (right < left))
        elif max(left, right) >= min_rows:
            sent.append(2 * k + (right > left))
    assert nodes.sent.tolist() == sent
    larger = [2 * k + (right >= left) for k, (left, right) in enumerate(pairs)]
    assert nodes.larger.tolist() == [k for k in larger if k in nodes.all]


def test_a_root_is_sent():
    assert NodesWithStatistics.of(np.array([7]), 7).sent.tolist() == [0]
    assert NodesWithStatistics.of(np.array([7]), 8).sent.tolist() == []
