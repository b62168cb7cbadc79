"""Models are exported with the consent of all parties."""

import numpy as np
import pytest
import xgboost

import xgb_fed
from categorical_columns import BASE, frames
from fitted_estimators import X, Y, classifier
from gbdt_parties import messages
from gbdt_parties.errors import ConsentError, ProtocolError
from native_trees import read_trees
from vertical_training import Recorder, train
from xgb_fed import LocalParty
from xgb_fed.vertical.protocol.messages import RevealedCategories, RevealedSplits

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.errors.NotEncryptedWarning")


def test_export_needs_consent(fitted):
    silent = LocalParty(X[:, 3:], "bank")
    model = classifier().fit(X[:, :3], Y, parties=[silent])
    recorder = Recorder(silent)
    with pytest.raises(ConsentError, match="'bank'"):
        model.export_booster([recorder])
    assert not [a for a in recorder.answers if isinstance(messages.read(a).message, RevealedSplits)]
    importances = model.model_.importances("weight")
    anonymous = [name for name in importances if name not in model.model_.splits.names]
    assert anonymous
    assert all(name.startswith("bank: split ") for name in anonymous)


@pytest.mark.parametrize(
    "lie",
    [
        {"names": "[" * 100_000},
        {"names": "no json"},
        {"names": "[1, 2, 3]"},
        {"names": '["a", "b"]'},
        {"features": np.array([0], dtype=np.int32)},
        {"thresholds": np.empty(0, dtype=np.float32)},
    ],
    ids=lambda lie: str(lie)[:30],
)
def test_revealed_splits_that_are_not_the_model_s(fitted, lie):
    def change(request, answer):
        envelope = messages.read(answer)
        if not isinstance(envelope.message, RevealedSplits):
            return answer
        other = RevealedSplits(**(dict(envelope.message.__dict__) | lie))
        return messages.write(envelope.session, envelope.sequence, other)

    with pytest.raises(ProtocolError, match="'bank'"):
        fitted.export_booster([Recorder(fitted.parties_[0], change)])


def test_exported_trees_of_a_written_model(fitted, tmp_path):
    """XGBoost reads its own JSON and binary formats of what was exported."""
    booster = fitted.export_booster()
    expected = booster.predict(xgboost.DMatrix(X))
    for kind in ("json", "ubj"):
        booster.save_model(tmp_path / f"model.{kind}")
        again = xgboost.Booster(model_file=tmp_path / f"model.{kind}")
        np.testing.assert_array_equal(again.predict(xgboost.DMatrix(X)), expected)
        assert len(read_trees(again)) == 4


@pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")
@pytest.mark.parametrize(
    "lie",
    [
        {"categorical": np.array([5], dtype=np.int32)},
        {"categorical": np.array([-1], dtype=np.int32)},
        {"n_right": np.zeros(1, dtype=np.int32)},
        {"right": np.zeros(0, dtype=np.int32)},
        {"categorical": np.zeros(0, dtype=np.int32)},
    ],
    ids=str,
)
def test_revealed_categories_that_cannot_be_are_refused(recorded, lie):
    _, theirs = recorded
    own, _, y = frames(120)

    def change(_, answer):
        envelope = messages.read(answer)
        if not isinstance(envelope.message, RevealedCategories):
            return answer
        return messages.write(
            envelope.session, envelope.sequence, RevealedCategories(**{**envelope.message.__dict__, **lie})
        )

    bank = xgb_fed.LocalParty(theirs, "bank", enable_categorical=True, allow_export=True)
    party = Recorder(bank, change)
    model = train({**BASE, "max_depth": 2, "enable_categorical": True}, own[["age"]], y, [party], 1)
    with pytest.raises(ProtocolError, match="party 'bank' sent malformed"):
        model.export_booster([party])
