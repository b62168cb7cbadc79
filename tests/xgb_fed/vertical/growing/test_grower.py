"""A tree does not depend on how columns are divided, nor on ciphers."""

import numpy as np
import pytest

from compared_trees import compare, xgb_params
from kept_splits import splits_of
from vertical_training import parties_of, problem, text_of, train
from xgb_fed import OkamotoUchiyama, Paillier
from xgb_fed.vertical.trees.tree_record import TreeRecord


@pytest.mark.parametrize("bounds", [(2, 4, 5), (0,), (0, 3), (5,)], ids=str)
def test_any_division_of_the_columns(bounds):
    """Three passive parties; an active party without features; one with all but one."""
    X, y = problem(missing=0.1, n_features=6)
    compare(xgb_params({}), X, y, bounds)


def test_two_rows_of_a_node_are_parted_and_one_row_is_not():
    X, y = np.arange(8, dtype=np.float32).reshape(4, 2), np.array([0, 1, 5, 9], dtype=np.float32)
    case = {"objective": "reg:squarederror", "max_depth": 4, "min_child_weight": 0, "reg_lambda": 0}
    model, _, _ = compare(xgb_params(case), X, y, (1,), rounds=1)
    assert len(model.trees[0]) == 7


def test_a_party_that_has_answered_counts_as_told(monkeypatch):
    """Otherwise a run that is taken up would count restarts that did not happen."""
    records, telling = [], TreeRecord.telling

    def noted(self, *told):
        records.append(self)
        telling(self, *told)

    monkeypatch.setattr(TreeRecord, "telling", noted)
    X, y = problem(n=100)
    train(xgb_params({}), X[:, :3], y, parties_of([X[:, 3:]]))
    assert len(records) > 2
    assert all(not record.content.told for record in records)


def test_equal_columns_of_different_parties():
    """Equal gains everywhere: the first column wins, as in XGBoost, across and within parties."""
    X, y = problem(n_features=3, missing=0.1)
    compare(xgb_params({}), np.concatenate([X, X, X[:, ::-1]], axis=1), y, (3, 6))
    compare(xgb_params({}), np.concatenate([X, X, X[:, ::-1]], axis=1), y, (0, 5))


@pytest.mark.parametrize(
    "scheme",
    [Paillier(512, True), OkamotoUchiyama(512, True), OkamotoUchiyama(1024, True)],
    ids=lambda s: f"{type(s).__name__}-{s.key_length}",
)
@pytest.mark.parametrize("extra", [{}, {"multi_output": True}], ids=["trees", "multi_output"])
def test_ciphers_give_the_same_model(scheme, extra):
    """The same text, to the last digit: a ciphertext sum is the sum of the integers that `Plain` adds."""
    objective = "multi:softprob" if extra else "binary:logistic"
    X, y = problem(objective, n=60, n_features=4, missing=0.1)
    params = {"objective": objective, "max_depth": 3, "max_bin": 6, **extra}
    params |= {"num_class": 3} if extra else {}
    texts = []
    for cipher in (None, scheme):
        parties = parties_of([X[:, 2:]])
        texts.append(text_of(train(params, X[:, :2], y, parties, 2, cipher=cipher)))
        splits = splits_of(parties[0])[0]
        texts.append(str(splits.__dict__))
    assert texts[:2] == texts[2:]


def test_equal_trainings_give_equal_models():
    X, y = problem(n=100)
    params = xgb_params({"subsample": 0.7, "colsample_bytree": 0.7, "random_state": 4})
    texts = {text_of(train(params, X[:, :3], y, parties_of([X[:, 3:]]))) for _ in range(2)}
    assert len(texts) == 1
    assert text_of(train({**params, "random_state": 5}, X[:, :3], y, parties_of([X[:, 3:]]))) not in texts
