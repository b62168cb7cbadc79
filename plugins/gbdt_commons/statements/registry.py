"""Records of OpenDP's registry of deployments: the fields of its schema up to the third tier.

The registry (repository ``opendp/deployments-registry-data``) takes one YAML file per deployment.  A model
says some of the fields by itself; the others name what is to be filled in, and can be given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime, timezone
from types import MappingProxyType

TO_FILL_IN = "TO FILL IN: "

SECTIONS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "basic": {
            "name": "name of the data product",
            "data_curators": "who publishes the model, several separated by semicolons",
            "intended_use": "what the model is for",
            "data_product_type": "",
            "data_product_region": "region that the data describe, or whose laws apply",
            "description": "the model in one or two sentences",
            "publication_date": "",
            "data_product_sector": "Technology, Healthcare, Education, Government, Energy or Finance",
        },
        "dp_variant": {"variant_name": "", "data_domain": "", "unprotected_quantities": ""},
        "privacy_loss": {
            "privacy_unit": "",
            "privacy_unit_details": "",
            "privacy_parameters": "",
            "privacy_parameters_details": "",
        },
        "deployment_model": {
            "model_name": "",
            "model_name_details": "",
            "actors": "",
            "release_type": "",
            "release_type_details": "other publications from the same data, and how their loss adds up",
            "data_source_type": "",
            "data_source_type_details": "when and where the data were collected",
            "access_type": "",
            "access_type_details": "",
        },
        "accounting": {"post_processing": "", "composition": ""},
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": "where bounds, categories and parameters come from, "
            "and earlier fits on the same rows",
            "mechanisms": "",
            "justification": "why these parameters and this unit were chosen",
        },
        "administrative": {
            "sources": "papers and pages that describe the deployment",
            "notes": "",
            "registry_authors": "who fills in this record, several separated by semicolons",
        },
    }
)
"""Fields by section; a description for those that a model does not say."""

OPEN_FIELDS = {name: hint for section in SECTIONS.values() for name, hint in section.items() if hint} | {
    "publication_date": "day of publication, YYYY-MM-DD; the statement's day unless given"
}
"""Fields that can be filled in, and their descriptions."""

_LISTS = ("data_curators", "registry_authors")
_OPTIONAL = "data_product_sector"
"""The schema takes one of six words, and none at all, but no placeholder."""


def fault_of(fill: Mapping[str, str]) -> str | None:
    """The first fault of fields that were filled in, in words; None without one."""
    for name, text in fill.items():
        if name not in OPEN_FIELDS:
            return f"fill names {name!r}; accepted are {', '.join(sorted(OPEN_FIELDS))}"
        if not isinstance(text, str) or not text.strip():
            return f"fill[{name!r}] must be a text that is not empty, got {text!r}"
        if name == "publication_date" and not _is_day(text):
            return f"fill[{name!r}] must be a day such as 2026-01-31, got {text!r}"
    return None


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def record_of(known: Mapping[str, object], fill: Mapping[str, str], day: str) -> dict[str, object]:
    """A record of the model's own fields, those that were filled in, and the rest, which is yet to be filled
    in.

    `known` has every field that is not in `OPEN_FIELDS`, `fill` some of these; `day` is that of publication,
    unless it was filled in.
    """
    values: dict[str, object] = {name: TO_FILL_IN + hint for name, hint in OPEN_FIELDS.items()}
    values |= {"publication_date": day, **known, **fill}
    for name in _LISTS:
        values[name] = [part.strip() for part in str(values[name]).split(";") if part.strip()]
    if _OPTIONAL not in fill:
        del values[_OPTIONAL]
    deployment = {
        section: {name: values[name] for name in fields if name in values}
        for section, fields in SECTIONS.items()
    }
    slug = re.sub(r"[^a-z0-9]+", "-", fill.get("name", "veilboost-model").lower()).strip("-") or "model"
    return {"url_slug": slug, "status": "Draft", "tier": 3, "deployment": deployment}


def today() -> str:
    """The date in UTC, as 2026-01-31."""
    return datetime.now(timezone.utc).date().isoformat()


def fields_to_fill(fill: Mapping[str, str]) -> list[str]:
    """Names of the fields that are still to be filled in."""
    return [name for name in OPEN_FIELDS if name not in fill and name != "publication_date"]
