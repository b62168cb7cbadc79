"""Revealed splits that cannot be are refused."""

import numpy as np
import pytest

import xgb_fed
from categorical_columns import BASE, frames
from gbdt_parties import messages
from gbdt_parties.errors import ProtocolError
from vertical_training import Recorder, train
from xgb_fed.vertical.protocol.messages import RevealedCategories

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")


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
            envelope.session,
            envelope.sequence,
            RevealedCategories(**{**envelope.message.__dict__, **lie}),
        )

    bank = xgb_fed.LocalParty(theirs, "bank", enable_categorical=True, allow_export=True)
    party = Recorder(bank, change)
    model = train({**BASE, "max_depth": 2, "enable_categorical": True}, own[["age"]], y, [party], 1)
    with pytest.raises(ProtocolError, match="party 'bank' sent malformed splits"):
        model.export_booster([party])
