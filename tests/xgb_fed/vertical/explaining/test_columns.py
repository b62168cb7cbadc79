"""Columns of explanations: as many as each party consents to."""

import numpy as np

from explained_models import PARAMS, asked, bank_of, ids
from vertical_training import Recorder, parties_of, problem, train
from xgb_fed.vertical.protocol.messages import ColumnsTold, TellColumns


def sums_per_party(theirs):
    """Contributions of columns 0 to 2, then of the parties of columns 3 to 5 and 6 to 8, then the bias."""
    sums = [theirs[..., k : k + 3].sum(axis=-1, keepdims=True) for k in (3, 6)]
    return np.concatenate([theirs[..., :3], *sums, theirs[..., 9:]], axis=-1)


def test_a_party_may_consent_to_the_sum_of_its_columns_only(explained):
    model, X, _, _, parties = explained
    theirs = sums_per_party(model.predict(X[:, :3], parties, pred_contribs=True))
    discreet = [party.with_rows(X[:, a : a + 3]) for party, a in zip(parties, (3, 6), strict=True)]
    for party in discreet:
        party._allow_explanations = "per-party"
    bank = Recorder(discreet[0])
    explanation = model.explain(X[:, :3], [bank, discreet[1]])
    assert explanation.feature_names == ["f0", "f1", "f2", "party 0", "party 1"]
    np.testing.assert_allclose(explanation.contributions, theirs, atol=2e-6)
    mixed = model.explain(X[:, :3], [parties[0], discreet[1]])
    assert mixed.feature_names[-4:] == [*(f"party 0: column {k}" for k in range(3)), "party 1"]
    assert model.get_score([parties[0], discreet[1]]).keys() >= {"party 1", "party 0: column 0"}
    # Numbers of columns begin anew in every tree.
    (asked,) = (m for m in bank.messages() if isinstance(m, TellColumns))
    (told,) = (m for m in bank.messages() if isinstance(m, ColumnsTold))
    for tree in np.unique(asked.trees):
        seen = told.columns[asked.trees == tree]
        assert list(dict.fromkeys(seen.tolist())) == list(range(len(set(seen.tolist()))))


def test_a_party_without_splits_is_one_column_if_it_consents_to_no_more():
    X, y = problem(n=100)
    parties = parties_of([X[:, 3:4], np.zeros((100, 2))], allow_explanations="per-party")
    model = train(PARAMS, X[:, :3], y, parties, 1)
    explanation = model.explain(X[:, :3], parties)
    assert explanation.feature_names[3:] == ["party 0", "party 1"]
    assert not explanation.contributions[:, 4].any()


def test_a_column_that_is_called_as_a_party_is():
    X, y = problem(n=100)
    parties = parties_of([X[:, 3:]], allow_explanations="per-party")
    model = train(PARAMS, X[:, :3], y, parties, 1)
    model.splits.names[0] = "party 0"
    assert model.explain(X[:, :3], parties).feature_names == ["active: party 0", "f1", "f2", "party 0"]


def test_columns_are_positions_or_numbers_within_a_tree():
    question = TellColumns(ids(0, 1, 2, 3), ids(0, 0, 0, 4))
    told = asked(bank_of()[0], question)
    assert told.per_feature == 1
    assert told.columns.tolist() == [2, 0, 2, 1]
    told = asked(bank_of(level="per-party")[0], question)
    assert told.per_feature == 0
    assert told.columns.tolist() == [0, 1, 0, 0]
