"""Settings that parties agree on: ranges are checked where they are read, and numbers are of 64 bits."""

import json
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import pytest

from gbdt_parties.agreed import MAX_PARAMS, AgreedSettings, Whole, read_json
from gbdt_parties.errors import PartyArgumentError


@dataclass(frozen=True)
class Task(AgreedSettings):
    n_trees: Annotated[int, Whole(1, 9)]
    n_left: Annotated[int | None, Whole(0, 3)] = None

    argument_names = {"n_trees": "num_boost_round"}  # noqa: RUF012


def test_both_ends_and_none_are_accepted():
    for task in (Task(1), Task(9, 0), Task(2, 3), Task(np.int64(4))):
        assert task.n_left in (None, 0, 3)
    assert Task.from_json(Task(9, 3).to_json()) == Task(9, 3)


@pytest.mark.parametrize("value", [0, 10, -1, 2**36, 10**400, True, 2.0, "2", None, [], {}])
def test_other_values_are_refused_by_the_users_name(value):
    with pytest.raises(PartyArgumentError, match=r"num_boost_round.*between 1 and 9, got"):
        Task(value)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"n_trees": 2, "more": 1}', '{"n_trees": 1e999}', "[" * 99999]
)
def test_other_texts_are_not_of_this_version(text):
    with pytest.raises(PartyArgumentError, match="of this version"):
        Task.from_json(text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", str(2**63), "-" + "9" * 5000])
def test_numbers_that_are_not_of_64_bits_are_refused(number):
    with pytest.raises(ValueError, match=r"finite|64 bits"):
        read_json(f'{{"a": [1, {number}]}}')


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 1.7e308, 5e-324, -0.0, "x", None, True, [{}]])
def test_all_other_values_are_read(value):
    assert read_json(json.dumps(value)) == value


def test_long_texts_are_not_parsed():
    with pytest.raises(ValueError, match=r"11 characters, where 10.*accepted"):
        read_json("[1,2,3,4,5]", 10)


def test_parameters_of_a_run_that_are_too_long_are_not_read():
    text = json.dumps({"n_trees": 2, "params": {"monotone_constraints": [0] * MAX_PARAMS}})
    with pytest.raises(PartyArgumentError, match=f"params.*{MAX_PARAMS}"):
        Task.from_json(text)
