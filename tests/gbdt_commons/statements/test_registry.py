"""Records of OpenDP's registry: every field of its schema, and what is still to be filled in."""

import re

import pytest

from gbdt_commons.statements.registry import (
    OPEN_FIELDS,
    SECTIONS,
    TO_FILL_IN,
    fault_of,
    fields_to_fill,
    record_of,
)

FIELDS = [
    "name",
    "data_curators",
    "intended_use",
    "data_product_type",
    "data_product_region",
    "description",
    "publication_date",
    "data_product_sector",
    "variant_name",
    "data_domain",
    "unprotected_quantities",
    "privacy_unit",
    "privacy_unit_details",
    "privacy_parameters",
    "privacy_parameters_details",
    "model_name",
    "model_name_details",
    "actors",
    "release_type",
    "release_type_details",
    "data_source_type",
    "data_source_type_details",
    "access_type",
    "access_type_details",
    "post_processing",
    "composition",
    "preprocessing_and_hyperparameter_tuning",
    "mechanisms",
    "justification",
    "sources",
    "notes",
    "registry_authors",
]
"""Of the registry's schema, in its order."""

KNOWN = {name: f"about {name}" for name in FIELDS if name not in OPEN_FIELDS}


def names_in(record):
    return [name for section in record["deployment"].values() for name in section]


def test_every_field_of_the_schema_is_there_once_all_are_filled_in():
    fill = {name: "2026-01-31" for name in OPEN_FIELDS}
    record = record_of(KNOWN, fill, "2026-02-01")
    assert names_in(record) == FIELDS
    assert list(record) == ["url_slug", "status", "tier", "deployment"]
    assert list(record["deployment"]) == list(SECTIONS)
    assert record["tier"] == 3
    assert fields_to_fill(fill) == []
    assert TO_FILL_IN not in str(record)


def test_what_is_missing_names_itself_where_the_schema_has_room_for_it():
    record = record_of(KNOWN, {"name": "Überweisungen 2026"}, "2026-02-01")
    assert names_in(record) == [name for name in FIELDS if name != "data_product_sector"]
    assert record["url_slug"] == "berweisungen-2026"
    basic = record["deployment"]["basic"]
    assert basic["name"] == "Überweisungen 2026"
    assert basic["publication_date"] == "2026-02-01"
    assert len(basic["data_curators"]) == 1
    held = re.findall(TO_FILL_IN, str(record))
    assert len(held) == len(fields_to_fill({"name": "x"})) - 1  # the sector has no room


def test_lists_are_separated_by_semicolons():
    record = record_of(KNOWN, {"data_curators": "Ada; Bob ;"}, "2026-02-01")
    assert record["deployment"]["basic"]["data_curators"] == ["Ada", "Bob"]


@pytest.mark.parametrize(
    ("fill", "words"),
    [
        ({"epsilon": "1"}, "fill names 'epsilon'; accepted are data_curators"),
        ({"privacy_parameters": "{}"}, "fill names 'privacy_parameters'"),
        ({"name": " "}, "must be a text that is not empty"),
        ({"name": 3}, "must be a text that is not empty, got 3"),
        ({"publication_date": "31.1.2026"}, "must be a day such as 2026-01-31, got '31.1.2026'"),
        ({"publication_date": "20260131"}, "must be a day"),
    ],
)
def test_faults_are_named(fill, words):
    assert words in fault_of(fill)


def test_no_fault():
    assert fault_of({"name": "x", "publication_date": "2026-01-31"}) is None
