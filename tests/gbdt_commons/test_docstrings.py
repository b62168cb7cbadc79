"""Docstrings that are made of others' are the same on every version of Python."""

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lgb_dp
import lgb_dp.dask
import lgb_dp.federated
import xgb_fed
from gbdt_commons.docstrings import with_words_replaced

SOURCES = Path(__file__).resolve().parents[2]
MADE = [
    lgb_dp.DPLGBMClassifier,
    lgb_dp.DPLGBMRegressor,
    lgb_dp.dask.DaskDPLGBMClassifier,
    lgb_dp.dask.DaskDPLGBMRegressor,
    lgb_dp.federated.FederatedDPLGBMClassifier,
    lgb_dp.federated.FederatedDPLGBMRegressor,
    xgb_fed.VerticalXGBClassifier,
    xgb_fed.VerticalXGBRegressor,
    xgb_fed.VerticalXGBRanker,
    xgb_fed.HorizontalXGBClassifier,
    xgb_fed.HorizontalXGBRegressor,
]
DOC = "Of a class.\n\n    Parameters\n    ----------\n    [more]\n    last : int\n        The last.\n    "
EXPECTED = "Of a class.\n\nParameters\n----------\na : int\n    The first.\nlast : int\n    The last."


@pytest.mark.parametrize("doc", [DOC, inspect.cleandoc(DOC)], ids=["indented", "since Python 3.13"])
def test_words_are_replaced_whatever_the_indentation(doc):
    assert with_words_replaced(doc, {"[more]": "a : int\n    The first."}) == EXPECTED


def test_words_that_are_not_there_once_are_an_error():
    for doc in ("none", "[more] and [more]"):
        with pytest.raises(ValueError, match=r"'\[more\]'"):
            with_words_replaced(doc, {"[more]": "x"})
    assert with_words_replaced(None, {"[more]": "x"}) is None


@pytest.mark.parametrize("cls", MADE, ids=lambda cls: cls.__name__)
def test_parameters_are_documented_at_one_indentation(cls):
    text = inspect.getdoc(cls)
    assert cls.__doc__ == text  # no indentation of the source is left, with any version
    section = re.split(r"\n(?:Attributes|Notes|Examples)\n-+\n", text)[0].split("Parameters\n----------\n")[1]
    entries = [line.split(" : ")[0] for line in section.splitlines() if line[:1].strip()]
    names = [name.strip().removeprefix("**") for entry in entries for name in entry.split(",")]
    assert len(set(names)) == len(names)
    assert set(names) >= set(inspect.signature(cls).parameters) - {"keywords"}


def test_nothing_else_is_made_of_the_text_of_a_docstring():
    made = re.compile(r"__doc__[^\n=]*\)?\s*\.\s*(replace|split|format)\(")
    for package in ("lgb_dp", "xgb_fed", "plugins", "patches"):
        for path in (SOURCES / package).rglob("*.py"):
            assert not made.search(path.read_text("utf-8")), path


def run_without_docstrings(code):
    return subprocess.run([sys.executable, "-OO", "-c", code], cwd=SOURCES, capture_output=True, check=False)


@pytest.mark.slow
def test_there_are_none_without_docstrings():
    """LightGBM and some versions of XGBoost make docstrings of their own, and are not to be had without."""
    if run_without_docstrings("import xgboost.sklearn").returncode:
        pytest.skip("this version of XGBoost is not to be had with python -OO")
    code = "import sys, xgb_fed; sys.exit(xgb_fed.HorizontalXGBClassifier.__doc__ is not None)"
    assert run_without_docstrings(code).returncode == 0
