"""Contributions of columns are those of XGBoost on the pooled columns."""

import numpy as np
import pytest
import xgboost

import xgb_fed
from explained_models import PARAMS, asked, bank_of, ids
from vertical_training import Recorder, parties_of, parts, problem, stock, train
from xgb_fed.vertical.explaining import contributions as contributions_module
from xgb_fed.vertical.protocol import messages as vertical_messages
from xgb_fed.vertical.protocol.messages import ColumnsTold, TellColumns

KINDS = ("weight", "gain", "cover", "total_gain", "total_cover")


def margin_scale(booster, X):
    """What differences are relative to, per row and class."""
    margin = np.abs(booster.predict(xgboost.DMatrix(X), output_margin=True))
    return np.maximum(1, margin)[..., None]


def test_contributions_are_those_of_the_pooled_model(explained):
    model, X, y, weight, parties = explained
    pooled = stock({**PARAMS, "base_score": 0.3}, X, y, 4, weight)
    theirs = pooled.predict(xgboost.DMatrix(X), pred_contribs=True)
    explanation = model.explain(X[:, :3], parties)
    assert explanation.contributions.shape == theirs.shape
    assert explanation.contributions.dtype == np.float32
    assert np.max(np.abs(explanation.contributions - theirs) / margin_scale(pooled, X)) <= 1e-5
    others = [f"party {k}: column {c}" for k in range(2) for c in range(3)]
    assert explanation.feature_names == ["f0", "f1", "f2", *others]
    as_xgboost = model.predict(X[:, :3], parties, pred_contribs=True)
    np.testing.assert_array_equal(as_xgboost, explanation.contributions)


@pytest.mark.parametrize("multi_output", [False, True])
def test_contributions_to_the_margins_of_classes(multi_output, monkeypatch):
    monkeypatch.setattr(contributions_module, "BYTES_AT_ONCE", 8 * 3 * 6 * 70)
    X, y = problem("multi:softprob", n=200, missing=0.1)
    active, *passive = parts(X, 3)
    parties = parties_of(passive, allow_explanations="per-feature")
    params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 3, "max_bin": 8}
    model = train({**params, "multi_output": multi_output}, active, y, parties, 3)
    booster = model.export_booster(parties) if multi_output else stock(params, X, y, 3)
    theirs = booster.predict(xgboost.DMatrix(X), pred_contribs=True)
    ours = model.explain(active, parties).contributions
    assert ours.shape == theirs.shape == (200, 3, 7)
    assert np.max(np.abs(ours - theirs) / margin_scale(booster, X)) <= 1e-5
    scores = model.get_score(parties, importance_type="cover")
    exported = model.export_booster(parties).get_score(importance_type="cover")
    assert sorted(scores.values()) == pytest.approx(sorted(exported.values()), rel=1e-6)


def test_scores_are_those_of_the_exported_booster(explained):
    model, _, _, _, parties = explained
    booster = model.export_booster(parties)
    names = [f"f{k}" for k in range(3)] + [f"party {k}: column {c}" for k in range(2) for c in range(3)]
    for kind in KINDS:
        theirs = {names[int(f[1:])]: value for f, value in booster.get_score(importance_type=kind).items()}
        assert model.get_score(parties, importance_type=kind) == pytest.approx(theirs, rel=1e-6)
    assert model.get_score(parties) == model.get_score(parties, importance_type="weight")
    with pytest.raises(xgb_fed.InvalidArgumentError, match=r"'gini'.*gain"):
        model.get_score(parties, importance_type="gini")
    with pytest.raises(xgb_fed.InvalidArgumentError, match="lacks"):
        model.get_score(parties[:1])


def test_some_rows_in_any_order_and_some_rounds(explained):
    model, X, _, _, parties = explained
    rows = np.array([200, 3, 77])
    some = {"rows": rows, "iteration_range": (0, 2)}  # XGBoost explains from the first round only
    ours = model.explain(X[rows, :3], parties, **some).contributions
    theirs = model.export_booster(parties).predict(
        xgboost.DMatrix(X[rows]), pred_contribs=True, iteration_range=(0, 2)
    )
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    some["iteration_range"] = (1, 3)
    margins = model.predict(X[rows, :3], parties, output_margin=True, **some)
    hidden = model.predict(X[rows, :3], parties, output_margin=True, hide_paths=True, **some)
    np.testing.assert_array_equal(hidden, margins)
    ours = model.explain(X[rows, :3], parties, **some).contributions
    np.testing.assert_allclose(ours.sum(axis=1), margins, atol=1e-5)


def test_margins_before_the_first_tree_go_into_the_bias(explained):
    model, X, _, _, parties = explained
    start = np.linspace(-1, 1, len(X)).astype(np.float32)
    rows = np.array([200, 3, 77])
    matrix = xgboost.DMatrix(X[rows], base_margin=start[rows])
    theirs = model.export_booster(parties).predict(matrix, pred_contribs=True)
    some = {"rows": rows, "base_margin": start[rows]}
    ours = model.predict(X[rows, :3], parties, pred_contribs=True, **some)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_array_equal(model.explain(X[rows, :3], parties, **some).contributions, ours)
    with pytest.raises(xgb_fed.InvalidDataError, match="base_margin"):
        model.explain(X[:, :3], parties, base_margin=start[:5])


def test_an_active_party_without_columns_and_a_model_without_parties(monkeypatch):
    monkeypatch.setattr(vertical_messages, "MAX_SIDES_BYTES", 30)  # two splits in an answer
    X, y = problem(n=100)
    (party,) = parties_of([X], allow_explanations="per-feature")
    model = train(PARAMS, None, y, [party], 2)
    theirs = model.export_booster([party]).predict(xgboost.DMatrix(X), pred_contribs=True)
    np.testing.assert_allclose(model.explain(None, [party]).contributions, theirs, atol=1e-5)
    alone = train(PARAMS, X, y, [], 2)
    np.testing.assert_allclose(alone.explain(X).contributions, theirs, atol=1e-5)


def test_splits_by_categories():
    random = np.random.default_rng(4)
    X = random.normal(size=(240, 4)).astype(np.float32)
    X[:, [1, 3]] = random.integers(0, 9, size=(240, 2))
    X[random.random(X.shape) < 0.1] = np.nan
    y = (np.nan_to_num(X[:, 0]) + np.isin(X[:, 1], (1, 4)) + np.isin(X[:, 3], (0, 7, 8)) > 0.8).astype(float)
    types = ["q", "c", "q", "c"]
    bank = xgb_fed.LocalParty(X[:, 2:], "bank", feature_types=types[2:], allow_explanations="per-feature")
    params = {**PARAMS, "enable_categorical": True, "max_cat_to_onehot": 1}
    model = train({**params, "feature_types": types[:2]}, X[:, :2], y, [bank], 3)
    matrix = xgboost.QuantileDMatrix(X, label=y, max_bin=12, feature_types=types, enable_categorical=True)
    pooled = xgboost.train({"nthread": 1, **params}, matrix, 3)
    rows = xgboost.DMatrix(X, feature_types=types, enable_categorical=True)
    theirs = pooled.predict(rows, pred_contribs=True)
    assert np.max(np.abs(model.explain(X[:, :2], [bank]).contributions - theirs)) <= 1e-5
    paths = model.decision_paths(X[:, :2], [bank])
    conditions = {step.condition for row in range(40) for step in paths.of_row(row)}
    assert any(text.startswith("f1 not in {") for text in conditions)


def sums_per_party(theirs):
    """Contributions of columns 0 to 2, then of the parties of columns 3 to 5 and 6 to 8, then the bias."""
    sums = [theirs[..., k : k + 3].sum(axis=-1, keepdims=True) for k in (3, 6)]
    return np.concatenate([theirs[..., :3], *sums, theirs[..., 9:]], axis=-1)


def test_a_party_may_consent_to_the_sum_of_its_columns_only(explained):
    model, X, _, _, parties = explained
    theirs = sums_per_party(model.predict(X[:, :3], parties, pred_contribs=True))
    discreet = [party.with_rows(X[:, a : a + 3]) for party, a in zip(parties, (3, 6), strict=True)]
    for party in discreet:
        party.allow_explanations = "per-party"
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
