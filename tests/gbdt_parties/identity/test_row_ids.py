"""Ids of rows: one way to write each, and nothing that reads alike but differs."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gbdt_parties.errors import InvalidDataError
from gbdt_parties.identity.aligned_rows import Alignment
from gbdt_parties.identity.alignment import align
from gbdt_parties.identity.row_ids import FORMS, check_ids, fault_of, form_of

GOOD = ("7", "007", "customer 12", "a-b_c/d", "Zoë", "名前", "A", "a", "ß")
BAD = {
    "": "is empty",
    " 7": "blank at its beginning or end",
    "7 ": "blank at its beginning or end",
    "7\n": "not printable",
    "7\r": "not printable",
    "a\tb": "not printable",
    "a\0b": "not printable",
    "a\u200bb": "not printable",
    "\ufeffa": "not printable",
    "7\u00a0": "not printable",
    "\u20037": "not printable",
    "a\u2028b": "not printable",
    "a\ud800": "not printable",
    "Zoe\u0308": "normalisation form C",
    "\u212b": "normalisation form C",
    # Shown as "12" and as "7" are, or nearly so.
    **{f"1{one}2": "not shown" for one in "\u034f\u115f\u17b4\u180b\u2800\u3164\ufe0f\U00016fe4\U0001d159"},
    "7\ufe0f": "is not shown",
    "7\U000e0100": "is not shown",
    "\u1160": "is not shown",
    "\uff17": "compatibility character",
    "\ufb01ve": "compatibility character",
    "7\u00b2": "compatibility character",
    "\u2167": "compatibility character",
    "\uff76": "compatibility character",
    7: "is of type int",
    7.5: "is of type float",
    b"7": "is of type bytes",
    None: "is of type NoneType",
}


def test_canonical_ids_are_taken_as_they_are():
    assert check_ids(GOOD, "ids") == list(GOOD)
    assert Alignment(tuple(sorted(GOOD))).ids == tuple(sorted(GOOD))


@pytest.mark.parametrize("one", BAD, ids=ascii)
def test_others_are_refused_by_position_and_not_quoted(one):
    with pytest.raises(InvalidDataError, match=f"ids: id 2 of 3 .*{BAD[one]}") as caught:
        check_ids(["first", one, "third"], "ids")
    assert "first" not in str(caught.value)
    with pytest.raises(InvalidDataError, match="id 1 of 1"):
        align([], [one])
    with pytest.raises(InvalidDataError, match="canonical"):
        Alignment((one,))


@given(st.lists(st.text(max_size=4), min_size=2, max_size=2))
def test_ids_that_read_alike_are_never_both_accepted(pair):
    one, other = pair
    if fault_of(one) is None and fault_of(other) is None and one != other:
        assert unicodedata.normalize("NFKC", one).strip() != unicodedata.normalize("NFKC", other).strip()
        assert one.encode() != other.encode()


def test_ids_are_different_and_there_are_some():
    with pytest.raises(InvalidDataError, match=r"3 ids.*2 different"):
        check_ids(["a", "b", "a"], "ids")
    with pytest.raises(InvalidDataError, match="no ids"):
        check_ids([], "ids")


def test_an_aligned_file_with_ids_that_are_not_canonical_is_refused(tmp_path):
    for text in ("b\na\n", "a\na\n", " a\n", "a\r\n", "Zoe\u0308\n"):
        (tmp_path / "ids").write_bytes(text.encode())
        with pytest.raises(InvalidDataError, match="canonical"):
            Alignment.load(tmp_path / "ids")


@pytest.mark.parametrize(
    ("one", "form"),
    [
        ("7", "integers"),
        ("-12", "integers"),
        ("007", "integers with leading zeros"),
        ("7.0", "decimal numbers"),
        ("1e+22", "decimal numbers"),
        ("123e4567-e89b-12d3-a456-426614174000", "UUIDs in lower case"),
        ("123E4567-E89B-12D3-A456-426614174000", "UUIDs in upper case"),
        ("123e4567e89b12d3a456426614174000", "UUIDs without hyphens"),
        ("2024-01-02", "dates"),
        ("2024-01-02T03:04:05", "times with a T"),
        ("2024-01-02 03:04:05.000001Z", "times with a blank"),
        ("user-7", "text in lower case"),
        ("USER-7", "text in upper case"),
        ("User-7", "text of mixed forms"),
        ("名前", "text of mixed forms"),
    ],
)
def test_the_form_of_ids_is_that_of_most(one, form):
    assert form_of([one]) == form
    assert form_of([one, one, "名"]) == form
    assert form_of([one] * 100_000 + ["x"]) == form


@given(st.lists(st.text(max_size=12), max_size=30))
def test_every_list_of_ids_has_a_form(ids):
    assert form_of(ids) in FORMS


@given(st.text(max_size=6), st.integers(5, 3000))
def test_one_id_does_not_change_the_form(one, n_ids):
    ids = [f"{k}" for k in range(n_ids)]
    assert form_of([*ids[:-1], one]) == form_of(ids) == "integers"
