"""Dependencies point one way (examples → lgb_dp | xgb_fed → gbdt_hosts, gbdt_kernels)."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {
    "lgb_dp": ROOT / "lgb_dp",
    "xgb_fed": ROOT / "xgb_fed",
    "gbdt_kernels": ROOT / "plugins" / "gbdt_kernels",
    "gbdt_hosts": ROOT / "patches" / "gbdt_hosts",
}
MAY_NOT_IMPORT = {
    "lgb_dp": {"xgb_fed", "xgboost", "plugins", "patches", "phe"},
    "xgb_fed": {"lgb_dp", "lightgbm", "plugins", "patches"},
    "gbdt_hosts": {"lgb_dp", "xgb_fed", "gbdt_kernels", "plugins", "patches"},
    "gbdt_kernels": {"lgb_dp", "xgb_fed", "gbdt_hosts", "lightgbm", "xgboost", "secrets", "random", "phe"},
}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("package", PACKAGES)
def test_package_imports_only_what_it_may_know(package):
    files = list(PACKAGES[package].rglob("*.py"))
    assert files
    for path in files:
        roots = {name.split(".")[0] for name in imported(path)}
        assert not roots & MAY_NOT_IMPORT[package], path


def test_kernels_draw_no_randomness():
    for path in PACKAGES["gbdt_kernels"].rglob("*.py"):
        assert "np.random" not in path.read_text(), path
        assert "urandom" not in path.read_text(), path


PRIVATE_OF_LIGHTGBM = ("_ConfigAliases", "_LIB", "_safe_call", "_InnerPredictor", "._handle", "_log_info")
PRIVATE_OF_XGBOOST = (
    "xgboost._",
    "xgboost.core",
    "CallbackContainer",
    "_check_call",
    "save_config",
    "save_raw",
    "learner_model_param",
    "gradient_booster",
)
"""Undocumented names, and those of the model format."""


@pytest.mark.parametrize("package", ["lgb_dp", "xgb_fed"])
def test_only_gbdt_hosts_touches_private_names_of_the_host_libraries(package):
    names = "|".join(re.escape(name) for name in PRIVATE_OF_LIGHTGBM + PRIVATE_OF_XGBOOST)
    for path in PACKAGES[package].rglob("*.py"):
        assert not re.findall(rf"(?:{names})\b", path.read_text()), path


def test_names_that_are_private_to_hosts_are_used_there():
    """Else the search above would look for names that nobody uses."""
    text = "".join(path.read_text() for path in PACKAGES["gbdt_hosts"].glob("xgboost/*.py"))
    assert {"CallbackContainer", "save_config", "save_raw", "gradient_booster"} <= set(
        re.findall(r"\w+", text)
    )


def test_examples_import_public_packages_only():
    for path in (ROOT / "examples").glob("*.py"):
        roots = {name.split(".")[0] for name in imported(path)}
        assert not roots & {"gbdt_kernels", "gbdt_hosts"}, path
