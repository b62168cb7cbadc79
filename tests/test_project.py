"""What the project's own pages promise: files, targets, one version, pictures drawn from published
tables, and tests whose draws are pinned."""

import hashlib
import importlib.util
import itertools
import os
import re
import sys
from pathlib import Path

import pytest
import yaml

import lgb_dp
import veilboost
import xgb_fed
from chosen_tests import depends_on_hosts, part_of

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "tests/README.md"]
ROOTS = ("lgb_dp/", "xgb_fed/", "plugins/", "patches/", "docs/", "tests/", "benchmarks/", "examples/")


@pytest.mark.parametrize("page", PAGES)
def test_paths_in_the_pages_exist(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"`([\w./-]+)`", text) + re.findall(r"\]\(([\w./-]+)\)", text)
    paths = [name for name in named if name.startswith(ROOTS) or (name.endswith(".md") and "/" not in name)]
    assert paths
    assert [name for name in paths if not (ROOT / name).exists() and "_build" not in name] == []


@pytest.mark.parametrize("page", PAGES)
def test_targets_in_the_pages_are_the_makefiles(page):
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    text = (ROOT / page).read_text(encoding="utf-8")
    assert set(re.findall(r"(?:^|`)make ([\w-]+)", text, flags=re.MULTILINE)) <= targets


def test_the_workflow_uses_pinned_sets_that_exist():
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    for name in re.findall(r"set: ([\w.-]+)", text):
        assert (ROOT / "requirements" / f"{name}.txt").read_text()


def test_every_supported_python_has_a_pinned_set_that_the_workflow_uses():
    text = (ROOT / "pyproject.toml").read_text()
    project = tomllib.loads(text)["project"]
    versions = re.findall(r"Python :: (3\.\d+)", text)
    assert versions[0] == project["requires-python"].removeprefix(">=")
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text()
    for version in versions:
        assert f'python: "{version}", set: newest-{version}' in workflow
        lines = (ROOT / "requirements" / f"newest-{version}.txt").read_text().splitlines()
        assert all(re.fullmatch(r"[\w.-]+==[\w.+]+", line) for line in lines), version
        names = {re.sub(r"[-_.]+", "-", line.partition("==")[0]).lower() for line in lines}
        declared = project["dependencies"] + project["optional-dependencies"]["remote"]
        needed = {re.match(r"[\w-]+", one)[0].lower() for one in declared if "python_version" not in one}
        assert needed <= names, version


def test_the_oldest_set_is_what_the_project_declares():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    elsewhere = {"docs", "spark"}  # have environments of their own
    declared = project["dependencies"] + [one for name in extras.keys() - elsewhere for one in extras[name]]
    pinned = dict(
        line.split("==")
        for line in (ROOT / "requirements" / "oldest.txt").read_text().split()
        if "==" in line
    )
    for one in declared:
        if match := re.match(r"([\w-]+)>=([\d.]+)", one):
            name, least = match.groups()
            assert pinned[name].split(".")[: least.count(".") + 1] == least.split("."), name


def test_the_recipe_needs_what_the_project_needs():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    recipe = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text())

    def spaced(requirements):
        return sorted(re.sub(r"^([\w-]+)(.*)$", r"\1 \2", one) for one in requirements)

    python = f"python {project['project']['requires-python']}"
    assert sorted(recipe["requirements"]["run"]) == sorted(
        [python, *spaced(project["project"]["dependencies"])]
    )
    assert set(spaced(project["build-system"]["requires"])) <= set(recipe["requirements"]["host"])
    scripts = [f"{name} = {target}" for name, target in project["project"]["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    assert recipe["context"]["version"] == lgb_dp.__version__
    assert recipe["about"]["license"] == project["project"]["license"]
    assert recipe["about"]["summary"] == project["project"]["description"]


def test_this_version_has_its_section_in_the_changelog():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.index("## [Unreleased]") < text.index(f"## [{lgb_dp.__version__}]")


def test_all_packages_have_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"]
    assert lgb_dp.__version__ == xgb_fed.__version__ == veilboost.__version__
    assert f"version: {lgb_dp.__version__}" in (ROOT / "CITATION.cff").read_text()


def test_the_picture_of_peers_is_drawn_from_the_published_table():
    script = ROOT / "docs" / "pictures" / "private_peers.py"
    spec = importlib.util.spec_from_file_location("private_peers_picture", script)
    picture = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(picture)
    text = picture.table_file().read_text(encoding="utf-8")
    scores = picture.read_scores(text)
    assert scores["adult"][1.0]["NewtonBoost"] > scores["adult"][1.0]["DP-EBM"] > 0.5
    assert f"table {picture.digest(text)}" in picture.PICTURE.read_text(encoding="utf-8")
    other = text.replace("adult,1,0.9", "adult,1,0.8", 1)
    assert other != text
    assert f"table {picture.digest(other)}" not in picture.PICTURE.read_text(encoding="utf-8")


def test_the_changelog_keeps_its_headings():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.startswith("# Changelog\n")
    assert "## [Unreleased]" in text
    assert set(re.findall(r"^### (\w+)", text, flags=re.MULTILINE)) <= {
        "Added",
        "Changed",
        "Deprecated",
        "Removed",
        "Fixed",
        "Security",
    }


def test_what_tests_draw_follows_from_their_names(request):
    name = f"{request.config.getoption('draws')} {request.node.nodeid} 0"
    assert os.urandom(8) == hashlib.shake_256(name.encode()).digest(8)


def test_tests_of_hosts_are_found_by_what_they_touch(request):
    assert depends_on_hosts(ROOT / "tests" / "gbdt_hosts" / "test_loading.py")
    assert depends_on_hosts(ROOT / "tests" / "xgb_fed" / "estimators" / "test_contract.py")
    assert not depends_on_hosts(ROOT / "tests" / "gbdt_parties" / "test_quota.py")
    marked = request.node.get_closest_marker("hosts") is not None
    assert marked == depends_on_hosts(Path(__file__))


@pytest.mark.parametrize("n_parts", [1, 3, 6, 11])
def test_parts_hold_every_test_once(n_parts):
    items = list(range(10))
    parts = [part_of(items, f"{k}/{n_parts}") for k in range(1, n_parts + 1)]
    assert sorted(itertools.chain.from_iterable(parts)) == items
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("wanted", ["0/6", "7/6", "3", "a/b", "1/0", ""])
def test_parts_that_do_not_exist_are_refused(wanted):
    with pytest.raises(ValueError, match="expected K/N"):
        part_of([], wanted)
