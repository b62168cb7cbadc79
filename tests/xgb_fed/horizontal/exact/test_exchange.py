"""Texts that parties of exact training exchange, and their refusal."""

import json
import sys

import pytest
import xgboost

from gbdt_parties.errors import ProtocolError
from xgb_fed.horizontal.exact.exchange import REQUESTS, ExactDescription, read_content, request_of
from xgb_fed.horizontal.exact.task import MAX_SETS

OWN = {"n_features": 2, "names": "", "classes": "", "n_sets": 1}


@pytest.mark.parametrize("wants_classes", [False, True])
def test_a_request_tells_whether_labels_are_classes(wants_classes):
    assert REQUESTS[request_of(wants_classes)] is wants_classes


def test_a_description_is_read_as_it_was_written():
    own = ExactDescription(**OWN)
    assert ExactDescription.read("bank", own.to_json(), False).to_json() == own.to_json()


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_sets": MAX_SETS + 1},
        {"n_sets": -1},
        {"n_sets": True},
        {"n_sets": 1.0},
        {"n_features": 0},
        {"n_features": "2"},
        {"names": '["a"]'},
        {"classes": "[0, 1]"},
    ],
)
def test_a_description_of_other_values_is_refused_with_the_party(wrong):
    with pytest.raises(ProtocolError, match="'bank'"):
        ExactDescription.read("bank", json.dumps({**OWN, **wrong}), False)


@pytest.mark.parametrize("text", ["", "[]", "{}", "null", '{"n_features": 2}', "[" * 100_000])
def test_a_text_that_is_no_description_is_refused_with_the_party(text):
    with pytest.raises(ProtocolError, match=r"'bank'.*description.*read"):
        ExactDescription.read("bank", text, False)


@pytest.mark.parametrize("depth", [33, 10_000, 300_000])
def test_a_model_of_many_brackets_is_no_text_for_xgboost(depth, monkeypatch):
    """Before, a process that lets functions call themselves often ended in XGBoost's parser."""
    monkeypatch.setattr(xgboost.Booster, "load_model", lambda *_: pytest.fail("its stack would have ended"))
    parts = [b'{"a":' * depth + b"1" + b"}" * depth, b"{}"]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 12_000))
    try:
        with pytest.raises(ProtocolError, match="parties' model"):
            read_content(parts, None, None, "")
    finally:
        sys.setrecursionlimit(limit)
