"""A user's own objective: what it may do with what it is given, and how a run with one is taken up."""

import numpy as np
import pytest

import xgb_fed
from gbdt_parties import messages
from gbdt_parties.errors import PartyUnavailableError
from vertical_training import assert_same_trees, parties_of, problem, stock, train
from xgb_fed.boosting.params import Settings
from xgb_fed.errors import CheckpointError
from xgb_fed.vertical.protocol.messages import FindSplits
from xgb_fed.vertical.training.task import TrainingTask

PARAMS = {"objective": "reg:squarederror", "max_depth": 3, "max_bin": 16, "random_state": 1}


def squared_error(margin, data):
    return margin - data.get_label(), np.ones_like(margin)


def absolute_error(margin, data):
    return np.sign(margin - data.get_label()), np.ones_like(margin)


class Counting:
    """Squared error whose hessians grow from call to call."""

    def __init__(self):
        self.n_calls = 0

    def __call__(self, margin, data):
        self.n_calls += 1
        return margin - data.get_label(), np.full_like(margin, self.n_calls)


def rows():
    X, y = problem("reg:squarederror", n=200, n_features=4)
    return X, X[:, :2], parties_of([X[:, 2:]]), y


class Losing:
    """A party that is lost at its n-th question for statistics."""

    def __init__(self, party, n):
        self.party, self.name, self.left = party, party.name, n

    def handle(self, request):
        if isinstance(messages.read(request).message, FindSplits):
            self.left -= 1
            if self.left == 0:
                raise PartyUnavailableError("lost")
        return self.party.handle(request)


def test_an_objective_may_change_its_predictions_in_place():
    def in_place(margin, data):
        margin -= data.get_label()
        return margin.copy(), np.ones_like(margin)

    _, active, parties, y = rows()
    models = [train(PARAMS, active, y, parties, 3, obj=obj) for obj in (squared_error, in_place)]
    assert models[0].trees == models[1].trees


def test_an_objective_is_called_once_per_round():
    """As XGBoost calls it: it may count the rounds."""
    X, active, parties, y = rows()
    ours, theirs = Counting(), Counting()
    model = train(PARAMS, active, y, parties, 3, obj=ours)
    assert ours.n_calls == 3
    assert_same_trees(model.export_booster(parties), stock(PARAMS, X, y, 3, obj=theirs), 3)


@pytest.mark.parametrize("others", [absolute_error, None], ids=["another function", "none"])
def test_a_run_is_not_taken_up_with_another_objective(others, tmp_path):
    _, active, (party,), y = rows()
    with pytest.raises(PartyUnavailableError):
        train(PARAMS, active, y, [Losing(party, 5)], 3, obj=squared_error, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="another objective"):
        train(PARAMS, active, y, [party], 3, obj=others, checkpoint=tmp_path)
    whole = train(PARAMS, active, y, [party], 3, obj=squared_error)
    resumed = train(PARAMS, active, y, [party], 3, obj=squared_error, checkpoint=tmp_path)
    assert resumed.trees == whole.trees


def test_an_objective_that_does_not_repeat_itself_is_named_when_a_run_is_taken_up(tmp_path):
    """The party whose statistics change with the gradients is not to blame."""
    _, active, (party,), y = rows()
    with pytest.raises(PartyUnavailableError):
        train(PARAMS, active, y, [Losing(party, 8)], 3, obj=Counting(), checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match=r"obj.*tree 2"):
        train(PARAMS, active, y, [party], 3, obj=Counting(), checkpoint=tmp_path)


def test_margins_of_other_rows_make_another_run():
    _, active, _, y = rows()
    digests = set()
    for margins in ((None, None), (y, None), (None, y), (y, y)):
        own, other = (xgb_fed.ActiveData(active, y, base_margin=margin) for margin in margins)
        settings = Settings.from_params(PARAMS)
        task = TrainingTask(settings, own, [], [(other, "v")], xgb_fed.Paillier())
        digests.add(task.digest())
    assert len(digests) == 4
