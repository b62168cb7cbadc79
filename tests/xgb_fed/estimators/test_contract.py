"""What holds for every estimator, vertical and horizontal, classifier and regressor."""

import inspect
import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError

import xgb_fed
from xgb_fed import LocalParty, Plain

pytestmark = pytest.mark.filterwarnings("ignore::xgb_fed.errors.NotEncryptedWarning")

RANDOM = np.random.default_rng(0)
NAMES = [f"column {k}" for k in range(6)]
X = pd.DataFrame(RANDOM.standard_normal((240, 6)).astype(np.float32), columns=NAMES)
SIGNAL = X["column 0"].to_numpy() + X["column 4"].to_numpy() + RANDOM.standard_normal(240) / 4
SMALL = {"n_estimators": 3, "max_depth": 2, "max_bin": 8, "random_state": 0}
TRAIN, HELD = slice(0, 160), slice(160, 240)


@dataclass
class Case:
    """One estimator, with what it is fitted on."""

    cls: type

    @property
    def is_vertical(self):
        return "Vertical" in self.cls.__name__

    @property
    def y(self):
        return np.where(SIGNAL > 0, "yes", "no") if is_classifier(self.cls()) else SIGNAL

    @property
    def rows(self):
        """Columns of the held-out rows that predictions are asked for with."""
        return X.iloc[HELD, :3] if self.is_vertical else X.iloc[HELD]

    def new(self, **params):
        extra: dict[str, Any] = {"cipher": Plain()} if self.is_vertical else {}
        return self.cls(**{**SMALL, **extra, **params})

    def fit(self, model, **how):
        if not self.is_vertical:
            halves = [slice(0, 80), slice(80, 160)]
            return model.fit(parties=[(X.iloc[rows], self.y[rows]) for rows in halves], **how)
        held = [X.iloc[HELD, 3:]] * len(how.get("eval_set") or ())
        bank = LocalParty(X.iloc[TRAIN, 3:], "bank", eval_sets=held)
        return model.fit(X.iloc[TRAIN, :3], self.y[TRAIN], parties=[bank], **how)

    def predict(self, model, method="predict", **how):
        if self.is_vertical:
            how["parties"] = self.bank(model)
        return getattr(model, method)(self.rows, **how)

    def bank(self, model):
        return [model.parties_[0].with_rows(X.iloc[HELD, 3:])]

    @property
    def evals(self):
        return [(self.rows, self.y[HELD])]


CASES = [
    Case(getattr(xgb_fed, f"{way}XGB{kind}"))
    for way in ("Vertical", "Horizontal")
    for kind in ("Classifier", "Regressor")
]


@pytest.fixture(params=CASES, ids=lambda case: case.cls.__name__)
def case(request):
    return request.param


def test_kinds(case):
    assert is_classifier(case.cls()) != is_regressor(case.cls())


def test_parameters_survive_clone_and_get_params(case):
    model = case.new(learning_rate=0.5, early_stopping_rounds=2)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(max_depth=4).max_depth == 4
    assert case.cls(7).n_estimators == 7


def test_common_parameters_have_the_same_names_defaults_and_order():
    signatures = [dict(inspect.signature(case.cls).parameters) for case in CASES]
    assert signatures[0] == signatures[1]
    assert signatures[2] == signatures[3]
    common = [
        [str(p) for p in s.values() if p.name in signatures[0] and p.name in signatures[2]]
        for s in signatures
    ]
    assert common[0] == common[2]
    assert len(common[0]) == 18


@pytest.mark.parametrize("method", ["fit", "predict", "apply", "save_model", "evals_result"])
def test_methods_share_their_arguments(method):
    """Beside what is each way's own: the passive parties' help, and what a long training run needs."""
    own = {
        "parties",
        "sample_weight",
        "checkpoint",
        "patience",
        "hide_paths",
        "base_margin",
        "base_margin_eval_set",
        "xgb_model",
    }
    signatures = [inspect.signature(getattr(case.cls, method)).parameters.values() for case in CASES]
    shapes = {tuple((p.name, p.kind) for p in signature if p.name not in own) for signature in signatures}
    assert len(shapes) == 1


def test_every_parameter_is_documented(case):
    doc = inspect.getdoc(case.cls)
    assert "[common parameters]" not in doc
    section = doc.split("Attributes\n")[0]
    documented = {
        name.strip().removeprefix("**")
        for line in section.splitlines()
        if line[:1].strip() and " : " in line
        for name in line.split(" : ")[0].split(",")
    }
    assert set(inspect.signature(case.cls).parameters) == documented


def test_fitted_attributes(case):
    model = case.fit(case.new())
    n_features = 3 if case.is_vertical else 6
    assert model.n_features_in_ == n_features
    assert list(model.feature_names_in_) == NAMES[:n_features]
    assert model.traffic_ is model.model_.traffic
    assert model.evals_result() == {}
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert len(model.feature_importances_) == n_features + case.is_vertical  # one for the bank
    if is_classifier(model):
        assert model.classes_.tolist() == ["no", "yes"]
        p = case.predict(model, "predict_proba")
        assert p.shape == (80, 2)
        np.testing.assert_array_equal(case.predict(model), model.classes_[p.argmax(axis=1)])
        assert np.mean(case.predict(model) == case.y[HELD]) > 0.7
    else:
        assert np.corrcoef(case.predict(model), case.y[HELD])[0, 1] > 0.7


def test_an_estimator_that_is_not_fitted_says_so(case, tmp_path):
    model = case.new()
    for call in (
        lambda: model.predict(case.rows),
        lambda: model.apply(case.rows),
        lambda: model.evals_result(),
        lambda: model.save_model(tmp_path / "model.json"),
        lambda: model.traffic_,
        lambda: model.feature_importances_,
        lambda: model.best_iteration,
    ):
        with pytest.raises(NotFittedError):
            call()


def test_evaluation_sets_and_early_stopping(case):
    weights = np.where(np.arange(80) < 40, 2.0, 0.5)
    model = case.new(n_estimators=60, learning_rate=1.0, early_stopping_rounds=2)
    case.fit(model, eval_set=case.evals, sample_weight_eval_set=[weights])
    (history,) = model.evals_result()["validation_0"].values()
    assert len(history) == model.best_iteration + 3 < 60
    assert model.best_score == pytest.approx(min(history)) == pytest.approx(history[model.best_iteration])
    best = case.predict(model, output_margin=True)
    upto = case.predict(model, output_margin=True, iteration_range=(0, model.best_iteration + 1))
    np.testing.assert_array_equal(best, upto)
    assert (best != case.predict(model, output_margin=True, iteration_range=(0, 0))).any()
    assert case.predict(model, "apply").shape == (80, model.best_iteration + 1)
    unweighted = case.fit(case.new(), eval_set=case.evals).evals_result()["validation_0"]
    assert [len(values) for values in unweighted.values()] == [3]
    assert next(iter(unweighted.values()))[0] != history[0]


def test_without_early_stopping_there_is_no_best_round(case):
    model = case.fit(case.new())
    for name in ("best_iteration", "best_score"):
        with pytest.raises(AttributeError, match="early_stopping_rounds"):
            getattr(model, name)


def test_verbose_prints_metrics_and_is_silent_by_default(case, capsys):
    case.fit(case.new(), eval_set=case.evals)
    assert "validation_0" not in capsys.readouterr().out
    case.fit(case.new(), eval_set=case.evals, verbose=True)
    assert capsys.readouterr().out.count("validation_0") == 3
    case.fit(case.new(), eval_set=case.evals, verbose=2)
    assert 0 < capsys.readouterr().out.count("validation_0") < 3


def test_callbacks_see_every_round(case):
    class Watch(xgboost.callback.TrainingCallback):
        def __init__(self):
            self.rounds = []

        def after_iteration(self, model, epoch, evals_log):
            self.rounds.append((epoch, model.num_boosted_rounds()))
            return epoch == 1

    watch = Watch()
    method = {} if case.is_vertical else {"method": "simfl"}  # nobody's process sees all of an exact round
    case.fit(case.new(callbacks=[watch], **method))
    assert watch.rounds == [(0, 1), (1, 2)]


def test_a_pickle_predicts_the_same_and_holds_no_party(case):
    model = case.fit(case.new())
    copy = pickle.loads(pickle.dumps(model))
    assert not hasattr(copy, "parties_")
    how = {"parties": case.bank(model)} if case.is_vertical else {}
    np.testing.assert_array_equal(copy.predict(case.rows, **how), case.predict(model))


def test_save_model_takes_a_text_or_a_path(case, tmp_path):
    model = case.fit(case.new())
    for k, path in enumerate((str(tmp_path / "model0.json"), tmp_path / "model1.json")):
        model.save_model(path)
        assert (tmp_path / f"model{k}.json").exists()


@pytest.mark.parametrize(
    ("params", "how", "reason"),
    [
        ({"n_estimators": 0}, {}, "num_boost_round.*0"),
        ({"max_depth": -1}, {}, "max_depth=-1"),
        ({"early_stopping_rounds": 2}, {}, "evaluation set|held-out rows"),
        ({}, {"eval_set": [(1, 2, 3)]}, r"eval_set\[0\]"),
        ({}, {"sample_weight_eval_set": [[1.0]]}, "sample_weight_eval_set has 1"),
    ],
)
def test_a_refused_fit_leaves_nothing_of_the_one_before(case, params, how, reason):
    model = case.fit(case.new())
    model.set_params(**params)
    with pytest.raises(xgb_fed.InvalidArgumentError, match=reason):
        case.fit(model, **how)
    with pytest.raises(NotFittedError):
        model.predict(case.rows)
