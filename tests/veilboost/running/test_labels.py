"""Labels that are not numbers of classes: the command names the file, the column and what to do."""

import pytest
import yaml

from veilboost import command_line as cli

PARTIES = [{"name": "bank", "address": "127.0.0.1:9"}, {"name": "shop", "address": "127.0.0.1:9"}]
PRIVATE = {"file": "acme.csv", "declared": "columns.yaml", "allowed": ["sha256:" + "0" * 64]}
GUARANTEE = {"training": {"epsilon": 1.0, "delta": 1e-5}, "parameters": {"objective": "binary"}}
PLANS = {
    "vertical": {
        "data": {"file": "acme.csv", "label": "ill"},
        "parties": PARTIES[:1],
        "parameters": {"objective": "binary:logistic"},
    },
    "private": {"data": PRIVATE, "parties": PARTIES, **GUARANTEE},
    "private-columns": {"data": PRIVATE, "parties": PARTIES[:1], **GUARANTEE},
}


@pytest.mark.parametrize("values", [(1, 2), (-1, 1), ("yes", "no")])
@pytest.mark.parametrize("method", PLANS)
def test_labels_of_two_classes_that_are_not_0_and_1(tmp_path, monkeypatch, capsys, method, values):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme.csv").write_text("age,ill\n" + "".join(f"{k},{values[k % 2]}\n" for k in range(50)))
    (tmp_path / "columns.yaml").write_text("label: ill\nbounds: {age: [0, 100]}\n")
    (tmp_path / "plan.yaml").write_text(
        yaml.safe_dump({"method": method, "tls": "certs/acme", **PLANS[method]})
    )
    assert cli.main(["certs", "acme"]) == 0
    capsys.readouterr()
    assert cli.main(["train", "plan.yaml"]) == cli.WRONG_USE
    shown = capsys.readouterr().err
    assert "acme.csv: column 'ill'" in shown
    assert "classes as 0" in shown
    assert cli.main(["doctor", "plan.yaml"]) == cli.FAILED
    assert "MEND  values: acme.csv" in capsys.readouterr().out


def test_the_column_of_ids_is_not_that_of_labels(tmp_path, monkeypatch, capsys):
    """It ended as a defect in veilboost."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("id,age\n1,30\n2,40\n")
    serve = ["serve", "exact", "--data", "rows.csv", "--tls", "certs", "--allow", "acme", "--id", "id"]
    assert cli.main([*serve, "--label", "id", "--party", "sha256:" + "0" * 64]) == cli.WRONG_USE
    assert "--id has 'id', which is --label as well" in capsys.readouterr().err


def test_names_that_are_not_utf8_are_no_defect(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acme.csv").write_bytes("straße,ill\n1,0\n2,1\n".encode("latin-1"))
    (tmp_path / "plan.yaml").write_text(
        yaml.safe_dump({"method": "vertical", "tls": "certs/acme", **PLANS["vertical"]})
    )
    assert cli.main(["certs", "acme"]) == 0
    assert cli.main(["train", "plan.yaml"]) == cli.WRONG_USE
    shown = capsys.readouterr().err
    assert "acme.csv cannot be read as CSV: line 1 is not UTF-8" in shown
    assert "save the file as UTF-8" in shown
    assert cli.main(["doctor", "plan.yaml"]) == cli.FAILED
    assert "MEND  file: acme.csv" in capsys.readouterr().out
