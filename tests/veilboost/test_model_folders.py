"""Models in a party's folder, as the command `models` finds them."""

import pytest

from columns_apart import X, bank, trained
from lgb_dp.errors import InvalidArgumentError
from lgb_dp.vertical import predict
from veilboost.command_line import main
from veilboost.model_folders import kept_models


def test_models_of_a_horizontal_party_are_listed(tmp_path):
    folder = tmp_path / "for-bank" / "models"
    folder.mkdir(parents=True)
    (folder / "00ff.json").write_text("{}")
    (folder / "00ff.signatures").write_text("{}")
    assert [(model.caller, model.number) for model in kept_models(tmp_path)] == [("bank", "00ff")]
    assert main(["models", str(tmp_path), "--remove", "00ff"]) == 0
    assert list(folder.iterdir()) == []


def test_whole_models_are_not_said_to_need_their_party(tmp_path, capsys):
    """Before, "their splits exist here only, and predictions need them" stood below every list."""
    folder = tmp_path / "for-bank" / "models"
    folder.mkdir(parents=True)
    (folder / "00ff.json").write_text("{}")
    assert main(["models", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "models: 1"


@pytest.mark.filterwarnings("ignore::lgb_dp.errors.NotPrivateWarning")
def test_models_of_columns_apart_are_listed_and_removed_with_their_answers(tmp_path):
    """Before, the list was empty; a model whose file alone is removed goes on to answer."""
    pytest.importorskip("nacl")
    party = bank(folder=tmp_path)
    booster = trained(party)
    (model,) = kept_models(tmp_path)
    assert (model.caller, model.n_splits) == ("this process", "whole")
    assert (tmp_path / "models" / f"{model.number}.txt").exists()
    party.close()
    assert main(["models", str(tmp_path), "--remove", model.number[:6]]) == 0
    assert not kept_models(tmp_path)
    party = bank(folder=tmp_path)
    with pytest.raises(InvalidArgumentError, match="party 'bank' has trained"):
        predict(booster, X[:, :2], parties=[party])
    assert not party.n_runs_of("this process")
    party.close()
