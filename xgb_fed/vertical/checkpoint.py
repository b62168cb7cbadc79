"""The active party's progress on disk: an interrupted training run resumes at the last finished tree.

Each tree has a file, written once.  One more file holds everything else and is replaced when the tree's file
is complete, so that every tree it counts is there; checksums tell whether the files are what was written.
They hold the active party's own data only: its trees, its splits, the margins of its rows.  Keys are never
written: a resumed run makes a new one, on which no model depends.
"""

from __future__ import annotations

import io
import json
import zlib
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_parties._files import write_atomically
from gbdt_parties.traffic import Flow, Traffic
from xgb_fed.boosting.run_folder import RunFolder
from xgb_fed.errors import CheckpointError
from xgb_fed.vertical.splits import Splits
from xgb_fed.vertical.tree import FederatedTree
from xgb_fed.vertical.tree_record import RECORD_FILE, Restart

FORMAT = 1
STATE_FILE = "training.npz"


@dataclass
class Progress:
    """How far a training run has come.

    Attributes
    ----------
    model_id : bytes
    seed : int
        Of the draws of rows and columns; every tree's come from it and the tree's number.
    trees : list of FederatedTree
    rounds : list of int
        As in `VerticalModel`.
    splits : Splits
        The active party's splits.
    margin : ndarray of float32, shape (n_rows, n_classes)
        After the last finished round.
    eval_margins : list of ndarray
    leaves : list of ndarray of int32
        Rows' leaves in the trees of the round under way.
    evaluations : dict
        Lines of metrics by round.
    traffic : Traffic
    agreed : list of str
        Digest of the columns that each passive party announced; empty before they did.
    restarts : list of Restart
        Of finished trees.
    """

    model_id: bytes
    seed: int
    trees: list[FederatedTree]
    rounds: list[int]
    splits: Splits
    margin: NDArray[np.float32]
    eval_margins: list[NDArray[np.float32]]
    leaves: list[NDArray[np.int32]] = field(default_factory=list)
    evaluations: dict[int, str] = field(default_factory=dict)
    traffic: Traffic = field(default_factory=Traffic)
    agreed: list[str] = field(default_factory=list)
    restarts: list[Restart] = field(default_factory=list)


class Checkpoint(RunFolder):
    """A directory with the progress of one training run.

    Parameters
    ----------
    directory : path
    training : str
        Digest of the data, parameters and parties; a directory with another run's progress is refused.
    """

    def __init__(self, directory: str | Path, training: str) -> None:
        super().__init__(directory)
        self._training = training
        self._checksums: list[int] = []
        self._splits_kept = 0

    def load(self, names: list[str]) -> Progress | None:
        """What was kept, or None if nothing was.

        Raises
        ------
        CheckpointError
            If it belongs to another training run, or is damaged.
        """
        path = self.directory / STATE_FILE
        if not path.exists():
            return None
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            state = json.loads(bytes(arrays["state"]))
            if state["format"] != FORMAT or state["training"] != self._training:
                raise self.of_another_run()
            progress = Progress(
                bytes.fromhex(state["model_id"]),
                state["seed"],
                [],
                state["rounds"],
                Splits(names),
                arrays["margin"],
                [arrays[f"eval_margin_{k}"] for k in range(state["n_evals"])],
                [arrays[f"leaf_{k}"] for k in range(state["n_leaves"])],
                {int(number): line for number, line in state["evaluations"].items()},
                Traffic(state["encrypted"], {tuple(key): Flow(*flow) for key, flow in state["flows"]}),
                state["agreed"],
                [Restart(*restart) for restart in state["restarts"]],
            )
            for number, checksum in enumerate(state["checksums"]):
                text = self._tree_file(number).read_bytes()
                if zlib.crc32(text) != checksum:
                    raise ValueError("checksum")
                content = json.loads(text)
                progress.trees.append(FederatedTree(**content["tree"]))
                for split in content["splits"]:
                    progress.splits.add(*split)
        except CheckpointError:
            raise
        except Exception as error:
            # A damaged archive makes its readers raise nearly anything.
            raise self.unreadable(error) from None
        self._checksums, self._splits_kept = state["checksums"], len(progress.splits)
        return progress

    def save(self, progress: Progress) -> None:
        """Keep new trees, then that they are there.

        Raises
        ------
        OSError
            If the disk is full; the last progress stays.
        """
        splits = progress.splits
        for number in range(len(self._checksums), len(progress.trees)):
            tree = progress.trees[number]
            last = self._splits_kept + tree.owner.count(0)
            own = slice(self._splits_kept, last)
            columns = (splits.features[own], splits.thresholds[own], splits.default_left[own])
            content = {"tree": tree.to_dict(), "splits": list(zip(*columns, strict=True))}
            text = json.dumps(content).encode()
            write_atomically(self._tree_file(number), text)
            self._checksums.append(zlib.crc32(text))
            self._splits_kept = last
        arrays: dict[str, Any] = {"margin": progress.margin}
        arrays |= {f"eval_margin_{k}": margin for k, margin in enumerate(progress.eval_margins)}
        arrays |= {f"leaf_{k}": leaf for k, leaf in enumerate(progress.leaves)}
        arrays["state"] = np.frombuffer(json.dumps(self._state(progress)).encode(), dtype=np.uint8)
        file = io.BytesIO()
        np.savez(file, **arrays)
        write_atomically(self.directory / STATE_FILE, file.getvalue())

    def _state(self, progress: Progress) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "training": self._training,
            "model_id": progress.model_id.hex(),
            "seed": progress.seed,
            "checksums": self._checksums,
            "rounds": progress.rounds,
            "n_evals": len(progress.eval_margins),
            "n_leaves": len(progress.leaves),
            "evaluations": progress.evaluations,
            "agreed": progress.agreed,
            "restarts": [astuple(restart) for restart in progress.restarts],
            "encrypted": progress.traffic.encrypted,
            "flows": [
                [key, [flow.messages, flow.bytes, flow.ciphertext_bytes]]
                for key, flow in progress.traffic.flows.items()
            ],
        }

    def _tree_file(self, number: int) -> Path:
        return self.directory / f"tree-{number:06d}.json"

    def clear(self) -> None:
        """Remove the progress: the model is kept elsewhere."""
        (self.directory / STATE_FILE).unlink(missing_ok=True)
        (self.directory / RECORD_FILE).unlink(missing_ok=True)
        for path in self.directory.glob("tree-*.json"):
            path.unlink()
