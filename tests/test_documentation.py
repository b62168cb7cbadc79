"""The pages name code and tests that exist, and the examples are pages of the gallery."""

import csv
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "experiments").glob("*.md")])
TESTS = {path.relative_to(ROOT): path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
FOLDERS = (ROOT, ROOT / "plugins", ROOT / "patches")


def named_tests(text):
    """Files and functions of tests that a page names, such as ``losses/test_loss.py``."""
    return set(re.findall(r"`(?:[\w/]+/)?(test_\w+)(?:\.py)?`", text))


def named_files(text):
    """Source files that a page names from the root of a package."""
    return set(re.findall(r"[`( ]((?:lgb_dp|xgb_fed|gbdt_\w+|tests|benchmarks)/[\w/]+\.py)", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_named_tests_exist(page):
    known = {path.stem for path in TESTS} | set(re.findall(r"def (test_\w+)", "".join(TESTS.values())))
    assert named_tests(page.read_text()) - known == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_named_source_files_exist(page):
    named = named_files(page.read_text())
    missing = {name for name in named if not any((folder / name).exists() for folder in FOLDERS)}
    assert missing == set()


def test_pages_name_tests_and_files_at_all():
    text = "".join(page.read_text() for page in PAGES)
    assert len(named_tests(text)) > 20
    assert len(named_files(text)) > 10


def test_the_wire_protocol_page_has_every_module_with_messages():
    listed = (ROOT / "docs" / "_ext" / "generated_pages.py").read_text(encoding="utf-8")
    packages = (folder for root in FOLDERS for folder in root.glob("*_*/"))
    modules = {
        ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        for folder in packages
        for path in folder.rglob("*.py")
        if re.search(r"^class \w+\(\w+, kind=\d+\):", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(modules) > 8
    assert {module for module in modules if f'"{module}"' not in listed} == set()


def included_files(page):
    """Tables and outputs that a page includes or offers, as paths from the root."""
    text = page.read_text(encoding="utf-8")
    names = re.findall(r"^:file: (\S+)$", text, flags=re.MULTILINE)
    names += re.findall(r"\{literalinclude\} (\S+)", text)
    names += re.findall(r"\{download\}`[^`<]*<(\S+)>`", text)
    return {page.parent / name for name in names}


def test_every_table_is_included_by_a_page_and_every_included_one_exists():
    included = set().union(*map(included_files, PAGES))
    beside = {path.with_suffix(".json") for path in included if path.suffix == ".csv"}
    assert included <= set((ROOT / "docs" / "experiments" / "data").iterdir()) <= included | beside


@pytest.mark.parametrize("table", sorted((ROOT / "docs").rglob("*.csv")), ids=lambda path: path.stem)
def test_tables_have_as_many_cells_in_every_row(table):
    rows = list(csv.reader(table.read_text(encoding="utf-8").splitlines()))
    assert len(rows) > 4
    assert {len(row) for row in rows} == {len(rows[0])}


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_begin_with_a_title(example):
    title, underline = example.read_text().split("\n")[1:3]
    assert set(underline) == {"="}
    assert len(underline) >= len(title)
