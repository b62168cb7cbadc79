"""Rows that a model is asked about, and those that parties have."""

import pickle

import numpy as np
import pytest

import xgb_fed
from named_rows import FRAME, NEW, OWN, SHUFFLED, SMALL, THEIRS, TRAIN, N, Y, bank, fitted
from xgb_fed import VerticalXGBClassifier
from xgb_fed.errors import InvalidArgumentError

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")


@pytest.mark.parametrize("method", ["predict", "predict_proba", "apply"])
@pytest.mark.parametrize("kind", ["named", "unnamed", "array"])
def test_other_rows_than_those_of_fit_need_the_parties_rows(method, kind):
    """As many rows as were trained on: the parties' rows of `fit` would give a result, and a wrong one."""
    as_kind = {
        "named": lambda frame: frame,
        "unnamed": lambda frame: frame.reset_index(drop=True),
        "array": lambda frame: frame.to_numpy(),
    }[kind]
    model = fitted(as_kind(TRAIN[OWN]), bank(as_kind(TRAIN[THEIRS])))
    ask = getattr(model, method)
    kept = ask(as_kind(TRAIN[OWN]))
    for rows in (NEW, TRAIN.iloc[SHUFFLED], NEW.iloc[:10]):
        with pytest.raises(xgb_fed.RowMismatchError, match=r"parties=\[party.with_rows"):
            ask(as_kind(rows[OWN]))
    party = model.parties_[0].with_rows(as_kind(NEW[THEIRS]))
    got = ask(as_kind(NEW[OWN]), [party])
    pooled = ask(as_kind(FRAME[OWN]), [party.with_rows(as_kind(FRAME[THEIRS]))])
    np.testing.assert_array_equal(got, pooled[N:])
    np.testing.assert_array_equal(kept, pooled[:N])


def test_changed_values_of_the_same_named_rows_are_predicted():
    """Permutation importance and what-if questions."""
    model = fitted()
    assert model.predict(TRAIN[OWN] + 1).shape == (N,)
    array = fitted(TRAIN[OWN].to_numpy(), bank(TRAIN[THEIRS].to_numpy()))
    changed = TRAIN[OWN].to_numpy() + 1
    with pytest.raises(xgb_fed.RowMismatchError):
        array.predict(changed)
    assert array.predict(changed, array.parties_).shape == (N,)


def test_parties_given_at_prediction_are_checked_too():
    model = fitted()
    party = model.parties_[0]
    for wrong in (party, party.with_rows(NEW.iloc[SHUFFLED][THEIRS])):
        with pytest.raises(xgb_fed.RowMismatchError, match="index of X"):
            model.predict(NEW[OWN], [wrong])
        with pytest.raises(xgb_fed.RowMismatchError, match="index of X"):
            model.model_.predict(NEW[OWN], [wrong])


def test_a_loaded_models_parties_have_the_rows_that_were_predicted_first(tmp_path):
    model = fitted(TRAIN[OWN].to_numpy(), bank(TRAIN[THEIRS].to_numpy()))
    model.save_model(tmp_path)
    party = model.parties_[0].with_rows(NEW[THEIRS].to_numpy())
    again = VerticalXGBClassifier()
    again.load_model(tmp_path, [party])
    first = again.predict(NEW[OWN].to_numpy())
    np.testing.assert_array_equal(first, model.predict(NEW[OWN].to_numpy(), [party]))
    with pytest.raises(xgb_fed.RowMismatchError):
        again.predict(TRAIN[OWN].to_numpy())
    np.testing.assert_array_equal(again.predict(NEW[OWN].to_numpy()), first)


def test_positions_from_the_index_are_those_of_the_parties_frame():
    plain = FRAME.reset_index(drop=True)
    model = VerticalXGBClassifier(**SMALL, rows_by_index=True)
    rows = plain.iloc[SHUFFLED]
    model.fit(rows[OWN], Y[SHUFFLED], parties=[bank(plain[THEIRS])])
    expected = model.predict(plain[OWN])
    np.testing.assert_array_equal(model.predict(rows[OWN]), expected[SHUFFLED])
    with pytest.raises(xgb_fed.RowMismatchError):
        model.fit(rows[OWN], Y[SHUFFLED], parties=[bank(plain.iloc[::-1][THEIRS])])


def test_a_pickled_model_needs_parties():
    again = pickle.loads(pickle.dumps(fitted()))
    with pytest.raises(InvalidArgumentError, match=r"parties.*given"):
        again.predict(NEW[OWN])
