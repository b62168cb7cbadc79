"""The model of horizontal training, as it is printed and as `fit` gives it."""

import numpy as np
import pytest

import xgb_fed

random = np.random.default_rng(0)
X, y = random.normal(size=(120, 3)), random.integers(0, 2, 120)
PARTIES = [(X[:60], y[:60]), (X[60:], y[60:])]


@pytest.mark.filterwarnings("ignore::xgb_fed.HeuristicProtectionWarning")
@pytest.mark.parametrize("kind", [xgb_fed.HorizontalXGBClassifier, xgb_fed.HorizontalXGBRegressor])
def test_a_list_of_parties_alone_is_fitted_and_the_model_is_five_lines(kind):
    model = kind(n_estimators=2, max_depth=2, method="simfl", random_state=0)
    alone = model.fit(PARTIES).model_
    named = kind(**model.get_params()).fit(parties=PARTIES).model_
    assert alone.as_json() == named.as_json()
    lines = repr(alone).splitlines()
    assert (len(lines), lines[0]) == (5, "HorizontalModel: 2 rounds, 3 columns")
    assert lines[1] == (
        "classes: [0, 1]" if kind is xgb_fed.HorizontalXGBClassifier else "classes: none, numbers"
    )


def test_a_list_of_rows_without_labels_is_refused():
    with pytest.raises(ValueError, match="party0"):
        xgb_fed.HorizontalXGBClassifier(n_estimators=2).fit(X.tolist())
