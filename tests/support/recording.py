"""Digests of whole runs whose randomness is pinned: what must not change when code is moved.

A run gives its aspects (model, report, charges, traffic of each kind of message), and each aspect has a
digest of its own, so that a change on purpose of one of them does not hide a change of another.
"""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import sys
import warnings
from collections import defaultdict
from datetime import datetime
from pathlib import Path

import numba
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from gbdt_commons.key_stream import KEY_BYTES, KeyStream
from gbdt_parties.secure_sum.keys import SessionKeys
from pinned_draws import pinned_draws
from quick_group import quick_group

FILE = Path(__file__).parents[1] / "recorded_runs.json"
LIBRARIES = ("lightgbm", "xgboost", "numpy", "scipy", "numba", "dp_accounting")
GUARANTEE = re.compile(r"^\[dp_guarantee: \]:.*\n", re.M)
"""The report within a model's text, which is an aspect of its own."""


@numba.njit
def _logistic(values):
    return np.exp(values) / (1 + np.exp(values)) + np.log1p(np.exp(-values))


def conditions():
    """Versions, and a digest of floating-point functions: digests of other conditions are not comparable."""
    values = np.linspace(-30, 30, 20_001)
    functions = (np.exp, np.expm1, np.tanh, np.arctan, _logistic)
    probe = b"".join(function(values).tobytes() for function in functions)
    found = {name: importlib.metadata.version(name) for name in LIBRARIES}
    return {**found, "machine": platform.machine(), "functions": hashlib.sha256(probe).hexdigest()[:16]}


def _pin_libraries(patch):
    """Let keys and signatures of OpenSSL follow from `os.urandom`, and certificates hold at fixed dates."""
    order = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551  # of P-256
    begin, by_ecdsa = SessionKeys.__init__, ec.ECDSA.__init__
    before, after = x509.CertificateBuilder.not_valid_before, x509.CertificateBuilder.not_valid_after

    def with_keys(keys, *given):
        if not given:
            exchange, signing, *given = (os.urandom(32) for _ in range(4))
            keys_of = X25519PrivateKey.from_private_bytes, Ed25519PrivateKey.from_private_bytes
            kem = MLKEM768PrivateKey.from_seed_bytes(hashlib.sha512(exchange).digest())
            given = keys_of[0](exchange), keys_of[1](signing), *given, kem
        begin(keys, *given)

    def scalar():
        return 1 + int.from_bytes(os.urandom(32), "big") % (order - 1)

    patch.setattr(SessionKeys, "__init__", with_keys)
    patch.setattr(ec, "generate_private_key", lambda curve: ec.derive_private_key(scalar(), curve))
    patch.setattr(ec.ECDSA, "__init__", lambda one, digest, _=None: by_ecdsa(one, digest, True))
    patch.setattr(
        x509.CertificateBuilder, "not_valid_before", lambda one, _: before(one, datetime(2026, 1, 1))
    )
    patch.setattr(x509.CertificateBuilder, "not_valid_after", lambda one, _: after(one, datetime(2126, 1, 1)))


@contextlib.contextmanager
def pinned(name):
    """Pin keys by the name of the run, and noise by the number of draws from each stream."""
    begin = KeyStream.__init__

    def with_key(stream, key=None):
        begin(stream, bytes(KEY_BYTES) if key is None else key)

    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings(), quick_group():
        warnings.simplefilter("ignore")
        patch.setattr(KeyStream, "__init__", with_key)
        _pin_libraries(patch)
        with pinned_draws(name):
            yield


def of_private(booster, traffic=None):
    """Aspects of a model of lgb_dp."""
    report = booster.privacy.to_dict()
    charges = {name: report[name] for name in ("ledger", "cost", "spent", "epsilon", "delta")}
    text = GUARANTEE.sub("", booster.model_to_string(num_iteration=-1))
    return {"model": text, "report": report, "charges": charges, **of_traffic(traffic)}


def of_traffic(traffic):
    """Messages and bytes of each kind, between any two."""
    kinds = defaultdict(list)
    for row in [] if traffic is None else traffic.to_dicts():
        kinds[f"traffic: {row.get('message', 'masked')}"].append(json.dumps(row, sort_keys=True))
    return {kind: sorted(rows) for kind, rows in kinds.items()}


def of_trees(booster, traffic):
    """Aspects of a native booster of XGBoost."""
    return {"model": bytes(booster.save_raw("json")).decode(), **of_traffic(traffic)}


def digest(aspect):
    text = aspect if isinstance(aspect, str) else json.dumps(aspect, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def digests(name, run):
    """Digests of a run by its aspects."""
    with pinned(name):
        return {aspect: digest(value) for aspect, value in run().items()}


def record(runs, chosen):
    """Write the digests of the chosen runs into the file, and say which of them have changed."""
    kept = json.loads(FILE.read_text()) if FILE.exists() else {"conditions": None, "runs": {}}
    if kept["conditions"] != conditions() and len(chosen) < len(runs):
        sys.exit("other versions than those recorded: record all runs")
    for name in chosen:
        found, before = digests(name, runs[name]), kept["runs"].get(name, {})
        changed = sorted(key for key in found.keys() | before.keys() if found.get(key) != before.get(key))
        print(f"{name}: {', '.join(changed) or 'as before'}", flush=True)
        kept["runs"][name] = found
    kept["conditions"] = conditions()
    kept["runs"] = {name: kept["runs"][name] for name in sorted(kept["runs"].keys() & runs.keys())}
    FILE.write_text(json.dumps(kept, indent=1) + "\n")
