"""Every row of the table of LightGBM's habits (docs/habits.md) is tried out here, under the same name."""

import copy
import csv
import pickle
import warnings
from pathlib import Path

import lightgbm as lgb
import matplotlib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from lightgbm.basic import LightGBMError
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import lgb_dp
from gbdt_commons.errors import VeilboostError

matplotlib.use("Agg")
TABLE = Path(__file__).parents[2] / "docs" / "experiments" / "data" / "habits.csv"
ROWS = [(name, *ends) for _, name, _, *ends in csv.reader(TABLE.read_text().splitlines()[1:])]
X = np.random.default_rng(0).normal(size=(120, 3))
Y = (X[:, 0] > 0).astype(int)
BOUNDS = (-3, 3)
TRIED = {}
pytestmark = pytest.mark.usefixtures("coarse_accounting")


def habit(name):
    def keep(function):
        assert name not in TRIED
        TRIED[name] = function
        return function

    return keep


def data(**arguments):
    return lgb_dp.Dataset(X, Y, **{"bounds": BOUNDS, "max_bin": 16, **arguments})


def train(train_set=None, rounds=3, callbacks=(), private=None, params=(), **arguments):
    private = private or lgb_dp.NewtonBoost(5.0, 1e-5)
    params = {"objective": "binary", "verbosity": -1, **dict(params)}
    train_set = data() if train_set is None else train_set
    return lgb.train(params, train_set, rounds, callbacks=[private, *callbacks], **arguments)


def with_params(**params):
    return lambda tmp_path: train(params=params)


def estimator(**keywords):
    return lgb_dp.DPLGBMClassifier(**{"epsilon": 5.0, "n_estimators": 3, **keywords})


def held_out(train_set, public=True):
    return train_set.create_valid(X[:50], Y[:50], public=public)


for name, params in {
    "num-boost-round-alias": {"num_iterations": 3},
    "objective-function": {"objective": lambda scores, rows: (scores, scores)},
    "objective-lambdarank": {"objective": "lambdarank"},
    "num-leaves": {"num_leaves": 8},
    "num-leaves-odd": {"num_leaves": 10},
    "max-depth": {"max_depth": 3},
    "learning-rate": {"eta": 0.1},
    "reg-lambda": {"reg_lambda": 1},
    "reg-alpha": {"reg_alpha": 1},
    "min-data-in-leaf": {"min_data_in_leaf": 5},
    "min-gain-to-split": {"min_gain_to_split": 0.1},
    "bagging": {"bagging_fraction": 0.5, "bagging_freq": 1},
    "goss": {"data_sample_strategy": "goss"},
    "feature-fraction": {"feature_fraction": 0.5},
    "dart": {"boosting": "dart"},
    "linear-tree": {"linear_tree": True},
    "is-unbalance": {"is_unbalance": True},
    "seed": {"seed": 7},
    "gpu": {"device": "gpu"},
    "num-threads": {"num_threads": 1},
    "verbosity": {"verbosity": -1},
    "monotone": {"monotone_constraints": [1, 0, -1]},
    "monotone-method": {"monotone_constraints_method": "advanced"},
    "force-col-wise": {"force_col_wise": True},
    "max-bin-params": {"max_bin": 63},
    "misspelt": {"lamda_l2": 1},
}.items():
    habit(name)(with_params(**params))


@habit("train")
def _(tmp_path):
    return train()


@habit("plain-dataset")
def _(tmp_path):
    return train(lgb.Dataset(X, Y, params={"verbosity": -1}))


@habit("valid-sets")
def _(tmp_path):
    rows, result = data(), {}
    booster = train(
        rows, valid_sets=[held_out(rows)], valid_names=["held out"], callbacks=[lgb.record_evaluation(result)]
    )
    assert list(result) == ["held out"]
    return booster


@habit("valid-sets-train")
def _(tmp_path):
    rows = data()
    with pytest.warns(lgb_dp.NotPrivateWarning):
        return train(rows, valid_sets=[rows])


@habit("feval")
def _(tmp_path):
    rows, seen = data(), []
    train(rows, valid_sets=[held_out(rows)], feval=lambda p, d: seen.append(p) or ("mine", 0.5, True))
    assert len(seen) == 3


@habit("init-model-booster")
def _(tmp_path):
    both = train(init_model=train())
    assert both.num_trees() == 6
    return both


@habit("init-model-file")
def _(tmp_path):
    train().save_model(tmp_path / "model.txt")
    return train(init_model=str(tmp_path / "model.txt"))


@habit("init-model-stock")
def _(tmp_path):
    return train(init_model=lgb.train({"verbosity": -1, "objective": "binary"}, lgb.Dataset(X, Y), 2))


@habit("keep-training-booster")
def _(tmp_path):
    booster = train(keep_training_booster=True)
    with pytest.raises(lgb_dp.BudgetSpentError):
        booster.update()
    return booster


@habit("multiclass")
def _(tmp_path):
    rows = lgb_dp.Dataset(X, np.arange(120) % 3, bounds=BOUNDS)
    booster = train(rows, params={"objective": "multiclass", "num_class": 3})
    assert booster.predict(X).shape == (120, 3)
    return booster


@habit("objective-poisson")
def _(tmp_path):
    rows = lgb_dp.Dataset(X, 1.0 + np.arange(120) % 3, bounds=BOUNDS, label_bounds=(1, 5))
    for objective in ("gamma", "tweedie", "huber", "quantile", "mae", "poisson"):
        booster = train(rows, params={"objective": objective})
        assert np.isfinite(booster.predict(X)).all()
    return booster


@habit("metric-list")
def _(tmp_path):
    rows, result = data(), {}
    names = ["auc", "binary_logloss"]
    train(
        rows, params={"metric": names}, valid_sets=[held_out(rows)], callbacks=[lgb.record_evaluation(result)]
    )
    assert list(result["valid_0"]) == names


@habit("metric-none")
def _(tmp_path):
    rows, result = data(), {}
    recorder = lgb.record_evaluation(result)
    train(rows, params={"metric": "None"}, valid_sets=[held_out(rows)], callbacks=[recorder])
    assert not any(result.values())


@habit("early-stopping")
def _(tmp_path):
    rows = data()
    booster = train(rows, 30, valid_sets=[held_out(rows)], callbacks=[lgb.early_stopping(1, verbose=False)])
    assert booster.best_iteration >= 1
    return booster


@habit("early-stopping-private")
def _(tmp_path):
    rows = data()
    stop = lgb.early_stopping(1, verbose=False)
    return train(rows, 30, valid_sets=[held_out(rows, public=False)], callbacks=[stop])


@habit("early-stopping-param")
def _(tmp_path):
    rows = data()
    booster = train(rows, 30, params={"early_stopping_round": 1}, valid_sets=[held_out(rows)])
    assert booster.best_iteration >= 1
    return booster


@habit("log-evaluation")
def _(tmp_path):
    rows = data()
    return train(rows, valid_sets=[held_out(rows)], callbacks=[lgb.log_evaluation(1)])


@habit("record-evaluation")
def _(tmp_path):
    rows, result = data(), {}
    train(rows, valid_sets=[held_out(rows)], callbacks=[lgb.record_evaluation(result)])
    assert len(result["valid_0"]["binary_logloss"]) == 3


@habit("reset-learning-rate")
def _(tmp_path):
    return train(callbacks=[lgb.reset_parameter(learning_rate=[0.3, 0.2, 0.1])])


@habit("reset-others")
def _(tmp_path):
    return train(callbacks=[lgb.reset_parameter(lambda_l2=[1, 2, 3])])


@habit("dataset-numpy")
def _(tmp_path):
    return train(lgb_dp.Dataset(X, Y, bounds=(-3, 3)))


@habit("dataset-no-bounds")
def _(tmp_path):
    return train(lgb_dp.Dataset(X, Y))


@habit("dataset-pandas")
def _(tmp_path):
    booster = train(lgb_dp.Dataset(pd.DataFrame(X, columns=list("abc")), Y, bounds=BOUNDS))
    assert booster.feature_name() == list("abc")
    return booster


@habit("dataset-sparse")
def _(tmp_path):
    return train(lgb_dp.Dataset(scipy.sparse.csr_matrix(X), Y, bounds=BOUNDS))


@habit("dataset-weight")
def _(tmp_path):
    return train(data(weight=np.ones(120), weight_bound=2.0))


@habit("dataset-weight-no-bound")
def _(tmp_path):
    return train(data(weight=np.ones(120)))


@habit("dataset-init-score")
def _(tmp_path):
    return train(data(init_score=np.zeros(120)))


@habit("dataset-feature-name")
def _(tmp_path):
    booster = train(data(feature_name=list("abc")))
    assert booster.feature_name() == list("abc")
    return booster


@habit("dataset-categorical")
def _(tmp_path):
    return data().set_categorical_feature([0])


@habit("dataset-create-valid")
def _(tmp_path):
    assert data().create_valid(X, Y).construct().num_data() == 120


@habit("dataset-subset")
def _(tmp_path):
    return train(data().subset(range(60)))


@habit("dataset-set-label-late")
def _(tmp_path):
    rows = data()
    train(rows)
    rows.set_label(1 - Y)


@habit("dataset-group")
def _(tmp_path):
    data().create_valid(X, Y, group=[120])


@habit("dataset-num-data")
def _(tmp_path):
    rows = data().construct()
    assert (rows.num_data(), rows.num_feature()) == (120, 3)
    assert rows.feature_num_bin(0) >= 2


@habit("predict")
def _(tmp_path):
    booster = train()
    assert booster.predict(X).shape == booster.predict(X, raw_score=True).shape == (120,)
    assert booster.predict(X, pred_leaf=True).shape == (120, 3)
    assert booster.predict(X, pred_contrib=True).shape == (120, 4)


@habit("predict-num-iteration")
def _(tmp_path):
    booster = train()
    assert (booster.predict(X, num_iteration=1) != booster.predict(X)).any()


@habit("save-load")
def _(tmp_path):
    booster = train()
    booster.save_model(tmp_path / "model.txt")
    loaded = lgb.Booster(model_file=tmp_path / "model.txt")
    np.testing.assert_array_equal(loaded.predict(X), booster.predict(X))
    assert lgb_dp.privacy_of(loaded).epsilon == booster.privacy.epsilon
    return booster


@habit("model-to-string")
def _(tmp_path):
    booster = train()
    assert "Tree=2" in booster.model_to_string()
    assert len(booster.dump_model()["tree_info"]) == booster.trees_to_dataframe()["tree_index"].nunique() == 3


@habit("pickle")
def _(tmp_path):
    booster = train()
    for other in (pickle.loads(pickle.dumps(booster)), copy.deepcopy(booster)):
        np.testing.assert_array_equal(other.predict(X), booster.predict(X))
        assert other.privacy == booster.privacy


@habit("feature-importance")
def _(tmp_path):
    assert train().feature_importance("gain").shape == (3,)


@habit("booster-eval")
def _(tmp_path):
    rows = data()
    booster = train(rows, keep_training_booster=True)
    assert booster.eval(held_out(rows), "name")[0][:2] == ("name", "binary_logloss")


@habit("update-fobj")
def _(tmp_path):
    train(keep_training_booster=True).update(fobj=lambda scores, rows: (scores, scores))


@habit("rollback")
def _(tmp_path):
    booster = train(keep_training_booster=True)
    spent = booster.privacy.epsilon
    assert booster.rollback_one_iter().num_trees() == 2
    assert booster.privacy.epsilon == spent
    return booster


@habit("refit")
def _(tmp_path):
    return train().refit(X, Y)


@habit("cv")
def _(tmp_path):
    rows = data()
    params = {"objective": "binary", "verbosity": -1}
    with pytest.warns(lgb_dp.NotPrivateWarning):
        result = lgb.cv(
            params,
            rows,
            2,
            folds=lgb_dp.folds(3, rows),
            callbacks=[lgb_dp.NewtonBoost(5.0, 1e-5)],
            return_cvbooster=True,
        )
    return result["cvbooster"].boosters[0]


@habit("cv-own-folds")
def _(tmp_path):
    params = {"objective": "binary", "verbosity": -1}
    private = lgb_dp.NewtonBoost(5.0, 1e-5)
    result = lgb.cv(params, data(), 2, nfold=3, callbacks=[private], return_cvbooster=True)
    return result["cvbooster"].boosters[0]


@habit("plot-importance")
def _(tmp_path):
    assert lgb.plot_importance(train()).patches


@habit("plot-metric")
def _(tmp_path):
    rows, result = data(), {}
    train(rows, valid_sets=[held_out(rows)], callbacks=[lgb.record_evaluation(result)])
    assert lgb.plot_metric(result).lines


@habit("plot-histogram")
def _(tmp_path):
    booster = train(rounds=20)
    assert lgb.plot_split_value_histogram(booster, int(booster.feature_importance().argmax())).patches


@habit("estimator-keywords")
def _(tmp_path):
    return estimator(num_leaves=8, n_jobs=1, reg_lambda=1).fit(X, Y, bounds=BOUNDS)


@habit("estimator-subsample")
def _(tmp_path):
    estimator(subsample=0.5).fit(X, Y, bounds=BOUNDS)


@habit("estimator-class-weight")
def _(tmp_path):
    estimator(class_weight="balanced").fit(X, Y, bounds=BOUNDS)


@habit("estimator-misspelt")
def _(tmp_path):
    estimator(n_estimator=10).fit(X, Y, bounds=BOUNDS)


@habit("estimator-random-state")
def _(tmp_path):
    return estimator(random_state=0).fit(X, Y, bounds=BOUNDS)


@habit("estimator-eval-set")
def _(tmp_path):
    evaluated = {"eval_set": [(X, Y)], "eval_metric": "auc", "eval_names": ["a"], "public_eval_set": True}
    model = estimator().fit(X, Y, bounds=BOUNDS, **evaluated)
    assert len(model.evals_result_["a"]["auc"]) == 3
    return model


@habit("estimator-attributes")
def _(tmp_path):
    model = estimator().fit(X, Y, bounds=BOUNDS)
    assert (len(model.feature_name_), model.n_classes_, model.best_score_) == (3, 2, {})
    assert model.best_iteration_ <= 0
    assert model.evals_result_ == {}
    assert model.feature_importances_.shape == (3,)
    return model


@habit("estimator-predict")
def _(tmp_path):
    model = estimator().fit(X, Y, bounds=BOUNDS)
    assert model.predict(X, raw_score=True).shape == (120,)
    assert model.predict(X, pred_leaf=True).shape == (120, 3)
    assert model.predict(X, pred_contrib=True).shape == (120, 4)


@habit("estimator-clone")
def _(tmp_path):
    model = clone(estimator(num_leaves=8)).set_params(num_leaves=4)
    assert model.get_params()["num_leaves"] == 4
    return model.fit(X, Y, bounds=BOUNDS)


@habit("estimator-pipeline")
def _(tmp_path):
    pipeline = make_pipeline(FunctionTransformer(), estimator())
    return pipeline.fit(X, Y, dplgbmclassifier__bounds=BOUNDS)[-1]


@habit("estimator-scaler")
def _(tmp_path):
    return make_pipeline(StandardScaler(), estimator()).fit(X, Y, dplgbmclassifier__bounds=BOUNDS)[-1]


@habit("estimator-grid-search")
def _(tmp_path):
    return GridSearchCV(estimator(), {"max_depth": [1, 2]}, cv=2).fit(X, Y, bounds=BOUNDS).best_estimator_


@habit("estimator-positional-weight")
def _(tmp_path):
    estimator().fit(X, Y, bounds=BOUNDS, sample_weight=np.ones(120))


@habit("estimator-init-model")
def _(tmp_path):
    first = estimator().fit(X, Y, bounds=BOUNDS)
    return estimator().fit(X, Y, bounds=BOUNDS, init_model=first)


def report_of(model):
    if hasattr(model, "privacy_"):
        return model.privacy_
    return model.privacy if hasattr(model, "privacy") else lgb_dp.privacy_of(model)


def test_the_table_and_the_trials_name_the_same_habits():
    names = [name for name, _, _ in ROWS]
    assert len(names) == len(set(names)) >= 60
    assert set(names) == TRIED.keys()


@pytest.mark.parametrize(("name", "outcome", "remark"), ROWS, ids=[name for name, _, _ in ROWS])
def test_habit(name, outcome, remark, tmp_path):
    if outcome == "refused":
        with pytest.raises((VeilboostError, LightGBMError)) as caught:
            TRIED[name](tmp_path)
        assert remark in str(caught.value)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if outcome == "works, not private" else "default")
        model = TRIED[name](tmp_path)
    if outcome == "works, not private":
        try:
            report = report_of(model)
        except (lgb_dp.NoGuaranteeError, lgb_dp.AlteredModelError):
            return
        assert not report.private
    elif model is not None:
        assert report_of(model).private
