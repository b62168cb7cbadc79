"""Models in a party's folder, as the command `models` finds them."""

import pytest

from gbdt_commons.errors import StoreError
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
