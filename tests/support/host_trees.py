"""Random trees in LightGBM's terms, with rows that lie on all their edges."""

import numpy as np

from gbdt_hosts.lightgbm.text import Header, Tree, model_text, tree_block

IS_CATEGORICAL = (False, True, False, True)
CATEGORIES = (3, 100)
"""Categories of the two categorical features: one word of a bit set, and several."""
THRESHOLDS = [0.0, -0.0, 0.1 + 0.2, 1e16 + 2, 1 / 3, 5e-324, -2e-310, 1.7976931348623157e308, -1e300, 1e-36]


def random_tree(rng, n_leaves):
    """Split random leaves until there are enough; numbered as LightGBM numbers them."""
    n_nodes = n_leaves - 1
    left_child, right_child = np.zeros(n_nodes, np.int32), np.zeros(n_nodes, np.int32)
    place_of_leaf = {}
    for node in range(n_nodes):
        leaf = int(rng.integers(0, node + 1))
        if node:
            side, parent = place_of_leaf[leaf]
            side[parent] = node
        left_child[node], right_child[node] = ~leaf, ~(node + 1)
        place_of_leaf[leaf] = left_child, node
        place_of_leaf[node + 1] = right_child, node
    feature = rng.integers(0, len(IS_CATEGORICAL), n_nodes).astype(np.int32)
    sets = [
        np.flatnonzero(rng.random(CATEGORIES[f // 2]) < 0.4) if IS_CATEGORICAL[f] else None for f in feature
    ]
    numeric = np.where(rng.random(n_nodes) < 0.5, rng.choice(THRESHOLDS, n_nodes), rng.normal(size=n_nodes))
    leaf_count = rng.integers(1, 100, n_leaves)
    internal_count = np.zeros(n_nodes, dtype=np.int64)
    for node in reversed(range(n_nodes)):
        for child in (left_child[node], right_child[node]):
            internal_count[node] += internal_count[child] if child >= 0 else leaf_count[~child]
    return Tree(
        feature=feature,
        threshold=numeric,
        left_categories=tuple(sets),
        missing_left=np.array([s is None and rng.random() < 0.5 for s in sets], dtype=bool),
        left_child=left_child,
        right_child=right_child,
        leaf_value=rng.normal(size=n_leaves),
        leaf_count=leaf_count,
        internal_value=rng.normal(size=n_nodes),
        internal_count=internal_count,
        gain=rng.random(n_nodes),
        shrinkage=0.1,
    )


def random_trees(seed, n_trees):
    rng = np.random.default_rng(seed)
    return [random_tree(rng, int(rng.integers(2, 12))) for _ in range(n_trees)]


def header(n_classes=1, objective=None):
    objective = objective or ("regression" if n_classes == 1 else f"multiclass num_class:{n_classes}")
    infos = [
        ":".join(map(str, range(CATEGORIES[f // 2]))) if c else "[-1:1]" for f, c in enumerate(IS_CATEGORICAL)
    ]
    return Header(objective, n_classes, ["a", "b", "c", "d"], infos)


def text_of(trees, n_classes=1, parameters=None):
    return model_text(header(n_classes), [tree_block(t) for t in trees], parameters or {})


def random_rows(trees, seed, n_rows=60):
    """NaN, categories seen, unseen and negative, values on thresholds and one step beside them."""
    rng = np.random.default_rng(seed)
    on = np.unique(np.concatenate([np.concatenate([t.threshold, THRESHOLDS]) for t in trees]))
    with np.errstate(over="ignore"):
        values = np.concatenate(
            [on, np.nextafter(on, np.inf), np.nextafter(on, -np.inf), [0.0, np.inf, -np.inf]]
        )
    values = values[(np.abs(values) > 1e-35) | (values == 0)]
    rows = np.empty((n_rows, len(IS_CATEGORICAL)))
    for f, is_categorical in enumerate(IS_CATEGORICAL):
        high = CATEGORIES[f // 2] + 40
        rows[:, f] = rng.integers(-2, high, n_rows) if is_categorical else rng.choice(values, n_rows)
    rows[rng.random(rows.shape) < 0.15] = np.nan
    return rows
