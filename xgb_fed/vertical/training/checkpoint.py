"""The active party's progress on disk: an interrupted training run resumes at the last finished tree.

It is a journal that only grows, in a store.  Its first entry names the training run; each tree, each round,
each time that a passive party is about to be told its splits, or the end of the run, and what left until a
call ended or failed, is one more.  Only these last three kinds wait for the disk: what leaves this party has
been kept, and whatever else a crash takes is grown again from the same draws.  Margins are not written, since
they follow from the rows' leaves.

The journal holds the active party's own data only: its trees, its splits, the leaves of its rows.  Keys are
never written: a resumed run makes a new one, on which no model depends.  The seed of the draws ends with the
run; rounds that are added to one that has ended have another.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_commons.store import Kind, Store
from gbdt_parties.progress_folder import ProgressFolder
from gbdt_parties.run.log import ENTRIES, RUNS
from gbdt_parties.traffic import Traffic
from xgb_fed.errors import CheckpointError
from xgb_fed.vertical.model.model import VerticalModel
from xgb_fed.vertical.model.values import flow_in, n_drawn_in, restart_in, tree_in
from xgb_fed.vertical.protocol.splits import NamedSplit, check_split
from xgb_fed.vertical.trees.tree import add_leaves
from xgb_fed.vertical.trees.tree_record import Restart

STORE_FILE, ROLE = "training.store", "an active party"

Entry = tuple[dict[str, Any], list[NDArray[Any]]]
"""Values of the types of JSON, and arrays."""


@dataclass
class VerticalProgress:
    """How far a training run has come: the model so far, and all that its next tree follows from."""

    model: VerticalModel
    seed: int
    """Of the draws of rows and columns; every tree's come from it and the tree's number."""
    margin: NDArray[np.float32]
    """After the last finished round, shape (n_rows, n_classes)."""
    eval_margins: list[NDArray[np.float32]]
    leaves: list[NDArray[np.int32]] = field(default_factory=list)
    """Rows' leaves in the trees of the round under way."""
    n_drawn: int = 0
    """Random numbers that the columns of finished trees took, if drawn as XGBoost does, and gradients did."""
    n_drawn_before: int = 0
    """Those taken before the round under way."""
    continues: bool = False
    """Whether the margins of the beginning are those of a model that is continued."""
    evaluations: dict[int, str] = field(default_factory=dict)
    """Lines of metrics by round."""
    counted: Traffic = field(default_factory=Traffic)
    """The part of the model's traffic that callers have counted: that of calls before, which failed."""
    agreed: list[str] = field(default_factory=list)
    """Digest of the columns that each passive party announced; empty before they did."""
    named: dict[int, list[NamedSplit]] = field(default_factory=dict)
    """By passive party, the splits of finished trees as they were named to it."""
    kept_leaves: list[NDArray[np.integer]] = field(default_factory=list)
    """Rows' leaves in all trees that a checkpoint kept, until the parties' columns are known again."""
    under_way: dict[str, Any] | None = None
    """Kept part of the tree that was under way when the run was interrupted; see `TreeRecord`."""

    def end_round(self, eval_leaves: list[NDArray[np.int32]]) -> None:
        """Add the round's trees to all margins, by each set's leaves, (n_rows, n_trees)."""
        self.n_drawn_before = self.n_drawn
        trees = self.model.trees[self.model.rounds[-1] :]
        self.model.rounds.append(len(self.model.trees))
        leaves = [np.stack(self.leaves, axis=1), *eval_leaves]
        for margin, reached in zip([self.margin, *self.eval_margins], leaves, strict=True):
            for k, tree in enumerate(trees):
                values = tree.values()[reached[:, k]]
                # Class by class, each with as many trees as a forest has.
                group = k * margin.shape[1] // len(trees)
                add_leaves(margin, values, None if values.shape == margin.shape else group)
        self.leaves.clear()


class VerticalCheckpoint(ProgressFolder):
    """A run's progress in a directory; one of another `training` digest (data, settings) is refused."""

    store_file, role = STORE_FILE, ROLE

    def __init__(self, directory: str | Path, training: str) -> None:
        super().__init__(directory, CheckpointError)
        self._training = training

    @contextmanager
    def taken_up(self) -> Iterator[VerticalJournal]:
        """The journal of the run; no other run uses the directory meanwhile."""
        with self.opened() as store:
            yield VerticalJournal(self, store, self._training)


class VerticalJournal:
    """The progress of a training run in an open store; errors name the store's folder."""

    def __init__(self, folder: ProgressFolder, store: Store, training: str) -> None:
        self._folder, self._store, self._training = folder, store, training
        self._n_splits = self._n_restarts = 0
        self._n_named: dict[int, int] = {}
        self._evaluated: set[int] = set()

    def load(self, progress: VerticalProgress) -> bool:
        """Take up kept progress, False if none; `CheckpointError` if of another run, or damaged."""
        try:
            entries = self._store.entries(ENTRY, "")
            first = next(entries, None)
            if first is None:
                return False
            self._read_beginning(*first, progress)
            for entry in entries:
                self._read(*entry, progress)
        except CheckpointError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise self._folder.unreadable(error) from None
        self._note_kept(progress)
        return True

    def _read_beginning(
        self, content: dict[str, Any], margins: list[NDArray[np.float32]], progress: VerticalProgress
    ) -> None:
        if content["training"] != self._training:
            raise self._folder.of_another_run()
        progress.model.model_id = bytes.fromhex(content["model_id"])
        kept = self._store.get(RUNS, "")
        if kept is None:
            # The run has ended; the present seed is that of rounds which may follow.
            self._store.put(RUNS, "", {"seed": progress.seed})
        else:
            progress.seed = kept["seed"]
        progress.agreed = content["agreed"]
        if margins:
            shapes = [margin.shape for margin in (progress.margin, *progress.eval_margins)]
            if [margin.shape for margin in margins] != shapes:
                raise ValueError("margins")
            progress.margin, *progress.eval_margins = (margin.copy() for margin in margins)

    def _read(self, content: dict[str, Any], arrays: list[NDArray[Any]], progress: VerticalProgress) -> None:
        """Take up one entry after the first."""
        kind, model = content["kind"], progress.model
        if kind == "under way":
            progress.under_way = content["tree"]
            return
        if kind == "traffic":
            for traffic, name in ((model.traffic, "flows"), (progress.counted, "counted")):
                traffic.flows = dict(flow_in(key, counts) for key, counts in content[name])
            return
        if content["number"] != (len(model.trees) if kind == "tree" else model.num_boosted_rounds()):
            raise ValueError("an entry is missing or repeated")
        if kind == "tree":
            (leaf,) = arrays
            tree = tree_in(content["tree"], progress.margin.shape[1])
            if leaf.shape != progress.margin.shape[:1] or leaf.max() >= len(tree):
                raise ValueError("leaves")
            model.trees.append(tree)
            progress.leaves.append(leaf.astype(np.int32))
            progress.kept_leaves.append(leaf)
            for owner, named in content["named"].items():
                progress.named.setdefault(int(owner), []).extend(_named_split(split) for split in named)
            for split in content["splits"]:
                model.splits.add(*check_split(split, model.splits))
            progress.n_drawn = n_drawn_in(content["n_drawn"])
            names = [one.name for one in fields(Restart)]
            restarts = (dict(zip(names, one, strict=True)) for one in content["restarts"])
            model.restarts += [restart_in(one) for one in restarts]
            progress.evaluations |= {int(number): line for number, line in content["evaluations"].items()}
            model.traffic.flows = dict(flow_in(key, counts) for key, counts in content["flows"])
            progress.under_way = None
        elif kind == "round":
            progress.end_round(arrays)
        elif kind != "end":
            raise ValueError("an entry of another kind")

    @property
    def has_begun(self) -> bool:
        """Whether the training run's first entry is on the disk."""
        return self._store.size(ENTRY, "") > 0

    @property
    def n_steps(self) -> int:
        """How many steps of the run are finished; see `steps_in`."""
        return len(steps_in(self._store))

    def begin(self, progress: VerticalProgress) -> None:
        """Keep the name and the seed of a training run, whose first tree may then be begun again.

        If the run continues a model, the margins that it begins with are kept, too.  Raises OSError if the
        disk is full, for example.
        """
        number = progress.model.model_id.hex()
        content = {"training": self._training, "model_id": number, "agreed": progress.agreed}
        self._note_kept(progress)
        margins = [progress.margin, *progress.eval_margins] if progress.continues else []
        with self._store.transaction():
            self._store.put(RUNS, "", {"seed": progress.seed})
            self._append(content, margins)

    def add_tree(self, progress: VerticalProgress) -> None:
        """Keep the last tree, its rows' leaves and all changes; after an OSError earlier progress stays."""
        model, tree = progress.model, progress.model.trees[-1]
        content = {
            "kind": "tree",
            "number": len(model.trees) - 1,
            "tree": tree.to_dict(),
            "splits": model.splits.entries(self._n_splits),
            "n_drawn": progress.n_drawn,
            "restarts": [astuple(restart) for restart in model.restarts[self._n_restarts :]],
            "evaluations": {k: line for k, line in progress.evaluations.items() if k not in self._evaluated},
            "named": {k: named[self._n_named.get(k, 0) :] for k, named in progress.named.items()},
            "flows": _flows_of(model.traffic),
        }
        self._append(content, [progress.leaves[-1].astype(np.min_scalar_type(len(tree)))], sync=False)
        self._note_kept(progress)

    def _note_kept(self, progress: VerticalProgress) -> None:
        """Note that the present contents need not be written again."""
        model = progress.model
        self._n_splits, self._n_restarts = len(model.splits), len(model.restarts)
        self._n_named = {owner: len(named) for owner, named in progress.named.items()}
        self._evaluated = set(progress.evaluations)

    def add_round(self, progress: VerticalProgress, eval_leaves: list[NDArray[np.int32]]) -> None:
        """Keep that a round has all its trees, and the leaves of the evaluation sets' rows in them."""
        model = progress.model
        content = {"kind": "round", "number": model.num_boosted_rounds()}
        most = max(len(tree) for tree in model.trees[model.rounds[-1] :])
        arrays = [leaves.astype(np.min_scalar_type(most)) for leaves in eval_leaves]
        self._append(content, arrays, sync=False)

    def keep_under_way(self, tree: dict[str, Any]) -> None:
        """Keep, on the disk, what a passive party is about to be told; see `TreeRecord`."""
        self._append({"kind": "under way", "tree": tree}, [])

    def add_traffic(self, progress: VerticalProgress) -> None:
        """Keep what left until the end of a call, and what callers have counted of it."""
        flows, counted = _flows_of(progress.model.traffic), _flows_of(progress.counted)
        self._append({"kind": "traffic", "flows": flows, "counted": counted}, [])

    def add_end(self, progress: VerticalProgress) -> None:
        """Keep, on the disk, all rounds: parties that know of the end do not go back to an earlier tree."""
        with self._store.transaction():
            self._store.delete(RUNS, "")
            self._append({"kind": "end", "number": progress.model.num_boosted_rounds()}, [])

    def _append(self, content: dict[str, Any], arrays: list[NDArray[Any]], sync: bool = True) -> None:
        with self._store.transaction(sync=sync):
            self._store.append(ENTRY, "", (content, arrays))


def steps_in(store: Store) -> list[int]:
    """Places of entries that are the same if a run is repeated; how often others are kept, threads decide."""
    kinds = enumerate(content.get("kind") for content, _ in store.entries(ENTRY, ""))
    return [place for place, kind in kinds if kind not in ("under way", "traffic")]


def _flows_of(traffic: Traffic) -> list[Any]:
    """The flows, for JSON; `flow_in` reads one."""
    return [[key, astuple(flow)] for key, flow in traffic.flows.items()]


def _named_split(content: list[Any]) -> NamedSplit:
    """A split as it was named."""
    column, last_left, default_left, right = content
    return NamedSplit(column, last_left, default_left, tuple(right) if right else None)


def _packed(entry: Entry) -> bytes:
    """A line of JSON, and the bytes of the arrays that it describes."""
    content, arrays = entry
    content = {**content, "arrays": [[array.dtype.str, array.shape] for array in arrays]}
    return b"".join([json.dumps(content).encode(), b"\n", *(array.tobytes() for array in arrays)])


def _unpacked(entry: bytes) -> Entry:
    text, _, values = entry.partition(b"\n")
    content = json.loads(text)
    arrays, start = [], 0
    for dtype, shape in content["arrays"]:
        array = np.frombuffer(values, np.dtype(dtype), math.prod(shape), start).reshape(shape)
        start += array.nbytes
        arrays.append(array)
    return content, arrays


ENTRY = Kind(ENTRIES.name, _packed, _unpacked)
