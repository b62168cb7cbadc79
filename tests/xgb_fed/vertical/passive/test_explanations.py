"""Explanations of vertical models, and predictions that hide paths: what comes out, and what is told."""

import numpy as np
import pytest

import xgb_fed
from explained_models import PARAMS, asked, bank_of, ids
from gbdt_parties import messages
from gbdt_parties.identity.record import read_record
from gbdt_parties.transport.server import NOBODY
from veilboost.plans.tables import Table
from vertical_training import Recorder, parties_of, problem, train
from xgb_fed.boosting.features import read_columns
from xgb_fed.vertical.passive.service import Limits, PassiveService
from xgb_fed.vertical.protocol.messages import OpenTraining, TellColumns, TellSides


def test_explanations_need_a_consent_of_their_own(explained):
    model, X, _, _, parties = explained
    silent = parties[0].with_rows(X[:, 3:6])
    silent.allow_explanations = "none"
    for ask in (
        lambda: model.explain(X[:, :3], [silent, parties[1]]),
        lambda: model.predict(X[:, :3], [silent, parties[1]], hide_paths=True),
        lambda: model.get_score([silent, parties[1]]),
    ):
        with pytest.raises(xgb_fed.ConsentError, match="party 'party 0' refuses"):
            ask()
    assert not silent.handler.has_sessions
    assert len(model.predict(X[:, :3], [silent, parties[1]])) == len(X)
    with pytest.raises(xgb_fed.InvalidArgumentError, match=r"'yes'.*per-party"):
        xgb_fed.LocalParty(X, allow_explanations="yes")
    with pytest.raises(xgb_fed.InvalidArgumentError, match="allow_explanations=True"):
        Limits(allow_explanations=True)
    with pytest.raises(xgb_fed.InvalidArgumentError, match="pred_leaf"):
        model.predict(X[:, :3], parties, pred_contribs=True, pred_leaf=True)


def test_estimators_explain(explained):
    _, X, y, _, _ = explained
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


def test_training_sessions_tell_nothing_for_explanations(explained):
    _, X, y, _, _ = explained
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
    with pytest.raises(xgb_fed.PartyRefusedError, match="3 alignments and predictions"):
        model.explain(X[:, :3], [Bank()])
    recorded, _, _ = read_record(tmp_path / "record.jsonl")
    for kind in ("TellSides", "SidesTold", "TellColumns", "ColumnsTold"):
        ours = [flow for key, flow in traffic.flows.items() if key[2] == kind]
        assert [flow.messages for flow in ours] == [2]
        assert [flow for key, flow in recorded.flows.items() if key[2] == kind] == ours
