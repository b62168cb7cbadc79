"""Universal Binary JSON as XGBoost writes it."""

import contextlib
import json

import numpy as np
import pytest
import xgboost
from gbdt_hosts.xgboost import ubjson
from hypothesis import given
from hypothesis import strategies as st


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, (list, np.ndarray)) else value


@pytest.fixture(scope="module")
def booster():
    random = np.random.default_rng(0)
    X = random.standard_normal((300, 4))
    return xgboost.train({"max_depth": 3}, xgboost.DMatrix(X, label=X[:, 0]), 3)


def test_reads_what_the_json_format_says(booster):
    ours = plain(ubjson.parse(bytes(booster.save_raw("ubj"))))
    theirs = json.loads(booster.save_raw("json"))
    mine, other = (m["learner"]["gradient_booster"]["model"]["trees"] for m in (ours, theirs))
    assert len(mine) == 3
    for one, two in zip(mine, other, strict=True):
        for name in ("left_children", "split_indices", "parents", "default_left"):
            assert one[name] == two[name]
        for name in ("split_conditions", "sum_hessian", "base_weights"):
            assert one[name] == pytest.approx(two[name], rel=1e-6)
    assert ours["version"] == theirs["version"]


def test_every_cut_is_refused(booster):
    data = bytes(booster[:1].save_raw("ubj"))
    for end in range(len(data)):
        with pytest.raises(ValueError, match="UBJSON"):
            ubjson.parse(data[:end])
    with pytest.raises(ValueError, match="too many"):
        ubjson.parse(data + b"Z")


@given(st.binary(max_size=60))
def test_garbage_is_a_value_error_or_a_value(data):
    with contextlib.suppress(ValueError):
        ubjson.parse(data)


def test_nesting_has_an_end():
    with pytest.raises(ValueError, match="deep"):
        ubjson.parse(b"[" * 100_000)
