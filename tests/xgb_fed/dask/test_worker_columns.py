"""Columns of a worker's partitions, by their names and types."""

import numpy as np
import pytest

import xgb_fed
from bad_collections import VALUES
from dask_party import N_ACTIVE, X, Y
from xgb_fed.dask import DaskParty


def test_data_frames(client):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    frame = pd.DataFrame(VALUES, columns=list("abc"))
    rows = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(xgb_fed.InvalidDataError, match=r"unknown divisions.*calculate_divisions=True"):
        DaskParty(client, rows.clear_divisions(), "bank")
    other = rows.map_partitions(
        lambda part: part.rename(columns={"b": "e"}), meta=frame.iloc[:0], enforce_metadata=False
    )
    with pytest.raises(xgb_fed.InvalidDataError, match="'e: Float64' where 'b: Float64' was declared"):
        DaskParty(client, other, "bank")
    words = frame.assign(b="word")
    with pytest.raises(xgb_fed.InvalidDataError, match=r"numbers: \['b'\]"):
        DaskParty(client, dd.from_pandas(words, npartitions=2), "bank")
    named = dd.from_pandas(frame.set_index(np.arange(len(frame)) + 5), npartitions=2)
    active = pd.DataFrame(X[:, :N_ACTIVE])
    with DaskParty(client, named, "bank") as party, pytest.raises(xgb_fed.RowMismatchError):
        xgb_fed.VerticalXGBClassifier(2).fit(active.set_index(np.arange(len(X)) + 6), Y, parties=[party])
