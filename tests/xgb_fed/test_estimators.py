"""The estimators: XGBoost's habits, splits on disk, export with consent, bad input."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import xgb_fed
from gbdt_hosts.xgboost.model import read_trees
from gbdt_parties import messages
from gbdt_parties.errors import ConsentError, InvalidDataError, ProtocolError
from vertical_training import Recorder, assert_same_trees, problem
from xgb_fed import LocalParty, Plain, VerticalXGBClassifier, VerticalXGBRegressor
from xgb_fed.errors import CorruptDataError, UnsupportedParameterError
from xgb_fed.vertical.protocol.messages import ModelOpened, RevealedSplits

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.errors.NotEncryptedWarning")

X, Y = problem(n=300, missing=0.1)
NEW, NEW_Y = problem(n=150, missing=0.1, seed=1)
SMALL = {"n_estimators": 4, "max_depth": 3, "max_bin": 8}


def party(**kwargs):
    return LocalParty(X[:, 3:], "bank", **{"allow_export": True, **kwargs})


def classifier(**kwargs):
    return VerticalXGBClassifier(**{**SMALL, **kwargs}, cipher=Plain())


def stock_model(cls, y=Y, **kwargs):
    """XGBoost's estimator, cut as `QuantileDMatrix` cuts."""
    return cls(**{**SMALL, **kwargs}, n_jobs=1, tree_method="hist").fit(X, y)


@pytest.fixture(scope="module")
def fitted():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return classifier().fit(X[:, :3], Y, parties=[party()])


@pytest.fixture(scope="module")
def theirs():
    return stock_model(xgboost.XGBClassifier)


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


def test_regressor(tmp_path):
    _, y = problem("reg:squarederror", n=300, missing=0.1)
    model = VerticalXGBRegressor(**SMALL, cipher=Plain()).fit(X[:, :3], y, parties=[party()])
    reference = stock_model(xgboost.XGBRegressor, y)
    np.testing.assert_allclose(model.predict(X[:, :3]), reference.predict(X), rtol=1e-5)
    assert model.score(X[:, :3], y) == pytest.approx(reference.score(X, y), rel=1e-5)
    model.save_model(tmp_path)
    again = VerticalXGBRegressor()
    again.load_model(tmp_path, model.parties_)
    np.testing.assert_array_equal(again.predict(X[:, :3]), model.predict(X[:, :3]))
    with pytest.raises(CorruptDataError):
        VerticalXGBClassifier().load_model(tmp_path)


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


@pytest.mark.parametrize(
    "y",
    [Y.astype(bool), np.where(Y == 1, "a\nb", "c"), np.where(Y == 1, 2.5, -1)],
    ids=["bool", "text", "float"],
)
def test_splits_on_disk(y, tmp_path):
    """Each party keeps its own; together they predict as before."""
    one = party()
    model = classifier().fit(X[:, :3], y, parties=[one])
    model.save_model(tmp_path / "active")
    one.save_model(tmp_path / "bank")
    again, other = VerticalXGBClassifier(), LocalParty(NEW[:, 3:], "bank")
    again.load_model(tmp_path / "active", [other])
    with pytest.raises(xgb_fed.PartyRefusedError, match="no splits"):
        again.predict(NEW[:, :3])
    other.load_model(tmp_path / "bank")
    got, expected = again.predict(NEW[:, :3]), model.predict(NEW[:, :3], [one.with_rows(NEW[:, 3:])])
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == expected.dtype
    splits = next(iter(one._splits_by_model.values()))
    active = "".join(path.read_text() for path in (tmp_path / "active").iterdir())
    assert not [t for t in splits.thresholds if repr(t) in active]


def test_damaged_splits(fitted, tmp_path):
    fitted.save_model(tmp_path / "active")
    path = tmp_path / "active" / "active.model.json"
    text = path.read_text()
    for damaged in ("", text[:-10], "[]", "{}", text.replace('"format": 1', '"format": 2'), '{"format": 1}'):
        path.write_text(damaged)
        with pytest.raises(CorruptDataError):
            VerticalXGBClassifier().load_model(tmp_path / "active")
    path.write_text(text.replace(fitted.model_.model_id.hex(), "no hex"))
    with pytest.raises(CorruptDataError):
        VerticalXGBClassifier().load_model(tmp_path / "active")
    path.write_text(text)
    classes = tmp_path / "active" / "active.classes.json"
    for damaged in ("", "garbage\n1\n2", "{}"):
        classes.write_text(damaged)
        with pytest.raises(CorruptDataError):
            VerticalXGBClassifier().load_model(tmp_path / "active")
    fitted.parties_[0].save_model(tmp_path / "bank")
    splits = next((tmp_path / "bank").glob("*.splits.json"))
    for damaged in (
        "",
        "{}",
        '{"format": 1, "names": [], "features": [3], "thresholds": [], "default_left": []}',
    ):
        splits.write_text(damaged)
        with pytest.raises(CorruptDataError):
            LocalParty(X[:, 3:], "bank").load_model(tmp_path / "bank")


def test_export_needs_consent(fitted):
    silent = LocalParty(X[:, 3:], "bank")
    model = classifier().fit(X[:, :3], Y, parties=[silent])
    recorder = Recorder(silent)
    with pytest.raises(ConsentError, match="'bank'"):
        model.export_booster([recorder])
    assert not [a for a in recorder.answers if isinstance(messages.read(a).message, RevealedSplits)]
    importances = model.model_.importances("weight")
    anonymous = [name for name in importances if name not in model.model_.splits.names]
    assert anonymous
    assert all(name.startswith("bank: split ") for name in anonymous)


@pytest.mark.parametrize(
    "lie",
    [
        {"names": "[" * 100_000},
        {"names": "no json"},
        {"names": "[1, 2, 3]"},
        {"names": '["a", "b"]'},
        {"features": np.array([0], dtype=np.int32)},
        {"thresholds": np.empty(0, dtype=np.float32)},
    ],
    ids=lambda lie: str(lie)[:30],
)
def test_revealed_splits_that_are_not_the_model_s(fitted, lie):
    def change(request, answer):
        envelope = messages.read(answer)
        if not isinstance(envelope.message, RevealedSplits):
            return answer
        other = RevealedSplits(**(dict(envelope.message.__dict__) | lie))
        return messages.write(envelope.session, envelope.sequence, other)

    with pytest.raises(ProtocolError, match="'bank'"):
        fitted.export_booster([Recorder(fitted.parties_[0], change)])


def test_importances(fitted, theirs):
    ours = fitted.export_booster()
    for kind in ("gain", "weight", "cover", "total_gain", "total_cover"):
        expected = theirs.get_booster().get_score(importance_type=kind)
        got = ours.get_score(importance_type=kind)
        assert got == pytest.approx(expected, rel=1e-4)
        own = {k: v for k, v in fitted.model_.importances(kind).items() if not k.startswith("bank")}
        assert own == pytest.approx({k: v for k, v in expected.items() if k in ("f0", "f1", "f2")}, rel=1e-4)
    with pytest.raises(ValueError, match="importance_type"):
        fitted.model_.importances("loss")
    total = theirs.get_booster().get_score(importance_type="total_gain")
    shares = [total.get(f"f{k}", 0) for k in range(3)] + [sum(total.get(f"f{k}", 0) for k in range(3, 6))]
    np.testing.assert_allclose(fitted.feature_importances_, np.array(shares) / sum(shares), rtol=1e-4)


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
    with pytest.raises(InvalidDataError, match="columns"):
        model.predict(frame[["income", "age", "debt"]])
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
    with pytest.raises(AttributeError, match="early_stopping_rounds"):
        classifier(n_estimators=1).fit(X[:, :3], Y, parties=[party()]).best_iteration  # noqa: B018


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


def test_verbose_prints_metrics(capsys):
    bank = party(eval_sets=[X[:, 3:]])
    classifier(n_estimators=2).fit(X[:, :3], Y, parties=[bank], eval_set=[(X[:, :3], Y)], verbose=True)
    assert "validation_0-logloss" in capsys.readouterr().out
    classifier(n_estimators=2).fit(X[:, :3], Y, parties=[bank], eval_set=[(X[:, :3], Y)])
    assert "logloss" not in capsys.readouterr().out


def test_clone_and_pickle(fitted):
    copy = clone(fitted)
    assert copy.get_params()["max_depth"] == 3
    with pytest.raises(NotFittedError):
        copy.predict(X[:, :3])
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
        ({"n_estimators": 0}, ValueError, "num_boost_round"),
        ({"early_stopping_rounds": 2}, ValueError, "evaluation set"),
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


def test_missing_parties_at_prediction(fitted):
    with pytest.raises(ValueError, match="lacks"):
        fitted.predict(X[:, :3], [])
    with pytest.raises(xgb_fed.RowMismatchError, match=r"other rows than the 300 .* parties="):
        fitted.predict(NEW[:, :3])
    with pytest.raises(xgb_fed.PartyRefusedError, match="300"):
        fitted.predict(NEW[:, :3], fitted.parties_)


@pytest.mark.parametrize("name", ["", "active", None, "a\nb"])
def test_names_of_parties(name):
    with pytest.raises(ValueError, match="name"):
        LocalParty(X, name)


def test_columns_of_parties():
    with pytest.raises(InvalidDataError, match="no columns"):
        LocalParty(X[:, :0], "bank")
    with pytest.raises(InvalidDataError, match="'bank'"):
        LocalParty(X, "bank", eval_sets=[X[:, :2]])
    with pytest.raises(InvalidDataError, match="categorical"):
        LocalParty(pd.DataFrame({"a": pd.Categorical(["x", "y"])}), "bank")
    with pytest.raises(InvalidDataError, match="'bank'"):
        party().with_rows(X)


def test_exported_trees_of_a_written_model(fitted, tmp_path):
    """XGBoost reads its own JSON and binary formats of what was exported."""
    booster = fitted.export_booster()
    expected = booster.predict(xgboost.DMatrix(X))
    for kind in ("json", "ubj"):
        booster.save_model(tmp_path / f"model.{kind}")
        again = xgboost.Booster(model_file=tmp_path / f"model.{kind}")
        np.testing.assert_array_equal(again.predict(xgboost.DMatrix(X)), expected)
        assert len(read_trees(again)) == 4
