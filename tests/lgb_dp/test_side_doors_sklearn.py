"""What scikit-learn does around the fit of a private estimator must not undo its guarantee."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.linear_model import RANSACRegressor
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_predict, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    StandardScaler,
)

import lgb_dp
from small_search import searched
from small_training import binary_data

X, Y = binary_data(60)
BOUNDS = (-3, 3)
LABELS = Y.astype(int)


def quiet_fit(model, *args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(*args, **kwargs)


class Bounded(lgb_dp.DPLGBMClassifier):
    """A classifier whose bounds are known without an argument, for wrappers that pass none on."""

    def fit(self, X, y, **kwargs):
        return super().fit(X, y, bounds=BOUNDS, classes=[0, 1], **kwargs)


class BoundedRegressor(lgb_dp.DPLGBMRegressor):
    def fit(self, X, y, **kwargs):
        return super().fit(X, y, bounds=BOUNDS, label_bounds=(-9, 9), **kwargs)


def test_a_warning_about_what_is_around_a_fit_names_the_line_that_fits():
    with pytest.warns(lgb_dp.NotPrivateWarning, match="called by Bounded") as caught:
        Bounded(n_estimators=2).fit(X, LABELS)
    assert {one.filename for one in caught if "called by Bounded" in str(one.message)} == {__file__}


def fit_plainly(model):
    """Without an heir's code around the fit, which is noted."""
    return model.fit(X, LABELS, bounds=BOUNDS, classes=[0, 1])


def small():
    return Bounded(n_estimators=2)


WRAPPERS = {
    "GridSearchCV": (lambda: GridSearchCV(small(), {"max_depth": [1, 2]}, cv=2), lambda m: m.best_estimator_),
    "RandomizedSearchCV": (
        lambda: RandomizedSearchCV(small(), {"max_depth": [1, 2]}, n_iter=2, cv=2),
        lambda m: m.best_estimator_,
    ),
    "CalibratedClassifierCV": (
        lambda: CalibratedClassifierCV(small(), cv=2),
        lambda m: m.calibrated_classifiers_[0].estimator,
    ),
    "BaggingClassifier": (lambda: BaggingClassifier(small(), n_estimators=2), lambda m: m.estimators_[0]),
    "VotingClassifier": (
        lambda: VotingClassifier([("a", small()), ("b", small())]),
        lambda m: m.estimators_[0],
    ),
    "StackingClassifier": (lambda: StackingClassifier([("a", small())], cv=2), lambda m: m.estimators_[0]),
    "OneVsRestClassifier": (lambda: OneVsRestClassifier(small()), lambda m: m.estimators_[0]),
    "RFE": (lambda: RFE(small(), n_features_to_select=2), lambda m: m.estimator_),
    "SelectFromModel": (lambda: SelectFromModel(small()), lambda m: m.estimator_),
}


@pytest.mark.filterwarnings("ignore::lgb_dp.errors.PrivacyLeakWarning")  # some set random_state
@pytest.mark.parametrize("name", WRAPPERS)
def test_side_door_wrappers_of_scikit_learn_void(name):
    make, inner = WRAPPERS[name]
    wrapper = make()
    with pytest.warns(lgb_dp.NotPrivateWarning, match="covers one fit"):
        wrapper.fit(X, LABELS)
    report = inner(wrapper).privacy_
    assert not report.private
    assert any(reason.startswith((name, "sklearn.")) for reason in report.reasons)
    assert not lgb_dp.privacy_of(inner(wrapper).booster_).private


@pytest.mark.parametrize("backend", ["loky", "threading"])
@pytest.mark.parametrize("name", ["BaggingClassifier", "VotingClassifier", "OneVsRestClassifier"])
def test_side_door_wrappers_void_in_the_workers_of_joblib(name, backend):
    make, inner = WRAPPERS[name]
    with joblib.parallel_backend(backend, n_jobs=2):
        wrapper = quiet_fit(make().set_params(n_jobs=2), X, LABELS)
    reasons = inner(wrapper).privacy_.reasons
    assert any("epsilon covers one fit only" in reason for reason in reasons)


def test_side_door_several_outputs_and_cross_validation_void():
    several = quiet_fit(MultiOutputClassifier(small()), X, np.column_stack([LABELS, 1 - LABELS]))
    assert not several.estimators_[0].privacy_.private
    consensus = quiet_fit(RANSACRegressor(BoundedRegressor(n_estimators=2), min_samples=20), X, X[:, 0])
    assert not consensus.estimator_.privacy_.private
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folds = cross_validate(small(), X, LABELS, cv=2, return_estimator=True)
        in_workers = cross_validate(small(), X, LABELS, cv=2, return_estimator=True, n_jobs=2)
    for model in (*folds["estimator"], *in_workers["estimator"]):
        assert not model.privacy_.private
    with pytest.warns(lgb_dp.NotPrivateWarning, match="cross_val_predict"):
        cross_val_predict(small(), X, LABELS, cv=2)


def test_side_door_a_private_search_inside_a_search_is_void():
    outer = GridSearchCV(searched(), {"mean_trials": [2.0, 3.0]}, cv=2, scoring="accuracy")
    quiet_fit(outer, X, LABELS, bounds=BOUNDS)
    assert not outer.best_estimator_.privacy_.private


def test_side_door_a_private_search_behind_a_scaler_is_void():
    pipeline = make_pipeline(StandardScaler(), searched())
    quiet_fit(pipeline, X, LABELS, dprandomizedsearchcv__bounds=BOUNDS)
    assert not pipeline[-1].privacy_.private


class Centred(FunctionTransformer):
    """It inherits the tags of a transformer that learns nothing, but not its fit."""

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        return super().fit(X, y)

    def transform(self, X):
        return X - self.mean_


class WithParts(BaseEstimator):
    """A transformer of somebody else's with an attribute that scikit-learn's have too."""

    def __init__(self, transformers=()):
        self.transformers = transformers

    def fit(self, X, y=None):
        self.mean_ = X.mean(axis=0)
        return self

    def transform(self, X):
        return X - self.mean_


class Stateless(BaseEstimator):
    """A transformer of somebody else's that says that it learns nothing."""

    def __sklearn_tags__(self):  # since scikit-learn 1.6
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        return tags

    def _more_tags(self):  # before it
        return {"stateless": True}

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return np.tanh(X)


FITTED_STEPS = {
    "StandardScaler": [StandardScaler()],
    "inside FeatureUnion": [FeatureUnion([("a", FunctionTransformer()), ("b", StandardScaler())])],
    "inside ColumnTransformer": [ColumnTransformer([("a", StandardScaler(), [0])], remainder="passthrough")],
    "as the remainder": [ColumnTransformer([("a", "passthrough", [0])], remainder=StandardScaler())],
    "inside Pipeline": [make_pipeline(FunctionTransformer(), StandardScaler())],
    "columns by a function of all rows": [
        ColumnTransformer([("a", "passthrough", lambda rows: [int(rows.mean(axis=0).argmax())])])
    ],
    "heir of a stateless one": [Centred()],
    "parts in name only": [WithParts()],
    "categories of the rows": [OneHotEncoder(sparse_output=False)],
    "rare categories": [
        OneHotEncoder(
            categories=[np.unique(X[:, k]) for k in range(4)], max_categories=2, handle_unknown="ignore"
        )
    ],
}
STATELESS_STEPS = {
    "FunctionTransformer": [FunctionTransformer(np.tanh)],
    "somebody else's": [Stateless()],
    "several": ["passthrough", Normalizer(), make_pipeline(FunctionTransformer())],
    "by settings alone": [
        PolynomialFeatures(2),
        OneHotEncoder(categories=[[0.0, 1.0]] * 15, handle_unknown="ignore"),
    ],
    "unions": [FeatureUnion([("a", Normalizer())]), ColumnTransformer([("a", Normalizer(), [0, 1])])],
}


@pytest.mark.parametrize("name", FITTED_STEPS)
def test_side_door_steps_that_learn_from_rows_void(name):
    pipeline = make_pipeline(*FITTED_STEPS[name], small())
    with pytest.warns(lgb_dp.NotPrivateWarning, match="learned.*private"):
        pipeline.fit(X, LABELS)
    report = pipeline[-1].privacy_
    assert not report.private
    assert any("Pipeline" in reason for reason in report.reasons)


@pytest.mark.parametrize("name", STATELESS_STEPS)
def test_stateless_steps_leave_the_guarantee(name):
    pipeline = make_pipeline(*STATELESS_STEPS[name], lgb_dp.DPLGBMClassifier(n_estimators=2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", lgb_dp.NotPrivateWarning)
        pipeline.fit(X, LABELS, dplgbmclassifier__bounds=BOUNDS, dplgbmclassifier__classes=[0, 1])
    assert pipeline[-1].privacy_.private


def test_side_door_targets_that_a_transformer_learned_void():
    def wrapped(**kwargs):
        return TransformedTargetRegressor(BoundedRegressor(n_estimators=2), check_inverse=False, **kwargs)

    learned = quiet_fit(wrapped(transformer=StandardScaler()), X, X[:, 0])
    assert not learned.regressor_.privacy_.private
    by_rule = wrapped(func=np.arcsinh, inverse_func=np.sinh).fit(X, X[:, 0])
    assert by_rule.regressor_.privacy_.private


class Wrapper(BaseEstimator):
    """An estimator of somebody else's that fits ours."""

    def fit(self, X, y):
        self.model_ = small().fit(X, y)
        return self


def test_side_door_unknown_wrappers_are_noted():
    with pytest.warns(lgb_dp.NotPrivateWarning, match="Wrapper"):
        wrapper = Wrapper().fit(X, LABELS)
    assert any("Wrapper" in note for note in wrapper.model_.privacy_.notes)


class Scaled(lgb_dp.DPLGBMClassifier):
    """An heir of ours that looks at all rows before the fit."""

    def fit(self, X, y, **kwargs):
        return super().fit(X - X.mean(axis=0), y, bounds=BOUNDS, classes=[0, 1], **kwargs)


class ScaledPipeline(Pipeline):
    def fit(self, X, y=None, **kwargs):
        return super().fit(X - X.mean(axis=0), y, **kwargs)


def test_side_door_heirs_whose_code_is_around_the_fit_are_noted():
    with pytest.warns(lgb_dp.NotPrivateWarning, match="Scaled"):
        model = Scaled(n_estimators=2).fit(X, LABELS)
    with pytest.warns(lgb_dp.NotPrivateWarning, match="ScaledPipeline"):
        pipeline = ScaledPipeline([("model", small())]).fit(X, LABELS)
    for fitted, name in ((model, "Scaled"), (pipeline[-1], "ScaledPipeline")):
        assert any(f"called by {name}," in note for note in fitted.privacy_.notes)


class Threaded(BaseEstimator):
    """An estimator of somebody else's that fits ours in threads of its own."""

    def __init__(self, estimator=None, times=2):
        self.estimator = estimator
        self.times = times

    def fit(self, X, y):
        with ThreadPoolExecutor(2) as pool:
            self.models_ = list(pool.map(lambda k: clone(self.estimator).fit(X, y), range(self.times)))
        return self


def in_a_thread(fit):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(fit).result()


@pytest.mark.parametrize("wrap", [lambda model: model, lambda model: [("a", model)], make_pipeline])
def test_side_door_unknown_wrappers_are_noted_in_their_threads(wrap):
    class Holder(Threaded):
        def fit(self, X, y):
            self.held, self.itself, self.numbers = wrap(self.estimator), self, list(range(10**6))
            model, self.estimator = self.estimator, None
            self.models_ = [in_a_thread(lambda: clone(model).fit(X, y))]
            return self

    direct, held = quiet_fit(Threaded(small()), X, LABELS), quiet_fit(Holder(small()), X, LABELS)
    for name, models in (("Threaded", direct.models_), ("Holder", held.models_)):
        for model in models:
            assert any(f"called by {name}," in note for note in model.privacy_.notes)
            assert model.privacy_.private, "which thread started the fit cannot be told"


def test_a_fit_in_a_thread_is_not_accused_of_what_others_do():
    """Neither a thread of one's own, nor a wrapper of something else that is in another thread."""
    started, done = threading.Event(), threading.Event()

    class Waiting(Threaded):
        def fit(self, X, y):
            started.set()
            assert done.wait(60)
            return self

    with warnings.catch_warnings(), ThreadPoolExecutor(1) as pool:
        warnings.simplefilter("error")
        elsewhere = pool.submit(Waiting(BoundedRegressor()).fit, X, LABELS)
        try:
            assert started.wait(60)
            model = in_a_thread(lambda: fit_plainly(lgb_dp.DPLGBMClassifier(n_estimators=2)))
        finally:
            done.set()
        elsewhere.result()
    assert not any("thread" in note or "called by" in note for note in model.privacy_.notes)
    assert model.privacy_.private


def test_a_plain_fit_has_no_surroundings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit_plainly(lgb_dp.DPLGBMClassifier(n_estimators=2))
    assert model.privacy_.private


ENCODER = OneHotEncoder(categories=[[0.0, 1.0]], handle_unknown="ignore")
PARTS = {
    "an encoder": ENCODER,
    "an encoder in a pipeline": make_pipeline(ENCODER),
    "a function": FunctionTransformer(scipy.sparse.csr_matrix),
}


@pytest.mark.parametrize(
    ("part", "threshold", "is_noted"),
    [
        *((part, 0.3, True) for part in PARTS.values()),
        (ENCODER, 0, False),
        (ENCODER, 1, False),
        ("passthrough", 0.3, False),
        (Normalizer(), 0.3, False),
    ],
)
def test_a_transformer_that_keeps_how_dense_the_rows_are_is_noted(part, threshold, is_noted):
    columns = ColumnTransformer([("a", part, [0])], remainder="passthrough", sparse_threshold=threshold)
    pipeline = make_pipeline(columns, lgb_dp.DPLGBMClassifier(n_estimators=2))
    pipeline.fit(X, LABELS, dplgbmclassifier__bounds=BOUNDS, dplgbmclassifier__classes=[0, 1])
    report = pipeline[-1].privacy_
    assert report.private
    assert any("ColumnTransformer" in note for note in report.notes) is is_noted
