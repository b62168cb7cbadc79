"""The command ``export``: a vertical run's model as XGBoost's own, as the page writes it; refusals."""

import re

import numpy as np
import pandas as pd
import pytest
import xgboost

from gbdt_parties.identity.record import read_record
from private_hospitals import DOCS
from two_organisations import serving
from veilboost import command_line as cli

PAGE = (DOCS / "deploy.md").read_text()
PLAN = re.search(r"```toml\n(# plan\.toml.*?)```", PAGE, re.DOTALL).group(1)
EXPORT = PAGE.split("## 7. Export")[1].split("\n## ")[0]
COMMAND = re.search(r"^\$ veilboost (.*)\n", EXPORT, re.MULTILINE).group(1).split()
CODE = re.search(r"```python\n(.*?)```", EXPORT, re.DOTALL).group(1)
OPTIONS = ("--id", "patient", "--min-node-rows", "1")


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """A folder where acme has trained by the page's plan with the bank, which is stopped; gives its port."""
    pytest.importorskip("nacl")
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(4)
    ids = pd.Index([f"p{k:03d}" for k in random.permutation(160)], name="patient")
    X = pd.DataFrame(random.normal(size=(160, 5)).round(3), ids, ["a0", "a1", "b0", "b1", "b2"])
    X.insert(0, "malignant", (X.sum(axis=1) + random.normal(size=160) > 0).astype(int))
    X.iloc[:150, :3].to_csv("acme.csv")
    X.iloc[:20:-1, 3:].to_csv("bank.csv")
    X.iloc[:, 1:].to_csv("pooled.csv")
    for name in ("acme", "bank"):
        assert cli.main(["certs", name]) == 0
    with serving(tmp_path, 0, *OPTIONS) as (_, port):
        plan = PLAN.replace("bank.example:7001", f"127.0.0.1:{port}").replace("600.0", "0.0")
        (tmp_path / "plan.toml").write_text(plan)
        for command in ("align", "train"):
            assert cli.main([command, "plan.toml"]) == 0
        assert cli.main(["predict", "plan.toml", "--out", "together.csv"]) == 0
    return port


def test_the_exported_model_predicts_alone_as_written_if_the_bank_consents(trained, tmp_path, capsys):
    with serving(tmp_path, trained, *OPTIONS):
        assert cli.main(COMMAND) == cli.REFUSED
    text = "party 'bank' refuses: this party does not consent to export its splits; with --allow-export"
    assert text in capsys.readouterr().err
    assert not (tmp_path / "booster.json").exists()
    with serving(tmp_path, trained, *OPTIONS, "--allow-export"):
        assert cli.main(COMMAND) == 0
        assert capsys.readouterr().out.endswith("6 trees, 5 columns of 2 parties: booster.json\n")
        assert cli.main(COMMAND) == cli.WRONG_USE
        assert "booster.json exists; --overwrite replaces it" in capsys.readouterr().err
        assert cli.main([*COMMAND, "--overwrite"]) == 0
        assert cli.main(["export", "plan.toml"]) == 0
    assert (tmp_path / "model" / "booster.json").read_bytes() == (tmp_path / "booster.json").read_bytes()
    assert {"RevealSplits", "RevealedSplits"} <= {
        kind for _, _, kind in read_record("record.jsonl").traffic.flows
    }
    assert cli.main([*COMMAND, "--overwrite"]) == cli.UNAVAILABLE
    names = {}
    exec(CODE, names)  # the bank's server is gone
    together = pd.read_csv("together.csv", index_col="id")["prediction"]
    alone = pd.Series(names["predictions"], names["rows"].index)[together.index]
    np.testing.assert_allclose(alone, together, atol=1e-6)
    assert np.ptp(together) > 0.1
    assert xgboost.Booster(model_file="booster.json").feature_names == ["a0", "a1", "b0", "b1", "b2"]


@pytest.mark.parametrize(
    ("method", "name", "host"),
    [
        ("exact", "model.json", "XGBoost"),
        ("simfl", "model.json", "XGBoost"),
        ("private", "model.txt", "LightGBM"),
    ],
)
def test_a_native_model_is_where_it_is_or_is_copied(tmp_path, monkeypatch, capsys, method, name, host):
    monkeypatch.chdir(tmp_path)
    training = "training: {epsilon: 1.0, delta: 1.0e-5}\n" if method == "private" else ""
    (tmp_path / "plan.yaml").write_text(
        f"method: {method}\ntls: certs/acme\n{training}"
        'parties: [{name: north, address: "h:1"}, {name: south, address: "h:2"}]\n'
    )
    assert cli.main(["export", "plan.yaml"]) == cli.FAILED
    assert "model holds no model; train first" in capsys.readouterr().err
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / name).write_bytes(b"a model")
    assert cli.main(["export", "plan.yaml"]) == 0
    assert capsys.readouterr().out == f"{host}'s own model already: model/{name}\n"
    copy = tmp_path / f"copy{(tmp_path / name).suffix}"
    assert cli.main(["export", "plan.yaml", "--out", copy.name]) == 0
    assert copy.read_bytes() == b"a model"
    assert cli.main(["export", "plan.yaml", "--out", "copy.ubj"]) == cli.WRONG_USE
    assert f"--out=copy.ubj must end in {copy.suffix}" in capsys.readouterr().err
