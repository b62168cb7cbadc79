"""Private models in the tools that people hand models to: the guarantee comes along."""

import subprocess
import sys
from zipfile import BadZipFile

import lightgbm
import matplotlib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import lgb_dp
from encoded_tables import mixed_table, model_of
from small_training import binary_data

matplotlib.use("Agg")
X, Y = binary_data(200)
LABELS = Y.astype(int)


@pytest.fixture(scope="module")
def classifier():
    model = lgb_dp.DPLGBMClassifier(epsilon=20.0, n_estimators=4, max_depth=2)
    return model.fit(X, LABELS, bounds=(-3, 3), classes=[0, 1])


@pytest.fixture(scope="module")
def regressor():
    model = lgb_dp.DPLGBMRegressor(epsilon=20.0, n_estimators=4, max_depth=2)
    return model.fit(X, X[:, 0], bounds=(-3, 3), label_bounds=(-3, 3))


def needed(name):
    return pytest.importorskip(name, reason=f"{name} is not among the extras; `make test-models` has it")


def test_estimators_are_lightgbms_to_isinstance_and_have_none_of_its_parameters(classifier, regressor):
    assert isinstance(classifier, lightgbm.LGBMClassifier)
    assert isinstance(regressor, lightgbm.LGBMRegressor)
    assert "subsample" not in classifier.get_params()
    assert clone(classifier).get_params() == classifier.get_params()
    unfitted = clone(classifier)
    for name in ("booster_", "classes_", "evals_result_", "n_features_in_", "feature_names_in_"):
        assert not hasattr(unfitted, name)
    assert unfitted.objective is None
    assert unfitted.set_params(objective="binary").objective == "binary"


def test_decision_function_gives_raw_scores(classifier):
    np.testing.assert_array_equal(
        classifier.decision_function(X), classifier.booster_.predict(X, raw_score=True)
    )
    assert ((classifier.decision_function(X) > 0) == (classifier.predict(X) == 1)).all()


def test_lightgbms_plots_take_the_estimator(classifier, regressor):
    for model in (classifier, regressor):
        assert lightgbm.plot_importance(model, importance_type="gain").patches


def test_shap_explains_the_estimator(classifier, regressor):
    shap = needed("shap")
    for model in (classifier, regressor):
        values = np.asarray(shap.TreeExplainer(model).shap_values(X)).reshape(len(X), -1)
        np.testing.assert_allclose(values, model.predict(X, pred_contrib=True)[:, :-1])


def test_mlflow_keeps_an_estimator_and_its_guarantee(classifier, tmp_path, monkeypatch):
    mlflow_lightgbm = needed("mlflow.lightgbm")
    skops = needed("skops.io")
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "true")
    trusted = skops.get_untrusted_types(data=skops.dumps(classifier))
    assert sorted(trusted) == [
        "collections.OrderedDict",
        "lgb_dp.boosting.booster.DPBooster",
        "lgb_dp.estimators.models.DPLGBMClassifier",
    ]
    requirements = {"pip_requirements": ["veilboost"]}
    mlflow_lightgbm.save_model(
        classifier, str(tmp_path / "model"), skops_trusted_types=trusted, **requirements
    )
    loaded = mlflow_lightgbm.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    assert loaded.privacy_ == classifier.privacy_


def test_mlflow_keeps_a_booster_and_its_guarantee(classifier, tmp_path):
    mlflow_lightgbm = needed("mlflow.lightgbm")
    plain = lightgbm.Booster(model_str=classifier.booster_.model_to_string())
    mlflow_lightgbm.save_model(plain, str(tmp_path / "model"), pip_requirements=["veilboost"])
    loaded = mlflow_lightgbm.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict(X), classifier.booster_.predict(X))
    assert lgb_dp.privacy_of(loaded) == classifier.privacy_
    again = lgb_dp.DPBooster(model_str=loaded.model_to_string())
    assert again.privacy == classifier.privacy_


def test_mlflow_loads_a_private_booster_by_its_own_class_only(classifier, tmp_path):
    """As newton.md says: it compares names of classes; the text that it keeps is whole."""
    mlflow_lightgbm = needed("mlflow.lightgbm")
    path = tmp_path / "model"
    mlflow_lightgbm.save_model(classifier.booster_, str(path), pip_requirements=["veilboost"])
    with pytest.raises(BadZipFile):
        mlflow_lightgbm.load_model(str(path))
    kept = lgb_dp.DPBooster(model_file=path / "model.lgb")
    np.testing.assert_array_equal(kept.predict(X), classifier.booster_.predict(X))
    assert kept.privacy == classifier.privacy_


@pytest.mark.parametrize(
    ("declared", "encoded"),
    [
        (["b", "a"], {"a": 1, "b": 0}),  # the place in the declared list
        ([5, 3, 9], {5: 5, 3: 3, 9: 9}),  # the value itself
        ([-1, 3], {-1: 0, 3: 1}),  # no codes of LightGBM's: the place
    ],
)
def test_lightgbm_alone_predicts_tables_that_are_encoded_as_the_page_says(declared, encoded):
    random = np.random.default_rng(0)
    column = random.choice(np.array(declared, dtype=object), 400)
    y = np.isin(column, declared[:1]).astype(float)
    table = pd.DataFrame({"c": pd.Series(column.tolist()), "x": random.normal(size=400)})
    train = lgb_dp.Dataset(table, y, bounds={"x": (-3, 3)}, categories={"c": declared})
    params = {"objective": "binary", "verbose": -1}
    model = lightgbm.train(params, train, 20, callbacks=[lgb_dp.NewtonBoost(50.0, 1e-5)])
    alone = lightgbm.Booster(model_str=model.model_to_string())
    matrix = np.column_stack([[encoded[value] for value in column], table["x"]]).astype(float)
    scores = alone.predict(matrix)
    np.testing.assert_array_equal(scores, model.predict(table))
    assert scores[y == 1].mean() > scores[y == 0].mean() + 0.1


@pytest.fixture
def run(tmp_path, monkeypatch):
    mlflow = needed("mlflow")
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    with mlflow.start_run() as run:
        yield run


def test_mlflow_predicts_tables_of_categories(run):
    mlflow, table = needed("mlflow"), mixed_table()
    model = model_of(table)
    info = lgb_dp.log_to_mlflow(model, "november")
    loaded = mlflow.pyfunc.load_model(info.model_uri)
    np.testing.assert_array_equal(loaded.predict(table), model.predict(table))
    plain = mlflow.lightgbm.load_model(info.model_uri)
    np.testing.assert_array_equal(plain.predict(lgb_dp.encode(table, plain)), model.predict(table))
    assert lgb_dp.privacy_of(plain) == model.privacy
    kept = mlflow.get_run(run.info.run_id).data
    assert (kept.metrics["epsilon"], kept.metrics["delta"]) == (model.privacy.epsilon, model.privacy.delta)
    assert kept.tags["private"] == "True"
    report = mlflow.artifacts.load_dict(f"{run.info.artifact_uri}/november-privacy.json")
    assert lgb_dp.PrivacyReport.from_dict(report) == model.privacy
    assert "guarantee of this model" in mlflow.artifacts.load_text(
        f"{run.info.artifact_uri}/november-statement.html"
    )


def test_mlflow_gets_the_figures_of_held_out_rows_and_groups(run):
    x, city = np.random.default_rng(0).normal(size=400), np.arange(400) % 2
    model = lgb_dp.DPLGBMRegressor(50.0, n_estimators=5, validation_fraction=0.5, by=1)
    declared = {"bounds": {0: (-3, 3)}, "label_bounds": (-3, 3), "categories": {1: [0, 1]}}
    model.fit(np.column_stack([x, city]), x, **declared)
    lgb_dp.log_to_mlflow(model)
    found = needed("mlflow").get_run(run.info.run_id).data.metrics
    assert found["RMSE"] == model.evaluation_.rmse.value
    assert found["held-out rows  Column_1 1 high"] == model.evaluation_.groups["1"].n_rows.high


def test_mlflow_gets_no_epsilon_of_a_model_that_is_not_private(run):
    mlflow = needed("mlflow")
    with pytest.warns(lgb_dp.PrivacyLeakWarning):
        model = lgb_dp.DPLGBMClassifier(n_estimators=2, random_state=1).fit(X, LABELS, bounds=(-3, 3))
    lgb_dp.log_to_mlflow(model)
    kept = mlflow.get_run(run.info.run_id).data
    assert "epsilon" not in kept.metrics
    assert kept.tags["private"] == "False"


def test_without_mlflow_its_name_is_in_the_error(classifier, monkeypatch):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    monkeypatch.setitem(sys.modules, "mlflow.lightgbm", None)
    with pytest.raises(lgb_dp.MissingDependencyError, match="needs MLflow"):
        lgb_dp.log_to_mlflow(classifier)


@pytest.mark.parametrize("kind", ["FloatTensorType", "DoubleTensorType"])
def test_onnx_models_predict_encoded_tables(kind):
    onnxmltools, onnxruntime = needed("onnxmltools"), needed("onnxruntime")
    from onnxmltools.convert.common import data_types

    table = mixed_table()
    model = model_of(table)
    matrix = lgb_dp.encode(table, model)
    types = [("rows", getattr(data_types, kind)([None, matrix.shape[1]]))]
    converted = onnxmltools.convert_lightgbm(model, initial_types=types)
    session = onnxruntime.InferenceSession(converted.SerializeToString())
    rows = matrix.astype(np.float32 if kind == "FloatTensorType" else np.float64)
    np.testing.assert_allclose(session.run(None, {"rows": rows})[0][:, 0], model.predict(table), atol=1e-5)


def test_skops_keeps_an_estimator_and_its_guarantee(classifier):
    skops = needed("skops.io")
    content = skops.dumps(classifier)
    loaded = skops.loads(content, trusted=skops.get_untrusted_types(data=content))
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    assert loaded.privacy_ == classifier.privacy_


def test_onnx_models_predict_as_the_booster_does(classifier):
    onnxmltools, onnxruntime = needed("onnxmltools"), needed("onnxruntime")
    from onnxmltools.convert.common.data_types import FloatTensorType

    types = [("rows", FloatTensorType([None, X.shape[1]]))]
    converted = onnxmltools.convert_lightgbm(classifier.booster_, initial_types=types, zipmap=False)
    session = onnxruntime.InferenceSession(converted.SerializeToString())
    rows = X.astype(np.float32)
    _, probabilities = session.run(None, {"rows": rows})
    np.testing.assert_allclose(probabilities, classifier.predict_proba(rows), atol=1e-5)


def test_a_private_booster_loads_in_lightgbm_alone(classifier, tmp_path):
    """The one place where the guarantee always is: the model's own text."""
    path = tmp_path / "model.txt"
    classifier.booster_.save_model(path)
    code = f"import lightgbm; print(lightgbm.Booster(model_file={str(path)!r}).num_trees())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split()[-1] == "4"
    assert lgb_dp.privacy_of(path) == classifier.privacy_
