"""Whether the parts of a vertical model, as they were read from a file, fit together."""

from __future__ import annotations

from collections.abc import Sequence

from xgb_fed.vertical.protocol.splits import Splits
from xgb_fed.vertical.trees.tree import LEAF, ROOT, FederatedTree


def check_parts(
    trees: Sequence[FederatedTree],
    rounds: list[int],
    splits: Splits,
    parties: Sequence[str],
    party_features: Sequence[int],
) -> None:
    """Raise ValueError unless trees are trees, and name parties and splits that exist."""
    if rounds != sorted(rounds) or rounds[0] != 0 or rounds[-1] != len(trees):
        raise ValueError("rounds")
    if not all(0 <= f < len(splits.names) for f in splits.features):
        raise ValueError("features")
    if len(parties) != len(party_features):
        raise ValueError("parties")
    for tree in trees:
        lengths = {len(values) for values in tree.to_dict().values()}
        if lengths != {len(tree)} or not len(tree):
            raise ValueError("nodes")
        if tree.parent[0] != ROOT:
            raise ValueError("root")
        for node, owner in enumerate(tree.owner):
            if owner == LEAF:
                if not tree.left[node] == tree.right[node] == tree.split_id[node] == LEAF:
                    raise ValueError("leaves")
                continue
            children = (tree.left[node], tree.right[node])
            # Children come after their parent, and know it: no walk down or up a tree goes in circles.
            if not all(node < child < len(tree) and tree.parent[child] == node for child in children):
                raise ValueError("children")
            if not 0 <= owner <= len(parties) or tree.split_id[node] < 0:
                raise ValueError("splits")
            if owner == 0 and tree.split_id[node] >= len(splits):
                raise ValueError("splits")
        # Each node but the root is the child of one, so that every node is reached, once.
        reached = [c for pair in zip(tree.left, tree.right, strict=True) for c in pair if c != LEAF]
        if sorted(reached) != list(range(1, len(tree))):
            raise ValueError("children")
