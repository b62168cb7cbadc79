"""The estimators: XGBoost's habits, splits on disk, export with consent, bad input."""

import pickle

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from fitted_estimators import NEW, NEW_Y, SMALL, X, Y, classifier, party, stock_model
from gbdt_parties import messages
from gbdt_parties.errors import InvalidDataError, ProtocolError
from vertical_training import Recorder, assert_same_trees, problem
from xgb_fed import LocalParty
from xgb_fed.errors import UnsupportedParameterError
from xgb_fed.vertical.protocol.messages import ModelOpened

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.errors.NotEncryptedWarning")


def test_binary_classifier(fitted, theirs):
    new = [fitted.parties_[0].with_rows(NEW[:, 3:])]
    assert_same_trees(fitted.export_booster(), theirs.get_booster(), 4)
    np.testing.assert_allclose(fitted.predict_proba(NEW[:, :3], new), theirs.predict_proba(NEW), rtol=1e-5)
    np.testing.assert_array_equal(fitted.predict(NEW[:, :3], new), theirs.predict(NEW))
    margin = fitted.predict(NEW[:, :3], new, output_margin=True)
    np.testing.assert_allclose(margin, theirs.predict(NEW, output_margin=True), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(fitted.apply(NEW[:, :3], new), theirs.apply(NEW))
    for rounds in ((0, 2), (1, 3), (0, 0), (0, 4)):
        np.testing.assert_allclose(
            fitted.predict_proba(NEW[:, :3], new, iteration_range=rounds),
            theirs.predict_proba(NEW, iteration_range=rounds),
            rtol=1e-5,
        )
    assert fitted.apply(NEW[:, :3], new, iteration_range=(1, 3)).shape == (150, 2)
    for bad in ((0, 5), (-1, 2), (3, 2)):
        with pytest.raises(ValueError, match="iteration_range"):
            fitted.predict(NEW[:, :3], new, iteration_range=bad)
    assert fitted.score(X[:, :3], Y) == pytest.approx(theirs.score(X, Y))


@pytest.mark.parametrize("kind", [np.array(["no", "yes", "so-so"]), np.array([5, -1, 9])], ids=str)
def test_classes_of_any_kind(kind, tmp_path):
    _, codes = problem("multi:softprob", n=300, missing=0.1)
    y = kind[codes.astype(int)]
    model = classifier().fit(X[:, :3], y, parties=[party()])
    reference = stock_model(xgboost.XGBClassifier, np.searchsorted(np.unique(y), y))
    assert model.classes_.tolist() == sorted(kind)
    np.testing.assert_allclose(
        model.predict_proba(X[:, :3]), reference.predict_proba(X), rtol=1e-5, atol=1e-7
    )
    np.testing.assert_array_equal(model.predict(X[:, :3]), model.classes_[reference.predict(X)])
    assert model.apply(X[:, :3]).shape == (300, 12)
    np.testing.assert_array_equal(model.apply(X[:, :3]), reference.apply(X).reshape(300, -1))


def test_an_active_party_without_columns_predicts():
    model = classifier().fit(None, Y, parties=[LocalParty(X, "bank", allow_export=True)])
    reference = stock_model(xgboost.XGBClassifier)
    np.testing.assert_allclose(model.predict_proba(None), reference.predict_proba(X), rtol=1e-5)
    liar = Recorder(model.parties_[0])
    for n_rows in (-1, 0):

        def lie(request, answer, n_rows=n_rows):
            envelope = messages.read(answer)
            if isinstance(envelope.message, ModelOpened):
                return messages.write(envelope.session, envelope.sequence, ModelOpened(n_rows))
            return answer

        liar.change = lie
        with pytest.raises(ProtocolError, match="'bank'"):
            model.predict(None, [liar])


def test_data_frames():
    names = ["age", "income", "debt", "score", "limit", "years"]
    frame = pd.DataFrame(X, columns=names)
    bank = LocalParty(frame[names[3:]], "bank", allow_export=True)
    model = classifier().fit(frame[names[:3]], pd.Series(Y), parties=[bank])
    booster = model.export_booster()
    assert booster.feature_names == names
    reference = xgboost.XGBClassifier(**SMALL, n_jobs=1, tree_method="hist").fit(frame, Y)
    assert_same_trees(booster, reference.get_booster())
    np.testing.assert_allclose(
        booster.predict(xgboost.DMatrix(frame)), reference.predict_proba(frame)[:, 1], rtol=1e-5
    )
    assert set(model.model_.importances()) & set(names[:3])
    other_order = model.predict_proba(frame[names[::-1]])
    np.testing.assert_array_equal(other_order, model.predict_proba(frame[names[:3]]))
    with pytest.raises(InvalidDataError, match="columns"):
        model.predict(X[:, :2])


def test_early_stopping_and_metrics():
    evals = [(X, Y), (NEW, NEW_Y)]
    metric = ["error", "logloss"]
    kwargs = {"n_estimators": 30, "early_stopping_rounds": 3, "eval_metric": metric, "learning_rate": 0.6}
    bank = party(eval_sets=[X[:, 3:], NEW[:, 3:]])
    model = classifier(**kwargs).fit(
        X[:, :3], Y, parties=[bank], eval_set=[(a[:, :3], b) for a, b in evals], verbose=False
    )
    reference = xgboost.XGBClassifier(**{**SMALL, **kwargs}, n_jobs=1, tree_method="hist")
    reference.fit(X, Y, eval_set=evals, verbose=False)
    ours, expected = model.evals_result(), reference.evals_result()
    assert ours.keys() == expected.keys()
    for name in expected:
        for kind in metric:
            np.testing.assert_allclose(ours[name][kind], expected[name][kind], rtol=1e-5, err_msg=kind)
    assert model.best_iteration == reference.best_iteration < model.model_.num_boosted_rounds() - 1
    assert model.model_.best_score == pytest.approx(reference.best_score, rel=1e-5)
    new = [model.parties_[0].with_rows(NEW[:, 3:])]
    np.testing.assert_allclose(model.predict_proba(NEW[:, :3], new), reference.predict_proba(NEW), rtol=1e-5)
    booster = model.export_booster()
    assert booster.best_iteration == reference.best_iteration


def test_weighted_evaluation_sets():
    weights = np.random.default_rng(0).uniform(0.1, 2, len(NEW))
    bank = party(eval_sets=[NEW[:, 3:]])
    model = classifier().fit(
        X[:, :3], Y, parties=[bank], eval_set=[(NEW[:, :3], NEW_Y)], sample_weight_eval_set=[weights]
    )
    reference = xgboost.XGBClassifier(**SMALL, n_jobs=1, tree_method="hist")
    reference.fit(X, Y, eval_set=[(NEW, NEW_Y)], sample_weight_eval_set=[weights], verbose=False)
    np.testing.assert_allclose(
        model.evals_result()["validation_0"]["logloss"],
        reference.evals_result()["validation_0"]["logloss"],
        rtol=1e-5,
    )


class Watch(xgboost.callback.TrainingCallback):
    def __init__(self):
        self.seen = []

    def before_training(self, model):
        self.seen.append("start")
        return model

    def after_iteration(self, model, epoch, evals_log):
        self.seen.append((epoch, model.num_boosted_rounds(), list(evals_log)))
        return epoch == 1

    def after_training(self, model):
        self.seen.append("end")
        return model


def test_callbacks():
    watch = Watch()
    model = classifier(callbacks=[watch]).fit(
        X[:, :3], Y, parties=[party(eval_sets=[X[:, 3:]])], eval_set=[(X[:, :3], Y)]
    )
    assert watch.seen == ["start", (0, 1, ["validation_0"]), (1, 2, ["validation_0"]), "end"]
    assert model.model_.num_boosted_rounds() == 2


def test_callbacks_that_would_have_no_effect_are_refused(tmp_path):
    """A checkpoint of a booster without trees must not pass in silence; learning rates have their effect."""
    # `interval`, which XGBoost 2.0 calls `iterations`
    checkpoint = xgboost.callback.TrainingCheckPoint(tmp_path, "model", False, 1)
    stopping = xgboost.callback.EarlyStopping(rounds=2, save_best=True)
    for callback in (checkpoint, stopping):
        with pytest.raises((UnsupportedParameterError, NotImplementedError)):
            classifier(callbacks=[callback]).fit(
                X[:, :3], Y, parties=[party(eval_sets=[X[:, 3:]])], eval_set=[(X[:, :3], Y)]
            )


def test_a_pickle_predicts_with_the_parties_that_it_is_given(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    with pytest.raises(ValueError, match="parties"):
        copy.predict(X[:, :3])
    got = copy.predict_proba(X[:, :3], fitted.parties_)
    np.testing.assert_array_equal(got, fitted.predict_proba(X[:, :3]))
    assert copy.traffic_.to_dicts() == fitted.traffic_.to_dicts()
    assert "bank" in repr(fitted.parties_[0])


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"y": np.zeros(300)}, InvalidDataError, "1 class"),
        ({"y": np.where(Y == 1, np.nan, Y)}, InvalidDataError, "missing"),
        ({"y": np.stack([Y, Y], axis=1)}, InvalidDataError, "shape"),
        ({"y": Y[:-1]}, InvalidDataError, "299 labels"),
        ({"X": X[:, :3] * np.inf}, InvalidDataError, "infinite"),
        ({"parties": [LocalParty(X[:-1, 3:], "bank")]}, ProtocolError, "'bank'"),
        ({"parties": [party(), party()]}, ValueError, "'bank'"),
        ({"parties": [(X[:, 3:], Y)]}, TypeError, "tuple"),
        ({"eval_set": [(X[:, :3], Y + 5)]}, InvalidDataError, r"eval_set\[0\]"),
        ({"eval_set": [(X[:, :2], Y)]}, InvalidDataError, "validation_0"),
        ({"sample_weight": np.ones(3)}, InvalidDataError, "3 weights"),
        ({"sample_weight_eval_set": [Y]}, ValueError, "sample_weight_eval_set"),
    ],
    ids=lambda value: str(value)[:24] if isinstance(value, dict) else "",
)
def test_a_failed_fit_leaves_the_estimator_unfitted(change, error, words):
    model = classifier(n_estimators=1).fit(X[:, :3], Y, parties=[party()])
    arguments = {"X": X[:, :3], "y": Y, "parties": [party()], **change}
    with pytest.raises(error, match=words):
        model.fit(**arguments)
    for use in (lambda: check_is_fitted(model), lambda: model.predict(X[:, :3]), lambda: model.traffic_):
        with pytest.raises(NotFittedError):
            use()


@pytest.mark.parametrize(
    ("kwargs", "error", "words"),
    [
        ({"objective": "count:poisson"}, UnsupportedParameterError, "objective"),
        ({"objective": "reg:squarederror"}, UnsupportedParameterError, "objective"),
        ({"eval_metric": [3]}, UnsupportedParameterError, "eval_metric"),
    ],
)
def test_arguments_of_the_classifier(kwargs, error, words):
    with pytest.raises(error, match=words):
        classifier(**kwargs).fit(X[:, :3], Y, parties=[party()])


def test_three_classes_are_not_binary():
    _, y = problem("multi:softprob", n=300)
    with pytest.raises(InvalidDataError, match="3 classes"):
        classifier(objective="binary:logistic").fit(X[:, :3], y, parties=[party()])


def test_no_evaluation_set_as_xgboost_says_it():
    assert classifier(n_estimators=1).fit(X[:, :3], Y, parties=[party()], eval_set=None).evals_result() == {}


@pytest.mark.parametrize("name", ["", "active", None, "a\nb"])
def test_names_of_parties(name):
    with pytest.raises(ValueError, match="name"):
        LocalParty(X, name)
