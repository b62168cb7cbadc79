"""Cards of models: one page that stands alone, with what is known of a model, and no more."""

import json
import re

import numpy as np
import pytest
import xgboost

import exact_training
import lgb_dp
from explained import estimator
from gbdt_commons.files import write_signed
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
    assert "Unsigned: " in page
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


@pytest.mark.parametrize(
    ("altered", "says"),
    [
        (lambda text, model: '{"a":' * 500_000, "neither a model of veilboost nor one of XGBoost"),
        (lambda text, model: grown(model)[0].update(split_indices=[999_999] * 99), "one of XGBoost"),
        (
            lambda text, model: grown(model)[0].update(
                split_indices=[999_999 for _ in grown(model)[0]["split_indices"]]
            ),
            "its columns are not those of its trees",
        ),
        (lambda text, model: model["learner"].update(feature_names=["only"]), "its columns are not those of"),
        (
            lambda text, model: model["learner"]["learner_model_param"].update(num_feature="2000000000"),
            "2000000000 columns without names",
        ),
    ],
)
def test_native_models_of_strangers_are_refused_by_name(folder, tmp_path, capsys, altered, says):
    text = (folder / "exact" / "model.json").read_text()
    model = json.loads(text)
    model["learner"].update(feature_names=[], feature_types=[])
    changed = altered(text, model)
    (tmp_path / "m.json").write_text(changed if isinstance(changed, str) else json.dumps(model))
    assert main(["show", str(tmp_path / "m.json"), "--out", str(tmp_path / "card.html")]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("objective", ["binary", "multiclass"])
def test_what_a_private_model_uses_stands_beside_its_noise(tmp_path, objective):
    model = estimator(objective).booster_
    model.save_model(tmp_path / "m.txt")
    page = shown(tmp_path, tmp_path / "m.txt")
    importances = lgb_dp.importances(model, n=8, random_state=0)
    share = importances.gain / importances.gain.sum()
    for name, one, is_above in zip(importances.features, share, importances.stands_out, strict=True):
        words = f"{one:.1%}" if is_above else f"{one:.1%}, not distinguishable from noise"
        assert re.search(f"<td>{name}</td>.*?<td>{words}</td>", page)
    found = lgb_dp.effects(model, ["a"], n=8, random_state=0)["a"]
    n_classes = found.effect.shape[1]
    order = [f for f in np.argsort(-importances.gain) if importances.stands_out[f]][: 6 // n_classes]
    drawn = {name for name in importances.features if f"Effect of {name}" in page}
    assert "a" in drawn
    assert drawn == {importances.features[f] for f in order}
    assert len(re.findall("Effect of a(?: on class .)?</h3>", page)) == n_classes
    ends = found.effect[:, 0] - 1.96 * found.std[:, 0], found.effect[:, 0] + 1.96 * found.std[:, 0]
    drawn = re.search(r'aria-label="Effect of a.*?</svg>', page).group()
    assert f">{ends[0].min():.4g}<" in drawn
    assert f">{ends[1].max():.4g}<" in drawn
    assert drawn.count('class="area"') == 1
    assert page == shown(tmp_path, tmp_path / "m.txt")


@pytest.mark.parametrize(
    ("pattern", "instead", "says"),
    [
        ('"n_rows": [0-9.]+', '"n_rows": 1e7', "takes long"),
        ('"std": [0-9.e-]+', '"std": 1e300', "Numerical result"),
        ('"n_rounds": 40', '"n_rounds": null', "description of the run"),
    ],
)
def test_a_run_that_a_card_cannot_repeat_is_named(tmp_path, pattern, instead, says):
    text, n = re.subn(pattern, instead, estimator().booster_.model_to_string())
    assert n >= 1
    (tmp_path / "m.txt").write_text(text)
    (why,) = re.findall(
        "Importances and effects are not shown: (.*?)</p>", shown(tmp_path, tmp_path / "m.txt")
    )
    assert says in why


def grown(model):
    return model["learner"]["gradient_booster"]["model"]["trees"]


@pytest.mark.parametrize("gain", [float("nan"), -1e30, 3e38])
def test_gains_that_are_no_shares_are_not_drawn(folder, tmp_path, gain):
    model = json.loads((folder / "exact" / "model.json").read_text())
    grown(model)[0]["loss_changes"][0] = gain
    (tmp_path / "m.json").write_text(json.dumps(model))
    page = shown(tmp_path, tmp_path / "m.json")
    assert ("What the model uses" in headings(page)) == (gain == 3e38)
    assert not re.search('width="-|nan%', page)


def test_gains_are_those_of_xgboost(folder, tmp_path):
    page = shown(tmp_path, folder / "exact")
    gains = xgboost.Booster(model_file=folder / "exact" / "model.json").get_score(
        importance_type="total_gain"
    )
    name = max(gains, key=gains.get)
    share = gains[name] / sum(gains.values())
    assert re.search(f"<td>{name}</td>.*?<td>{share:.1%}</td>", page)


def test_the_kind_of_a_model_is_that_of_its_text(folder, tmp_path):
    for kind, end, name in (("private", "txt", "a; b.json"), ("exact", "json", "c.txt")):
        (tmp_path / name).write_bytes((folder / kind / f"model.{end}").read_bytes())
        page = shown(tmp_path, tmp_path / name)
        assert ("Shares of the total gain" in page) == (kind == "exact")
        assert ("Importances and effects are not shown" in page) == (kind == "private")
        assert ("statement &#x27;" in page) == (" " in name)  # a command to copy runs no other


def test_the_card_tells_a_signed_file_from_a_copy_beside_its_signatures(tmp_path):
    model, file = exact_training.train(exact_training.parties()), tmp_path / "model.json"
    write_signed(file, model.as_json(), model.signatures)
    assert "Signed by 3 of 3 parties" in shown(tmp_path, file)
    (copy := tmp_path / "model.bak").write_bytes(file.read_bytes())
    assert "Unsigned: everything here is as its file says" in shown(tmp_path, copy)
    file.write_bytes(file.read_bytes() + b" ")
    assert main(["show", str(file), "--out", str(tmp_path / "card.html")]) == 2


def test_a_statement_of_any_brackets_is_none(folder, tmp_path):
    (tmp_path / "s.html").write_text("")
    (tmp_path / "s.json").write_text("[" * 200_000)
    assert main(["show", str(folder / "private"), "--statement", str(tmp_path / "s.html")]) == 2


def test_a_report_with_a_reason_to_be_void_is_void(folder, tmp_path):
    text = (folder / "private" / "model.txt").read_text()
    voided = re.sub(r'("private": true, "reasons": )\[\]', r'\1["<b>rows were seen"]', text, count=1)
    assert voided != text
    (tmp_path / "m.txt").write_text(voided)
    page = shown(tmp_path, tmp_path / "m.txt")
    assert "VOID" in page
    assert "void because &lt;b&gt;rows were seen" in page
    assert "is private" not in page
    assert "What an attacker can achieve" not in headings(page)
