"""What a `DaskDataset` keeps of what is declared."""

import dask.array as da
import numpy as np
import pytest

import lgb_dp
from dask_training import X, Y, collections
from lgb_dp.dask.dataset import ClusterRows, DaskDataset


def test_side_door_declarations_are_read_once_for_all_training_runs():
    """Before, reports that a generator held were charged to the first model only."""
    bounds, paid = lgb_dp.private_bounds(X, 1.0, 1e-6)
    declared = {
        "bounds": dict(enumerate(np.transpose(bounds))),
        "bin_edges": {0: iter([0.0, 1.0])},
        "label_bounds": iter([0, 1]),
        "paid_for": (report for report in [paid]),
    }
    rows = DaskDataset(*collections((320, 320)), **declared)
    declared["bounds"].clear()
    for _ in range(2):
        for_one_run = ClusterRows(rows, None, 1, 1.0).declared.construct()
        assert for_one_run.provenance.paid_for == (paid,)
        assert for_one_run.bins.values[0].tolist() == [0.0, 1.0]
        assert for_one_run.label_bounds == (0.0, 1.0)


@pytest.mark.parametrize("paid_for", [2.0, [2.0]])
def test_what_was_paid_for_is_checked_when_it_is_declared(paid_for):
    Xd, yd = da.from_array(X), da.from_array(np.array(Y))
    with pytest.raises(lgb_dp.ArgumentTypeError, match="paid_for must"):
        DaskDataset(Xd, yd, paid_for=paid_for)
