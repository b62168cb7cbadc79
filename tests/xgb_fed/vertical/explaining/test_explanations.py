"""Explanations of vertical models, and predictions that hide paths: what comes out, and what is told."""

from itertools import pairwise

import numpy as np
import pytest
import xgboost

import xgb_fed
from gbdt_parties import messages
from gbdt_parties.identity.record import read_record
from gbdt_parties.memory import MemoryAllowance
from gbdt_parties.transport.server import NOBODY
from veilboost.plans.tables import Table
from vertical_training import Recorder, parties_of, parts, problem, stock, train
from xgb_fed.boosting.features import read_columns
from xgb_fed.vertical.explaining import contributions as contributions_module
from xgb_fed.vertical.passive.party import PassiveParty
from xgb_fed.vertical.passive.service import Limits, PassiveService
from xgb_fed.vertical.protocol import messages as vertical_messages
from xgb_fed.vertical.protocol.messages import (
    ColumnsTold,
    OpenModel,
    OpenTraining,
    RouteRows,
    SidesTold,
    TellColumns,
    TellSides,
)
from xgb_fed.vertical.protocol.splits import Splits

PARAMS = {"objective": "binary:logistic", "max_depth": 4, "max_bin": 12}
KINDS = ("weight", "gain", "cover", "total_gain", "total_cover")
NONE = np.empty(0, dtype=np.int32)


def margin_scale(booster, X):
    """What differences are relative to, per row and class."""
    margin = np.abs(booster.predict(xgboost.DMatrix(X), output_margin=True))
    return np.maximum(1, margin)[..., None]


@pytest.fixture(scope="module")
def fitted():
    """Two classes, missing values, weights, a base score, two passive parties that consent."""
    X, y = problem(n=300, n_features=9, missing=0.2)
    active, *passive = parts(X, 3, 6)
    parties = parties_of(passive, allow_explanations="per-feature")
    weight = np.random.default_rng(0).random(300).astype(np.float32)
    model = train({**PARAMS, "base_score": 0.3}, active, y, parties, weight=weight)
    return model, X, y, weight, parties


def sums_per_party(theirs):
    """Contributions of columns 0 to 2, then of the parties of columns 3 to 5 and 6 to 8, then the bias."""
    sums = [theirs[..., k : k + 3].sum(axis=-1, keepdims=True) for k in (3, 6)]
    return np.concatenate([theirs[..., :3], *sums, theirs[..., 9:]], axis=-1)


def test_contributions_are_those_of_the_pooled_model(fitted):
    model, X, y, weight, parties = fitted
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


def test_a_party_may_consent_to_the_sum_of_its_columns_only(fitted):
    model, X, _, _, parties = fitted
    theirs = sums_per_party(model.predict(X[:, :3], parties, pred_contribs=True))
    discreet = [party.with_rows(X[:, a : a + 3]) for party, a in zip(parties, (3, 6), strict=True)]
    for party in discreet:
        party._allow_explanations = "per-party"
        party._start()
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


def test_scores_are_those_of_the_exported_booster(fitted):
    model, _, _, _, parties = fitted
    booster = model.export_booster(parties)
    names = [f"f{k}" for k in range(3)] + [f"party {k}: column {c}" for k in range(2) for c in range(3)]
    for kind in KINDS:
        theirs = {names[int(f[1:])]: value for f, value in booster.get_score(importance_type=kind).items()}
        assert model.get_score(parties, importance_type=kind) == pytest.approx(theirs, rel=1e-6)
    assert model.get_score(parties) == model.get_score(parties, importance_type="weight")
    with pytest.raises(xgb_fed.InvalidArgumentError, match="'gini' must be one of gain, weight"):
        model.get_score(parties, importance_type="gini")
    with pytest.raises(xgb_fed.InvalidArgumentError, match="lacks"):
        model.get_score(parties[:1])


def test_decision_paths_lead_to_the_leaves(fitted):
    model, X, _, _, parties = fitted
    paths = model.decision_paths(X[:, :3], parties)
    assert len(paths) == len(X)
    for row in (0, 17):
        steps = paths.of_row(row)
        values = [step.value[0] for step in steps if step.owner is None]
        margin = np.float32(model.base_margin[0]) + sum(values)
        assert margin == pytest.approx(model.predict(X[:, :3], parties, output_margin=True)[row], abs=1e-6)
        for step, after in pairwise(steps):
            if step.owner == "active":
                name, _, rest = step.condition.partition(" < ")
                threshold, _, missing = rest.partition(" or ")
                value = X[row, int(name[1:])]
                left = bool(missing) if np.isnan(value) else value < np.float32(threshold)
                assert left == step.goes_left
            elif step.owner is None:
                assert after.node == 0
                assert after.tree == step.tree + 1
            else:
                assert step.condition.startswith("split ")
        assert any(step.owner == "party 0" for step in steps)
        assert "leaf" in str(steps[-1])
        assert "f" in str(next(step for step in steps if step.owner == "active"))
    with pytest.raises(IndexError):
        paths.of_row(len(X))


def test_predictions_that_hide_paths_are_the_same_and_show_no_rows(fitted):
    model, X, _, _, parties = fitted
    seen = [Recorder(party) for party in parties]
    hidden = model.predict(X[:, :3], seen, hide_paths=True)
    np.testing.assert_array_equal(hidden, model.predict(X[:, :3], parties))
    kinds = {type(m) for party in seen for m in party.messages()}
    assert TellSides in kinds
    assert RouteRows not in kinds
    # What the parties are asked does not depend on the active party's columns, that is on paths.
    again = [Recorder(party) for party in parties]
    model.predict(X[::-1, :3], again, hide_paths=True)
    for one, other in zip(seen, again, strict=True):
        assert [r[28:] for r in one.requests] == [r[28:] for r in other.requests]


def test_some_rows_in_any_order_and_some_rounds(fitted):
    model, X, _, _, parties = fitted
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


def test_margins_before_the_first_tree_go_into_the_bias(fitted):
    model, X, _, _, parties = fitted
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


def test_explanations_need_a_consent_of_their_own(fitted):
    model, X, _, _, parties = fitted
    silent = parties[0].with_rows(X[:, 3:6])
    silent._allow_explanations = "none"
    silent._start()
    for ask in (
        lambda: model.explain(X[:, :3], [silent, parties[1]]),
        lambda: model.predict(X[:, :3], [silent, parties[1]], hide_paths=True),
        lambda: model.get_score([silent, parties[1]]),
    ):
        with pytest.raises(xgb_fed.ConsentError, match="party 'party 0' refuses: this party does not"):
            ask()
    assert not silent._handler.has_sessions
    assert len(model.predict(X[:, :3], [silent, parties[1]])) == len(X)
    with pytest.raises(
        xgb_fed.InvalidArgumentError, match="'yes' must be one of none, per-party, per-feature"
    ):
        xgb_fed.LocalParty(X, allow_explanations="yes")
    with pytest.raises(xgb_fed.InvalidArgumentError, match="allow_explanations=True"):
        Limits(allow_explanations=True)
    with pytest.raises(xgb_fed.InvalidArgumentError, match="pred_leaf"):
        model.predict(X[:, :3], parties, pred_contribs=True, pred_leaf=True)


def test_estimators_explain(fitted):
    _, X, y, _, _ = fitted
    (bank,) = parties_of([X[:, 3:]], allow_explanations="per-feature")
    classifier = xgb_fed.VerticalXGBClassifier(n_estimators=3, max_depth=3, max_bin=8, cipher=xgb_fed.Plain())
    with pytest.warns(xgb_fed.NotEncryptedWarning):
        classifier.fit(X[:, :3], y, parties=[bank])
    explanation = classifier.explain(X[:, :3], iteration_range=(0, 0))
    margins = classifier.predict(X[:, :3], output_margin=True, hide_paths=True)
    np.testing.assert_allclose(explanation.contributions.sum(axis=1), margins, atol=1e-5)
    assert classifier.get_score(importance_type="gain") == classifier.model_.get_score(
        [bank], importance_type="gain"
    )
    with pytest.raises(xgb_fed.RowMismatchError):
        classifier.explain(X[:10, :3])


# What a passive party tells, and what it refuses.


class Talk:
    """One session with a party, message by message."""

    def __init__(self, party):
        self.party, self.sequence = party, 0

    def ask(self, message):
        answer = self.party.handle(messages.write(b"s" * 16, self.sequence, message))
        self.sequence += 1
        return messages.read(answer).message


def bank_of(n_rows=11, level="per-feature", **kwargs):
    columns = read_columns(np.random.default_rng(0).normal(size=(n_rows, 3)))
    splits = Splits(["a", "b", "c"])
    for feature in (2, 0, 2, 1):
        splits.add(feature, 0.1 * feature, True)
    return PassiveParty(columns, [], {b"m" * 16: splits}, allow_explanations=level, **kwargs), columns


def asked(party, *requests):
    """The last answer in a session about the model."""
    talk = Talk(party)
    talk.ask(OpenModel(b"m" * 16, 0, NONE))
    return [talk.ask(request) for request in requests][-1]


def ids(*numbers):
    return np.array(numbers, dtype=np.int32)


def test_sides_are_those_of_all_rows():
    bank, columns = bank_of()
    told = asked(bank, TellSides(ids(0, 3)))
    assert isinstance(told, SidesTold)
    expected = [columns.data[:, 2] < np.float32(0.2), columns.data[:, 1] < np.float32(0.1)]
    np.testing.assert_array_equal(told.left_rows, np.packbits(expected, axis=1).ravel())
    assert not len(asked(bank_of()[0], TellSides(NONE)).left_rows)


def test_columns_are_positions_or_numbers_within_a_tree():
    question = TellColumns(ids(0, 1, 2, 3), ids(0, 0, 0, 4))
    told = asked(bank_of()[0], question)
    assert told.per_feature == 1
    assert told.columns.tolist() == [2, 0, 2, 1]
    told = asked(bank_of(level="per-party")[0], question)
    assert told.per_feature == 0
    assert told.columns.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (TellSides(ids(4)), "no such split"),
        (TellSides(ids(-1)), "no such split"),
        (TellSides(ids(1, 1)), "named twice"),
        (TellColumns(ids(0, 0), ids(0, 0)), "named twice"),
        (TellColumns(ids(9), ids(0)), "no such split"),
        (TellColumns(ids(0, 1), ids(0)), "do not match"),
        (TellColumns(ids(0, 1), ids(1, 0)), "do not match"),
    ],
)
def test_questions_that_make_no_sense(question, words):
    assert words in asked(bank_of()[0], question).reason


def test_a_session_tells_each_side_once_and_within_limits(monkeypatch):
    assert "once in a session" in asked(bank_of()[0], TellSides(ids(0, 1)), TellSides(ids(2, 1))).reason
    assert isinstance(asked(bank_of()[0], TellSides(ids(0, 1)), TellSides(ids(2, 3))), SidesTold)
    monkeypatch.setattr(vertical_messages, "MAX_SIDES_BYTES", 5)
    assert isinstance(asked(bank_of()[0], TellSides(ids(0, 1))), SidesTold)
    assert "more splits than one answer" in asked(bank_of()[0], TellSides(ids(0, 1, 2))).reason
    assert "once" not in getattr(asked(bank_of(90)[0], TellSides(ids(0))), "reason", "")
    monkeypatch.undo()
    memory = MemoryAllowance(1500)
    assert "the sides of rows would take" in asked(bank_of(90, memory=memory)[0], TellSides(ids(0, 1))).reason
    assert memory.reserved <= 1500


def test_training_sessions_tell_nothing_for_explanations(fitted):
    _, X, y, _, _ = fitted
    (party,) = parties_of([X[:, 3:]], allow_explanations="per-feature")
    recorder = Recorder(party)
    train({**PARAMS, "max_depth": 1}, X[:, :3], y, [recorder], 1)
    for question in (TellSides(ids(0)), TellColumns(ids(0), ids(0))):
        other = parties_of([X[:, 3:]], allow_explanations="per-feature")[0]
        session = messages.read(recorder.requests[0]).session
        assert isinstance(messages.read(recorder.requests[0]).message, OpenTraining)
        other.handle(recorder.requests[0])
        answer = messages.read(other.handle(messages.write(session, 1, question))).message
        assert "training run has ended" in answer.reason


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: SidesTold(m.left_rows[:-1]), "other rows or splits"),
        (lambda m: SidesTold(m.left_rows | 1), "flags beyond the last row"),
        (lambda m: ColumnsTold(m.columns[:-1], 1), "other splits"),
        (lambda m: ColumnsTold(m.columns, 2), "other splits"),
        (lambda m: ColumnsTold(m.columns - 1, 1), "columns that it does not have"),
        (lambda m: ColumnsTold(m.columns + 9, 0), "columns that it does not have"),
    ],
)
def test_answers_that_cannot_be_are_refused(fitted, change, words):
    model, X, _, _, parties = fitted

    def changed(request, answer):
        envelope = messages.read(answer)
        try:
            message = change(envelope.message)
        except AttributeError:
            return answer
        return messages.write(envelope.session, envelope.sequence, message)

    liar = Recorder(parties[0], changed)
    with pytest.raises(xgb_fed.ProtocolError, match=f"'party 0'.*{words}"):
        model.explain(X[:299, :3], [liar, parties[1]], rows=np.arange(299))


def test_a_service_counts_explanations_as_predictions_and_records_them(tmp_path):
    X, y = problem(n=60)
    table = Table(read_columns(X[:, 3:]), [str(k) for k in range(60)], False, None, [], {})
    limits = Limits(
        min_rows=1,
        allow_plain=True,
        min_node_rows=1,
        questions_per_hour=3,
        max_statistics=np.inf,
        allow_explanations="per-party",
    )
    service = PassiveService(table, tmp_path, "bank", limits)

    class Bank:
        name = "bank"

        def handle(self, request):
            return service.handle(NOBODY, (), request)

    model = train(PARAMS, X[:, :3], y, [Bank()], 1)
    traffic = xgb_fed.Traffic()
    model.explain(X[:, :3], [Bank()], traffic=traffic)
    model.predict(X[:, :3], [Bank()], hide_paths=True, traffic=traffic)
    model.get_score([Bank()], traffic=traffic)
    with pytest.raises(xgb_fed.PartyRefusedError, match="more than 3 alignments and predictions"):
        model.explain(X[:, :3], [Bank()])
    recorded, _, _ = read_record(tmp_path / "record.jsonl")
    for kind in ("TellSides", "SidesTold", "TellColumns", "ColumnsTold"):
        ours = [flow for key, flow in traffic.flows.items() if key[2] == kind]
        assert [flow.messages for flow in ours] == [2]
        assert [flow for key, flow in recorded.flows.items() if key[2] == kind] == ours
