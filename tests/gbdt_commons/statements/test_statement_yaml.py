"""The registry's record as YAML, which is read back as it was."""

import numpy as np
import yaml

from gbdt_commons.statements.statement import Statement

VALUES = {
    "text": "a: b # no comment",
    "yes": "yes",
    "on": "2026-01-31",
    "null": "null",
    "key: odd": ["- x", "", "'\"\\", "line\nline\ttab", "\u202e\u0085\ufeff\x00\x7f", "\U0001f600 ε"],
    "numbers": {"small_number": 1e-05, "large": 1.5e22, "count": 3, "half": 0.5, "tiny": 5e-324},
    "nothing": {"at_all": {}, "listed": [], "none": None, "truth": [True, False]},
}


def yaml_text(values):
    return Statement("a model", "none", "none", (), values, {}).to_yaml()


def test_values_come_back():
    assert yaml.safe_load(yaml_text(VALUES)) == VALUES


def test_any_text_comes_back():
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 0x2FFFF, 4000)
    text = "".join(chr(code) for code in codes.tolist() if not 0xD800 <= code < 0xE000)
    assert yaml.safe_load(yaml_text({"text": text, text[:40]: "x"})) == {"text": text, text[:40]: "x"}


def test_texts_are_in_quotes():
    assert yaml_text({"url_slug": "no", "tier": 3}) == '"url_slug": "no"\n"tier": 3\n'
