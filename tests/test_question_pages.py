"""The first code of the guides runs as it stands, and the gallery's order knows every example."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def code_of(page):
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", ["dates.md", "getting-started.md"])
def test_the_first_code_runs_and_the_model_is_private(page):
    names = {}
    exec(code_of(page)[0], names)
    assert names["model"].privacy_.private


@pytest.mark.slow
def test_the_comparison_runs(capsys):
    exec(code_of("worse.md")[0], {})
    printed = dict(line.split(": ") for line in capsys.readouterr().out.splitlines())
    assert float(printed["epsilon 1"]) == pytest.approx(0.957, abs=0.01)
    assert float(printed["no noise"]) == pytest.approx(0.962, abs=0.01)


def test_the_journey_has_every_example():
    path = ROOT / "docs" / "_ext" / "gallery_order.py"
    spec = importlib.util.spec_from_file_location("gallery_order", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert sorted(module.JOURNEY) == sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


def test_the_question_pages_are_short():
    pages = ["dates.md", "worse.md", "publish.md", "how-long.md"]
    assert sum(len((ROOT / "docs" / page).read_text().split()) for page in pages) <= 2000
