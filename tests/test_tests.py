"""Tests go through public names, and ask of an error for what it must name."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
README = (HERE / "README.md").read_text(encoding="utf-8")
OF_LANGUAGE = {"_exit", "_getframe", "_repr_html_", "_asdict", "_replace", "_fields"}
"""Documented names that begin with an underscore."""

ALLOWED = {
    "gbdt_commons/test_interrupts.py": {"_parse_exception_table"},
    "gbdt_hosts/lightgbm/test_params.py": {"_ConfigAliases", "_choose_param_value"},
    "gbdt_kernels/test_compilation.py": {"_cache", "_cache_file", "_cache_path", "_save_data", "_save_index"},
    "lgb_dp/boosting/test_run_rows.py": {"_set_predictor"},
    "lgb_dp/boosting/test_trainer.py": {"_binned", "_group_of_row", "_group_weight", "_used_scores"},
    "lgb_dp/data/test_start_scores.py": {"_predictor", "_used_scores"},
    "lgb_dp/estimators/test_base.py": {"_get_tags"},
    "lgb_dp/test_non_interference.py": {"_log_info"},
    "lgb_dp/test_threads.py": {"_set_predictor"},
    "support/pinned_draws.py": {"_target", "_urandom"},
    "support/threads_at_once.py": {"_InnerPredictor"},
    "xgb_fed/estimators/test_check_estimator.py": {"_expected_failed_checks"},
}
"""The reasons are in the README of this folder."""

MAX_WORDS = 4
FILES = sorted(path.relative_to(HERE).as_posix() for path in HERE.rglob("*.py"))


def nodes(file):
    return ast.walk(ast.parse((HERE / file).read_text(encoding="utf-8")))


def is_private(name):
    return name.startswith("_") and not name.startswith("__") and name not in OF_LANGUAGE


def is_own(node):
    """Whether a value is the object, or class, of the method that reads it."""
    if isinstance(node, ast.Call):
        node = node.func
    return isinstance(node, ast.Name) and node.id in {"self", "cls", "super"}


def private_names(file):
    """Private names of others that a file reads, replaces or imports."""
    found = set()
    for node in nodes(file):
        if isinstance(node, ast.Attribute) and not is_own(node.value):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and re.fullmatch(
            "(get|set|has|del)attr", getattr(node.func, "attr", getattr(node.func, "id", ""))
        ):
            texts = [arg.value for arg in node.args[:2] if isinstance(arg, ast.Constant)]
            found.update(text.rpartition(".")[2] for text in texts if isinstance(text, str))
    return {name for name in found if is_private(name)}


def plain_words(pattern):
    """Words of a pattern that are no name, number or quoted value."""
    text = re.sub(r"'[^']*'|\"[^\"]*\"|\{[^}]*\}|\\[dwsSDWb]", " ", pattern)
    return [word for word in re.findall(r"[^\s.*|()?+]+", text) if re.fullmatch(r"[a-z-]+[,:;]?", word)]


def patterns(file):
    """Literal patterns that errors and warnings are matched with, and their lines."""
    for node in nodes(file):
        if isinstance(node, ast.keyword) and node.arg == "match":
            value = node.value
            if isinstance(value, ast.Constant):
                yield value.lineno, value.value
            elif isinstance(value, ast.JoinedStr):
                texts = [part.value if isinstance(part, ast.Constant) else "{}" for part in value.values]
                yield value.lineno, "".join(texts)


def test_tests_read_no_private_names_but_those_that_are_listed():
    found = {file: private_names(file) for file in FILES}
    assert {file: names for file, names in found.items() if names} == ALLOWED


def test_the_readme_gives_a_reason_for_every_exception():
    assert [file for file in ALLOWED if f"`tests/{file}`" not in README] == []
    assert len(ALLOWED) <= 15


def test_errors_are_matched_by_names_and_values():
    long = {file: [one for one in patterns(file) if len(plain_words(one[1])) > MAX_WORDS] for file in FILES}
    assert {file: found for file, found in long.items() if found} == {}


def test_what_counts_as_a_plain_word():
    assert plain_words("party 'bank' sent 3 of n_rows=4 ids") == ["party", "sent", "of", "ids"]
    assert plain_words(r"point \d+ of {N}.*prime-order, or") == ["point", "of", "prime-order,", "or"]
