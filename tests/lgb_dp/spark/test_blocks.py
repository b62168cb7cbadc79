"""What is checked of a partition does not depend on the order of its rows, or on its blocks."""

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

from lgb_dp.data.bins import public_bins
from lgb_dp.losses.labels import LabelScale
from lgb_dp.losses.loss import NewtonLoss
from lgb_dp.newton.releases.partitions import RowRules
from spark_training import FRAME, NAMES, X, blocks


@pytest.fixture
def content(monkeypatch):
    """The sum over the blocks of one partition, of rows in batches."""
    monkeypatch.setattr(blocks, "TaskContext", SimpleNamespace(get=lambda: SimpleNamespace(partitionId=int)))
    bins = public_bins(FRAME[NAMES], NAMES, (-3, 3), 16, None, None)
    scale = LabelScale("binary", 1, 0.0, 1.0)
    types = tuple(f"{name}: Float64" for name in NAMES)
    rules = RowRules(bins, types, scale, NewtonLoss("binary", 1.0, 0.0), "raise", None, None, None, 1.0, 1)
    binning = blocks.Binning(rules, blocks.FrameColumns(4, tuple(NAMES), False, False), 77)

    def total(frame, size):
        monkeypatch.setattr(blocks, "ROWS_OF_BLOCK", size)
        made = list(binning(pa.Table.from_pandas(frame, preserve_index=False).to_batches(size)))
        rows = [row for batch in made for row in batch.to_pylist()]
        assert [row["fault"] for row in rows] == [None] * len(rows)
        assert [row["block"] for row in rows] == list(range(len(rows)))
        return sum(row["n_rows"] for row in rows), sum(row["content"] for row in rows) % 2**64

    return total


def test_order_and_blocks_leave_the_content_and_one_other_row_changes_it(content):
    whole = content(FRAME, len(X))
    mixed = FRAME.iloc[np.random.default_rng(0).permutation(len(X))]
    assert {content(FRAME, 50), content(mixed, 64), content(mixed, 1)} == {whole}
    for column, value in (("a", 2.9), ("e", -2.9), ("label", None)):
        other = FRAME.copy()
        other.loc[7, column] = 1 - other.loc[7, "label"] if value is None else value
        assert content(other, 50) != whole
    assert content(FRAME.iloc[1:], 50) != whole
