"""What exact training refuses: settings and rows before anything leaves, and coordinators that lie."""

import json
from dataclasses import replace

import numpy as np
import pytest

import disturbed
import exact_training as runs
from gbdt_hosts.xgboost.versions import arithmetic
from gbdt_parties import messages
from gbdt_parties.errors import InvalidDataError, ProtocolError, SumRangeError
from gbdt_parties.secure_sum.messages import AskSum, Contributed, Opened, ProposeRoster
from xgb_fed import (
    ExactTerms,
    HorizontalParty,
    HorizontalXGBClassifier,
    InvalidArgumentError,
    PartyRefusedError,
    UnsupportedParameterError,
    train_exact,
)
from xgb_fed.boosting.features import Columns
from xgb_fed.horizontal.exact.cuts import find_cuts
from xgb_fed.horizontal.exact.run import ExactSubject
from xgb_fed.horizontal.exact.task import ExactTask
from xgb_fed.horizontal.exact.trees import grow_trees

RNG = np.random.default_rng(0)
X = RNG.normal(size=(90, 2)).astype(np.float32)
Y = (X[:, 0] + RNG.normal(size=90) > 0).astype(int)
PARAMS = {"objective": "binary:logistic", "max_depth": 2}
CUTS = [[-1, 0, 1]] * 2


def three(**terms):
    exact = ExactTerms(**{"cuts": ["given"], **terms})
    return [
        HorizontalParty(X[k::3], Y[k::3], f"bank{k}", categorical_labels=True, exact=exact) for k in range(3)
    ]


def fit(parties, params=PARAMS, **keywords):
    return train_exact(params, parties, 2, **{"cuts": CUTS, **keywords})


@pytest.mark.parametrize(
    ("params", "keywords", "named"),
    [
        ({"objective": "rank:pairwise"}, {}, "objective"),
        ({"objective": "survival:cox"}, {}, "other rows"),
        ({"objective": "reg:absoluteerror"}, {}, "quantiles"),
        ({"objective": "reg:tweedie", "eval_metric": "tweedie-nloglik@1.2"}, {}, "eval_metric"),
        ({"objective": "count:poisson", "eval_metric": "auc"}, {}, "eval_metric"),
        ({"eval_metric": "auc"}, {}, "eval_metric"),
        ({"goss": (0.2, 0.1)}, {}, "goss"),
        ({"max_leaves": 4}, {}, "max_leaves"),
        ({"multi_output": True, "objective": "multi:softprob", "num_class": 3}, {}, "multi_output"),
        ({}, {"cuts": "sketch"}, "cuts"),
        ({}, {"cuts": [[0, 1]]}, "cuts"),
        ({}, {"cuts": [[0, 1], [1, 1]]}, r"cuts\[1\]"),
        ({}, {"min_rows_per_node": 0}, "min_rows_per_node"),
        ({}, {"min_parties": 1}, "min_parties"),
        ({}, {"min_parties": 4}, "min_parties"),
        ({}, {"early_stopping_rounds": 2}, "early_stopping_rounds"),
        ({}, {"evals": [((X, Y), "v")]}, "held_out"),
    ],
)
def test_settings_are_refused_by_name(params, keywords, named):
    with pytest.raises(InvalidArgumentError, match=named):
        fit(three(), {**PARAMS, **params}, **keywords)


@pytest.mark.parametrize(
    ("other", "match"),
    [
        ((X[:, :1], Y), "1 columns"),
        ((X, Y.astype(str)), "text at one party"),
        ((X, np.where(Y == 1, np.nan, 0.0)), "missing labels"),
    ],
)
def test_rows_that_differ_are_refused_before_anything_of_them_leaves(monkeypatch, other, match):
    monkeypatch.delattr(ExactSubject, "vector")
    with pytest.raises((InvalidDataError, ProtocolError), match=match):
        fit([(X, Y), (X, Y), other])


@pytest.mark.parametrize(
    ("labels", "match"), [(Y - 1.0, "count:poisson: .*non-?negative"), (np.zeros(90), "all labels are 0")]
)
def test_labels_that_no_poisson_regression_has(labels, match):
    parties = [(X[k::3], labels[k::3]) for k in range(3)]
    with pytest.raises((InvalidDataError, PartyRefusedError), match=match):
        fit(parties, {"objective": "count:poisson", "max_depth": 2})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("classes", [0, float("inf")]),
        ("params", {"objective_parameters": [1]}),
        ("params", [1]),
        ("cuts", {}),
    ],
)
def test_settings_that_cannot_be_read_are_refused_by_name(name, value):
    values = {**dict.fromkeys(("early_stopping_rounds", "classes")), "params": {}, "n_rounds": 1, "names": []}
    values |= {"n_columns": 1, "cuts": "grid", "min_rows_per_node": 1, "min_parties": 2, "n_sets": 0}
    values["arithmetic"] = arithmetic()
    assert ExactTask.from_json(json.dumps(values)).statement
    with pytest.raises((ProtocolError, InvalidArgumentError)):
        ExactTask.from_json(json.dumps({**values, name: value}))


def test_a_party_with_another_xgboost_is_refused():
    task = ExactTask(PARAMS, 1, 2, [], [0, 1], "grid", 10, 2, None, 0)
    assert ExactTask.from_json(task.to_json()) == task
    other = json.dumps({**json.loads(task.to_json()), "arithmetic": "1.7"})
    with pytest.raises(UnsupportedParameterError, match=rf"XGBoost 1\.7: this process has {arithmetic()}"):
        ExactTask.from_json(other)


def test_a_party_makes_its_own_demands():
    for terms in ({"min_rows_per_node": 11}, {"min_parties": 4}, {"cuts": ["grid"]}, {"max_bin": 2}):
        with pytest.raises(PartyRefusedError, match="this party"):
            fit(three(**terms))
    with pytest.raises(InvalidArgumentError, match="at least two"):
        fit(three()[:1])
    with pytest.raises(PartyRefusedError, match="categorical_labels"):
        fit([*three(), HorizontalParty(X, Y, "silent")])


def test_a_run_that_leaves_out_held_out_rows_of_a_party_is_refused():
    def leave_out(number, message, send):
        if not isinstance(message, ProposeRoster):
            return send()
        return send(replace(message, task=json.dumps({**json.loads(message.task), "n_sets": 0})))

    members = [runs.party(place, held_out=[(runs.X + 10, runs.Y)]) for place in range(3)]
    runs.train(members, 1, verbose_eval=False)
    members[1] = disturbed.Between(members[1], leave_out)
    with pytest.raises(PartyRefusedError, match=r"without.*held-out"):
        runs.train(members, 1, verbose_eval=False)


def test_each_method_of_the_estimator_has_its_own_arguments():
    for arguments in ({"min_similar": 1}, {"method": "simfl", "cuts": "exact"}, {"callbacks": [object()]}):
        with pytest.raises(UnsupportedParameterError, match=list(arguments)[-1]):
            HorizontalXGBClassifier(2, **arguments).fit(parties=[(X, Y)] * 3)
    with pytest.raises(InvalidArgumentError, match="method='both'"):
        HorizontalXGBClassifier(2, method="both").fit(parties=[(X, Y)] * 3)


@pytest.mark.parametrize(
    ("params", "rows", "match"),
    [
        ({"subsample": 1 / 300}, slice(None), r"subsample=0.00333333 .* fewer than min_rows_per_node=10"),
        ({"subsample": 0.112}, slice(None), "subsample=0.112 takes.*fewer than 60"),
        ({}, slice(0, 9), "party.*above 0 than min_rows_per_node=10"),
    ],
)
def test_trees_are_not_grown_on_few_rows(params, rows, match):
    """Before, the root's histogram of one row was asked for, which is the row with its label."""
    members = [(X[rows][k::3], Y[rows][k::3]) for k in range(3)]
    with pytest.raises(PartyRefusedError, match=match):
        train_exact({**PARAMS, **params}, members, 400, cuts=CUTS)


def test_rows_of_weight_0_do_not_make_nodes_larger():
    """Before, they counted: a node of one row of weight 1 and nine of weight 0 was that row."""
    one = np.arange(30) == 0
    with pytest.raises(PartyRefusedError, match=r"fewer.*above 0 than min_rows_per_node=10"):
        fit([(X[k::3], Y[k::3], one.astype(float)) for k in range(3)])


def test_held_out_sets_have_a_minimum_of_rows():
    """Before, the metric of a set of one row was that row's label."""
    members = [(X[k::3], Y[k::3]) for k in range(3)]
    with pytest.raises(PartyRefusedError, match=r"held-out set 0.*min_rows_per_node=10"):
        fit(members, evals=[((X[:5] + 10, Y[:5]), "v")])
    with pytest.raises(InvalidArgumentError, match=r"n_sets must be .* 32, got 1000000000"):
        ExactTask(PARAMS, 1, 2, [], [0, 1], "grid", 10, 2, None, 10**9)


def test_runs_with_other_settings_draw_other_rows(monkeypatch):
    """Before, a sample of 50.2% had the rows of one of 50% and one more: the difference of two sums."""
    sampled = []

    def noted(columns, words, rows, *others):
        sampled.append(rows[0])
        return grow_trees(columns, words, rows, *others)

    monkeypatch.setattr("xgb_fed.horizontal.exact.training.grow_trees", noted)
    members = [
        HorizontalParty(
            np.tile(X, (4, 1))[k::3],
            np.tile(Y, 4)[k::3],
            f"bank{k}",
            categorical_labels=True,
            exact=ExactTerms(cuts=["given"], min_rows_per_node=3),
        )
        for k in range(3)
    ]
    for subsample in (0.5, 0.502, 0.5):
        fit(members, {**PARAMS, "subsample": subsample}, min_rows_per_node=3)
    rows = [{one.tobytes() for one in sampled[k : k + 6]} for k in (0, 6, 12)]
    assert rows[0] == rows[2]
    assert not rows[0] & rows[1]


class Between:
    """A party whose messages somebody alters on the way."""

    def __init__(self, party, alter):
        self.party, self.alter, self.name = party, alter, party.name

    def handle(self, request):
        envelope = messages.read(request)
        altered = self.alter(envelope.message)
        return self.party.handle(messages.write(envelope.session, envelope.sequence, altered))


def another_round(message):
    if isinstance(message, AskSum) and message.round == 3:
        return replace(message, round=2, number=3, opened=b"")
    return message


def fewer_members(message):
    if isinstance(message, AskSum) and message.round == 2:
        return replace(message, members=message.members[:2])
    return message


def doubled(message):
    """The first party's contribution twice, and the second one's not at all."""
    if isinstance(message, AskSum) and message.opened and message.round == 3:
        opened = Opened.from_bytes(message.opened)
        contents = {**opened.contributions, 1: opened.contributions[0]}
        return replace(message, opened=Opened(opened.round, opened.number, contents).to_bytes())
    return message


def another_task(message):
    if isinstance(message, ProposeRoster):
        return replace(message, task=message.task.replace('"max_depth": 2', '"max_depth": 3'))
    return message


def nothing_opened(message):
    if isinstance(message, AskSum) and message.round == 3:
        return replace(message, opened=b"")
    return message


def one_bit(message):
    if isinstance(message, AskSum) and message.opened and message.round == 3:
        content = bytearray(message.opened)
        content[-100] ^= 1
        return replace(message, opened=bytes(content))
    return message


@pytest.mark.parametrize(
    "alter", [another_round, fewer_members, doubled, another_task, nothing_opened, one_bit]
)
def test_a_coordinator_that_lies_to_a_party_is_refused(alter):
    members = three()
    members[0] = Between(members[0], alter)
    with pytest.raises(PartyRefusedError, match="bank0"):
        fit(members)


def test_a_party_counts_the_same_rows_for_every_digit_of_the_cuts():
    steps = find_cuts(Columns(X, ["a", "b"]), 8, "grid")
    own = next(steps)[0].values.view(np.int64)
    own = steps.send([own])[0].values.view(np.int64)
    own[np.argmax(own)] += 1
    with pytest.raises(SumRangeError, match="add"):
        steps.send([own])


def test_an_old_answer_of_another_session_is_refused():
    recorded = []

    class Recording(HorizontalParty):
        def answer(self, kept, message):
            answer = super().answer(kept, message)
            if isinstance(answer, Contributed):
                recorded.append(answer)
            return answer

    class Replaying(HorizontalParty):
        def answer(self, kept, message):
            answer = super().answer(kept, message)
            return recorded[0] if isinstance(answer, Contributed) else answer

    terms = ExactTerms(cuts=["given"])
    for kind in (Recording, Replaying):
        members = [*three()[:2], kind(X[2::3], Y[2::3], "bank2", categorical_labels=True, exact=terms)]
        if kind is Recording:
            fit(members)
        else:
            with pytest.raises(PartyRefusedError, match=r"signed.*attempt"):
                fit(members)
