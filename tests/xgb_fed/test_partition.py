import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xgb_fed.partition import Partition


@st.composite
def levels(draw):
    """A partition some levels below the root, and the node of every row: −1 if a leaf above has it."""
    n_rows = draw(st.integers(1, 40))
    partition, node_of = Partition.root(n_rows), np.zeros(n_rows, dtype=int)
    for _ in range(draw(st.integers(0, 3))):
        split = sorted(draw(st.sets(st.integers(0, partition.n_nodes - 1)))) if partition.n_nodes else []
        left = np.array(draw(st.lists(st.booleans(), min_size=n_rows, max_size=n_rows)))
        partition = partition.children({node: left[partition.of(node)] for node in reversed(split)})
        place = {node: 2 * k for k, node in enumerate(split)}
        node_of = np.array(
            [place[n] + (not goes) if n in place else -1 for n, goes in zip(node_of, left, strict=True)]
        )
        assert partition.n_nodes == 2 * len(split)
    return partition, node_of


@given(levels())
def test_children_share_out_the_rows_of_their_parents(level):
    """Every row is in the node that following it down gives, in ascending order, for any flags."""
    partition, node_of = level
    for node in range(partition.n_nodes):
        assert partition.of(node).tolist() == np.flatnonzero(node_of == node).tolist()
    assert partition.sizes().tolist() == [np.sum(node_of == node) for node in range(partition.n_nodes)]
    assert len(partition.rows) == np.sum(node_of >= 0)
    assert (partition.rows.dtype, partition.starts.dtype) == (np.int32, np.int64)


@given(levels(), st.data())
def test_sampled_rows_stay_in_their_nodes(level, data):
    partition, node_of = level
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=len(node_of), max_size=len(node_of))))
    kept = partition.kept(mask)
    assert kept.n_nodes == partition.n_nodes
    for node in range(partition.n_nodes):
        assert kept.of(node).tolist() == np.flatnonzero(mask & (node_of == node)).tolist()


@given(levels(), st.data())
def test_some_nodes_in_any_order(level, data):
    partition, _ = level
    numbers = st.integers(0, partition.n_nodes - 1) if partition.n_nodes else st.nothing()
    nodes = data.draw(st.lists(numbers, unique=True))
    chosen = partition.selected(np.array(nodes, dtype=np.int64))
    assert chosen.n_nodes == len(nodes)
    for k, node in enumerate(nodes):
        assert chosen.of(k).tolist() == partition.of(node).tolist()


@given(levels(), st.data())
def test_flags_are_of_the_nodes_they_were_made_from(level, data):
    partition, _ = level
    numbers = st.integers(0, partition.n_nodes - 1) if partition.n_nodes else st.nothing()
    nodes = sorted(data.draw(st.sets(numbers)))
    size = sum(len(partition.of(node)) for node in nodes)
    bits = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    flags = partition.split_flags(nodes, np.array(bits, dtype=bool))
    assert list(flags) == nodes
    assert [bit for node in nodes for bit in flags[node].tolist()] == bits
    assert [len(flags[node]) for node in nodes] == [len(partition.of(node)) for node in nodes]
