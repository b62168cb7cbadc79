"""Models in a party's folder, as the command `models` finds them."""

import pytest

from gbdt_commons.errors import StoreError
from veilboost.command_line import main
from veilboost.model_folders import kept_models


@pytest.mark.parametrize("name", ["models/00ff.splits.json", "models/00ff.journal", "questions.json"])
def test_a_folder_of_an_earlier_release_is_refused_and_not_listed_as_something_else(tmp_path, name):
    path = tmp_path / "for-bank" / name
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    with pytest.raises(StoreError, match=f"'{path.name}' cannot be used: an earlier release"):
        kept_models(tmp_path)


def test_models_of_a_horizontal_party_are_listed(tmp_path):
    folder = tmp_path / "for-bank" / "models"
    folder.mkdir(parents=True)
    (folder / "00ff.json").write_text("{}")
    assert [(model.caller, model.number) for model in kept_models(tmp_path)] == [("bank", "00ff")]


def test_whole_models_are_not_said_to_need_their_party(tmp_path, capsys):
    """Before, "their splits exist here only, and predictions need them" stood below every list."""
    folder = tmp_path / "for-bank" / "models"
    folder.mkdir(parents=True)
    (folder / "00ff.json").write_text("{}")
    assert main(["models", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "models: 1"
