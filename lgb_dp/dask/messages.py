"""Messages between the client and the workers about a round, in plain types.

A tree travels once: the round that asks for its leaves sends the splits, and the next round the values that
the leaves were given.  A worker that is new, or has missed something, is sent both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lgb_dp.newton.releases.held_out_rows import HeldOutCells
from lgb_dp.newton.releases.trees import PublicTree, ReleasedTree, Round


def _packed_tree(tree: PublicTree) -> dict[str, bytes]:
    return {"feature": tree.feature.tobytes(), "goes_left": np.packbits(tree.goes_left, axis=1).tobytes()}


def _unpacked_tree(packed: Mapping[str, bytes]) -> PublicTree:
    feature = np.frombuffer(packed["feature"], dtype=np.int32)
    bits = np.frombuffer(packed["goes_left"], dtype=np.uint8).reshape(len(feature), 32)
    return PublicTree(feature, np.unpackbits(bits, axis=1), np.full(len(feature), -1))


def packed_cells(cells: HeldOutCells) -> dict[str, Any]:
    """Cells that held-out rows are counted in."""
    return {**vars(cells), "edges": cells.edges.tobytes()}


def unpacked_cells(packed: Mapping[str, Any]) -> HeldOutCells:
    """Read what `packed_cells` gave."""
    return HeldOutCells(**{**packed, "edges": np.frombuffer(packed["edges"], dtype=np.float64)})


class SentTrees:
    """The client's account of the released trees that a worker knows."""

    def __init__(self) -> None:
        self._known: list[int] = []
        self._asked = 0

    def message(self, question: Round) -> dict[str, Any]:
        """A round for this worker, which is taken to know it from then on."""
        released = question.released
        keep = min(len(self._known), len(released))
        while keep and self._known[keep - 1] != released[keep - 1].number:
            keep -= 1
        new = [self._packed_release(tree) for tree in released[keep:]]
        self._known[keep:] = [tree.number for tree in released[keep:]]
        self._asked = question.number
        return {
            "number": question.number,
            "tree": _packed_tree(question.tree),
            "prior": question.prior.tobytes(),
            "clip": question.clip,
            "salt": question.salt,
            "keep": keep,
            "new": new,
        }

    def _packed_release(self, tree: ReleasedTree) -> dict[str, Any]:
        packed: dict[str, Any] = {"number": tree.number, "value": tree.value.tobytes()}
        return packed if tree.number == self._asked else {**packed, "tree": _packed_tree(tree.tree)}


class ReceivedTrees:
    """The released trees that a worker knows, and by its number the tree it was last asked about."""

    def __init__(self) -> None:
        self._released: list[ReleasedTree] = []
        self._asked: dict[int, PublicTree] = {}

    def question(self, message: Mapping[str, Any]) -> Round:
        """The round that a message asks about."""
        prior: NDArray[np.float64] = np.frombuffer(message["prior"], dtype=np.float64)
        self._released[message["keep"] :] = self._unpacked(message["new"], len(prior))
        tree = _unpacked_tree(message["tree"])
        self._asked = {message["number"]: tree}
        of_rows = message["clip"], message["salt"]
        return Round(message["number"], tree, prior, self._released, *of_rows)

    def _unpacked(self, packed: Sequence[Mapping[str, Any]], n_outputs: int) -> list[ReleasedTree]:
        trees = []
        for new in packed:
            tree = _unpacked_tree(new["tree"]) if "tree" in new else self._asked[new["number"]]
            value = np.frombuffer(new["value"], dtype=np.float64).reshape(-1, n_outputs)
            trees.append(ReleasedTree(new["number"], tree, value))
        return trees
