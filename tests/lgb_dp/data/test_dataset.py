"""A Dataset that shares the bins of another is compared with it by what both declare, never by its cells."""

import numpy as np
import pandas as pd
import pytest

import lgb_dp
from small_training import train

Y = np.tile([0.0, 1.0], 50)
FORMS = ["polars", "polars enum", "pandas", "objects", "codes"]


def table(cells, form):
    z = np.linspace(0, 1, len(cells))
    if form.startswith("polars"):
        polars = pytest.importorskip("polars")
        dtype = polars.Categorical if form == "polars" else polars.Enum(["a", "b"])
        return polars.DataFrame({"c": polars.Series("c", cells, dtype=dtype), "z": z})
    if form == "codes":
        return pd.DataFrame({"c": [float(cell == "b") for cell in cells], "z": z})
    kind = "category" if form == "pandas" else object
    return pd.DataFrame({"c": pd.Series(cells, dtype=kind), "z": z})


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("cells", [["a", "b"] * 50, ["a"] * 100, ["a"] * 99 + ["b"]])
def test_side_door_no_cell_of_an_heir_decides_whether_its_declarations_fit(form, cells):
    declared = [0, 1] if form == "codes" else ["a", "b"]
    reference = lgb_dp.Dataset(table(["a", "b"] * 50, form), Y, bounds=(0, 1), categories={"c": declared})
    heir = lgb_dp.Dataset(table(cells, form), Y, bounds=(0, 1), reference=reference)
    booster = train(heir, lgb_dp.NewtonBoost(1.0, 1e-6), 2)
    assert booster.privacy.private
    assert heir.codes.codes[:, 0].tolist() == [int(cell == "b") for cell in cells]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "other",
    [
        {"categories": {"c": [1, 0, 2]}},
        {"bounds": (0, 2)},
        {"bounds": {"z": (0, 0.5)}},
        {"max_bin": 9},
        {"spacing": "mixed"},
        {"bin_edges": {"z": [0.5]}},
        {"bin_edges": {"c": [0.5]}},
    ],
)
def test_declarations_that_differ_are_refused(form, other):
    declared = [0, 1] if form == "codes" else ["a", "b"]
    data = table(["a", "b"] * 50, form)
    reference = lgb_dp.Dataset(data, Y, bounds=(0, 1), categories={"c": declared})
    with pytest.raises(lgb_dp.InvalidArgumentError, match=r"differ.*reference"):
        lgb_dp.Dataset(data, Y, **{"bounds": (0, 1), **other}, reference=reference).construct()
