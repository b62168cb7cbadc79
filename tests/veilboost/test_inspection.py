"""The command ``inspect`` on the signatures beside a model."""

import pytest

from exact_training import parties, train
from gbdt_commons.files import write_signed
from veilboost import command_line as cli


@pytest.fixture(scope="module")
def model():
    return train(parties())


def inspected(folder, capsys):
    return cli.main(["inspect", str(folder / "model.signatures")]), "".join(capsys.readouterr())


@pytest.mark.parametrize("name", ["model.json", "model.txt"])
def test_the_model_that_was_signed_is_named_with_its_signers(model, name, tmp_path, capsys):
    write_signed(tmp_path / name, model.as_json(), model.signatures)
    (tmp_path / "model.d").mkdir()
    (tmp_path / "model.json.old").write_text("{}")
    code, said = inspected(tmp_path, capsys)
    assert code == 0
    assert f"{tmp_path / name}: signed by 3 of 3 parties" in said


@pytest.mark.parametrize("beside", ["model.bak", "model.json.old", "model.txt"])
def test_a_signed_copy_beside_another_model_is_not_taken_for_it(model, beside, tmp_path, capsys):
    write_signed(tmp_path / "model.json", b"{}", model.signatures)
    (tmp_path / beside).write_bytes(model.as_json())
    code, said = inspected(tmp_path, capsys)
    assert code == cli.WRONG_USE
    assert "model.json" in said
    assert "signed by" not in said


def test_a_folder_in_the_place_of_a_model_or_no_model_is_refused_by_name(model, tmp_path, capsys):
    (tmp_path / "model.signatures").write_text(model.signatures)
    code, said = inspected(tmp_path, capsys)
    assert code == cli.WRONG_USE
    assert "model.json" in said
    (tmp_path / "model.json").mkdir()
    code, said = inspected(tmp_path, capsys)
    assert code == cli.WRONG_USE
    assert "model.json is a folder" in said
