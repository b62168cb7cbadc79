"""Passive parties that lie, and training runs with them."""

import warnings

import pytest
from sklearn.exceptions import NotFittedError

import xgb_fed
from gbdt_parties import messages
from vertical_training import Recorder, parties_of, problem
from xgb_fed import Plain
from xgb_fed.vertical.protocol.messages import OpenTraining

X, Y = problem(n=60, n_features=4, missing=0.1)
PARAMS = {"max_depth": 3, "max_bin": 12, "n_estimators": 1, "base_score": 0.5}


class Liar:
    """Changes the answers of one kind, from some answer of that kind on.

    Parameters
    ----------
    kind : type of message
    lie : callable
        ``lie(answer, opening)`` gives the fields to replace.
    after : int
        True answers before the first lie.
    """

    def __init__(self, kind, lie, after=0):
        self.kind, self.lie, self.after = kind, lie, after
        self.opening, self.seen = None, 0

    def __call__(self, request, answer):
        question, envelope = messages.read(request), messages.read(answer)
        if isinstance(question.message, OpenTraining):
            self.opening = question.message
        if not isinstance(envelope.message, self.kind):
            return answer
        self.seen += 1
        if self.seen <= self.after:
            return answer
        fields = dict(envelope.message.__dict__) | self.lie(envelope.message, self.opening)
        return messages.write(envelope.session, envelope.sequence, self.kind(**fields))


def fit_with(change, cipher=None, **params):
    party = Recorder(parties_of([X[:, 2:]])[0], change)
    classifier = xgb_fed.VerticalXGBClassifier(**{**PARAMS, **params}, cipher=cipher or Plain())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", xgb_fed.NotEncryptedWarning)
        try:
            classifier.fit(X[:, :2], Y, parties=[party])
        except Exception:
            with pytest.raises(NotFittedError):
                classifier.predict(X[:, :2])
            with pytest.raises(NotFittedError):
                classifier.traffic_  # noqa: B018
            assert not [name for name in vars(classifier) if name.endswith("_")]
            raise
    return classifier
