"""Sums over the rows of a Spark data frame: exact integers, added up here whatever happens to tasks."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import replace
from itertools import starmap
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbdt_kernels.trees import BinLayout
from lgb_dp.errors import InvalidArgumentError, PartitionError
from lgb_dp.newton.releases.held_out_rows import HeldOutCells
from lgb_dp.newton.releases.partitions import RowRules, refusal
from lgb_dp.newton.releases.trees import ReleasedTree, Round
from lgb_dp.spark.blocks import (
    ANSWERS,
    BLOCKS,
    Binning,
    FrameColumns,
    PackedQuestion,
    Scoring,
    Summing,
    packed,
)
from lgb_dp.spark.jobs import Jobs

TREES_BETWEEN_SCORES = 50
"""Released trees that each job walks through, at most, before scores are kept anew."""


class SparkLeafSums:
    """The rows of a frame with the columns as `FrameColumns` says, binned once and summed by jobs.

    Nothing is released here: a job that fails, or a task that Spark repeats, costs time alone.
    `InvalidArgumentError` if a partition does not match what was declared; `ClusterError` if a job fails.
    """

    def __init__(self, frame: Any, columns: FrameColumns, rules: RowRules, timeout: float) -> None:
        assert rules.subsample == 1  # a block that is computed again would draw other samples
        self._rules, self._jobs = rules, Jobs(frame.sparkSession, timeout)
        self._known: dict[tuple[int, int], tuple[int, int, int]] | None = None
        self._scored: Any = None
        self._last: list[ReleasedTree] = []
        binning = Binning(rules, columns, secrets.randbits(256))
        self._blocks = self._jobs.result("table", lambda: frame.mapInArrow(binning, BLOCKS).persist())
        try:
            self._counts = self._sum(
                "binning", PackedQuestion("label_counts"), rules.loss.n_counts(rules.scale.n_outputs)
            )
            if not self._known:
                raise InvalidArgumentError("the data frame has no rows")
        except BaseException:
            self.close()
            raise

    def label_counts(self) -> NDArray[np.int64]:
        """As for `LeafSums`."""
        return np.array(self._counts)

    def feature_counts(self, layout: BinLayout) -> NDArray[np.int64]:
        """As for `LeafSums`."""
        return self._sum("feature histograms", PackedQuestion("feature_counts", layout), layout.n_total_bins)

    def sums(self, question: Round) -> NDArray[np.int64]:
        """As for `LeafSums`."""
        return self.sums_of([question])[0]

    def sums_of(self, questions: Sequence[Round]) -> list[NDArray[np.int64]]:
        """As for `LeafSums`, in one job."""
        rounds = [self._from_scores(question) for question in questions]
        shapes = [(q.n_cells, self._rules.scale.n_outputs, 2) for q in questions]
        sizes = [int(np.prod(shape)) for shape in shapes]
        name = f"trees {questions[0].number} to {questions[-1].number}"
        parts = np.split(
            self._sum(name, PackedQuestion("sums_of", rounds), sum(sizes)), np.cumsum(sizes)[:-1]
        )
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def held_out_counts(self, question: Round, cells: HeldOutCells) -> NDArray[np.int64]:
        """As for `LeafSums`."""
        asked = PackedQuestion("held_out_counts", self._from_scores(question), cells)
        return self._sum("held-out rows", asked, cells.n_groups * cells.per_group(self._rules.scale))

    def _from_scores(self, question: Round) -> Round:
        """A question with the released trees from the last one whose scores are kept; keeps them anew."""
        released, done = list(question.released), len(self._last)
        if not all(starmap(is_, zip(self._last, released, strict=False))) or len(released) < done:
            self._keep(None, [])  # trees were taken back
        elif len(released) - done >= TREES_BETWEEN_SCORES:
            scoring = Scoring(self._rules, packed(question))
            self._keep(self._blocks.mapInArrow(scoring, BLOCKS).persist(), released)
        return replace(question, released=released[max(0, len(self._last) - 1) :])

    def close(self) -> None:
        """Make the executors forget the rows, as far as the session can be reached."""
        try:
            frames = [one for one in (self._scored, self._blocks) if one is not None]
            self._jobs.result("end", lambda: [one.unpersist() for one in frames])
        except Exception:
            return  # nothing is left of a session that was stopped

    def _keep(self, scored: Any, released: list[ReleasedTree]) -> None:
        """Go on from blocks with scores, or from those without; the ones before are forgotten."""
        if self._scored is not None:
            self._scored.unpersist()
        self._scored, self._last = scored, released

    def _sum(self, name: str, answer: PackedQuestion, size: int) -> NDArray[np.int64]:
        """The sum of an answer over all blocks, each counted once."""
        frame = self._blocks if self._scored is None else self._scored
        last = self._last[-1].number if self._last else 0
        summing = Summing(self._rules, last, answer)
        told = self._jobs.result(name, lambda: frame.mapInArrow(summing, ANSWERS).toArrow()).to_pylist()
        self._check(name, told)
        total = np.zeros(size, dtype=np.int64)
        for row in told:
            if row["sums"] is not None:
                total += np.frombuffer(row["sums"], dtype=np.int64)
        return total

    def _check(self, name: str, told: list[dict[str, Any]]) -> None:
        """Raise unless every block came once, with the rows that its partition had when it was binned.

        Where rows are held out, they must be in the same blocks, whose coins are then the same.
        """
        found = dict[tuple[int, int], tuple[int, int, int]]()
        for row in told:
            if row["fault"] is not None:
                raise refusal(row["part"], *row["fault"].split(": ", 1)) from None
            place = row["part"], 0 if self._rules.hold_out is None else row["block"]
            n_blocks, n_rows, content = found.get(place, (0, 0, 0))
            total = (content + row["content"]) % 2**64
            found[place] = n_blocks + 1, n_rows + row["n_rows"], total
        if self._known is None:
            self._known = found
        places = {(row["part"], row["block"]) for row in told}
        if found != self._known or len(places) < len(told):
            parts = found.keys() | self._known.keys()
            other = min((p[0] for p in parts if found.get(p) != self._known.get(p)), default="")
            raise PartitionError(
                f"Spark job {name!r}: partition {other} has other rows than when it was binned; a table that "
                "changes must be written to storage before training"
            )
