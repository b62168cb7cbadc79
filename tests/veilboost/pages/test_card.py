"""Cards of models: one page that stands alone, with what is known of a model, and no more."""

import json
import re

import numpy as np
import pytest

import lgb_dp
from stated_models import HOSTILE, made_in
from veilboost.command_line import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made_in(tmp_path_factory.mktemp("models"))


def shown(tmp_path, *args):
    out = tmp_path / "card.html"
    assert main(["show", *map(str, args), "--out", str(out)]) == 0
    return out.read_text()


def headings(page):
    return re.findall("<h2>(.*?)</h2>", page)


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("vertical", ["bank (all its columns)", "NO PRIVACY GUARANTEE", "active: "]),
        ("exact", ["NO PRIVACY GUARANTEE", "coordinator: "]),
        ("private", ["This model is private: epsilon = 2", "validation_fraction", "coordinator: "]),
    ],
)
def test_a_card_draws_what_the_record_has_counted(folder, tmp_path, kind, says):
    page = shown(tmp_path, folder / kind, "--record", folder / f"{kind}.jsonl", "--fill", f"name={HOSTILE}")
    assert HOSTILE not in page
    assert not re.search("https?://(?!www.w3)", page)
    assert "<script" not in page
    assert [text for text in says if text not in page] == []
    assert "What it is, and for whom" in headings(page)
    drawn = re.search('aria-label="Traffic: (.*?)"', page).group(1)
    counted = json.loads(f"[{','.join((folder / f'{kind}.jsonl').read_text().splitlines())}]")
    assert len(drawn.split("; ")) >= len({(one["from"], one["to"]) for one in counted})
    assert "bytes that only the holder of a key reads" in page
    assert "Passive to active" in page or "party to coordinator" in page.lower()


def test_without_a_record_roles_are_drawn_and_nothing_is_counted(folder, tmp_path):
    page = shown(tmp_path, folder / "exact", "--method", "simfl")
    assert "builder of a tree" in re.search('aria-label="Traffic: (.*?)"', page).group(1)
    assert "mostly ciphertexts" not in page
    assert "Each kind of message" not in page


def test_a_model_of_one_place_with_its_evaluation(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.random((3000, 2))
    model = lgb_dp.DPLGBMClassifier(n_estimators=3, epsilon=2.0, delta=1e-5, validation_fraction=0.2)
    model.fit(X, X[:, 0] > 0.5, bounds=(0, 1)).booster_.save_model(tmp_path / "m.txt")
    page = shown(tmp_path, tmp_path / "m.txt")
    assert "tells of no parties" in page
    assert str(model.evaluation_.auc) in page
    assert 'aria-label="ROC curve on held-out rows"' in page
    text = (tmp_path / "m.txt").read_text()
    (tmp_path / "m.txt").write_text(text.replace("leaf_value=", "leaf_value=1", 1))
    altered = shown(tmp_path, tmp_path / "m.txt")
    assert "VOID" in altered
    assert "ROC" not in altered


def test_only_the_statement_of_the_same_model_is_linked(folder, tmp_path, caplog):
    (tmp_path / "a b").mkdir()
    for kind in ("vertical", "private"):
        assert main(["statement", str(folder / kind), "--out", str(tmp_path / "a b" / kind)]) == 0
    page = shown(tmp_path, folder / "private", "--statement", tmp_path / "a b" / "private.html")
    assert 'href="a%20b/private.html"' in page
    for wrong in (tmp_path / "a b" / "vertical.html", tmp_path / "none.html"):
        assert main(["show", str(folder / "private"), "--statement", str(wrong)]) == 2
