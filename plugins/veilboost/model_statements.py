"""Statements about models of any kind: private ones by `lgb_dp.statement`, exact ones here.

Exact federated training adds no noise.  Its statement says so first, and then what left whom.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import xgboost

import lgb_dp
from gbdt_commons.quoting import quoted
from gbdt_commons.statements.registry import fault_of, fields_to_fill, record_of, today
from gbdt_commons.statements.statement import Rows, Statement
from gbdt_hosts.xgboost.model import ModelContent, booster_from_json, model_content
from gbdt_parties.errors import InvalidDataError
from gbdt_parties.identity.record import read_record
from gbdt_parties.traffic import Traffic
from lgb_dp.federated.task import OpenPrivateRun
from veilboost import __version__
from xgb_fed.horizontal.exact.exchange import OpenExactRun
from xgb_fed.horizontal.simfl.messages import HashRows
from xgb_fed.vertical.model.model import MODEL_FILE, VerticalModel
from xgb_fed.vertical.protocol.messages import OpenTraining
from xgb_fed.vertical.trees.tree import LEAF

_FILES = (MODEL_FILE, "model.txt", "model.json")
"""The content of a model's folder: of vertical, private and other horizontal training."""

_SIGNS = {
    OpenTraining.__name__: "vertical",
    OpenExactRun.__name__: "exact",
    HashRows.__name__: "simfl",
    OpenPrivateRun.__name__: "private",
}
"""Of every method of training, a message that only this one sends."""

LEAVES, TRAFFIC = "What leaves whom", "Traffic in the record"
"""Headings of tables in statements."""

MOST_UNNAMED = 1 << 16
"""Columns without names at most: a short text can claim any number of them."""

_HOLDERS = "holders of the model"
_TITLES = {
    "vertical": "columns apart (vertical training)",
    "exact": "rows apart (exact horizontal training)",
    "simfl": "rows apart (SimFL)",
    None: "a training method that its file does not say",
}
_LEAVES: Mapping[str | None, Sequence[tuple[str, str, str]]] = {
    "vertical": (
        (
            "active party",
            "passive parties",
            "gradients and hessians of all rows, as ciphertexts unless the plain cipher was chosen; which "
            "rows are in which node, and which of the party's candidates won",
        ),
        (
            "passive party",
            "active party",
            "of its columns, by position and without names or thresholds: rows in each bin of every node; "
            "sums of gradients and hessians of each bin, which the active party decrypts; which rows go left "
            "at chosen splits",
        ),
        ("both", "each other", "in alignment, the number of ids and which of them are in common"),
        (
            "both",
            "each other",
            "in prediction, which rows reach a passive party's splits, and one bit for each of them",
        ),
    ),
    "exact": (
        (
            "each party",
            "all parties and the coordinator",
            "masked vectors, so that only sums over all parties open: rows, labels and weights, counts in "
            "the cells of the search for cuts, gradients and hessians of every node and bin, metrics of "
            "held-out rows",
        ),
        ("each party", "all parties", "for classification, which labels it has; who takes part"),
        ("all parties", _HOLDERS, "the model, which follows from exact sums; some thresholds may be values"),
    ),
    "simfl": (
        ("each party", "all parties", "hashes of all its rows, moments of its columns, which labels it has"),
        (
            "each party",
            "builder of a tree",
            "gradients of its rows, summed over groups of similar rows and over all other parties",
        ),
        ("builder of a tree", "all parties", "its trees, whose thresholds follow from its own rows alone"),
        ("all parties", "coordinator", "all of that, in clear text"),
        ("all parties", _HOLDERS, "the model"),
    ),
    None: (("all parties", _HOLDERS, "the model; for the training run, give --record or --method"),),
}
_WORDS = (
    "No noise was added in training. The model follows exactly from the rows, and nothing bounds what its "
    "holders can learn about a single row or person from its thresholds, leaf values or predictions: for "
    "instance, whether a row was among the data.",
    "Encryption, masks and hashes protect what travels between the parties during training, to the extent of "
    "the table below. They do not protect the finished model.",
    'Anonymity in the sense of Recital 26 of the GDPR is not claimed. The page "What strangers can read" of '
    "veilboost's documentation has the attacks that were measured.",
)
_HEADLINE = "No noise was added: nothing bounds what a holder of the model may learn about a single person."


def statement_of(
    model: str, fill: Sequence[str] = (), record: str | None = None, method: str | None = None
) -> Statement:
    """The statement about a model's file or folder: a private model's text, an active party's or a native
    model.

    `fill` has fields of the registry's record as ``"name=Claims"``; the sums of a party's `record` become the
    tables of parties and traffic; `method` says how a native XGBoost model was trained. Raises
    `VeilboostError` if the model is none of these or damaged, or another argument is not accepted.
    """
    path, filled = file_of(Path(model)), _filled(fill)
    traffic = None if record is None else read_record(record).traffic
    recorded = _methods_in(traffic)
    trained: str | None
    if path.name == MODEL_FILE:
        trained, statement = "vertical", _vertical(path, filled)
    elif (content := path.read_bytes())[:1] == b"{":
        native = recorded - {"private"}
        trained = method or (native.pop() if len(native) == 1 else None)
        statement = _native(path, content, filled, trained)
    elif content and not content.startswith(b"tree"):
        raise InvalidDataError(f"{path} is neither a model of veilboost nor one of LightGBM or XGBoost")
    else:
        trained, statement = "private", lgb_dp.statement(path, fill=filled)
    if method not in (None, trained):
        raise InvalidDataError(f"--method {method} is for native XGBoost models, {path} is of another kind")
    made = trained in recorded if trained else recorded - {"private"}
    if recorded and not made:
        raise InvalidDataError(
            f"--record {record} is of training by {' and '.join(sorted(recorded))}, which did not make {path}"
        )
    return statement if traffic is None else _with_traffic(statement, traffic)


def file_of(path: Path) -> Path:
    """The file of a model that was named by its folder; an InvalidDataError unless there is exactly one."""
    if not path.is_dir():
        return path
    found = [path / name for name in _FILES if (path / name).is_file()]
    if len(found) != 1:
        names = " and ".join(file.name for file in found) or "none of them"
        raise InvalidDataError(f"{path} must hold one of {', '.join(_FILES)}; it holds {names}")
    return found[0]


def _filled(pairs: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, sign, text = pair.partition("=")
        if not sign:
            raise InvalidDataError(f"--fill must be FIELD=TEXT, got {pair!r}")
        found[name] = text
    if fault := fault_of(found):
        raise InvalidDataError(f"--{fault}")
    return found


def _methods_in(traffic: Traffic | None) -> set[str]:
    """The methods of training that a record shows."""
    kinds = set() if traffic is None else {kind for _, _, kind in traffic.flows}
    return {_SIGNS[kind] for kind in kinds & set(_SIGNS)}


def _vertical(path: Path, fill: Mapping[str, str]) -> Statement:
    model = VerticalModel.load(path.parent)
    parties: list[dict[str, object]] = [
        {
            "party": "active party",
            "columns": len(model.splits.names),
            "keeps": "trees, leaf values, its splits",
        },
        *(
            {"party": quoted(name), "columns": n, "keeps": "its own splits"}
            for name, n in zip(model.parties, model.party_features, strict=True)
        ),
    ]
    settings = {"objective": quoted(model.objective.name), "rounds": model.num_boosted_rounds()}
    columns = _columns(model.splits.names, model.splits.categories)
    leaves = [tree.left.count(LEAF) for tree in model.trees]
    values = [n * len(tree.value[0]) for n, tree in zip(leaves, model.trees, strict=True)]
    facts = _facts(path.read_bytes(), leaves, values, settings)
    return _exact(
        "vertical", facts, {"Parties": tuple(parties), "Columns of the active party": columns}, fill
    )


def _native(path: Path, content: bytes, fill: Mapping[str, str], method: str | None) -> Statement:
    model, names = native_model(path, content)
    leaves = [sum(child < 0 for child in tree["left_children"]) for tree in model.trees]
    facts = _facts(content, leaves, leaves, {"objective": quoted(model.objective)})
    return _exact(method, facts, {"Columns": _columns(names, ())}, fill)


def native_model(path: Path, content: bytes) -> tuple[ModelContent, list[str]]:
    """A native XGBoost model, which somebody else may have written, and the names of its columns.

    Raises InvalidDataError if it is none: XGBoost itself ends the process on some that are damaged.
    """
    try:
        model = model_content(booster_from_json(content.decode()))
        splits = {
            feature
            for tree in model.trees
            for left, feature in zip(tree["left_children"], tree["split_indices"], strict=True)
            if left >= 0
        }
    except (ValueError, LookupError, TypeError, RecursionError):  # XGBoost's own errors are ValueErrors
        raise InvalidDataError(f"{path} is neither a model of veilboost nor one of XGBoost") from None
    n, names = model.n_features, model.feature_names
    if (names and len(names) != n) or any(not 0 <= feature < n for feature in splits):
        raise InvalidDataError(f"{path} is damaged: its columns are not those of its trees")
    if not names and n > MOST_UNNAMED:
        raise InvalidDataError(f"{path} has {n} columns without names, of {MOST_UNNAMED} that can be stated")
    return model, names or [f"f{k}" for k in range(n)]


def _columns(names: Sequence[str], categorical: Any) -> Rows:
    return tuple(
        {"column": quoted(name), "kind": "categories" if feature in categorical else "number"}
        for feature, name in enumerate(names)
    )


def _facts(
    content: bytes, leaves: Sequence[int], values: Sequence[int], settings: Mapping[str, object]
) -> dict[str, object]:
    """The model's facts, given the leaves of each tree and the values in them."""
    return {
        "SHA-256": hashlib.sha256(content).hexdigest(),
        "trees": len(leaves),
        "splits": sum(leaves) - len(leaves),
        "leaf values": sum(values),
        **settings,
        "statement written by": f"veilboost {__version__}, XGBoost {xgboost.__version__} on {today()} (UTC)",
    }


def _exact(
    method: str | None, facts: Mapping[str, object], tables: Mapping[str, Rows], fill: Mapping[str, str]
) -> Statement:
    """The statement about a model without noise."""
    leaves = tuple({"from": one, "to": other, "what": text} for one, other, text in _LEAVES[method])
    return Statement(
        title=f"XGBoost model of {facts['trees']} trees, {_TITLES[method]}",
        verdict="none",
        headline=_HEADLINE,
        words=_WORDS,
        tables={LEAVES: leaves, **tables},
        model=facts,
        about=fill,
        to_fill_in=tuple(fields_to_fill(fill)),
        registry=record_of(_known(method), fill, today()),
    )


def _known(method: str | None) -> dict[str, object]:
    none = "None: the model is not differentially private."
    return {
        "data_product_type": "Machine learning model",
        "variant_name": "Custom",
        "data_domain": "Tables that several organisations hold together.",
        "unprotected_quantities": "All: no noise was added. This record must not be submitted.",
        "privacy_unit": "None",
        "privacy_unit_details": none,
        "privacy_parameters": {},
        "privacy_parameters_details": none,
        "model_name": "Federated",
        "model_name_details": f"Federated XGBoost, {_TITLES[method]}.",
        "actors": " ".join(f"From {one} to {other}: {text}." for one, other, text in _LEAVES[method]),
        "release_type": "One release",
        "data_source_type": "Static",
        "access_type": "Non-interactive",
        "access_type_details": "Every prediction asks the parties."
        if method == "vertical"
        else "The model is published as it is.",
        "post_processing": none,
        "composition": none,
        "mechanisms": "None. Messages are encrypted, masked or hashed, as the model's method says.",
        "notes": "Written by the command veilboost statement from the model's file.",
    }


def _with_traffic(statement: Statement, traffic: Traffic) -> Statement:
    """The same with what a record has counted."""
    rows = tuple({name: _shown(value) for name, value in row.items()} for row in traffic.to_dicts())
    names = sorted({str(row[end]) for row in rows for end in ("from", "to")})
    named: dict[str, Rows] = {"Parties in the record": tuple({"party": name} for name in names)}
    note = (
        "parties and traffic are from the record that was given, which may cover further runs; sizes of "
        "messages are no part of any guarantee, and with columns apart they tell how many rows took part"
    )
    return replace(
        statement, tables={**statement.tables, **named, TRAFFIC: rows}, notes=(*statement.notes, note)
    )


def _shown(value: object) -> object:
    return quoted(value) if isinstance(value, str) else value
