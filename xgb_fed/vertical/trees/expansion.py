"""The order in which XGBoost expands the nodes of a tree, and which of them it does not expand.

``grow_policy="lossguide"`` always expands the leaf whose best split changes the loss most, one at a time,
until there are `max_leaves` leaves.  A federated tree is grown level by level nevertheless, so that a level
costs one question to each party however many leaves there are.  That is possible because statistics that are
not known yet can only push a node back: what comes before it without them comes before it with them.  So the
nodes of a level are split that come early enough among all that is known, and what turns out too much at the
end is cut off.  No level is asked for that the tree does not reach.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field


@dataclass
class Expansion:
    """The nodes of a growing tree by the order in which they were grown, level by level.

    If `by_loss_change` (``grow_policy="lossguide"``), the node with the largest loss change comes first, else
    that with the lowest number.  0 means no limit of leaves.  `loss_change` is that of the best candidate of
    every node that is worth a split, `children` the left and right child of each node that was split.
    """

    by_loss_change: bool = False
    max_leaves: int = 0
    loss_change: dict[int, float] = field(default_factory=dict)
    children: dict[int, tuple[int, int]] = field(default_factory=dict)

    def order(self) -> list[int]:
        """The nodes that are split, in XGBoost's order, as far as statistics are known.

        The children of the k-th one are nodes 2k + 1 and 2k + 2 of XGBoost's tree; of equal loss changes
        the node with the lower number comes first.
        """
        order: list[int] = []
        waiting: list[tuple[float, int, int]] = []

        def wait(node: int, number: int) -> None:
            if node in self.loss_change:
                change = -self.loss_change[node] if self.by_loss_change else 0.0
                heapq.heappush(waiting, (change, number, node))

        wait(0, 0)
        while waiting and len(order) + 1 != self.max_leaves:
            _, _, node = heapq.heappop(waiting)
            order.append(node)
            for k, child in enumerate(self.children.get(node, ()), start=2 * len(order) - 1):
                wait(child, k)
        return order

    def to_split(self, nodes: Iterable[int]) -> set[int]:
        """Which nodes of the last level known are split, unless statistics to come push them back."""
        able = {node for node in nodes if node in self.loss_change}
        return able.intersection(self.order()) if self.max_leaves else able

    def has_room_below(self, nodes: Collection[int]) -> bool:
        """Whether a child of some nodes that are to be split may be split too, within `max_leaves`."""
        if not self.max_leaves:
            return True
        order = self.order()
        # Depth-wise, children come after all that is known; otherwise right after their parent at best.
        before = min(map(order.index, nodes)) + 1 if self.by_loss_change else len(order)
        return before + 1 < self.max_leaves
