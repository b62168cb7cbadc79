"""Constructors and docstrings that leave out the parents' parameters, on every version of Python."""

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
from gbdt_commons.public.inherited_parameters import inherits_parameters

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


class Base:
    """Base.

    Parameters
    ----------
    first : int
        The first.
    second, third
        Two
        lines.
    **keywords : object
        Others.

    Attributes
    ----------
    result_ : int
        Of all.

    Notes
    -----
    Of the base.
    """

    def __init__(self, first=1, *, second=2, third=3, **keywords):
        self.given = {"first": first, "second": second, "third": third, **keywords}


class Mixin(Base):
    """Mixin.

    Parameters
    ----------
    second, third
        As it likes.
    mixed : int
        By the mixin.
    """

    def __init__(self, first=1, *, mixed=4, **others):
        super().__init__(first, **others)
        self.given["mixed"] = mixed


@inherits_parameters(before="third")
class Child(Base):
    """Child.

    More of it.

    Parameters
    ----------
    own : int
        Its own.

    Attributes
    ----------
    own_ : int
        Of its own.
    """

    def __init__(self, first=10, *, own=5, **others):
        super().__init__(first, **others)
        self.given["own"] = own


@inherits_parameters()
class Grandchild(Mixin, Child):
    """Grandchild.

    Notes
    -----
    Its own.
    """


EXPECTED = """\
{summary}

Parameters
----------
first : int
    The first.
second, third
    {second}
own : int
    Its own.
{mixed}**keywords : object
    Others.

Attributes
----------
own_ : int
    Of its own.
result_ : int
    Of all.

Notes
-----
{notes}"""
CHILD = EXPECTED.format(
    summary="Child.\n\nMore of it.", second="Two\n    lines.", mixed="", notes="Of the base."
)
GRANDCHILD = EXPECTED.format(
    summary="Grandchild.", second="As it likes.", mixed="mixed : int\n    By the mixin.\n", notes="Its own."
)


def test_signatures_join_those_of_the_parents():
    assert str(inspect.signature(Child)) == "(first=10, *, second=2, own=5, third=3, **keywords)"
    expected = "(first=1, *, second=2, own=5, third=3, mixed=4, **keywords)"
    assert str(inspect.signature(Grandchild)) == expected
    assert str(inspect.signature(Base)) == "(first=1, *, second=2, third=3, **keywords)"
    assert str(inspect.signature(Mixin)) == "(first=1, *, mixed=4, **others)"


def test_constructors_hand_on_what_they_do_not_know():
    given = {"first": 7, "second": 6, "third": 5, "own": 4, "mixed": 3, "other": 2}
    assert Grandchild(7, second=6, third=5, own=4, mixed=3, other=2).given == given
    assert Child().given == {"first": 10, "second": 2, "third": 3, "own": 5}
    with pytest.raises(TypeError, match="positional argument"):
        Grandchild(1, 2)


def test_docstrings_join_those_of_the_parents():
    assert Child.__doc__ == CHILD
    assert Grandchild.__doc__ == GRANDCHILD


@pytest.mark.parametrize("is_stripped", [False, True], ids=["indented", "since Python 3.13"])
def test_entries_are_found_whatever_the_indentation(is_stripped):
    parent = type("Parent", (Base,), {"__init__": Base.__init__, "__doc__": Base.__doc__})
    doc = "    ".join("Of a class.\n\nParameters\n----------\nlast : int\n    The last.\n".splitlines(True))
    doc = inspect.cleandoc(doc) if is_stripped else doc

    def __init__(self, first=1, *, last=2, **others):
        parent.__init__(self, first, **others)

    made = inherits_parameters()(type("Made", (parent,), {"__init__": __init__, "__doc__": doc}))
    assert made.__doc__.startswith(
        "Of a class.\n\nParameters\n----------\nfirst : int\n    The first.\nsecond,"
    )
    assert "\n    lines.\nlast : int\n    The last.\n**keywords : object\n" in made.__doc__


def test_entries_that_do_not_fit_are_an_error():
    def documented(entry):
        doc = f"Of a class.\n\nParameters\n----------\n{entry} : int\n    One."
        return type("Made", (Base,), {"__init__": Base.__init__, "__doc__": doc})

    with pytest.raises(ValueError, match="Made has no parameter 'missing'"):
        inherits_parameters()(documented("missing"))
    with pytest.raises(ValueError, match=r"second.*described"):
        inherits_parameters()(documented("second"))
    without = inherits_parameters()(type("Made", (Base,), {}))
    assert without.__doc__ is None


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
