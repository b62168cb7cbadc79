"""Models that are continued (`xgb_model`): the trees are those of stock XGBoost continuing a pooled model."""

import numpy as np
import pytest
import xgboost

import xgb_fed
from gbdt_parties import messages
from gbdt_parties.channel import Channel
from gbdt_parties.errors import PartyUnavailableError, ProtocolError
from gbdt_parties.traffic import Traffic
from gbdt_parties.transport.server import NOBODY
from kept_stores import end_process
from veilboost.plans.tables import Table
from vertical_training import Recorder, assert_same_trees, parties_of, problem, quantile_matrix, stock, train
from xgb_fed.boosting.features import read_columns
from xgb_fed.errors import ArgumentTypeError, InvalidArgumentError, UnsupportedParameterError
from xgb_fed.vertical.passive.service import Limits, PassiveService
from xgb_fed.vertical.protocol.messages import ContinueTraining, OpenTraining, StartTree, TrainingOpened

BASE = {"objective": "binary:logistic", "max_depth": 3, "max_bin": 16}
CASES = {
    "binary": ({}, {}),
    "other parameters": (
        {"max_depth": 4, "learning_rate": 0.5},
        {"grow_policy": "lossguide", "max_leaves": 5},
    ),
    "classes": ({"objective": "multi:softprob", "num_class": 3}, {}),
    "regression": ({"objective": "reg:squarederror"}, {"monotone_constraints": (1, 0, -1)}),
    "forest": ({"num_parallel_tree": 2}, {"num_parallel_tree": 2}),
    # XGBoost keeps the size of a model's forests, whatever the run that continues it says.
    "forest, one tree asked for": ({"num_parallel_tree": 3}, {"num_parallel_tree": 1}),
    "forests of classes": (
        {"objective": "multi:softprob", "num_class": 3, "num_parallel_tree": 2},
        {"num_parallel_tree": None},
    ),
}


def stock_continued(params, X, y, rounds, booster, **kwargs):
    return xgboost.train(
        {"nthread": 1, **params}, quantile_matrix(params, X, y), rounds, xgb_model=booster, **kwargs
    )


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_trees_are_those_of_xgboost(case):
    before = {**BASE, **case[0]}
    after = {**before, **case[1]}
    X, y = problem(before["objective"], missing=0.1)
    parties = parties_of([X[:, 3:4], X[:, 4:]])
    first = train(before, X[:, :3], y, parties, 2)
    text = first.to_json()
    model = train(after, X[:, :3], y, parties, 3, xgb_model=first)
    assert first.to_json() == text
    theirs = stock_continued(after, X, y, 3, stock(before, X, y, 2))
    assert_same_trees(model.export_booster(parties), theirs)
    assert model.num_boosted_rounds() == theirs.num_boosted_rounds() == 5
    for part in ((0, 5), (1, 3), (3, 5)):
        margin = theirs.predict(xgboost.DMatrix(X), output_margin=True, iteration_range=part)
        got = model.predict(X[:, :3], parties, output_margin=True, iteration_range=part)
        np.testing.assert_allclose(got, margin, rtol=1e-5, atol=1e-6)


def test_twice_and_with_a_party_that_joins():
    X, y = problem(missing=0.1)
    one, two = parties_of([X[:, 3:4], X[:, 4:]])
    model = train(BASE, X[:, :3], y, [two], 1)
    model = train(BASE, X[:, :3], y, [one, two], 2, xgb_model=model)
    model = train(BASE, X[:, :3], y, [one, two], 1, xgb_model=model)
    order = [0, 1, 2, 4, 5, 3]
    booster = stock(BASE, X[:, [0, 1, 2, 4, 5]], y, 1)
    margin = booster.predict(xgboost.DMatrix(X[:, order[:5]]), output_margin=True)
    theirs = stock(BASE, X, y, 3, base_margin=margin)
    margin = theirs.predict(quantile_matrix(BASE, X, y, base_margin=margin), output_margin=True)
    got = model.predict(X[:, :3], [one, two], output_margin=True)
    np.testing.assert_allclose(got, margin, rtol=1e-5, atol=1e-6)


def test_evaluation_sets_go_on_and_early_stopping_counts_all_rounds():
    X, y = problem(missing=0.1, n=300)
    held, label = problem(missing=0.1, n=80, seed=1)
    parties = [xgb_fed.LocalParty(X[:, 3:], "bank", eval_sets=[held[:, 3:]], allow_export=True)]
    evals = [(xgb_fed.ActiveData(held[:, :3], label), "held")]
    result, theirs_result = {}, {}
    first = train(BASE, X[:, :3], y, parties, 2, evals=evals)
    model = train(
        BASE,
        X[:, :3],
        y,
        parties,
        9,
        evals=evals,
        xgb_model=first,
        evals_result=result,
        early_stopping_rounds=2,
    )
    theirs = stock_continued(
        BASE,
        X,
        y,
        9,
        stock(BASE, X, y, 2),
        evals=[(xgboost.DMatrix(held, label=label), "held")],
        evals_result=theirs_result,
        early_stopping_rounds=2,
        verbose_eval=False,
    )
    np.testing.assert_allclose(result["held"]["logloss"], theirs_result["held"]["logloss"], rtol=1e-6)
    assert model.best_iteration == theirs.best_iteration


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob"])
def test_a_booster_of_the_active_party_s_own_columns(objective):
    X, y = problem(objective, missing=0.1)
    params = {**BASE, "objective": objective} | ({"num_class": 3} if "multi" in objective else {})
    booster = stock(params, X[:, :3], y, 2)
    parties = parties_of([X[:, 3:]])
    model = train(params, X[:, :3], y, parties, 2, xgb_model=booster)
    margin = booster.predict(xgboost.DMatrix(X[:, :3]), output_margin=True)
    theirs = stock(params, X, y, 2, base_margin=margin.reshape(len(y), -1))
    data = quantile_matrix(params, X, y, base_margin=margin.reshape(len(y), -1))
    got = model.predict(X[:, :3], parties, output_margin=True)
    np.testing.assert_allclose(got, theirs.predict(data, output_margin=True), rtol=1e-5, atol=1e-6)
    exported = model.export_booster(parties)
    np.testing.assert_allclose(
        exported.predict(xgboost.DMatrix(X), output_margin=True), got, rtol=1e-5, atol=1e-6
    )


class Lost:
    """A party that is lost for one request."""

    name = "party 0"

    def __init__(self, party, at):
        self.party, self.left = party, at

    def handle(self, request):
        self.left -= 1
        if self.left == 0:
            raise PartyUnavailableError("lost")
        return self.party.handle(request)


def test_a_party_that_is_lost_at_any_time_and_checkpoints(tmp_path):
    X, y = problem(n=120)
    (party,) = parties_of([X[:, 3:]])
    first = train(BASE, X[:, :3], y, [party], 2)
    whole = train(BASE, X[:, :3], y, [party], 2, xgb_model=first)
    expected = [tree.to_dict() for tree in whole.trees]
    counting = Recorder(party)
    train(BASE, X[:, :3], y, [counting], 2, xgb_model=first)
    n_requests = len(counting.requests)
    for at in (2, 3, 4, 5, n_requests // 2, n_requests - 1):
        model = train(BASE, X[:, :3], y, [Lost(party, at)], 2, xgb_model=first, patience=60)
        assert [tree.to_dict() for tree in model.trees] == expected, at
    for at in (3, 5, n_requests // 2, n_requests - 1):
        folder = tmp_path / str(at)
        with pytest.raises(PartyUnavailableError):
            train(BASE, X[:, :3], y, [Lost(party, at)], 2, xgb_model=first, checkpoint=folder)
        model = train(BASE, X[:, :3], y, [party], 2, xgb_model=first, checkpoint=folder)
        assert [tree.to_dict() for tree in model.trees] == expected, at
        np.testing.assert_array_equal(model.predict(X[:, :3], [party]), whole.predict(X[:, :3], [party]))


def test_models_that_cannot_be_continued_are_refused_before_anything_leaves():
    X, y = problem(n=60)
    party = Recorder(parties_of([X[:, 3:]])[0])
    model = train(BASE, X[:, :3], y, [party], 1)
    pooled = model.export_booster([party])
    party.requests.clear()
    regression = stock({**BASE, "objective": "reg:squarederror"}, X[:, :3], y, 1)
    for given, params, error, words in (
        (model, {"objective": "reg:squarederror"}, InvalidArgumentError, "trained for binary:logistic"),
        (model, {"base_score": 0.9}, InvalidArgumentError, "base_score=0.9"),
        (model, {"num_parallel_tree": 3}, InvalidArgumentError, "num_parallel_tree=3: .* xgb_model is 1"),
        (pooled, {}, UnsupportedParameterError, "continued as it is, not exported"),
        (regression, {}, InvalidArgumentError, "trained for reg:squarederror"),
        ("model.json", {}, ArgumentTypeError, "xgb_model must be"),
    ):
        with pytest.raises(error, match=words):
            train({**BASE, **params}, X[:, :3], y, [party], 1, xgb_model=given)
    with pytest.raises(InvalidArgumentError, match="active party"):
        train(BASE, X[:, :2], y, [party], 1, xgb_model=model)
    with pytest.raises(InvalidArgumentError, match="parties lacks"):
        train(BASE, X[:, :3], y, [], 1, xgb_model=model)
    assert not party.requests


def test_what_a_party_refuses():
    X, y = problem(n=60)
    (party,) = parties_of([X[:, 3:]])
    recorder = Recorder(party)
    model = train(BASE, X[:, :3], y, [recorder], 2)
    n_splits = sum(tree.owner.count(1) for tree in model.trees)
    assert n_splits
    opening = next(m for m in recorder.messages() if isinstance(m, OpenTraining))

    def session(number):
        channel = Channel(party, bytes([number]) * 16, Traffic())
        channel.ask(opening, TrainingOpened)
        return channel

    for number, (model_id, count) in enumerate(
        ((model.model_id, n_splits + 1), (model.model_id, 0), (b"x" * 16, 1), (b"", 1))
    ):
        with pytest.raises(ProtocolError, match=r"[0-9]+ splits.*model"):
            session(number).ask(ContinueTraining(model_id, count), messages.Done)
    twice = session(10)
    twice.ask(ContinueTraining(model.model_id, 1), messages.Done)
    with pytest.raises(ProtocolError, match="first tree"):
        twice.ask(ContinueTraining(model.model_id, 1), messages.Done)
    begun = session(11)
    begun.ask(StartTree(0, np.empty(0, dtype=np.uint8), np.array([0], dtype=np.int32)), messages.Done)
    with pytest.raises(ProtocolError, match="first tree"):
        begun.ask(ContinueTraining(model.model_id, 1), messages.Done)


@pytest.mark.filterwarnings("ignore::xgb_fed.NotEncryptedWarning")
def test_estimators_continue_themselves_and_stock_ones():
    X, y = problem(n=100)
    parties = parties_of([X[:, 3:]])
    model = xgb_fed.VerticalXGBClassifier(2, max_depth=2, max_bin=8, cipher=xgb_fed.Plain(), random_state=0)
    once = model.fit(X[:, :3], y, parties=parties).get_params() and model.model_.to_json()
    model.fit(X[:, :3], y, parties=parties, xgb_model=model)
    assert model.model_.num_boosted_rounds() == 4
    assert model.model_.to_json() != once
    alone = xgboost.XGBClassifier(n_estimators=3, max_depth=2).fit(X[:, :3], y)
    model.fit(X[:, :3], y, parties=parties, xgb_model=alone)
    assert model.model_.num_boosted_rounds() == 5


def test_a_server_continues_and_counts_it_as_a_question(tmp_path):
    X, y = problem(n=120)
    table = Table(read_columns(X[:, 3:]), [str(k) for k in range(120)], False, None, [], {})
    limits = Limits(
        min_rows=1,
        min_node_rows=2,
        allow_plain=True,
        allow_export=True,
        questions_per_hour=3,
        max_statistics=np.inf,
    )

    class Served:
        name = "bank"

        def __init__(self):
            # A service that was started again knows the model from its folder.
            end_process(tmp_path)
            self.service = PassiveService(table, tmp_path, "bank", limits)

        def handle(self, request):
            return self.service.handle(NOBODY, (), request)

    first = train(BASE, X[:, :3], y, [Served()], 2)
    model = train(BASE, X[:, :3], y, [Served()], 2, xgb_model=first)
    theirs = stock_continued(BASE, X, y, 2, stock(BASE, X, y, 2))
    assert_same_trees(model.export_booster([Served()]), theirs)
    train(BASE, X[:, :3], y, [Served()], 1, xgb_model=first)
    train(BASE, X[:, :3], y, [Served()], 1)
    with pytest.raises(ProtocolError, match="3 alignments and predictions"):
        train(BASE, X[:, :3], y, [Served()], 1, xgb_model=first)
