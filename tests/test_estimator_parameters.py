"""The parameters of all public estimators: names, order, defaults, and an entry of the docstring for each."""

import inspect
import pickle
import re

import pytest
from sklearn.base import clone

import lgb_dp
import lgb_dp.dask
import lgb_dp.federated
import lgb_dp.vertical
import xgb_fed

_TREES = (
    "n_estimators=100, *, max_depth=None, learning_rate=None, max_bin=None, reg_lambda=None, reg_alpha=None, "
    "gamma=None, min_child_weight=None, max_delta_step=None, subsample=None, colsample_bytree=None, "
    "base_score=None, scale_pos_weight=None, early_stopping_rounds=None, eval_metric=None, callbacks=None, "
    "random_state=None, "
)
_VERTICAL = (
    _TREES + "objective=None, cipher=None, tree_mode='default', trees_per_party=1, active_depth=2, "
    "multi_output=False, goss=None, rows_by_index=False, client=None, **keywords"
)
_HORIZONTAL = (
    _TREES + "method='exact', cuts='grid', min_rows_per_node=10, min_parties=2, n_hashes=None, "
    "min_similar=3, known_features=0, **keywords"
)
_PRIVATE = (
    "epsilon=1.0, *, delta=1e-05, method='newton', n_estimators='auto', learning_rate='auto', "
    "max_depth='auto', reg_lambda=0.1, max_bin='auto', auto_bounds=None, trees_per_ensemble=50, "
    "leaf_share=0.3, gdf=False, "
)
_RUN = (
    "label_overflow='clip', validation_fraction=0.0, by=None, n_jobs=0, random_state=None, verbose=-1, "
    "importance_type='split', "
)
_LAW = "distribution='logistic', scale='auto', "
_CLUSTER = "client=None, timeout=60.0, "
_FEDERATED = (
    "epsilon=1.0, *, delta=1e-05, n_estimators='auto', learning_rate='auto', max_depth='auto', "
    "reg_lambda=0.1, min_parties=None, colluding=1, max_attempts=None, parties_per_person=1, n_jobs=0"
)
_COLUMNS = (
    "epsilon=1.0, *, delta=1e-05, n_estimators='auto', learning_rate='auto', max_depth='auto', "
    "reg_lambda=0.1, trees_per_round=4, n_jobs=0"
)
PARAMETERS = {
    lgb_dp.DPLGBMClassifier: _PRIVATE + "alpha='calibrated', calibrate=False, " + _RUN + "**keywords",
    lgb_dp.DPLGBMRegressor: _PRIVATE + _RUN + "**keywords",
    lgb_dp.dask.DaskDPLGBMClassifier: _PRIVATE
    + "alpha='calibrated', calibrate=False, "
    + _RUN
    + _CLUSTER
    + "**keywords",
    lgb_dp.dask.DaskDPLGBMRegressor: _PRIVATE + _RUN + _CLUSTER + "**keywords",
    lgb_dp.dask.DaskDPLGBMSurvival: _PRIVATE + _RUN + _LAW + _CLUSTER + "**keywords",
    lgb_dp.DPLGBMSurvival: _PRIVATE + _RUN + _LAW + "**keywords",
    lgb_dp.federated.FederatedDPLGBMSurvival: _FEDERATED + ", " + _LAW.removesuffix(", "),
    lgb_dp.federated.FederatedDPLGBMClassifier: _FEDERATED,
    lgb_dp.federated.FederatedDPLGBMRegressor: _FEDERATED,
    lgb_dp.vertical.VerticalDPLGBMClassifier: _COLUMNS,
    lgb_dp.vertical.VerticalDPLGBMRegressor: _COLUMNS,
    xgb_fed.VerticalXGBClassifier: _VERTICAL,
    xgb_fed.VerticalXGBRegressor: _VERTICAL,
    xgb_fed.VerticalXGBRanker: _VERTICAL,
    xgb_fed.HorizontalXGBClassifier: _HORIZONTAL,
    xgb_fed.HorizontalXGBRegressor: _HORIZONTAL,
}
ESTIMATORS = pytest.mark.parametrize("cls", PARAMETERS, ids=lambda cls: cls.__name__)


def without_annotations(signature):
    parameters = [p.replace(annotation=p.empty) for p in signature.parameters.values() if p.name != "self"]
    return str(inspect.Signature(parameters))


def own_parameters(cls):
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [p for p in inspect.signature(cls).parameters.values() if p.kind in kinds]


@ESTIMATORS
def test_signature(cls):
    expected = f"({PARAMETERS[cls]})"
    assert without_annotations(inspect.signature(cls)) == expected
    assert without_annotations(inspect.signature(cls.__init__)) == expected
    assert all(p.annotation is not p.empty for p in inspect.signature(cls).parameters.values())


TRAINERS = (
    *(lgb_dp.NewtonBoost, lgb_dp.DPBoost, lgb_dp.MBoost, lgb_dp.SequentialBoost, lgb_dp.ParallelBoost),
    *(lgb_dp.RandomForestLaplace, lgb_dp.RandomForestExponential),
)


@pytest.mark.parametrize("cls", [*PARAMETERS, *TRAINERS], ids=lambda cls: cls.__name__)
def test_every_parameter_is_documented(cls):
    text = inspect.getdoc(cls)
    section = re.split(r"\n\w[\w ]*\n-+\n", text.split("Parameters\n----------\n")[1])[0]
    entries = [line.split(" : ")[0] for line in section.splitlines() if line[:1].strip()]
    names = [name.strip().removeprefix("**") for entry in entries for name in entry.split(",")]
    assert sorted(names) == sorted(inspect.signature(cls).parameters)


@ESTIMATORS
def test_every_parameter_is_kept_copied_and_pickled(cls):
    own = own_parameters(cls)
    assert cls().get_params() == {p.name: p.default for p in own}
    given = {p.name: f"a value of {p.name}" for p in own}
    model = cls(**given)
    assert {name: getattr(model, name) for name in given} == model.get_params() == given
    assert clone(model).get_params() == given
    kept = pickle.loads(pickle.dumps(model)).get_params()
    assert {**kept, "client": None} == {**given, "client": None}  # a client is of this process
    assert cls().set_params(**given).get_params() == given


@ESTIMATORS
def test_the_first_parameter_alone_is_positional(cls):
    first = own_parameters(cls)[0].name
    assert cls(7).get_params()[first] == 7
    with pytest.raises(TypeError, match="positional argument"):
        cls(7, 8)


@ESTIMATORS
def test_keywords_are_kept_where_there_are_any(cls):
    if "keywords" not in inspect.signature(cls).parameters:
        with pytest.raises(TypeError, match="unexpected keyword argument 'no_such_thing'"):
            cls(no_such_thing=1)
        return
    model = clone(cls(no_such_thing=1))
    assert model.get_params()["no_such_thing"] == 1
