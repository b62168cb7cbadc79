"""Texts that parties of exact training exchange, and their refusal."""

import json

import pytest

from gbdt_parties.errors import ProtocolError
from xgb_fed.horizontal.exact.exchange import ExactDescription
from xgb_fed.horizontal.exact.task import MAX_SETS

OWN = {"n_features": 2, "names": "", "classes": "", "n_sets": 1}


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
    with pytest.raises(ProtocolError, match="'bank' sent a description that cannot be read"):
        ExactDescription.read("bank", text, False)
